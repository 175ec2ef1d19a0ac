"""What the hub keeps in memory to judge from: the latest of everything and a stretch of samples.

Everything has a limit. Samples closer together than ``gap_s`` replace one another (the newest
stays), so a series never holds more than ``series_s / gap_s`` of them; a storm of one event on
one device keeps its first occurrences and a count.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from bigiron.detect import Block, Declared, Fleet, Key, Window
from bigiron.detect.memo import Memo
from bigiron.hub import happenings, shelf
from bigiron.hub.happenings import Happenings
from bigiron.hub.shelf import Shelf, newest_of
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
)

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
    history: bool = True
    """Whether of samples that come side by side more than the newest is held."""


class Kept(msgspec.Struct, frozen=True):
    """All that a memory holds; what is keyed by several names is a list, in its order."""

    serial: int
    sampled: int
    factual: int
    nodes: dict[str, Node]
    devices: list[Device]
    names: list[tuple[str, str, str]]
    idents: list[tuple[str, str, str, str]]
    units: list[tuple[str, str, str]]
    facts: list[tuple[str, str, list[Fact]]]
    events: list[happenings.Kept]
    jobs: list[Job]
    states: dict[str, NodeState]
    checks: list[CheckResult]
    maintenance: list[Maintenance]
    seen: dict[str, float]
    pruned: datetime | None
    samples: shelf.Kept


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
        self.factual = 0
        """The number of the newest batch that changed a fact, or who is known."""
        self._nodes: dict[str, Node] = {}
        self._devices: dict[Key, Device] = {}
        self._names: dict[Key, str] = {}
        self._idents: dict[tuple[str, str, str], str] = {}
        self._units: dict[Key, str] = {}
        self._units_told: dict[Key, str] | None = None  # the same object until a unit moves
        limits = self.limits
        given = limits.series_s, limits.gap_s, limits.recent_samples, frozenset(reads)
        self._shelf = Shelf(*given, limits.history)
        self._facts: dict[Key, dict[str, Fact]] = {}
        self._facts_at: Counter[str] = Counter()
        """Counts changes of facts by name, and of nodes and devices under ""."""
        self._events = Happenings(limits.events_per_key)
        self._jobs: dict[tuple[str, datetime | None], Job] = {}
        self._jobs_told: tuple[Job, ...] | None = ()  # the same object until a job changes
        self._states: dict[str, NodeState] = {}
        self._checks: dict[tuple[str, str, str], CheckResult] = {}
        self._maintenance: dict[Maintenance, None] = {}
        self._seen: dict[str, float] = {}
        self._pruned: datetime | None = None
        self._memo = Memo()

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

    def kept(self) -> Kept:
        """All of it, for a replay that stops to go on from. Arrays are not copied."""
        return Kept(
            self.serial,
            self.sampled,
            self.factual,
            self._nodes,
            list(self._devices.values()),
            [(*key, name) for key, name in self._names.items()],
            [(*key, ident) for key, ident in self._idents.items()],
            [(*key, unit) for key, unit in self._units.items()],
            [(*key, list(facts.values())) for key, facts in self._facts.items()],
            self._events.kept(),
            list(self._jobs.values()),
            self._states,
            list(self._checks.values()),
            list(self._maintenance),
            self._seen,
            self._pruned,
            self._shelf.kept(),
        )

    def go_on(self, kept: Kept) -> None:
        """Hold what was written down; to be called before anything is taken."""
        self.serial, self.sampled, self.factual = kept.serial, kept.sampled, kept.factual
        self._nodes, self._states, self._seen = kept.nodes, kept.states, kept.seen
        self._devices = {(device.node, device.name): device for device in kept.devices}
        self._names = {(node, ident): name for node, ident, name in kept.names}
        self._idents = {(node, device, kind): of for node, device, kind, of in kept.idents}
        self._units = {(node, device): unit for node, device, unit in kept.units}
        self._facts = {
            (node, device): {fact.name: fact for fact in facts}
            for node, device, facts in kept.facts
        }
        self._facts_at = Counter({name for of_key in self._facts.values() for name in of_key})
        self._facts_at[""] = 1  # else what looks at changed facts alone would know of none
        self._events.restore(kept.events)
        self._jobs = {(job.id, job.start): job for job in kept.jobs}
        self._jobs_told = None
        self._checks = {(c.node, c.device, c.check): c for c in kept.checks}
        self._maintenance = dict.fromkeys(kept.maintenance)
        self._pruned = kept.pruned
        self._shelf.restore(kept.samples)

    def forget(self, node: str) -> None:
        """Drop all of a node that left the fleet."""
        for table in (self._nodes, self._states, self._seen):
            table.pop(node, None)
        for by_key in (self._devices, self._names, self._facts, self._units):
            for key in [key for key in by_key if key[0] == node]:
                del by_key[key]
        self._facts_at[""] += 1
        self._units_told = None
        self._shelf.forget(node)
        self._events.forget(node)

    def _take(self, batch: Batch) -> None:
        before = self._facts_at.total()
        self._remember(batch)
        if self._facts_at.total() != before:
            self.factual = self.serial

    def _remember(self, batch: Batch) -> None:
        self._facts_at[""] += bool(batch.nodes or batch.devices)
        for node in batch.nodes:
            self._nodes[node.name] = _merge(self._nodes.get(node.name), node)
        for device in batch.devices:
            self._device(device)
        for fact in batch.facts:
            self._fact(fact, batch.time)
        self._samples(batch)
        for event in batch.events:
            self._event(event, batch.time)
        for job in batch.jobs:
            self._job(job)
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
            self._facts_at[""] += 1
            self._nodes[node] = Node(node)
        time_s = time.timestamp()
        if time_s > self._seen.get(node, float("-inf")):
            self._seen[node] = time_s

    def _samples(self, batch: Batch) -> None:
        if not (batch.samples or batch.columns):
            return
        self.sampled = self.serial
        told = self._shelf.place(batch.columns, self.serial, self._name)
        told.append(self._shelf.add(batch.samples, batch.time, self.serial, self._name))
        for node, time_s in newest_of(told).items():
            self._know(node, datetime.fromtimestamp(time_s, batch.time.tzinfo))

    def _event(self, event: Event, at: datetime) -> None:
        device = self._event_device(event)
        if device != event.device:
            event = msgspec.structs.replace(event, device=device)
        self._know(event.node, event.time or at)
        self._events.add(event, at, self.serial)

    def _fact(self, fact: Fact, at: datetime) -> None:
        self._know(fact.node, fact.time or at)
        device = self._name(fact.node, fact.device)
        if device and fact.name in ("bus", "uuid", "serial") and isinstance(fact.value, str):
            self._identify(fact.node, device, fact.name, fact.value)
        if device and fact.name == "netdev" and fact.value != device:
            self._also_named(fact.node, str(fact.value).lower(), device)
        of_key = self._facts.setdefault((fact.node, device), {})
        old = of_key.get(fact.name)
        if old is not None and old.time and fact.time and old.time > fact.time:
            return
        if old is not None and old.value == fact.value:
            return  # its time tells since when it has been so
        self._facts_at[fact.name] += 1
        of_key[fact.name] = msgspec.structs.replace(fact, device=device)

    def _job(self, job: Job) -> None:
        if self._jobs.get((job.id, job.start)) != job:
            self._jobs[job.id, job.start] = job
            self._jobs_told = None

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
            self._shelf.drop((node, device))
        self._idents[node, device, kind] = ident
        if kind == "uuid" or (kind == "serial" and (node, device, "uuid") not in self._idents):
            before = node, self._names.get((node, ident), device)
            if self._units.get(before) == ident:
                del self._units[before]
            self._units[node, device] = ident
            self._units_told = None
        if ident not in ("", device):
            self._also_named(node, ident, device)
            self._shelf.renamed(node, ident, device)

    def _also_named(self, node: str, name: str, device: str) -> None:
        """Logs know this device by another name, too."""
        if self._names.get((node, name)) != device:
            self._names[node, name] = device
            self._events.rename(node, name, device)

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
            named = self._names.get((event.node, device.lower()), device)
            if found is not None:
                return self._names.get((event.node, found[0].lower()), named)
            return named
        return device

    # --- out

    def _fleet(self) -> Fleet:
        if self._units_told is None:
            self._units_told = dict(self._units)
        return Fleet(self._nodes, self._devices, self._units_told)

    def _all_jobs(self) -> tuple[Job, ...]:
        if self._jobs_told is None:
            self._jobs_told = tuple(self._jobs.values())
        return self._jobs_told

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
            fleet=self._fleet(),
            series=self._shelf.series(),
            events=self.events(),
            facts=self._facts,
            jobs=self._all_jobs(),
            states=self._states,
            checks=tuple(self._checks.values()),
            maintenance=tuple(self._maintenance),
            fresh_s=fresh_s,
            sustain_s=sustain_s,
            seen=self._seen,
            declared=declared,
            facts_at=self._facts_at,
            of_node=self._events.by_node(),
            memo=self._memo,
        )

    def events(self) -> Sequence[Event]:
        """The events, by node and time; those of one time in the order of their lines."""
        return self._events.all()

    def touched(self, since: int, now: datetime | None = None) -> frozenset[str]:
        """The nodes that had an event in a batch after the one numbered ``since``, or just now."""
        return self._events.touched(since, now)

    def block(self, since: int, now: datetime) -> Block:
        """What came in batches after the one numbered ``since``, for stateful detectors."""
        return Block(
            time=now,
            fleet=self._fleet(),
            samples=tuple(self._shelf.samples(since)),
            events=self._events.since(since),
            jobs=self._all_jobs(),
            columns=self._shelf.block(since),
            facts=self._facts,
            states=self._states,
            maintenance=tuple(self._maintenance),
        )

    def _prune(self, now: datetime) -> None:
        self._pruned = now
        self._events.prune(now.timestamp() - self.limits.events_s)
        ended = now - timedelta(seconds=self.limits.jobs_s)
        self._jobs = {k: j for k, j in self._jobs.items() if j.end is None or j.end >= ended}
        self._jobs_told = None
        self._maintenance = {m: None for m in self._maintenance if m.end >= ended}
        self._shelf.prune(now.timestamp() - 4 * self.limits.series_s)


def _merge(old: Node | None, new: Node) -> Node:
    """What is newly said of a node's place, and what was known where nothing is said."""
    if old is None:
        return new
    said = {f: v for f in new.__struct_fields__ if (v := getattr(new, f))}
    return msgspec.structs.replace(old, **said)
