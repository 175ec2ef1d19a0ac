"""The catalogue of metrics: one canonical name, unit and bad direction for each thing measured.

Exporters disagree about names and units, and rename between versions. ``find`` leads from any
name an exporter uses to the signal it means and the factor that brings the value to its unit;
``canonical`` converts the value as well and is right for every name. Base units throughout:
celsius, watts, hertz, bytes, seconds, ratios of 0 to 1. Counters end in ``_total``.

Some exporters cannot say "not supported" and write a number instead: see ``is_blank``.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

from bigiron.signals.gpu import GPU
from bigiron.signals.gpu_amd import GPU_AMD
from bigiron.signals.node import NODE
from bigiron.signals.noun import Bad, Kind, Signal, Source
from bigiron.signals.show import show_value

__all__ = [
    "BLANKS",
    "SIGNALS",
    "Bad",
    "Kind",
    "Signal",
    "Source",
    "canonical",
    "find",
    "is_blank",
    "rank",
    "show",
    "source",
]

SIGNALS: Mapping[str, Signal] = MappingProxyType(
    {signal.name: signal for signal in GPU + GPU_AMD + NODE}
)
"""Every signal by its canonical name."""


def _index() -> dict[str, tuple[Signal, Source, int]]:
    found: dict[str, tuple[Signal, Source, int]] = {}
    for signal in SIGNALS.values():
        for sources in signal.sources.values():
            for place, source in enumerate(sources):
                if source.name in found:
                    raise ValueError(f"{source.name}: two signals claim it")
                found[source.name] = (signal, source, place)
    return found


_BY_SOURCE = _index()
_BLANK_RANGES = (
    (2_147_483_632.0, 2_147_483_647.0),
    (9_223_372_036_854_775_792.0, 9_223_372_036_854_775_808.0),
    (140_737_488_355_328.0, 140_737_488_355_343.0),
)
BLANKS: frozenset[int] = frozenset(
    blank for low in (0x7FFF_FFF0, 0x7FFF_FFFF_FFFF_FFF0, 1 << 47) for blank in range(low, low + 16)
)
"""What DCGM writes for "no value" in 32-bit, 64-bit and floating fields (dcgm_structs.h: DCGM_INT32_BLANK,
DCGM_INT64_BLANK, DCGM_FP64_BLANK; plus 1 not found, 2 not supported, 3 not permitted)."""  # noqa: E501


def find(exporter_name: str) -> tuple[Signal, float] | None:
    """The signal an exporter's metric means and the factor to its unit; None if not catalogued.

    A canonical name finds itself. A few states are enumerated differently by an exporter
    (``Source.table``); for those only ``canonical`` gives the right value.
    """
    entry = _BY_SOURCE.get(exporter_name)
    if entry is not None:
        return entry[0], entry[1].scale
    signal = SIGNALS.get(exporter_name)
    return None if signal is None else (signal, 1.0)


def rank(exporter_name: str) -> int:
    """Which name to believe where an exporter gives one signal under several: the least."""
    entry = _BY_SOURCE.get(exporter_name)
    return 0 if entry is None else entry[2]


def source(exporter_name: str) -> Source | None:
    """How an exporter's value becomes the signal's; None if the name is not catalogued."""
    entry = _BY_SOURCE.get(exporter_name)
    if entry is not None:
        return entry[1]
    return Source(exporter_name) if exporter_name in SIGNALS else None


def canonical(exporter_name: str, value: float) -> tuple[str, float] | None:
    """Canonical name and value of an exporter's sample; None if not catalogued or blank."""
    found = find(exporter_name)
    if found is None or is_blank(value):
        return None
    entry = _BY_SOURCE.get(exporter_name)
    return found[0].name, value if entry is None else entry[1].convert(value)


def is_blank(value: float) -> bool:
    """Whether an exporter's value means "there is none": DCGM's blanks, NaN."""
    if -2e9 < value < 2e9:
        return False
    return math.isnan(value) or any(low <= value <= high for low, high in _BLANK_RANGES)


def show(metric: str, value: float) -> str:
    """A value in its unit as people write it: ``1,980 MHz``, ``71 °C``, ``x8``, ``gen 5``."""
    signal = SIGNALS.get(metric)
    return show_value("" if signal is None else signal.unit, value)
