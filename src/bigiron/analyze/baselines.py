"""The usual methods, to be shown beside ours: each a plain reading of what its name means.

All take values of one metric as ``values[time, stream]`` (NaN where there is none) and say which
are flagged, as booleans of the same shape; ``alarms`` makes of those what is raised and when.
They are baselines, not caricatures: each gets a direction in which its metric is bad, patience
before it speaks, and only one alarm a stream until it has been calm for a day.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from bigiron.signals import Bad

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SIGMAS = 3.0
ROBUST_SIGMAS = 5.0
FEWEST = 12
"""Samples or peers before a mean and a scatter mean anything."""

LIMITS: Mapping[str, float] = MappingProxyType(
    {
        "gpu_temp_celsius": 85.0,
        "gpu_memory_temp_celsius": 95.0,
        "node_hwmon_temp_celsius": 45.0,
        "gpu_pcie_replays_total": 8.0,
        "gpu_nvlink_crc_flit_errors_total": 100.0,
        "gpu_nvlink_replays_total": 10.0,
        "ib_symbol_errors_total": 120.0,
        "ib_link_error_recovery_total": 10.0,
        "ib_link_downed_total": 1.0,
        "gpu_ecc_correctable_volatile_total": 100.0,
        "gpu_ecc_uncorrectable_volatile_total": 1.0,
        "gpu_row_remap_failure": 1.0,
    }
)
"""Fixed limits as sites write them into alert rules: states and gauges as they are, counters by
their growth within an hour (120 symbol errors an hour is the InfiniBand specification's own)."""

CODES = frozenset({48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140})
"""Xids that public health checks act upon; programs' own (13, 31, 43, 45) are left out."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Step and stream at which a method speaks up."""

    step: int
    stream: int


def three_sigma(values: Floats, bad: Bad, past: int) -> Flags:
    """Beyond three standard deviations of the stream's own last ``past`` samples."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    n = _past_sum(known.astype(np.float64), past)
    mean = _past_sum(filled, past) / np.maximum(n, 1)
    centre = np.nanmedian(filled, axis=0) if len(filled) else filled
    square = _past_sum((np.where(known, values - centre, 0.0)) ** 2, past) / np.maximum(n, 1)
    spread = np.sqrt(np.maximum(square - (mean - centre) ** 2, 0.0))
    distance = _towards(values - mean, bad)
    flags = (n >= FEWEST) & (spread > 0) & (distance > SIGMAS * spread)
    return np.asarray(flags, np.bool_)


def robust_z(values: Floats, bad: Bad) -> Flags:
    """Beyond five scaled median deviations of all peers at the same time."""
    enough = np.isfinite(values).sum(axis=1, keepdims=True) >= FEWEST
    middle = _row_median(values)
    scatter = 1.4826 * _row_median(np.abs(values - middle))
    flags = enough & (scatter > 0) & (_towards(values - middle, bad) > ROBUST_SIGMAS * scatter)
    return np.asarray(flags, np.bool_)


def above_limit(metric: str, values: Floats) -> Flags:
    """At or beyond the fixed limit of its metric; nothing for metrics without one."""
    limit = LIMITS.get(metric)
    if limit is None:
        return np.zeros(values.shape, np.bool_)
    return np.asarray(values >= limit, np.bool_)


def alarms(flags: Flags, patience: int, calm: int) -> list[Alarm]:
    """An alarm where a stream was flagged ``patience`` times in a row, once until ``calm`` steps
    without."""
    held = flags
    for _ in range(patience - 1):
        held = held[1:] & flags[: len(held) - 1]
    streams, steps = np.nonzero(held.T)
    if not len(steps):
        return []
    fresh = np.ones(len(steps), np.bool_)
    fresh[1:] = (streams[1:] != streams[:-1]) | (steps[1:] - steps[:-1] > calm)
    found = zip(steps[fresh] + patience - 1, streams[fresh], strict=True)
    return sorted((Alarm(int(t), int(s)) for t, s in found), key=lambda a: (a.step, a.stream))


def growth(values: Floats, steps: int) -> Floats:
    """A counter's growth over the last ``steps``; a fall is a restart and counts as none."""
    change = np.diff(values, axis=0, prepend=values[:1] if len(values) else values)
    change = np.where(change >= 0, change, 0.0)
    grown = np.zeros_like(change)
    total = np.cumsum(np.nan_to_num(change), axis=0)
    grown[:] = total
    grown[steps:] -= total[:-steps]
    return np.where(np.isfinite(values), grown, np.nan)


def _towards(difference: Floats, bad: Bad) -> Floats:
    if bad is Bad.HIGH:
        return difference
    return -difference if bad is Bad.LOW else np.abs(difference)


def _past_sum(values: Floats, past: int) -> Floats:
    """Sum of the ``past`` samples before each, itself left out."""
    total = np.cumsum(values, axis=0)
    before = np.zeros_like(total)
    before[1:] = total[:-1]
    before[past + 1 :] -= total[: -past - 1]
    return before


def _row_median(values: Floats) -> Floats:
    """Median of each row's known values, as a column; NaN for a row without any."""
    ranked = np.sort(values, axis=1)
    n = np.isfinite(values).sum(axis=1)
    rows = np.arange(len(values))
    low, high = (
        ranked[rows, np.maximum((n - 1) // 2, 0)],
        ranked[rows, np.maximum(n // 2, 0) % max(1, values.shape[1])],
    )
    return np.asarray(np.where(n > 0, (low + high) / 2, np.nan)[:, None], np.float64)
