"""A node that stopped or started again without being asked to.

Known by a boot time that changes while the scheduler counted on the node, or by the scheduler's
"down" on a node that has also fallen silent. Planned reboots, and those of nodes that someone
took out of service, are none.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from bigiron.detect import Block, Fleet, fold
from bigiron.detect.claims import Asks, claim
from bigiron.detect.planned import OUT, Away, Calendar, away
from bigiron.model import ActionKind, Blame, Evidence, Finding, Recovery, Severity, Subject, When

if TYPE_CHECKING:
    from bigiron.detect.hygiene import Clean

NAME = "crash"
READS = ("node_boot_time_seconds",)

QUIET_S = 86_400.0
"""A node that has run for a day since is well again."""

BOOT_S = 60.0
"""Boot times are computed from an uptime and wobble by seconds; more is another boot."""

MANY = 0.3
"""So many silent at once: the monitoring is at fault, no node."""

OFTEN, OFTEN_S = 3, 7 * 86_400.0
"""So many times in a week are too many (Guard retires a node at its third triage in a week). At the
published 6.5 failures in 1,000 node-days chance alone has it once in 60,000 node-weeks."""

AT_ONCE = 3
"""So many nodes that crash at the same step have one cause elsewhere: it is not counted."""

GONE = Asks(
    Severity.CRITICAL,
    ActionKind.CHECK,
    When.NOW,
    Blame.HOST,
    "its scheduler has it down already: there is nothing to drain",
)
AGAIN = Asks(
    Severity.WARNING, ActionKind.CHECK, When.JOB_END, Blame.HOST, "it runs again, and jobs on it"
)


class Crash(msgspec.Struct, frozen=True):
    """One node's crash: when it was last heard before, when it booted (None: not yet)."""

    since_s: float
    booted_s: float | None = None
    reason: str = ""


class State(msgspec.Struct, frozen=True):
    """By node: when it was last heard and last booted (epoch seconds), how it stood with the
    scheduler at the step before, when someone had it out of service, its crash, and since when it
    was down at each of those of late.
    """

    heard: dict[str, float] = {}
    booted: dict[str, float] = {}
    stood: dict[str, str] = {}
    away: dict[str, Away] = {}
    crashed: dict[str, Crash] = {}
    past: dict[str, tuple[float, ...]] = {}


class Crashes:
    """Watches boots and silences."""

    name: str = NAME
    reads: tuple[str, ...] = READS

    def start(self, fleet: Fleet) -> State:
        """No node is known."""
        del fleet
        return State()

    def step(self, state: State, block: Block) -> tuple[State, list[Finding | Recovery]]:
        """The state after a block, and the nodes that crashed."""
        clean = block.clean
        if clean is None:
            return state, []
        now_s = clean.time_s
        present = _present(clean)
        heard = {**state.heard, **dict.fromkeys(present, now_s)}
        boots = zip(clean.nodes, clean.booted_s.tolist(), strict=True)
        booted = state.booted | {node: boot_s for node, boot_s in boots if boot_s == boot_s}
        turns = away(state.away, block.states, block.time)
        calendar = Calendar(block.time, block.maintenance, block.states, turns)
        new = dict(_new(state, block, calendar, booted, present))
        crashed, past = state.crashed | new, _remembered(state.past, new, now_s)
        found: list[Finding | Recovery] = []
        for node, crash in list(crashed.items()):
            if crash.booted_s is None and node in present:
                crash = crashed[node] = _back(crash, booted.get(node), now_s)
            if crash.booted_s is not None and now_s - crash.booted_s >= QUIET_S:
                del crashed[node]
                found.append(Recovery(f"{NAME}|node_crash|{node}", "it has run for a day since"))
            else:
                found.append(_claim(node, crash))
        found += [_often(node, times) for node, times in past.items() if _run(times, now_s)]
        stood = {node: told.state for node, told in block.states.items()}
        return State(heard, booted, stood, turns, crashed, past), found


@fold(reads=READS)
def crash() -> Crashes:
    """Nodes that stopped or started again without being asked to."""
    return Crashes()


def _present(clean: "Clean") -> set[str]:
    """The nodes of which anything was heard at this step."""
    present: set[str] = set()
    for rows in clean.rows.values():
        heard = rows.present.nonzero()[0]
        present |= {clean.nodes[at] for at in set(rows.node[heard].tolist())}
    return present


def _new(
    state: State,
    block: Block,
    calendar: Calendar,
    booted: dict[str, float],
    present: set[str],
) -> Iterator[tuple[str, Crash]]:
    silent = [n for n in state.heard if n not in present]
    many = len(silent) > max(2, MANY * len(state.heard))
    for node, boot_s in booted.items():
        before = state.booted.get(node)
        if before is None or boot_s <= before + BOOT_S:
            continue
        heard_s = state.heard.get(node, boot_s)
        if not heard_s - BOOT_S <= boot_s <= block.time.timestamp() + BOOT_S:
            continue  # it was heard after that, or it is yet to come: its clock was set
        counted_on = node in state.stood and state.stood[node] not in OUT
        planned = calendar.during(node, datetime.fromtimestamp(boot_s, UTC))
        if counted_on and not planned and _over(state.crashed.get(node), boot_s):
            since_s = min(state.heard.get(node, boot_s), boot_s)
            yield node, Crash(since_s, boot_s)
    for node in [] if many else silent:
        told = block.states.get(node)
        if told is None or told.state != "down":
            continue
        down_s = told.since.timestamp() if told.since is not None else float("-inf")
        if not _over(state.crashed.get(node), down_s):
            continue
        yield node, Crash(state.heard[node], None, told.reason)


def _over(crash: Crash | None, at_s: float) -> bool:
    """Whether a node had come back from its last crash, if any, before this boot or fall."""
    return crash is None or (crash.booted_s is not None and at_s > crash.booted_s + BOOT_S)


def _back(crash: Crash, boot_s: float | None, now_s: float) -> Crash:
    """A node that is heard again has booted; if its boot time does not say so, it was cut off."""
    at_s = boot_s if boot_s is not None and boot_s > crash.since_s else now_s
    return msgspec.structs.replace(crash, booted_s=at_s)


def _remembered(
    past: Mapping[str, tuple[float, ...]], new: Mapping[str, Crash], now_s: float
) -> dict[str, tuple[float, ...]]:
    """Since when each node was down at its crashes of the last two weeks."""
    after = {n: kept for n, times in past.items() if (kept := _recent(times, now_s))}
    for node, crash in new.items() if len(new) < AT_ONCE else ():
        after[node] = (*after.get(node, ()), crash.since_s)
    return after


def _recent(times: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    return tuple(at_s for at_s in times if now_s - at_s <= 2 * OFTEN_S)


def _run(times: Sequence[float], now_s: float) -> bool:
    """Whether there were too many within a week, the newest of them within the last one."""
    often = len(times) >= OFTEN and times[-1] - times[-OFTEN] <= OFTEN_S
    return often and now_s - times[-1] <= OFTEN_S


def _often(node: str, times: Sequence[float]) -> Finding:
    within = [at_s for at_s in times if times[-1] - at_s <= OFTEN_S]
    days = max(1, round((within[-1] - within[0]) / 86_400))
    told = [datetime.fromtimestamp(at_s, UTC) for at_s in within]
    text = f"{node} stopped or restarted {len(within)} times in {days} days, and nobody planned it."
    return claim(
        NAME,
        "repeat_crash",
        Subject(node=node),
        (text, "It does so again whatever was done each time."),
        since=told[0],
        evidence=tuple(
            Evidence("sample", "its last sample before", at, metric=READS[0]) for at in told
        ),
        confidence=0.9,
    )


def _claim(node: str, crash: Crash) -> Finding:
    since = datetime.fromtimestamp(crash.since_s, UTC)
    if crash.booted_s is None:
        said = f" ({crash.reason})" if crash.reason else ""
        text = (
            f"{node} is silent since {since:%Y-%m-%d %H:%M:%S}, and down for its scheduler{said}."
        )
    else:
        boot = datetime.fromtimestamp(crash.booted_s, UTC)
        text = f"{node} started again at {boot:%Y-%m-%d %H:%M:%S}; nobody had planned it."
    return claim(
        NAME,
        "node_crash",
        Subject(node=node),
        (text, "What stopped it should be known before a job counts on it."),
        since=since,
        evidence=(Evidence("sample", "its last sample before", since, metric=READS[0]),),
        confidence=0.9,
        asks=GONE if crash.booted_s is None else AGAIN,
    )
