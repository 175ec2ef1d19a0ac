"""Whose programs fail where: wherever they run, or on one device whoever runs there.

A program's own error (XID 13, 31, 43 and their like) says nothing against a node unless one GPU
shows it under several tenants (NVIDIA's XID workflows; the exclusion of 13/31/43 in the
reliability studies). The other way round, a user whose jobs fail so on node after node has a
broken program (methods.md 3.5: user failures are told by disjoint node sets).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from math import exp, lgamma, log
from typing import NamedTuple

from bigiron.detect import Key, Window
from bigiron.detect.incidents import Incident
from bigiron.faults import catalogue
from bigiron.model import Blame, Event, Job, Severity

MIN_USERS = 3
"""Users whose programs failed on this device."""

OF_GPUS = ("xid.", "amdgpu.")
"""A switch or a host passes on what any of its GPUs' programs did: that many users meet on it
proves nothing."""

CHANCE = 1e-3
"""Largest chance, over all devices there are, that so many users meet on one of them."""

LEAST_RUNS = 64
"""How often everybody's jobs fail is drawn to once in so many runs where few runs are known."""

MIN_DAYS = 3
"""Distinct days on one device, where no job history is known."""

APART = 3
"""Disjoint node sets on which a user's jobs failed, or nodes of one job: two may be chance."""

LATELY = timedelta(days=1)
"""For so long a broken program is told of after it failed last."""

LATE = timedelta(seconds=60)
"""A line may be stamped so much after the end of the job it is about."""


DIES = timedelta(minutes=2)
"""So soon a job is over whose program failed."""


class Failure(NamedTuple):
    """One event that tells of a failing program, and whose it was; "" if that is not known."""

    event: Event
    user: str
    job: str

    @property
    def place(self) -> Key:
        """Node and device."""
        return self.event.node, self.event.device


class Group(NamedTuple):
    """A user or a job whose programs fail wherever they run."""

    by: str
    name: str
    failures: tuple[Failure, ...]
    jobs: int
    """How many jobs failed so."""
    of: int
    """Of how many that ran lately."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Where they failed, in order."""
        return tuple(sorted({failure.event.node for failure in self.failures}))


class Tenants:
    """Who ran where, for the events of one window; built when first asked."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._groups: list[Group] | None = None

    def follows_device(self, incident: Incident) -> str:
        """A sentence why the device may be at fault; "" if the programs are.

        With job history: programs of three users or more failed so on this device, more than
        would meet on one by chance. Without: it came on three different days, always on this
        device of its node.
        """
        told_by_gpu = incident.code.startswith(OF_GPUS)
        if not incident.device or not told_by_gpu or incident.count < MIN_USERS:
            return ""
        failures = self._all().get(incident.code, ())
        if not self._window.jobs:
            here = (f.event for f in failures if f.event.node == incident.node)
            return _by_days(incident, here)
        users = {f.user for f in failures if f.place == (incident.node, incident.device)} - {""}
        if len(users) < MIN_USERS:
            return ""
        mean = self._expected(incident.node, incident.device, failures)
        fleet = self._window.fleet
        devices = max(len(fleet.devices), len(fleet.nodes), 1)
        if devices * poisson_tail(len(users), mean) > CHANCE:
            return ""
        return (
            f"It follows the device: programs of {len(users)} users failed so here, too many for "
            "chance."
        )

    def group_of(self, code: str, node: str, device: str) -> Group | None:
        """The user or job behind all that a program's error on a device tells; None if none is."""
        groups = {(group.by, group.name): group for group in self.groups()}
        found: Group | None = None
        for failure in self._all().get(code, ()):
            if failure.place == (node, device):
                found = groups.get(("user", failure.user)) or groups.get(("job", failure.job))
                if found is None:
                    return None
        return found

    def groups(self) -> list[Group]:
        """The users and jobs whose programs fail wherever they run; each failure counts once."""
        if self._groups is None:
            self._groups = list(self._found_groups())
        return self._groups

    # --- chance

    def _expected(self, node: str, device: str, failures: Sequence[Failure]) -> float:
        """How many users would fail on this device if it were as good as the others.

        Of each user who ran on the node, by how often their jobs fail elsewhere on the device of
        this place of a node (a job's first rank fails first, and its place is no chance), drawn
        to how often everybody's do.
        """
        own: Counter[str] = Counter()
        pairs = {(f.user, f.job, f.event.node) for f in failures if f.event.device == device}
        for user, _, where in pairs:
            own[user] += bool(user) and where != node
        runs: dict[str, Counter[str]] = defaultdict(Counter)
        for job in self._begun():
            for place in job.nodes:
                runs[job.user][place] += 1
        away = sum(n for counts in runs.values() for place, n in counts.items() if place != node)
        usual = (own.total() + 1) / (away + LEAST_RUNS)
        mean = 0.0
        for user, counts in runs.items():
            if here := counts.get(node, 0):
                share = (own[user] + 1) / (counts.total() - here + 1 / usual)
                mean += 1 - (1 - min(1.0, share)) ** here
        return mean

    # --- who failed where

    def _all(self) -> Mapping[str, Sequence[Failure]]:
        """The failures by code; several ask for those of one window."""
        window = self._window
        of = window.events, window.jobs, window.now.timestamp()
        return window.memo.made("failures", of, self._sorted)

    def _sorted(self) -> Mapping[str, Sequence[Failure]]:
        """The same; those of a node anew where its events or its jobs changed."""
        jobs: dict[str, list[Job]] = defaultdict(list)
        for job in self._begun():
            for node in job.nodes:
                jobs[node].append(job)
        failures: dict[str, list[Failure]] = {}
        for node, events in self._window.events_of().items():
            of = events, tuple(jobs[node])
            made = self._window.memo.made(f"failures {node}", of, partial(_failures, *of))
            for failure in made:
                failures.setdefault(failure.event.code, []).append(failure)
        return failures

    def _begun(self) -> Iterator[Job]:
        now = self._window.now
        return (job for job in self._window.jobs if job.start is not None and job.start <= now)

    # --- groups

    def _found_groups(self) -> Iterable[Group]:
        by_user: dict[str, list[Failure]] = defaultdict(list)
        of_gpus = (same for code, same in self._all().items() if code.startswith(OF_GPUS))
        failures = [f for same in of_gpus for f in same if f.user and f.job]
        newest = max((f.event.time for f in failures if f.event.time is not None), default=None)
        since = newest if self._window.single_look else self._window.now
        for failure in failures:
            if since is not None and failure.event.time and since - failure.event.time <= LATELY:
                by_user[failure.user].append(failure)
        nodes = {job.id: job.nodes for job in self._window.jobs} if by_user else {}
        for user, own in sorted(by_user.items()):
            by_job: dict[str, list[Failure]] = defaultdict(list)
            for failure in own:
                by_job[failure.job].append(failure)
            telling = {job for job, same in by_job.items() if any(map(_tells, same))}
            if _apart(frozenset(nodes.get(job, ())) for job in sorted(telling)) >= APART:
                yield Group(
                    "user", user, _ordered(own), len(telling), self._ran_lately(user, since)
                )
                continue
            for job in sorted(telling):
                if len({f.event.node for f in by_job[job]}) >= APART:
                    yield Group("job", job, _ordered(by_job[job]), 1, 1)

    def _ran_lately(self, user: str, now: datetime | None) -> int:
        """How many jobs a user had in the time that failures are told of."""
        since = now - LATELY if now is not None else None
        own = (job for job in self._window.jobs if job.user == user and job.start is not None)
        return sum(since is None or job.end is None or job.end >= since for job in own)


def _failures(events: Iterable[Event], jobs: Sequence[Job]) -> list[Failure]:
    """Whose programs failed on a node; ``jobs`` are those that ran there."""
    return [Failure(e, *_whose(e, jobs)) for e in events if programs_own(e.code)]


def _whose(event: Event, jobs: Sequence[Job]) -> tuple[str, str]:
    """The user and the job on the event's node at its time; "" where it may be several.

    ``jobs`` are the node's. Where nodes are shared, it is the job that failed there and then.
    """
    if event.time is None:
        return "", ""
    time = event.time
    running = [job for job in jobs if _ran(job, time)]
    running = running or [job for job in jobs if _ran(job, time - LATE)]
    if len(running) > 1:
        failed = [job for job in running if _failed(job, time)]
        running = failed if len(failed) == 1 else running
    users = {job.user for job in running}
    if len(users) != 1:
        return "", ""
    return users.pop(), running[0].id if len(running) == 1 else ""


@cache
def programs_own(code: str) -> bool:
    """Whether a code is a program's own error."""
    return catalogue().find(code).blame is Blame.APPLICATION


def _tells(failure: Failure) -> bool:
    """Whether it says that a program failed: every program that is ended frees its channels."""
    return catalogue().find(failure.event.code).severity is not Severity.INFO


def _ran(job: Job, time: datetime) -> bool:
    begun = job.start is not None and job.start <= time
    return begun and (job.end is None or job.end >= time)


def _failed(job: Job, time: datetime) -> bool:
    """Whether a job failed by itself within moments of a time."""
    by_itself = job.state.startswith("FAILED")
    return by_itself and job.end is not None and abs(job.end - time) <= DIES


def _apart(sets: Iterable[frozenset[str]]) -> int:
    """How many of these sets of nodes have no node in common, taken as they come."""
    taken: set[str] = set()
    count = 0
    for nodes in sets:
        if nodes and taken.isdisjoint(nodes):
            taken |= nodes
            count += 1
    return count


def _ordered(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    return tuple(sorted(failures, key=lambda f: (f.event.time, f.place, f.event.line)))


def poisson_tail(count: int, mean: float) -> float:
    """P(``count`` or more) where ``mean`` are expected."""
    if mean <= 0:
        return 0.0 if count else 1.0
    below = sum(exp(k * log(mean) - mean - lgamma(k + 1)) for k in range(count))
    return max(0.0, 1.0 - below)


def _by_days(incident: Incident, events: Iterable[Event]) -> str:
    days = set()
    for event in events:
        if event.device != incident.device:
            return ""
        if event.time is not None:
            days.add(event.time.date())
    if len(days) < MIN_DAYS:
        return ""
    return f"It came on {len(days)} different days, each time on this device of the node."
