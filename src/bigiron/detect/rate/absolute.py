"""Rates that are too high whatever peers and past say, held for minutes; and memory replaced.

The numbers are those at which a link errs more than its specification's one bit in 1e12, as the
field's tools have them. A burst of any size is over before it counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.hygiene import Rows
from bigiron.detect.rate.state import Held
from bigiron.detect.rate.streams import GPU, LONGEST_S, NIC
from bigiron.detect.state import carried, follow

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

REPLAYS_A_LANE_MINUTE = np.array([np.nan, 0.15, 0.3, 0.48, 0.96, 1.92, 3.84])
"""By PCIe generation, 1 to 6: DCGM's health watch, which warns above it (DcgmHealthWatch.cpp)."""

STEPS = 3
"""So many looks in a row at least."""


@dataclass(frozen=True, slots=True)
class Limit:
    """``most`` errors in ``per_s`` s, passed in every look for ``hold_s``; NaN: by the link."""

    metric: str
    fault: str
    what: str
    most: float
    per_s: float
    hold_s: float
    source: str


LIMITS: Mapping[str, tuple[Limit, ...]] = {
    GPU: (
        Limit(
            "gpu_pcie_replays_total",
            "pcie_replay",
            "PCIe replays a minute",
            *(np.nan, 60.0, 600.0),
            source="DCGM health watch: the limit at this generation and width, a bit error in 1e12",
        ),
        Limit(
            "gpu_nvlink_crc_flit_errors_total",
            "nvlink_errors",
            "NVLink checksum errors a second",
            *(1.0, 1.0, 600.0),
            source="DCGM health watch: one a second warns",
        ),
    ),
    NIC: (
        Limit(
            "ib_symbol_errors_total",
            "ib_errors",
            "symbol errors an hour",
            *(120.0, 3600.0, 3600.0),
            source="NVSentinel's NIC monitor: above a bit error in 1e12",
        ),
        Limit(
            "ib_link_error_recovery_total",
            "ib_errors",
            "link recoveries a minute",
            *(5.0, 60.0, 600.0),
            source="NVSentinel's NIC monitor: more than five a minute",
        ),
    ),
}


def follow_limits(
    before: Held | None, kind: str, rows: Rows, links: Floats, step_s: float, now_s: float
) -> Held:
    """How long each unit has been past each limit. ``links`` (n, 2): PCIe generation and width."""
    limits = LIMITS[kind]
    held = _aligned(before, rows, len(limits))
    usable = rows.present & ~rows.frozen
    for at, limit in enumerate(limits):
        grown = rows.increments.get(limit.metric)
        if grown is None:
            continue
        span = rows.spans[limit.metric]
        with np.errstate(invalid="ignore", divide="ignore"):
            pace = grown / span * limit.per_s
            past = pace > (_replays(links) if np.isnan(limit.most) else limit.most)
        seen = usable & np.isfinite(pace) & (span <= LONGEST_S)
        needed = max(STEPS, int(np.ceil(limit.hold_s / max(step_s, 1.0))))
        steps = np.where(past, held.steps[:, at] + 1, held.steps[:, at] - 1)
        steps = np.where(seen, np.clip(steps, 0, needed), held.steps[:, at])
        begins = (held.steps[:, at] <= 0) & (steps > 0)
        held.since[:, at] = np.where(begins, now_s - step_s, held.since[:, at])
        told = np.where(steps >= needed, True, held.told[:, at] & (steps > 0))
        held.steps[:, at], held.told[:, at] = steps, told
    return held


def _replays(links: Floats) -> Floats:
    """The most replays in a minute; NaN where the link is not known."""
    gen = np.where((links[:, 0] >= 1) & (links[:, 0] <= 6), links[:, 0], 0).astype(np.int64)
    return np.ceil(REPLAYS_A_LANE_MINUTE[gen] * links[:, 1])


def _aligned(before: Held | None, rows: Rows, limits: int) -> Held:
    """A copy to write to; a unit that is new in its place begins anew."""
    n = len(rows.units)
    if before is None:
        shape = (n, limits)
        return Held(rows.units, np.zeros(shape, np.float32), np.zeros(shape), np.zeros(shape, bool))
    index = follow(before.units, rows.units)
    steps, since, told = before.steps.copy(), before.since.copy(), before.told.copy()
    if index is not None:
        steps, since, told = (carried(one, index, 0) for one in (steps, since, told))
    steps[rows.moved], since[rows.moved], told[rows.moved] = 0, 0, False
    return Held(rows.units, steps, since, told)


Times = tuple[tuple[float, float], ...]
"""Epoch seconds, and what each is worth."""

REMAPPED = ("gpu_remapped_rows_uncorrectable_total", "gpu_retired_pages_dbe_total")
REMAPPED_EARLY = ("gpu_remapped_rows_correctable_total", "gpu_retired_pages_sbe_total")
"""After errors that could not be corrected, and after repeated ones that could."""

APART_S = 3600.0
"""Rows replaced within an hour are one event: of one error, or one reset."""

WEEK_S = 7 * 86_400.0
EARLY_WORTH, ENOUGH = 0.6, 1.75
"""Two times in a week (methods.md 3.3: repeated Xid 63), or three where all came in time."""

KEPT = 16


def remapped(before: Mapping[str, Times], rows: Rows, now_s: float) -> dict[str, Times]:
    """When each GPU lately replaced memory, and what each time is worth, newest last."""
    after = {u: kept for u, times in before.items() if (kept := _recent(times, now_s))}
    worth = np.zeros(len(rows.units))
    for names, value in ((REMAPPED_EARLY, EARLY_WORTH), (REMAPPED, 1.0)):
        for name in names:
            grown = rows.increments.get(name)
            if grown is not None:
                worth = np.where(grown > 0, np.maximum(worth, value), worth)
    for row in np.flatnonzero(worth > 0).tolist():
        unit, times = rows.units[row], after.get(rows.units[row], ())
        if times and now_s - times[-1][0] < APART_S:
            last = (times[-1][0], max(times[-1][1], float(worth[row])))
            after[unit] = (*times[:-1], last)
        else:
            after[unit] = (*times, (now_s, float(worth[row])))[-KEPT:]
    if rows.moved.any() and after:
        for row in np.flatnonzero(rows.moved).tolist():
            after.pop(rows.units[row], None)
    return after


def _recent(times: Times, now_s: float) -> Times:
    if times and now_s - times[0][0] <= WEEK_S:
        return times
    return tuple(one for one in times if now_s - one[0] <= WEEK_S)


def too_often(times: Times) -> bool:
    """Whether so many replacements in a week are a sign of a part that goes on failing."""
    return sum(worth for _, worth in times) >= ENOUGH
