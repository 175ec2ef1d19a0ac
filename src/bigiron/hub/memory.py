"""What the hub keeps in memory to judge from: the latest of everything and a stretch of samples.

Everything has a limit. Samples closer together than ``gap_s`` replace one another (the newest
stays), so a series never holds more than ``series_s / gap_s`` of them; a storm of one event on
one device keeps its first occurrences and a count.
"""

import re
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec

from bigiron.detect import Block, Declared, Fleet, Key, Series, Window
from bigiron.ingest import pci_address
from bigiron.model import (
    Batch,
    CheckResult,
    Device,
    Event,
    Fact,
    Job,
    Maintenance,
    Node,
    NodeState,
    Sample,
)

TOUCHED_S = 180.0

_ADDRESS = re.compile(r"\b[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b")


class Limits(msgspec.Struct, frozen=True):
    """How much is kept. Times in seconds."""

    series_s: float = 3600.0
    gap_s: float = 45.0
    events_s: float = 7 * 86_400.0
    events_per_key: int = 64
    """Of one code on one device; later ones are added to the count of the newest."""
    jobs_s: float = 7 * 86_400.0
    recent_samples: int = 200_000
    """Most samples held for stateful detectors between two turns."""


@dataclass(slots=True)
class _Kept:
    """An event and the number of the batch that brought it."""

    serial: int
    event: Event
    time_s: float


@dataclass(slots=True)
class _Events:
    """One node's events: by device and code, and all of them in order of time."""

    by_key: dict[tuple[str, str], list[_Kept]] = field(default_factory=dict)
    newest: int = 0
    """The number of the newest batch that added one."""
    newest_s: float = float("-inf")
    """The time of the newest."""


class Memory:
    """Takes batches, gives windows. A window is a view: valid until the next batch is taken.

    ``reads`` names the metrics that stateful detectors fold; ``serial`` counts batches. To go on
    after a restart, ``restore`` what the store still has with the serial the standing was made
    at: restored batches then count as already seen.
    """

    def __init__(
        self, limits: Limits | None = None, reads: Iterable[str] = (), serial: int = 0
    ) -> None:
        self.limits = limits or Limits()
        self.serial = serial
        self.sampled = 0
        """The number of the newest batch with samples."""
        self._reads = frozenset(reads)
        self._nodes: dict[str, Node] = {}
        self._devices: dict[Key, Device] = {}
        self._names: dict[Key, str] = {}
        self._idents: dict[tuple[str, str, str], str] = {}
        self._series: dict[str, dict[Key, Series]] = {}
        self._facts: dict[Key, dict[str, Fact]] = {}
        self._events: dict[str, _Events] = {}
        self._jobs: dict[tuple[str, datetime | None], Job] = {}
        self._states: dict[str, NodeState] = {}
        self._checks: dict[tuple[str, str, str], CheckResult] = {}
        self._maintenance: dict[Maintenance, None] = {}
        self._seen: dict[str, float] = {}
        self._recent: deque[tuple[int, Sample]] = deque(maxlen=self.limits.recent_samples)
        self._ordered: list[Event] | None = None
        self._pruned: datetime | None = None

    # --- in

    def take(self, batch: Batch) -> None:
        """Remember a batch. Its order matters: devices and facts name what samples are about."""
        self.serial += 1
        self._take(batch)

    def restore(self, batches: Iterable[Batch], serial: int) -> None:
        """Remember what was taken before a restart, as already seen by the turn of ``serial``."""
        self.serial = serial
        for batch in batches:
            self._take(batch)

    def forget(self, node: str) -> None:
        """Drop all of a node that left the fleet."""
        for table in (self._nodes, self._events, self._states, self._seen):
            table.pop(node, None)
        tables = (self._devices, self._names, self._facts, *self._series.values())
        for by_key in cast("tuple[dict[Key, Any], ...]", tables):
            for key in [key for key in by_key if key[0] == node]:
                del by_key[key]
        self._ordered = None

    def _take(self, batch: Batch) -> None:
        for node in batch.nodes:
            self._nodes[node.name] = _merge(self._nodes.get(node.name), node)
        for device in batch.devices:
            self._device(device)
        for fact in batch.facts:
            self._fact(fact, batch.time)
        self._samples(batch.samples, batch.time)
        for event in batch.events:
            self._event(event, batch.time)
        for job in batch.jobs:
            self._jobs[job.id, job.start] = job
        for state in batch.states:
            self._state(state, batch.time)
        for check in batch.checks:
            self._know(check.node, check.time or batch.time)
            self._checks[check.node, check.device, check.check] = check
        for work in batch.maintenance:
            self._maintenance[work] = None
        if self._pruned is None or batch.time - self._pruned > timedelta(hours=1):
            self._prune(batch.time)

    def _know(self, node: str, time: datetime) -> None:
        if node not in self._nodes:
            self._nodes[node] = Node(node)
        time_s = time.timestamp()
        if time_s > self._seen.get(node, float("-inf")):
            self._seen[node] = time_s

    def _samples(self, samples: Sequence[Sample], at: datetime) -> None:
        gap_s, series_s = self.limits.gap_s, self.limits.series_s
        self.sampled = self.serial if samples else self.sampled
        last: datetime | None = None
        time_s = at_s = at.timestamp()
        newest: dict[str, float] = {}
        for sample in samples:
            if sample.time is not last:
                last = sample.time
                time_s = last.timestamp() if last is not None else at_s
            node = sample.node
            device = self._name(node, sample.device)
            newest[node] = time_s
            of_metric = self._series.setdefault(sample.metric, {})
            series = of_metric.get((node, device))
            if series is None:
                of_metric[node, device] = Series(array("d", [time_s]), array("d", [sample.value]))
            else:
                _append(series, time_s, sample.value, gap_s, series_s)
            if sample.metric in self._reads:
                renamed = sample
                if device != sample.device or sample.time is None:
                    renamed = msgspec.structs.replace(sample, device=device, time=last or at)
                self._recent.append((self.serial, renamed))
        for node, time_s in newest.items():
            self._know(node, datetime.fromtimestamp(time_s, at.tzinfo))

    def _event(self, event: Event, at: datetime) -> None:
        device = self._event_device(event)
        if device != event.device:
            event = msgspec.structs.replace(event, device=device)
        self._know(event.node, event.time or at)
        of_node = self._events.setdefault(event.node, _Events())
        kept = of_node.by_key.setdefault((device, event.code), [])
        if any(_same(event, other.event) for other in kept):
            return
        of_node.newest = self.serial
        self._ordered = None
        time_s = (event.time or at).timestamp()
        of_node.newest_s = max(of_node.newest_s, time_s)
        if len(kept) >= self.limits.events_per_key:
            count = kept[-1].event.count + event.count
            event = msgspec.structs.replace(event, count=count)
            kept.pop()
        kept.append(_Kept(self.serial, event, time_s))

    def _fact(self, fact: Fact, at: datetime) -> None:
        self._know(fact.node, fact.time or at)
        device = self._name(fact.node, fact.device)
        if device and fact.name in ("bus", "uuid", "serial") and isinstance(fact.value, str):
            self._identify(fact.node, device, fact.name, fact.value)
        of_key = self._facts.setdefault((fact.node, device), {})
        old = of_key.get(fact.name)
        if old is not None and old.time and fact.time and old.time > fact.time:
            return
        if old is not None and old.value == fact.value:
            return  # its time tells since when it has been so
        of_key[fact.name] = msgspec.structs.replace(fact, device=device)

    def _state(self, state: NodeState, at: datetime) -> None:
        self._know(state.node, state.time or at)
        old = self._states.get(state.node)
        if old is None or old.time is None or state.time is None or old.time <= state.time:
            self._states[state.node] = state

    # --- who is who

    def _device(self, device: Device) -> None:
        if device.node not in self._nodes:
            self._nodes[device.node] = Node(device.node)
        if device.id:
            self._identify(device.node, device.name, "uuid", device.id)
        if device.bus:
            self._identify(device.node, device.name, "bus", device.bus)
        self._devices[device.node, device.name] = device

    def _identify(self, node: str, device: str, kind: str, ident: str) -> None:
        """Learn that a UUID, serial or PCI address is this device; history follows the unit."""
        ident = (pci_address(ident) or ident).lower()
        was = self._idents.get((node, device, kind))
        if was == ident:
            return
        if was is not None and kind != "bus":
            for of_metric in self._series.values():
                of_metric.pop((node, device), None)
        self._idents[node, device, kind] = ident
        if ident in ("", device):
            return
        self._names[node, ident] = device
        self._rename(node, ident, device)

    def _name(self, node: str, device: str) -> str:
        if not device or (":" not in device and "-" not in device):
            return device
        return self._names.get((node, device.lower()), device)

    def _event_device(self, event: Event) -> str:
        """Whose an event is: a switch's own name, or the known device at an address it tells.

        Adapters are told by the network name of the moment (``ib7``) beside their address.
        """
        if event.code.startswith("sxid."):
            return event.attrs.get("switch", event.device)
        device = self._name(event.node, event.device)
        if event.code.startswith("ib.") and (event.node, device) not in self._devices:
            found = _ADDRESS.search(event.text)
            if found is not None:
                return self._names.get((event.node, found[0].lower()), device)
        return device

    def _rename(self, node: str, ident: str, device: str) -> None:
        """Give what came under an address, before the device was known, its name."""
        for of_metric in self._series.values():
            if (node, ident) in of_metric:
                of_metric.setdefault((node, device), of_metric.pop((node, ident)))
        of_node = self._events.get(node)
        if of_node is None:
            return
        for old, code in [key for key in of_node.by_key if key[0].lower() == ident]:
            moved = of_node.by_key.pop((old, code))
            for kept in moved:
                kept.event = msgspec.structs.replace(kept.event, device=device)
            of_node.by_key.setdefault((device, code), []).extend(moved)
            self._ordered = None

    # --- out

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node known, by name."""
        return self._nodes

    def window(
        self,
        now: datetime,
        *,
        fresh_s: float = 180.0,
        sustain_s: float = 600.0,
        declared: Sequence[Declared] = (),
    ) -> Window:
        """Everything remembered, as seen at ``now``. Nothing is copied but the event list."""
        return Window(
            now=now,
            fleet=Fleet(self._nodes, self._devices),
            series=self._series,
            events=self.events(),
            facts=self._facts,
            jobs=tuple(self._jobs.values()),
            states=self._states,
            checks=tuple(self._checks.values()),
            maintenance=tuple(self._maintenance),
            fresh_s=fresh_s,
            sustain_s=sustain_s,
            seen=self._seen,
            declared=declared,
        )

    def events(self) -> Sequence[Event]:
        """The events, by node and time; those of one time in the order of their lines."""
        if self._ordered is None:
            every: list[Event] = []
            for node in sorted(self._events):
                of_node = [k for kept in self._events[node].by_key.values() for k in kept]
                of_node.sort(key=lambda k: (k.time_s, k.event.line, k.serial))
                every += [k.event for k in of_node]
            self._ordered = every
        return self._ordered

    def touched(self, since: int, now: datetime | None = None) -> frozenset[str]:
        """The nodes that had an event in a batch after the one numbered ``since``.

        With ``now`` also those whose newest event is younger than TOUCHED_S: some incidents
        are believed only after a while.
        """
        late_s = now.timestamp() - TOUCHED_S if now is not None else float("inf")
        return frozenset(
            node
            for node, of_node in self._events.items()
            if of_node.newest > since or of_node.newest_s >= late_s
        )

    def block(self, since: int, now: datetime) -> Block:
        """What came in batches after the one numbered ``since``, for stateful detectors."""
        new: list[_Kept] = []
        for node in self.touched(since):
            by_key = self._events[node].by_key
            new += [k for kept in by_key.values() for k in kept if k.serial > since]
        new.sort(key=lambda k: (k.time_s, k.event.node, k.event.line, k.serial))
        samples = [sample for serial, sample in self._recent if serial > since]
        fleet = Fleet(self._nodes, self._devices)
        events = [k.event for k in new]
        return Block(now, fleet, samples, events, tuple(self._jobs.values()))

    def _prune(self, now: datetime) -> None:
        self._pruned = now
        oldest = now.timestamp() - self.limits.events_s
        for node, of_node in list(self._events.items()):
            for key, kept in list(of_node.by_key.items()):
                of_node.by_key[key] = left = [k for k in kept if k.time_s >= oldest]
                if not left:
                    del of_node.by_key[key]
            if not of_node.by_key:
                del self._events[node]
        self._ordered = None
        ended = now - timedelta(seconds=self.limits.jobs_s)
        self._jobs = {k: j for k, j in self._jobs.items() if j.end is None or j.end >= ended}
        self._maintenance = {m: None for m in self._maintenance if m.end >= ended}
        stale = now.timestamp() - 4 * self.limits.series_s
        for of_metric in self._series.values():
            for series_key in [k for k, s in of_metric.items() if s.times[-1] < stale]:
                del of_metric[series_key]


def _append(series: Series, time_s: float, value: float, gap_s: float, span_s: float) -> None:
    """Add a sample to a series; one out of order or seen before is dropped."""
    times = cast("array[float]", series.times)
    values = cast("array[float]", series.values)
    if time_s <= times[-1]:
        return
    if len(times) > 1 and times[-1] - times[-2] < gap_s:
        times[-1], values[-1] = time_s, value
        return
    times.append(time_s)
    values.append(value)
    if time_s - times[0] > 1.25 * span_s:
        old = bisect_left(times, time_s - span_s)
        del times[:old]
        del values[:old]


def _same(event: Event, other: Event) -> bool:
    return (
        event.time == other.time
        and event.line == other.line
        and event.uptime_s == other.uptime_s
        and event.text == other.text
    )


def _merge(old: Node | None, new: Node) -> Node:
    """What is newly said of a node's place, and what was known where nothing is said."""
    if old is None:
        return new
    said = {f: v for f in new.__struct_fields__ if (v := getattr(new, f))}
    return msgspec.structs.replace(old, **said)
