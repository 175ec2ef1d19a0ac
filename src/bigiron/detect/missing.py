"""What should be there and is not: GPUs, their metrics, whole nodes.

Missing is never healthy, and what is missing on many nodes at once is the monitoring's trouble,
not theirs.
"""

from bisect import bisect_right
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bigiron.detect import Columnar, Series, Window, detector
from bigiron.detect.claims import INFO, claim
from bigiron.detect.fewer import fewer, lost
from bigiron.detect.planned import Calendar
from bigiron.model import (
    Evidence,
    Finding,
    Recovery,
    Subject,
)

NAME = "missing"

PULSE = ("gpu_temp_celsius", "gpu_power_watts", "gpu_utilization_ratio", "gpu_sm_clock_hertz")
"""What every GPU exporter tells: a GPU without any of them is not seen."""

HOST_PULSE = ("node_load1", "node_boot_time_seconds", "node_memory_available_bytes")

MANY_SHARE, MANY_COUNT = 0.3, 3
"""So many nodes at once, and at least three: the monitoring is at fault."""

FROZEN_SAMPLES = 4
MOVING = ("gpu_power_watts", "gpu_temp_celsius", "gpu_sm_clock_hertz", "gpu_utilization_ratio")
BUSY_W = 150.0
"""Above this a GPU works; its power reading then never stands still."""


LAG_S = 35.0
"""Two scrapes at the usual fifteen seconds, and some."""


PAGES_S = 120.0
"""A GPU is gone that its node's pages leave out for two minutes, and on two pages at least: one may
miss it, DCGM has been seen to stall for 45 s (DCGM #313), and after a boot GPUs start in turn."""


@dataclass(slots=True)
class Pulse:
    """When a node's GPUs were last heard, in epoch seconds; a node is known by its host, too."""

    gpus: dict[str, float] = field(default_factory=dict)
    newest_gpu: float | None = None
    """The newest word of any of its GPUs."""
    oldest_gpu: float | None = None
    """The newest word of the one that is silent longest."""

    def whole(self, oldest_s: float) -> bool:
        """Whether none of its GPUs is silent since a time, nor left out by the newest pages."""
        newest, oldest = self.newest_gpu, self.oldest_gpu
        if newest is None or oldest is None:
            return True
        return oldest >= oldest_s and newest - oldest < PAGES_S


@detector(every_s=15.0)
def missing(window: Window) -> Iterator[Finding | Recovery]:
    """GPUs, metrics and nodes that were there and are not seen any more."""
    pulses = _pulses(window)
    if window.single_look:
        yield from _one_look(window, pulses)
        return
    unseen, silent = [], []
    oldest_s = _oldest_s(window)
    for node, pulse in sorted(pulses.items()):
        if _stale(window.last_seen(node), oldest_s):
            unseen.append(node)
        elif _stale(pulse.newest_gpu, oldest_s):
            silent.append(node)
    yield from _nodes(window, unseen, len(pulses), "node.missing", "is not scraped any more")
    what = "its GPU exporter says nothing while the node lives"
    yield from _nodes(window, silent, len(pulses), "node.exporter_down", what)
    away = {*unseen, *silent}
    moving = _moving(window)
    standing = window.standing_of(f"{NAME}|")
    for node, pulse in pulses.items():
        if node in away:
            continue
        stands = standing is None or node in standing
        if stands:
            yield from _back(window, node, node in moving)
        if stands or not pulse.whole(oldest_s):
            yield from _gpus(window, node, pulse)
        if node not in moving:
            yield from _frozen(window, node, pulse)
    shown = {n: _shown(window, p) for n, p in pulses.items() if n not in away}
    yield from fewer(window, shown, {n: p.gpus.keys() for n, p in pulses.items()})


def _one_look(window: Window, pulses: dict[str, Pulse]) -> Iterator[Finding | Recovery]:
    """What can be said without a past: exporters that do not answer, GPUs fewer than elsewhere."""
    up: dict[str, list[float]] = {}
    for (node, _), series in window.series.get("node_scrape_up", {}).items():
        up.setdefault(node, []).append(series.last)
    dead = [node for node, answers in sorted(up.items()) if not any(answers)]
    for finding in _nodes(window, dead, len(up), "node.missing", "does not answer its scrape"):
        if isinstance(finding, Finding):
            yield finding
    shown = {n: _shown(window, p) for n, p in pulses.items() if n not in dead}
    yield from fewer(window, {n: gpus for n, gpus in shown.items() if gpus}, {})


def _shown(window: Window, pulse: Pulse) -> Set[str]:
    """The whole GPUs (no MIG parts) of a node with fresh samples.

    All GPUs of a page are scraped together: in one look, a GPU that was not in the last scrapes
    of its page is gone, however young its last sample.
    """
    oldest_s = (pulse.newest_gpu or 0.0) - (LAG_S if window.single_look else float("inf"))
    oldest_s = max(oldest_s, _oldest_s(window))
    return {g for g, t in pulse.gpus.items() if g and ":" not in g and t >= oldest_s}


def _pulses(window: Window) -> dict[str, Pulse]:
    pulses: dict[str, Pulse] = {}
    for node, gpus in window.heard(PULSE).items():
        pulses[node] = Pulse(gpus, max(gpus.values()), min(gpus.values()))
    for node in window.heard(HOST_PULSE):
        if node not in pulses:
            pulses[node] = Pulse()
    return pulses


def _stale(time_s: float | None, oldest_s: float) -> bool:
    """Whether something that was heard once has been silent for too long."""
    return time_s is not None and time_s < oldest_s


def _oldest_s(window: Window) -> float:
    """What was heard before this has been silent for too long."""
    return window.now.timestamp() - max(window.fresh_s, window.sustain_s / 2)


def _back(window: Window, node: str, moves: bool) -> Iterator[Recovery]:
    """The end of what may have been said of a node that is heard."""
    yield from _again(window, f"{NAME}|node.missing|{node}", "it is seen again")
    yield from _again(window, f"{NAME}|node.exporter_down|{node}", "its GPUs are seen again")
    if moves:
        frozen = f"{NAME}|gpu.metrics_frozen|{node}"
        yield from _again(window, frozen, "the readings move again")


def _again(window: Window, key: str, because: str) -> Iterator[Recovery]:
    if window.stands(key):
        yield Recovery(key, because)


def _nodes(
    window: Window, nodes: list[str], fleet: int, fault: str, what: str
) -> Iterator[Finding | Recovery]:
    """One finding a node; one of the monitoring, and none of theirs, if they are many."""
    group = Subject(by="monitoring", group=fault, members=tuple(nodes))
    if len(nodes) >= MANY_COUNT and len(nodes) > MANY_SHARE * fleet:
        text = f"{len(nodes)} of {fleet} nodes at once: {what}. The monitoring is at fault."
        yield claim(NAME, fault, group, (text,), since=_since(window, nodes), asks=INFO)
        return
    yield Recovery(f"{NAME}|{fault}|{group.key}", "most nodes are seen again")
    calendar = Calendar(window.now, window.maintenance, window.states)
    for node in nodes:
        planned_away = _planned(calendar, node)
        planned = planned_away or _overdue(calendar, node)
        text = f"{node}: {what}" if fault == "node.exporter_down" else f"{node} {what}"
        because = (f"{text}.", planned, "What is not seen is not known to be healthy.")
        yield claim(
            NAME,
            fault,
            Subject(node=node),
            because,
            since=_since(window, [node]),
            asks=INFO if planned_away else None,
            evidence=(Evidence("sample", "the newest sample", _since(window, [node])),),
        )


def _since(window: Window, nodes: list[str]) -> datetime | None:
    times = [t for node in nodes if (t := window.last_seen(node)) is not None]
    return datetime.fromtimestamp(min(times), UTC) if times else None


def _planned(calendar: Calendar, node: str) -> str:
    """Why a node may rightly be away; "" if nobody said so. A scheduler's "down" is no plan."""
    planned = calendar.at_work(node)
    return f"There is {planned.what}." if planned is not None else ""


def _overdue(calendar: Calendar, node: str) -> str:
    """That planned work is over and the node has not come back; "" if it was not planned."""
    work = calendar.late(node)
    if work is None:
        return ""
    kind = work.kind or "maintenance"
    return f"Planned work on it ({kind}) ended at {work.end:%Y-%m-%d %H:%M}; it has not come back."


def _gpus(window: Window, node: str, pulse: Pulse) -> Iterator[Finding | Recovery]:
    """GPUs of a node that fell silent while their neighbours speak, unless the log tells of it."""
    oldest_s = _oldest_s(window)
    for device, last_s in pulse.gpus.items():
        if not device:
            continue
        if last_s >= oldest_s and not _left_out(window, node, pulse, last_s):
            again = f"{NAME}|gpu.missing|{node}/{device}"
            if window.stands(again):
                yield Recovery(again, "it is seen again")
            continue
        if (node, device) in lost(window):
            continue
        since = datetime.fromtimestamp(last_s, UTC)
        alive = sum(not _stale(t, oldest_s) for t in pulse.gpus.values())
        because = f"{device} is not seen any more; {alive} other GPUs of {node} are."
        yield claim(
            NAME,
            "gpu.missing",
            Subject(node=node, device=device),
            (because, "A GPU that leaves the bus shows first as metrics that end."),
            since=since,
            evidence=(Evidence("sample", "its newest sample", since),),
            confidence=0.9,
        )


def _left_out(window: Window, node: str, pulse: Pulse, last_s: float) -> bool:
    """Whether the pages of a node have come without this GPU for some time."""
    newest = max(pulse.gpus, key=lambda gpu: pulse.gpus[gpu])
    if pulse.gpus[newest] - last_s < PAGES_S:
        return False
    told = (window.series.get(metric, {}).get((node, newest)) for metric in PULSE)
    pages = (s.times[bisect_right(s.times, last_s) :] for s in told if s is not None)
    return any(len(times) > 1 and times[-1] - times[0] >= PAGES_S for times in pages)


def _moving(window: Window) -> Set[str]:
    """The nodes that are easily seen to have a GPU whose power moves."""
    powers = window.series.get(MOVING[0], {})
    if not isinstance(powers, Columnar):
        return frozenset()
    nodes, node = powers.nodes
    return {nodes[one] for one in node[powers.moving()].tolist()}


def _frozen(window: Window, node: str, pulse: Pulse) -> Iterator[Finding | Recovery]:
    """All readings of all GPUs stand still at work: the driver hangs and the exporter repeats."""
    key = Subject(node=node).key
    since_s: list[float] = []
    busy = False
    for device in pulse.gpus:
        for metric in MOVING:
            series = window.series.get(metric, {}).get((node, device))
            if series is None:
                continue
            start_s = _still(series, window)
            if start_s is None:
                frozen = f"{NAME}|gpu.metrics_frozen|{key}"
                yield from _again(window, frozen, "the readings move again")
                return
            since_s.append(start_s)
            busy = busy or (metric == "gpu_power_watts" and series.last > BUSY_W)
    if not since_s or not busy:
        return
    since = datetime.fromtimestamp(max(since_s), UTC)
    yield claim(
        NAME,
        "gpu.metrics_frozen",
        Subject(node=node),
        (
            f"every reading of {node}'s {len(pulse.gpus)} GPUs stands still, at work.",
            "The driver hangs and the exporter repeats what it last heard.",
        ),
        since=since,
        evidence=(Evidence("sample", "the last reading that moved", since),),
        confidence=0.9,
    )


def _still(series: Series, window: Window) -> float | None:
    """Since when a series has not moved; None if it has, within ``sustain_s`` or four samples."""
    values, times = series.values, series.times
    first = len(values) - 1
    while first > 0 and values[first - 1] == values[-1]:
        first -= 1
    long = window.now.timestamp() - times[first] >= window.sustain_s
    return times[first] if long and len(values) - first >= FROZEN_SAMPLES else None
