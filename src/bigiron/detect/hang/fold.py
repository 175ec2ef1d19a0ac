"""The fold: which nodes' GPUs are silent or stand still, and what their hosts show."""

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Block, Fleet
from bigiron.detect.claims import Asks, claim
from bigiron.detect.hygiene import NODE, Clean
from bigiron.detect.state import carried, follow
from bigiron.model import ActionKind, Blame, Evidence, Finding, Recovery, Severity, Subject, When

NAME = "hang"
LOAD = "node_load1"

WAITING = frozenset(
    {
        *("kernel.hung_task", "kernel.soft_lockup", "kernel.rcu_stall", "kernel.call_trace"),
        *("gsp.timeout", "gsp.heartbeat", "xid.119", "xid.120", "nvrm.assertion"),
    }
)
"""What the kernel says of tasks that wait for the driver, and the driver of itself."""

BEFORE_S = 300.0
"""The kernel tells of a hung task after two minutes; samples are some minutes apart."""

KEPT_S = 6 * 3600.0

PAST = 12
"""Steps of load that are remembered."""

CLIMB = 6.0
"""So many more processes wait than ever in those steps: each that asks the driver is one."""

STEPS = 2
"""So many steps without a word are no scrape that was missed."""

BEGUN_S = 1800.0
"""A job that began so shortly before brings load of its own."""

LIKELY = Asks(
    Severity.WARNING,
    ActionKind.CHECK,
    When.NOW,
    Blame.SOFTWARE,
    "its readings suggest it; the kernel's own words would tell",
)

Floats = NDArray[np.float64]


class State(msgspec.Struct, frozen=True):
    """By node (n,): ``heard_s`` is when its GPUs last told something new (epoch seconds), ``dumb``
    for how many steps they have not, ``load`` (n, 12) the host's load of late, the newest last and
    not moved on while its GPUs are dumb; ``climb`` by how much the load was above all of that at
    the last two steps. ``waits`` is when and what a kernel last told of waiting tasks.
    """

    nodes: tuple[str, ...] = ()
    heard_s: Floats = np.zeros(0)
    dumb: NDArray[np.int64] = np.zeros(0, np.int64)
    load: Floats = np.zeros((0, PAST))
    climb: Floats = np.zeros((0, 2))
    waits: dict[str, tuple[float, str]] = {}
    claimed: tuple[str, ...] = ()


class Hangs:
    """Watches GPUs that say nothing new on hosts that live."""

    name: str = NAME
    reads: tuple[str, ...] = ()

    def start(self, fleet: Fleet) -> State:
        """No node is known."""
        del fleet
        return State()

    def step(self, state: State, block: Block) -> tuple[State, list[Finding | Recovery]]:
        """The state after a block, and the nodes whose driver hangs."""
        waits = _waits(state, block)
        if block.clean is None:
            return msgspec.structs.replace(state, waits=waits), []
        after = _seen(state, block.clean, waits)
        found: list[Finding | Recovery] = list(_claims(after, block))
        claimed = tuple(f.subject.node for f in found if isinstance(f, Finding))
        for node in state.claimed:
            if node not in claimed:
                key = f"{NAME}|driver_hang|{node}"
                found.append(Recovery(key, "its GPUs' readings move again"))
        return msgspec.structs.replace(after, claimed=claimed), found


def _waits(state: State, block: Block) -> dict[str, tuple[float, str]]:
    oldest_s = block.time.timestamp() - KEPT_S
    waits = {node: told for node, told in state.waits.items() if told[0] >= oldest_s}
    for event in block.events:
        if event.code in WAITING and event.time is not None:
            waits[event.node] = event.time.timestamp(), event.text[:300]
    return waits


def _seen(state: State, clean: Clean, waits: dict[str, tuple[float, str]]) -> State:
    """The state after a step."""
    index, n = follow(state.nodes, clean.nodes), len(clean.nodes)
    heard_s = carried(state.heard_s, index, np.nan)
    dumb = carried(state.dumb, index, 0)
    past = carried(state.load, index, np.nan)
    climb = carried(state.climb, index, 0.0)
    gpus, host = clean.rows.get("gpu"), clean.rows.get(NODE)
    alive = np.zeros(n, np.bool_)
    if gpus is not None:
        moving = gpus.present & ~gpus.frozen
        alive = np.bincount(gpus.node, weights=moving, minlength=n) > 0
    lives = host.present if host is not None else np.zeros(n, np.bool_)
    told = host.values.get(LOAD) if host is not None else None
    load = told if told is not None else np.full(n, np.nan)
    heard_s = np.where(alive, clean.time_s, heard_s)
    dumb = np.where(alive, 0, np.where(lives & np.isfinite(heard_s), dumb + 1, dumb))
    above = np.nan_to_num(load - _most(past), nan=0.0)
    climb = np.column_stack((climb[:, 1], above))
    newer = np.column_stack((past[:, 1:], load))
    past = np.where((alive & np.isfinite(load))[:, None], newer, past)
    dumb = np.where(lives, dumb, 0)
    return State(clean.nodes, heard_s, dumb, past, climb, waits, state.claimed)


def _most(past: Floats) -> Floats:
    """The largest load of late; infinite where too few are known."""
    known = np.isfinite(past).sum(axis=1) >= PAST // 2
    most = np.max(np.where(np.isfinite(past), past, -np.inf), axis=1, initial=-np.inf)
    return np.where(known, most, np.inf)


def _claims(state: State, block: Block) -> Iterator[Finding]:
    for row in np.flatnonzero(state.dumb >= STEPS).tolist():
        node, since_s = state.nodes[row], float(state.heard_s[row])
        told_s, told = state.waits.get(node, (0.0, ""))
        hung = told if told_s >= since_s - BEFORE_S else ""
        climbed = float(state.climb[row].min())
        if climbed < CLIMB or _began(block, node, since_s):
            climbed = 0.0
        stands = node in state.claimed
        if hung or climbed or stands:
            yield _claim(node, since_s, hung, climbed, silent=_silent(block, node))


def _silent(block: Block, node: str) -> bool:
    gpus = block.clean.rows.get("gpu") if block.clean is not None else None
    if gpus is None:
        return True
    return not any(gpus.keys[row][0] == node for row in np.flatnonzero(gpus.present).tolist())


def _began(block: Block, node: str, since_s: float) -> bool:
    return any(
        job.start is not None and job.start.timestamp() >= since_s - BEGUN_S and node in job.nodes
        for job in block.jobs
    )


def _claim(node: str, since_s: float, hung: str, climbed: float, *, silent: bool) -> Finding:
    since = datetime.fromtimestamp(since_s, UTC)
    what = "end" if silent else "stand still"
    why = "tasks hang in its kernel" if hung else "its load climbs though no job began"
    text = f"the readings of all GPUs of {node} {what} at {since:%H:%M:%S}; it lives, and {why}."
    evidence = [Evidence("sample", "the last reading that was new", since)]
    if hung:
        evidence.append(Evidence("event", hung))
    elif climbed:
        said = f"load {climbed:.0f} above all of the hour before"
        evidence.append(Evidence("sample", said, metric=LOAD, value=climbed))
    return claim(
        NAME,
        "driver_hang",
        Subject(node=node),
        (
            f"{text[:1].upper()}{text[1:]}",
            "Whatever asks the driver waits for ever: its jobs cannot go on, nor be ended.",
        ),
        since=since,
        evidence=evidence,
        confidence=0.9 if hung else 0.7,
        asks=None if hung else LIKELY,
    )
