"""The events the hub remembers, by node: what is new of them, and all of them in order.

A storm of one event on one device keeps its first occurrences and a count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

import msgspec

from bigiron.model import Event

TOUCHED_S = 180.0


@dataclass(slots=True)
class _Kept:
    """An event and the number of the batch that brought it."""

    serial: int
    event: Event
    time_s: float


@dataclass(slots=True)
class _OfNode:
    """One node's events: by device and code, and all of them in order of time."""

    by_key: dict[tuple[str, str], list[_Kept]] = field(default_factory=dict)
    newest: int = 0
    """The number of the newest batch that added one."""
    newest_s: float = float("-inf")
    """The time of the newest."""
    ordered: list[Event] | None = None

    def events(self) -> list[Event]:
        """All of them in order of time."""
        if self.ordered is None:
            every = [k for kept in self.by_key.values() for k in kept]
            every.sort(key=lambda k: (k.time_s, k.event.line, k.serial))
            self.ordered = [k.event for k in every]
        return self.ordered


class Kept(msgspec.Struct, frozen=True):
    """One node's events by device and code, each with its batch's number and its time."""

    node: str
    newest: int
    newest_s: float
    events: list[tuple[str, str, list[tuple[int, float, Event]]]]


class Happenings:
    """Events under the devices they are about. ``per_key``: most of one code on one device."""

    def __init__(self, per_key: int) -> None:
        self._per_key = per_key
        self._nodes: dict[str, _OfNode] = {}
        self._ordered: list[Event] | None = None
        self._by_node: dict[str, list[Event]] = {}

    def add(self, event: Event, at: datetime, serial: int) -> None:
        """Remember an event that came at a time with a batch of a number; twice is once."""
        of_node = self._nodes.setdefault(event.node, _OfNode())
        kept = of_node.by_key.setdefault((event.device, event.code), [])
        if any(_same(event, other.event) for other in kept):
            return
        of_node.newest = serial
        self._ordered = of_node.ordered = None
        time_s = (event.time or at).timestamp()
        of_node.newest_s = max(of_node.newest_s, time_s)
        if len(kept) >= self._per_key:
            count = kept[-1].event.count + event.count
            event = msgspec.structs.replace(event, count=count)
            kept.pop()
        kept.append(_Kept(serial, event, time_s))

    def rename(self, node: str, ident: str, device: str) -> None:
        """Give what came under an address or UUID the name of its device."""
        of_node = self._nodes.get(node)
        if of_node is None:
            return
        for old, code in [key for key in of_node.by_key if key[0].lower() == ident]:
            moved = of_node.by_key.pop((old, code))
            for kept in moved:
                kept.event = msgspec.structs.replace(kept.event, device=device)
            of_node.by_key.setdefault((device, code), []).extend(moved)
            self._ordered = of_node.ordered = None

    def forget(self, node: str) -> None:
        """Drop all of a node."""
        self._nodes.pop(node, None)
        self._ordered = None

    def prune(self, oldest_s: float) -> None:
        """Drop what is older."""
        for node, of_node in list(self._nodes.items()):
            for key, kept in list(of_node.by_key.items()):
                left = [k for k in kept if k.time_s >= oldest_s]
                if len(left) == len(kept):
                    continue
                self._ordered = of_node.ordered = None
                of_node.by_key[key] = left
                if not left:
                    del of_node.by_key[key]
            if not of_node.by_key:
                del self._nodes[node]

    def kept(self) -> list[Kept]:
        """What a replay that stops writes down."""
        return [
            Kept(
                node,
                of_node.newest,
                of_node.newest_s,
                [
                    (device, code, [(k.serial, k.time_s, k.event) for k in kept])
                    for (device, code), kept in of_node.by_key.items()
                ],
            )
            for node, of_node in self._nodes.items()
        ]

    def restore(self, every: Iterable[Kept]) -> None:
        """Hold what was written down, and nothing else."""
        self._ordered = None
        self._nodes = {
            one.node: _OfNode(
                {
                    (device, code): [_Kept(serial, event, time_s) for serial, time_s, event in kept]
                    for device, code, kept in one.events
                },
                one.newest,
                one.newest_s,
            )
            for one in every
        }

    def all(self) -> Sequence[Event]:
        """The events, by node and time; those of one time in the order of their lines."""
        if self._ordered is None:
            self._by_node = {node: self._nodes[node].events() for node in sorted(self._nodes)}
            self._ordered = list(chain.from_iterable(self._by_node.values()))
        return self._ordered

    def by_node(self) -> Mapping[str, Sequence[Event]]:
        """The same by node; a node's list is the same object until something of it changes."""
        self.all()
        return self._by_node

    def touched(self, since: int, now: datetime | None = None) -> frozenset[str]:
        """The nodes that had an event in a batch after the one numbered ``since``.

        With ``now`` also those whose newest event is younger than TOUCHED_S: some incidents
        are believed only after a while.
        """
        late_s = now.timestamp() - TOUCHED_S if now is not None else float("inf")
        return frozenset(
            node
            for node, of_node in self._nodes.items()
            if of_node.newest > since or of_node.newest_s >= late_s
        )

    def since(self, serial: int) -> list[Event]:
        """What came in batches after the one numbered ``serial``, by time."""
        new: list[_Kept] = []
        for node in self.touched(serial):
            by_key = self._nodes[node].by_key
            new += [k for kept in by_key.values() for k in kept if k.serial > serial]
        new.sort(key=lambda k: (k.time_s, k.event.node, k.event.line, k.serial))
        return [k.event for k in new]


def _same(event: Event, other: Event) -> bool:
    return (
        event.time == other.time
        and event.line == other.line
        and event.uptime_s == other.uptime_s
        and event.text == other.text
    )
