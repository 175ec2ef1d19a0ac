"""Who is where: the rows of each kind of part, and where each column's values go in them.

Rows follow the unit. They stay where they are until a unit leaves (it was swapped out, or its
node left the fleet); new units are put at the end.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Column, Fleet, Key
from bigiron.detect.hygiene import NODE
from bigiron.model import Fact

_NUMBER = re.compile(r"(\d+)(?!.*\d)")
_KINDS = (
    (re.compile(r"gpu\d|[0-9a-f]{4}:[0-9a-f]{2}:"), "gpu"),
    (re.compile(r"nic\d|mlx\d|ib\d|roce|eth\d|en[ops]\d|bond\d|irdma"), "nic"),
)


class Part(msgspec.Struct, frozen=True):
    """One unit: what it is, where it is now, at which bus address, and its slot's number."""

    unit: str
    kind: str
    key: Key
    bus: str = ""
    slot: int = -1


class Table(NamedTuple):
    """The rows of one kind, aligned: see ``hygiene.Rows``. ``of`` finds the row of a key."""

    parts: tuple[Part, ...]
    units: tuple[str, ...]
    keys: tuple[Key, ...]
    node: NDArray[np.int32]
    slot: NDArray[np.int32]
    of: Mapping[Key, int]


class Places(NamedTuple):
    """Where the values of one column go: by kind, which of them and to which rows."""

    keys: tuple[Key, ...]
    of_kind: Mapping[str, tuple[NDArray[np.intp], NDArray[np.intp]]]


class Layout:
    """All rows. ``nodes`` are the rows of kind node, and what ``Table.node`` points into."""

    def __init__(self, nodes: tuple[str, ...], parts: Mapping[str, tuple[Part, ...]]) -> None:
        self.nodes = nodes
        self.parts = parts
        self.kinds: dict[str, Table] = {}
        self._places: dict[int, Places] = {}
        self.seen: tuple[object, ...] = ()
        number = {name: i for i, name in enumerate(nodes)}
        own = tuple(Part(name, NODE, (name, "")) for name in nodes)
        for kind, of_kind in {NODE: own, **parts}.items():
            self.kinds[kind] = _table(of_kind, number)

    def places(self, column: Column) -> Places:
        """Where a column's values go; what is of no known node goes nowhere."""
        found = self._places.get(id(column.keys))
        if found is not None and found.keys is column.keys:
            return found
        of_kind: dict[str, tuple[list[int], list[int]]] = {}
        rows = {kind: table.of for kind, table in self.kinds.items()}
        for at, key in enumerate(column.keys):
            for kind, of in rows.items():
                row = of.get(key)
                if row is not None:
                    which, to = of_kind.setdefault(kind, ([], []))
                    which.append(at)
                    to.append(row)
                    break
        arrays = {
            kind: (np.array(which, np.intp), np.array(to, np.intp))
            for kind, (which, to) in of_kind.items()
        }
        if len(self._places) > 1000:
            self._places.clear()
        places = self._places[id(column.keys)] = Places(column.keys, arrays)
        return places


def _table(parts: tuple[Part, ...], number: Mapping[str, int]) -> Table:
    keys = tuple(part.key for part in parts)
    return Table(
        parts,
        tuple(part.unit for part in parts),
        keys,
        np.array([number[node] for node, _ in keys], np.int32),
        np.array([part.slot for part in parts], np.int32),
        {key: row for row, key in enumerate(keys)},
    )


def laid(
    before: Layout | None,
    fleet: Fleet,
    facts: Mapping[Key, Mapping[str, Fact]],
    columns: Iterable[Column],
) -> Layout:
    """The layout for what is known now: ``before`` itself if nothing changed."""
    nodes = tuple(fleet.nodes)
    keys = [column.keys for column in columns]
    if before is not None and _holds(before, nodes, fleet, keys):
        return before
    units = {unit: key for key, unit in fleet.units.items() if key[0] in fleet.nodes}
    parts: dict[str, list[Part]] = {}
    held: set[Key] = set()
    old = [part for of_kind in before.parts.values() for part in of_kind] if before else []
    for part in old:
        key = units.get(part.unit, part.key)
        if key[0] not in fleet.nodes or fleet.units.get(key, part.unit) != part.unit:
            continue
        if key in held or _kind(key, fleet) != part.kind:
            continue
        held.add(key)
        parts.setdefault(part.kind, []).append(_moved(part, key, _bus(key, fleet, facts)))
    apart = {id(of_column): of_column for of_column in keys}  # most columns share their keys
    for key in dict.fromkeys(key for of_column in apart.values() for key in of_column):
        node, device = key
        if not device or key in held or node not in fleet.nodes:
            continue
        unit = fleet.units.get(key, f"{node}/{device}")
        held.add(key)
        kind = _kind(key, fleet)
        new = Part(unit, kind, key, _bus(key, fleet, facts), _slot(device))
        parts.setdefault(kind, []).append(new)
    layout = Layout(nodes, {kind: tuple(of_kind) for kind, of_kind in parts.items()})
    layout.seen = (fleet.units, len(fleet.devices), keys)
    return layout


def _holds(
    layout: Layout, nodes: tuple[str, ...], fleet: Fleet, keys: list[tuple[Key, ...]]
) -> bool:
    """Whether a layout is still right; each column's keys are the same object until they change."""
    if layout.nodes != nodes or len(layout.seen) != 3:
        return False
    units, devices, seen = layout.seen
    if units is not fleet.units or devices != len(fleet.devices) or not isinstance(seen, list):
        return False
    known = {id(one) for one in seen}
    for one in keys:
        if id(one) in known:
            continue
        if not all(_has(layout, key) for key in one):
            return False
        if len(seen) > 1000:
            del seen[:500]
        seen.append(one)
    return True


def _has(layout: Layout, key: Key) -> bool:
    return any(key in table.of for table in layout.kinds.values())


def _moved(part: Part, key: Key, bus: str) -> Part:
    """A unit where it is now: its slot is another one only if its address or node is."""
    if part.key == key and (not bus or bus == part.bus):
        return part
    same = key[0] == part.key[0] and (not bus or not part.bus or bus == part.bus)
    slot = part.slot if same else _slot(key[1])
    return Part(part.unit, part.kind, key, bus or part.bus, slot)


def _bus(key: Key, fleet: Fleet, facts: Mapping[Key, Mapping[str, Fact]]) -> str:
    """Its PCI address, written with a domain of four digits; "" if it is not known."""
    told = facts.get(key, {}).get("bus")
    if told is not None:
        return str(told.value).lower()[-12:]
    device = fleet.devices.get(key)
    return device.bus.lower()[-12:] if device is not None else ""


def _kind(key: Key, fleet: Fleet) -> str:
    device = fleet.devices.get(key)
    if device is not None and device.kind:
        return device.kind
    for pattern, kind in _KINDS:
        if pattern.match(key[1]):
            return kind
    return _NUMBER.split(key[1])[0].rstrip("_-") or "part"


def _slot(device: str) -> int:
    found = _NUMBER.search(device)
    return int(found[1]) if found is not None and len(found[1]) < 6 else -1
