"""A job that dies as a link of its node goes down: the flap was no harmless one.

Links retrain now and then, and one flap says nothing. One that a job did not survive was long or
bad enough to break its collectives, and is worth a test of the link.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from bigiron.detect import Block, Fleet, fold
from bigiron.detect.claims import Asks, claim
from bigiron.model import (
    ActionKind,
    Blame,
    Event,
    Evidence,
    Finding,
    Job,
    Recovery,
    Severity,
    Subject,
    When,
)

NAME = "link_death"
DOWN = frozenset({"ib.link_down", "ib.cable_unplugged"})
DIED = "FAILED"
"""A job of which a node fails (NODE_FAIL) died of that node, whatever a link did meanwhile."""

BEFORE, AFTER = timedelta(seconds=2), timedelta(seconds=90)
"""A collective gives up after its timeout: InfiniBand's retries last up to a minute."""

WAIT = timedelta(minutes=15)
"""A job's end may be told later than the log line: accounting lags."""

QUIET_S = 6 * 3600.0

SUSPECT = Asks(
    Severity.WARNING, ActionKind.CHECK, When.JOB_END, Blame.LINK, "a job dies of much else, too"
)


class Death(msgspec.Struct, frozen=True):
    """A job that died with a link: which, and when the link went down (epoch seconds)."""

    job: str
    down_s: float
    text: str


class State(msgspec.Struct, frozen=True):
    """Links that went down of late, and those that killed a job, by ``node/device``."""

    downs: dict[str, float] = {}
    deaths: dict[str, Death] = {}


class LinkDeaths:
    """Pairs links going down with jobs that end badly."""

    name: str = NAME
    reads: tuple[str, ...] = ()

    def start(self, fleet: Fleet) -> State:
        """No link is known."""
        del fleet
        return State()

    def step(self, state: State, block: Block) -> tuple[State, list[Finding | Recovery]]:
        """The state after a block, and the links that took a job with them."""
        now_s = block.time.timestamp()
        downs = {k: t for k, t in state.downs.items() if now_s - t <= WAIT.total_seconds()}
        downs |= {f"{e.node}/{e.device}": t for e, t in _timed(block.events) if e.code in DOWN}
        deaths = dict(state.deaths)
        if downs:
            for key, job in _died(downs, block.jobs):
                if key not in deaths:
                    deaths[key] = Death(job.id, downs[key], job.state)
        found: list[Finding | Recovery] = []
        for key, death in list(deaths.items()):
            if now_s - max(death.down_s, downs.get(key, 0.0)) > QUIET_S:
                del deaths[key]
                over = f"{NAME}|ib_link_down|{key}"
                found.append(Recovery(over, "it has not gone down for six hours"))
            else:
                found.append(_claim(key, death))
        return State(downs, deaths), found


@fold()
def link_death() -> LinkDeaths:
    """Links that went down as a job of their node died."""
    return LinkDeaths()


def _timed(events: Iterable[Event]) -> Iterator[tuple[Event, float]]:
    return ((e, e.time.timestamp()) for e in events if e.time is not None)


def _died(downs: dict[str, float], jobs: Iterable[Job]) -> Iterator[tuple[str, Job]]:
    """The jobs that ended badly as a link of one of their nodes went down."""
    of_node: dict[str, list[str]] = {}
    for key in downs:
        of_node.setdefault(key.partition("/")[0], []).append(key)
    for job in jobs:
        if job.state != DIED or job.end is None or of_node.keys().isdisjoint(job.nodes):
            continue
        for node in of_node.keys() & set(job.nodes):
            for key in of_node[node]:
                down = datetime.fromtimestamp(downs[key], UTC)
                if down - BEFORE <= job.end <= down + AFTER:
                    yield key, job


def _claim(key: str, death: Death) -> Finding:
    node, _, device = key.partition("/")
    down = datetime.fromtimestamp(death.down_s, UTC)
    text = f"{device or 'a link'} of {node} went down at {down:%H:%M:%S} and job {death.job} died."
    return claim(
        NAME,
        "ib_link_down",
        Subject(node=node, device=device),
        (text, "A link that retrains in time is survived; this one was not."),
        since=down,
        evidence=(
            Evidence("event", f"{device} went down", down),
            Evidence("job", f"job {death.job}: {death.text}"),
        ),
        confidence=0.7,
        asks=SUSPECT,
    )
