"""Findings to verdicts: how a node stands now, and because of what.

Worse is believed at once. Better must last: where what made a node degraded or unhealthy is just
gone, it stays so for a while (``Judging.hold_s``), during which it must be seen. What is proven
to be over (a test passes, a fact is right again, a person says so) needs no such wait.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from bigiron.decide.hazard import chance
from bigiron.decide.hazard_weights import Weights, shipped
from bigiron.model import Blame, Finding, FindingChange, Health, Severity, Verdict

BLIND = frozenset({"node.missing", "node.exporter_down"})
"""Faults that say nothing is seen of the node: what stands then is not known."""

ELSEWHERE = frozenset({Blame.APPLICATION, Blame.FACILITY})
"""Whose faults show on a node and are not the node's."""

PROVE = frozenset({"golden", "checks"})
"""Detectors whose findings end by proof, not by silence: a fact is right again, a test passes."""

EXCUSES = ("explained by ", "it is the program's")
"""So begins why a finding was closed that was none of the node's own (``detect.explain``, and
``detect.programs``)."""

BY_PEOPLE = ("closed by ", "returned to service ")
"""So begins why a finding was closed, where a person's word did it (``detect.closing``)."""

CONFIDENT = 0.5
"""A critical claim below this confidence only degrades."""

P_STEP = 0.02
"""A smaller change of the probability is not worth a new verdict."""

INCIDENTS_KEPT = 16
APART = timedelta(days=1)
"""Hard evidence that comes again within a day of the last is of the same incident."""


class Judging(msgspec.Struct, frozen=True):
    """The numbers. ``hold_s``: how long what was bad must be gone before a node is better."""

    hold_s: float = 3600.0
    weights: Weights = msgspec.field(default_factory=shipped)


class Past(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a node's verdict needs to know of those before it. JSON there and back.

    ``evidence`` is what the findings by themselves said at the last look; ``degraded`` and
    ``unhealthy`` are when the last finding so bad was gone, while that is less than the hold ago;
    ``incidents`` are when hard evidence was over before.
    """

    evidence: Health = Health.HEALTHY
    degraded: datetime | None = None
    unhealthy: datetime | None = None
    incidents: tuple[datetime, ...] = ()

    def not_after(self, now: datetime) -> "Past":
        """The same where a clock was set back meanwhile."""
        at = (self.degraded, self.unhealthy)
        degraded, unhealthy = (min(time, now) if time is not None else None for time in at)
        incidents = tuple(time for time in self.incidents if time <= now)
        return Past(self.evidence, degraded, unhealthy, incidents)


NO_PAST = Past()


class End(StrEnum):
    """How a finding ended: it is just gone, it is proven to be over, or it never counted."""

    GONE = "gone"
    PROVEN = "proven"
    EXCUSED = "excused"


def end(change: FindingChange) -> End:
    """How a closed finding ended."""
    if change.because.startswith(EXCUSES):
        return End.EXCUSED
    if change.because.startswith(BY_PEOPLE) or change.finding.detector in PROVE:
        return End.PROVEN
    return End.GONE


def remember(
    before: Past,
    findings: Mapping[str, Finding],
    now: datetime,
    *,
    closed: Sequence[FindingChange] = (),
    seen: bool = True,
    judging: Judging | None = None,
) -> Past:
    """What is known of a node's past after a look at its open findings.

    ``closed`` are the findings of the node that closed since the look before.
    """
    if not (findings or closed) and before == NO_PAST:
        return before
    judging = judging or Judging()
    counted = _counted(findings)
    evidence = _worst(counted.values())
    blind = _blind(counted.values(), seen)
    hold = timedelta(seconds=judging.hold_s)
    ended = [(end(change), _health(f)) for change in closed if counts(f := change.finding)]

    def gone(level: Health, since: datetime | None) -> datetime | None:
        """When the last of this level went, while that matters."""
        if any(how is End.GONE and was.rank >= level.rank for how, was in ended):
            return now
        if not closed and before.evidence.rank >= level.rank > evidence.rank:
            return now  # it stands, but is no longer as bad
        if since is None or now - since >= hold:
            return None
        return now if blind else since

    over = before.evidence is Health.UNHEALTHY and evidence is not Health.UNHEALTHY
    hard = [how for how, was in ended if was is Health.UNHEALTHY]
    incidents = before.incidents
    if over and not (hard and all(how is End.EXCUSED for how in hard)):
        incidents = _with(incidents, now)
    if incidents:
        oldest = now - timedelta(days=judging.weights.past.days)
        incidents = tuple(time for time in incidents if oldest < time <= now)
    degraded = gone(Health.DEGRADED, before.degraded)
    return Past(evidence, degraded, gone(Health.UNHEALTHY, before.unhealthy), incidents)


def judge(
    node: str,
    findings: Mapping[str, Finding],
    now: datetime,
    *,
    seen: bool = True,
    past: Past = NO_PAST,
    sku: str = "",
    judging: Judging | None = None,
) -> Verdict:
    """The verdict on a node from its open findings by id. ``seen`` is False if nothing is known.

    Info findings, a group's findings and what is the fault of a program or of the
    building never lower a node. A node of which nothing is seen is unknown, never healthy; but
    what was worse before still stands. ``past`` is what ``remember`` gave for this look.
    """
    judging = judging or Judging()
    counted = _counted(findings)
    evidence = _worst(counted.values())
    blind = _blind(counted.values(), seen)
    held, until = _held(evidence, past, now, judging)
    health = max(evidence, held, Health.UNKNOWN if blind else evidence, key=lambda h: h.rank)
    ids = tuple(id_ for id_, f in counted.items() if f.severity is not Severity.INFO)
    because = _because(counted, health, seen)
    if until is not None:
        because = _and_held(because, health, past, until, blind)
    p = chance(counted, judging.weights, sku=sku, incidents=len(past.incidents))
    return Verdict(
        now,
        node,
        health,
        p.p_24h,
        ids,
        because,
        p_fail_7d=p.p_7d,
        held_until=None if blind else until,
        contributions=p.contributions,
    )


def differs(old: Verdict | None, new: Verdict) -> bool:
    """Whether the verdict says something new; a node never judged and healthy says nothing."""
    if old is None:
        return new.health is not Health.HEALTHY
    return (
        old.health is not new.health
        or old.findings != new.findings
        or old.held_until != new.held_until
        or abs(old.p_fail_24h - new.p_fail_24h) >= P_STEP
        or abs(old.p_fail_7d - new.p_fail_7d) >= P_STEP
    )


def _counted(findings: Mapping[str, Finding]) -> dict[str, Finding]:
    """Those that are held against the node, in the order of their ids."""
    return {id_: f for id_, f in sorted(findings.items()) if counts(f)}


def counts(finding: Finding) -> bool:
    """Whether a finding is held against its node."""
    return not finding.subject.by and finding.blame not in ELSEWHERE


def _worst(findings: Iterable[Finding]) -> Health:
    return max(map(_health, findings), key=lambda h: h.rank, default=Health.HEALTHY)


def _blind(findings: Iterable[Finding], seen: bool) -> bool:
    return not seen or any(f.fault in BLIND for f in findings)


def _held(
    evidence: Health, past: Past, now: datetime, judging: Judging
) -> tuple[Health, datetime | None]:
    """What a node counts as though its findings say better, and until when."""
    hold = timedelta(seconds=judging.hold_s)
    for level, gone in ((Health.UNHEALTHY, past.unhealthy), (Health.DEGRADED, past.degraded)):
        if gone is not None and evidence.rank < level.rank and now < gone + hold:
            return level, gone + hold
    return evidence, None


def _with(incidents: tuple[datetime, ...], now: datetime) -> tuple[datetime, ...]:
    if incidents and now - incidents[-1] < APART:
        return (*incidents[:-1], now)
    return (*incidents, now)[-INCIDENTS_KEPT:]


def _health(finding: Finding) -> Health:
    if finding.fault in BLIND:
        return Health.UNKNOWN
    if finding.severity is Severity.INFO:
        return Health.HEALTHY
    if finding.severity is Severity.WARNING or finding.confidence < CONFIDENT:
        return Health.DEGRADED
    return Health.UNHEALTHY


def _because(findings: Mapping[str, Finding], health: Health, seen: bool) -> str:
    if health is Health.HEALTHY:
        return ""
    at_fault = sorted(
        (f for f in findings.values() if _health(f) is not Health.HEALTHY),
        key=lambda f: (-f.severity.rank, f.key),
    )
    if not at_fault:
        return "nothing is seen of it" if not seen else ""
    first = at_fault[0]
    text = first.because[0] if first.because else first.fault
    more = len(at_fault) - 1
    return f"{text} (and {more} more)" if more else text


def _and_held(because: str, health: Health, past: Past, until: datetime, blind: bool) -> str:
    """The reason with why the node is not better yet."""
    if blind:
        return f"{because or 'nothing is seen of it'}; it was {health} before"
    if because:
        return (
            f"{because}; what made it unhealthy is gone since {past.unhealthy:%H:%M} UTC: "
            f"degraded from {until:%H:%M} on, if nothing new comes"
        )
    gone = past.degraded or until
    healthy = until + (gone - (past.unhealthy or gone))
    return (
        f"nothing stands against it since {gone:%H:%M} UTC; "
        f"healthy again at {healthy:%H:%M}, if nothing new comes"
    )
