"""Samples, events and facts to findings. Pure: no clock, no input or output, no randomness.

Two shapes. A *stateless* detector is a function of a ``Window``. A *stateful* one folds
``Block`` after block into an explicit state that can be snapshotted. Both say what is wrong
*now*; ``settle`` compares with what stood before.

**Silence is not recovery.** A finding closes only if its detector says so (``Recovery``), or no
longer claims it while it could see all it reads for that subject. A detector that reads events
(``reads=()``) is never closed by silence.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bigiron.detect.columnar import NEVER as NEVER
from bigiron.detect.columnar import Columnar as Columnar
from bigiron.detect.columnar import Key as Key
from bigiron.detect.columnar import Series as Series
from bigiron.detect.memo import Memo
from bigiron.model import (
    CheckResult,
    Device,
    Event,
    Fact,
    FactValue,
    Finding,
    Job,
    Maintenance,
    Node,
    NodeState,
    Recovery,
    Sample,
    Subject,
)
from bigiron.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bigiron.detect.hygiene import Clean
    from bigiron.detect.planned import Away


def _later(one: "NDArray[np.float64]", other: "NDArray[np.float64]") -> "NDArray[np.float64]":
    import numpy as np

    return np.maximum(one, other)


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is known of the nodes and their parts.

    ``units`` is the identity (UUID, serial) of the part that sits at a key now, where one is
    known: it moves when indexes move, ``devices`` may not.
    """

    nodes: Mapping[str, Node] = field(default_factory=dict)
    devices: Mapping[Key, Device] = field(default_factory=dict)
    units: Mapping[Key, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Declared:
    """What nodes of a SKU and role ("" is any) are declared to be: the values a fact may have.

    ``device`` names the one device they are about; "" is the node and each of its devices, of
    which ``kind`` ("gpu", "nic" ..., "node" for the node itself) and ``model`` pick some.
    """

    facts: Mapping[str, tuple[FactValue, ...]]
    sku: str = ""
    role: str = ""
    device: str = ""
    kind: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Exempt:
    """Values of a fact (none: any) that some nodes may have until a time, and why."""

    nodes: frozenset[str]
    fact: str
    values: tuple[FactValue, ...]
    until: datetime
    why: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """What was known over the stretch of time that ends at ``now``.

    ``fresh_s`` is how old a sample may be to count as seen. ``sustain_s`` is how long a gauge
    must stay bad before it is believed; 0 means that this is a single look (a file, a scan) and
    that nothing more will come. ``seen`` is the time, in epoch seconds, of the newest word of
    each node, whatever it was about. ``declared`` is the site's own golden config,
    ``exempt`` what may differ from it for a while. ``touched``
    names the nodes that have new events since the last look; None if all are to be looked at.
    ``standing`` are the keys of the findings that stand, whose end alone is news; None if they
    are not told. ``facts_at`` counts the changes of facts, by name, and of nodes and devices,
    under ""; None if they are not counted. ``away`` tells who was out of service of late, as
    far as the turn before knew. ``of_node`` are the same events by node, each list the same
    object until something of it changes; ``memo`` may outlive the window.
    """

    now: datetime
    fleet: Fleet = field(default_factory=Fleet)
    series: Mapping[str, Mapping[Key, Series]] = field(default_factory=dict)
    events: Sequence[Event] = ()
    facts: Mapping[Key, Mapping[str, Fact]] = field(default_factory=dict)
    jobs: Sequence[Job] = ()
    states: Mapping[str, NodeState] = field(default_factory=dict)
    checks: Sequence[CheckResult] = ()
    maintenance: Sequence[Maintenance] = ()
    fresh_s: float = 180.0
    sustain_s: float = 600.0
    seen: Mapping[str, float] = field(default_factory=dict)
    declared: Sequence[Declared] = ()
    exempt: Sequence[Exempt] = ()
    touched: frozenset[str] | None = None
    standing: Collection[str] | None = None
    facts_at: Mapping[str, int] | None = None
    away: Mapping[str, "Away"] = field(default_factory=dict)
    of_node: Mapping[str, Sequence[Event]] | None = None
    memo: Memo = field(default_factory=Memo, compare=False, repr=False)

    def stands(self, key: str) -> bool:
        """Whether the end of the finding with this key would be news."""
        return self.standing is None or key in self.standing

    def standing_of(self, begins: str) -> frozenset[str] | None:
        """The nodes of findings that stand and whose key begins so; None if it is not told."""
        if self.standing is None:
            return None
        subjects = (key.split("|", 2)[2] for key in self.standing if key.startswith(begins))
        return frozenset(subject.partition("/")[0] for subject in subjects)

    def events_of(self) -> Mapping[str, Sequence[Event]]:
        """The events by node, in their order."""
        if self.of_node is not None:
            return self.of_node
        by_node: dict[str, list[Event]] = {}
        for event in self.events:
            by_node.setdefault(event.node, []).append(event)
        return by_node

    @property
    def single_look(self) -> bool:
        """Whether this is all there will be: one file, one scan."""
        return self.sustain_s <= 0 or self.fresh_s == float("inf")

    def last_seen(self, node: str) -> float | None:
        """When, in epoch seconds, anything was last heard of a node; None if never."""
        if node in self.seen:
            return self.seen[node]
        times = [e.time.timestamp() for e in self.events if e.node == node and e.time is not None]
        for of_metric in self.series.values():
            times += [s.times[-1] for (n, _), s in of_metric.items() if n == node and s.times]
        return max(times, default=None)

    def latest(self, metric: str) -> Iterator[tuple[Key, float]]:
        """The newest fresh value of each subject that has one."""
        oldest = self.now.timestamp() - self.fresh_s
        of_metric = self.series.get(metric, {})
        if isinstance(of_metric, Columnar):
            names, values = of_metric.names, of_metric.last_values.tolist()
            fresh = (of_metric.last_times >= oldest).nonzero()[0].tolist()
            yield from ((names[row], values[row]) for row in fresh)
            return
        for key, series in of_metric.items():
            if series.times and series.times[-1] >= oldest:
                yield key, series.values[-1]

    def newest(self, metric: str, key: Key) -> float | None:
        """The newest value of one subject, however old; None if it has none."""
        of_metric = self.series.get(metric, {})
        if isinstance(of_metric, Columnar):
            return of_metric.newest(key)
        series = of_metric.get(key)
        return series.last if series is not None and series.times else None

    def heard(self, metrics: Iterable[str]) -> dict[str, dict[str, float]]:
        """When, in epoch seconds, each node's devices were last heard by any of these metrics."""
        heard: dict[str, dict[str, float]] = {}
        for names, times in self._last_times(metrics):
            for (node, device), time_s in zip(names, times, strict=True):
                if time_s > NEVER:
                    of_node = heard.get(node)
                    if of_node is None:
                        heard[node] = {device: time_s}
                    elif time_s > of_node.get(device, NEVER):
                        of_node[device] = time_s
        return heard

    def _last_times(
        self, metrics: Iterable[str]
    ) -> Iterator[tuple[Sequence[Key], Sequence[float]]]:
        """Subjects and when each was last heard, -inf if never; columns of the same are joined."""
        joined: dict[int, tuple[Sequence[Key], list[NDArray[np.float64]]]] = {}
        for metric in metrics:
            of_metric = self.series.get(metric, {})
            if isinstance(of_metric, Columnar):
                names = of_metric.names
                joined.setdefault(id(names), (names, []))[1].append(of_metric.last_times)
            else:
                told = [(key, s.times[-1]) for key, s in of_metric.items() if s.times]
                yield [key for key, _ in told], [time_s for _, time_s in told]
        for subjects, arrays in joined.values():
            yield subjects, functools.reduce(_later, arrays).tolist()

    def last(self, metric: str) -> Iterator[tuple[Key, float]]:
        """The newest value of each subject, however old."""
        of_metric = self.series.get(metric, {})
        if isinstance(of_metric, Columnar):
            pairs = zip(of_metric.names, of_metric.last_values.tolist(), strict=True)
            yield from ((key, value) for key, value in pairs if value == value)
            return
        yield from ((key, series.last) for key, series in of_metric.items() if series.times)

    def past(
        self, metric: str, test: Callable[[float], bool] | None = None
    ) -> Iterator[tuple[Key, Series]]:
        """The series of a metric that are fresh and whose newest value passes a test."""
        oldest = self.now.timestamp() - self.fresh_s
        of_metric = self.series.get(metric, {})
        if isinstance(of_metric, Columnar) and test is not None:
            yield from ((key, of_metric[key]) for key in of_metric.where(oldest, test))
            return
        for key, series in of_metric.items():
            if series.times and series.times[-1] >= oldest and (test is None or test(series.last)):
                yield key, series

    def observed(self, subject: Subject, metrics: Iterable[str]) -> bool:
        """Whether every one of these metrics was seen, fresh, of this subject.

        A node's own metric or one of any device of it counts for a node; a group is observed if
        every member is. ``fact:NAME`` asks for a fact, which is seen as long as it is known.
        """
        if subject.by:
            return bool(subject.members) and all(
                self.observed(Subject(node=node), metrics) for node in subject.members
            )
        return all(self._fresh(subject, metric) for metric in metrics)

    def _known(self, subject: Subject, fact: str) -> bool:
        return any(
            fact in facts
            for (node, device), facts in self.facts.items()
            if node == subject.node and (not subject.device or device == subject.device)
        )

    def _fresh(self, subject: Subject, metric: str) -> bool:
        if metric.startswith("fact:"):
            return self._known(subject, metric.removeprefix("fact:"))
        oldest = self.now.timestamp() - self.fresh_s
        of_metric = self.series.get(metric, {})
        if subject.device:
            series = of_metric.get((subject.node, subject.device))
            return series is not None and bool(series.times) and series.times[-1] >= oldest
        return any(
            node == subject.node and bool(series.times) and series.times[-1] >= oldest
            for (node, _), series in of_metric.items()
        )


@dataclass(frozen=True, slots=True)
class Column:
    """One metric of the whole fleet at one step: ``values[i]`` belongs to ``keys[i]``.

    NaN is no fresh sample. ``keys`` is the same object for as long as the layout is the same, so
    that ``is`` tells whether an index made for it still holds.
    """

    keys: tuple[Key, ...]
    values: "NDArray[np.float64]"


FALSE_PER_NODE_DAY = 0.5 / 1000


@dataclass(frozen=True, slots=True)
class Block:
    """One step of time for the whole fleet: the input of a detector that folds a state.

    ``columns`` holds the newest value of each metric within the ``step_s`` seconds that end at
    ``time``; ``samples`` are the same step's single samples of the metrics that folds name.
    ``false_per_node_day`` is what all statistical detectors together may raise of suspects that
    are none.
    """

    time: datetime
    fleet: Fleet
    samples: Sequence[Sample] = ()
    events: Sequence[Event] = ()
    jobs: Sequence[Job] = ()
    step_s: float = 0.0
    false_per_node_day: float = FALSE_PER_NODE_DAY
    columns: Mapping[str, Column] = field(default_factory=dict)
    facts: Mapping[Key, Mapping[str, Fact]] = field(default_factory=dict)
    states: Mapping[str, NodeState] = field(default_factory=dict)
    maintenance: Sequence[Maintenance] = ()
    clean: "Clean | None" = None
    """The same step after hygiene, one table a kind of part; None in tests of folds without it."""

    def told(self, metric: str) -> Iterator[tuple[Key, float, float]]:
        """What is new of a metric: whose, the value, and when, in epoch seconds."""
        column = self.columns.get(metric)
        singly = False
        for sample in self.samples:
            if sample.metric == metric:
                singly = True
                time = sample.time or self.time
                yield (sample.node, sample.device), sample.value, time.timestamp()
        if singly or column is None:
            return
        at_s = self.time.timestamp()
        for key, value in zip(column.keys, column.values.tolist(), strict=True):
            if value == value:
                yield key, value, at_s


S = TypeVar("S")


class StatefulDetector(Protocol[S]):
    """A pure fold over blocks; its state must survive msgspec's JSON there and back.

    A state may hold numpy arrays (fields of type NDArray): ``detect.state`` packs them. A step
    gives a new state; arrays of the old one are not written to.
    """

    name: str
    reads: tuple[str, ...]

    def start(self, fleet: Fleet) -> S:
        """The state before any block."""

    def step(self, state: S, block: Block) -> tuple[S, list[Finding | Recovery]]:
        """The state after this block and what is wrong now."""


fold: Registry[[], StatefulDetector[Any]] = Registry(__name__, "fold")
"""Stateful detectors: a function without arguments that returns one, registered by its name.

The type of the state is the type of what ``start`` returns.
"""

detector: Registry[[Window], Iterator[Finding | Recovery]] = Registry(__name__, "detector")
"""Stateless detectors, registered by name."""
