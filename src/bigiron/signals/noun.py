"""What a signal is."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Kind(StrEnum):
    """How values follow each other: freely, upwards only, as states, or as a set of bits."""

    GAUGE = "gauge"
    COUNTER = "counter"
    STATE = "state"
    MASK = "mask"


class Bad(StrEnum):
    """Which way trouble lies: up, down, either, or neither (it only describes the load)."""

    HIGH = "high"
    LOW = "low"
    ANY = "any"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Source:
    """An exporter's name for a signal, and how its values become the signal's.

    The value is ``table[value]`` where there is a table (``otherwise`` what it does not list),
    else value * ``scale``.
    """

    name: str
    scale: float = 1.0
    table: Mapping[float, float] | None = None
    otherwise: float = math.nan

    def convert(self, value: float) -> float:
        """In the signal's unit; NaN for a state that the table does not know."""
        return value * self.scale if self.table is None else self.table.get(value, self.otherwise)


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that is measured. ``sources``: exporter -> its names, the preferred first."""

    name: str
    unit: str
    kind: Kind
    bad: Bad
    help: str
    sources: Mapping[str, tuple[Source, ...]]


def signal(
    name: str, unit: str, kind: Kind, bad: Bad, text: str, /, **exporters: str | tuple[Source, ...]
) -> Signal:
    """A signal whose sources are written ``NAME NAME*SCALE``; AMD's are known in every case."""
    sources: dict[str, tuple[Source, ...]] = {}
    for exporter, names in exporters.items():
        listed = names if isinstance(names, tuple) else tuple(map(_source, names.split()))
        if exporter == "amd_exporter":
            listed = tuple(s for one in listed for s in _spellings(one))
        sources[exporter] = listed
    return Signal(name, unit, kind, bad, text, MappingProxyType(sources))


def _source(text: str) -> Source:
    name, _, scale = text.partition("*")
    return Source(name, float(scale or 1.0))


def _spellings(one: Source) -> tuple[Source, ...]:
    """The configuration name, the exported name, and that with the prefix OCI and others set."""
    lower = one.name.lower()
    return tuple(
        Source(name, one.scale, one.table, one.otherwise)
        for name in (one.name.upper(), lower, f"amd_{lower}")
    )
