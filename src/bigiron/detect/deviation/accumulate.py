"""From an hour's mean to a level of evidence: spread, one-sided sum, baselines, chance."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.chance import null, robust
from bigiron.detect.deviation.state import HOUR, Limits, Shared, Tracks

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

BLOCK_S = 3600.0
"""A block is an hour at work: five and more autocorrelation times of a GPU's readings."""

LEARN = 8.0
"""Blocks before anything is accumulated; COMMISSION before the frozen baseline is taken."""
COMMISSION = 24.0

ENOUGH_UNITS = 16
"""Units of a kind with a baseline before it is known how far such baselines lie apart."""

ALLOWANCE = 0.5
"""Half the shift looked for, in standard deviations of a block: 1 sigma."""

DOUBT = 2.0
"""An own baseline may be off by twice its standard error without that being held against it."""

CLIP = 5.0
"""One block counts at most so many standard deviations: a burst is not a trend."""

OWN_FREEDOM = 10.0
"""The pooled spread counts for so many blocks against the unit's own (methods.md 3.1)."""

RECENT = 0.75
"""While a baseline is young its later blocks weigh more, so that a bad start is soon outgrown; it
is then worth three quarters of a plain mean of as many."""

MEMORY_BLOCKS = 240.0
"""The adapting baseline's memory in hours at work: ten days and more."""

LEARN_BELOW_Z, LEARN_ABOVE_P = 3.0, 0.02
"""A block this odd, or a sum this improbable, teaches the baseline nothing."""

HIGHEST = 25.0
"""A sum is not kept above this (in units of the streams' inflation), so that it can end."""

CALM_BLOCKS = 12.0
"""So many hours in a row with less than half the shift: it is over, whatever the sum says."""

SLOW = 1 / 8
"""The running mean of z by which correlation is measured spans about so many blocks' inverse."""

UNKNOWN_INFLATION, MOST_INFLATION = 4.0, 8.0
"""Until a fleet has shown some hundreds of blocks: a correlation that lasts four."""

SUSPECTED = 2
"""``Tracks.opened`` of a suspect."""

USUAL_P = 0.01
"""A unit that is this improbable does not tell how far healthy ones spread."""

HOURS_A_DAY = 24.0

HALF_LIFE_S = 14 * 86_400.0


@dataclass(frozen=True, slots=True)
class Hour:
    """A finished block: which tracks had one, their means and z in the bad direction.

    ``case`` is 1 where several jobs shared the node for most of it, else 0.
    """

    ready: Flags
    mean: Floats
    z: Floats
    case: NDArray[np.int64]


def add(tracks: Tracks, deviation: Floats, plain: Floats, mixed: Flags) -> None:
    """One step's deviations (n, m) join the hour that runs; NaN adds nothing.

    ``mixed`` (n,) says whose node several jobs share.
    """
    usable = np.isfinite(deviation)
    tracks.total += np.where(usable, deviation, 0.0).astype(np.float32)
    tracks.plain_total += np.where(usable, plain, 0.0).astype(np.float32)
    tracks.count += usable
    tracks.mixed += usable & mixed[:, None]


def close(
    tracks: Tracks, shared: Shared, make: NDArray[np.int64], of: Limits, steps: float, now_s: float
) -> None:
    """End the hour of every track that has half of its ``steps`` samples; others go on.

    ``make`` (n,) is each row's kind of part. Tracks and what is shared are written to.
    """
    ready = tracks.count >= max(1.0, steps / 2)
    if not ready.any():
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(ready, tracks.total / tracks.count, np.nan).astype(np.float64)
        case = (tracks.mixed > tracks.count / 2).astype(np.int64)
        tracks.plain = np.where(ready, tracks.plain_total / tracks.count, tracks.plain).astype(
            np.float32
        )
    for name in HOUR:
        setattr(tracks, name, np.where(ready, 0.0, getattr(tracks, name)).astype(np.float32))
    pooled = spreads(shared, make, case, of)
    own = pooled * np.sqrt((OWN_FREEDOM + tracks.squares) / (OWN_FREEDOM + tracks.freedom))
    hour = Hour(ready, mean, of.bad * mean / own, case)
    inflated = inflation(shared.pairs)[0]
    units = offsets(tracks, make)
    old = tracks.blocks >= LEARN
    weight = np.fmax(RECENT * tracks.blocks, 1.0)
    error = np.where(old | np.isfinite(tracks.anchor), own * np.sqrt(inflated / weight), units)
    learned = ready & np.isfinite(error)
    _accumulate(tracks, shared, hour, learned, own, error, inflated, of, now_s)
    _learn_shared(tracks, shared, make, hour, ready & old)
    _learn_own(tracks, hour, pooled, np.hypot(own, error), of)


def spreads(shared: Shared, make: NDArray[np.int64], case: NDArray[np.int64], of: Limits) -> Floats:
    """The pooled spread (n, m) of an hour of each kind and case.

    Where several jobs share a node, differences last as long as the jobs do: the spread is taken
    wider by that.
    """
    pooled = robust.spread(shared.spreads)
    pooled = np.fmax(np.where(np.isfinite(pooled), pooled, 4 * of.least), of.least)
    alone, mixed = inflation(shared.pairs)
    pooled[1::2] *= np.sqrt(np.maximum(mixed / alone, 1.0))
    return np.take_along_axis(pooled, 2 * make[:, None] + case, 0)


def offsets(tracks: Tracks, make: NDArray[np.int64]) -> Floats:
    """How far units' own baselines lie apart (n, m): what a new unit may be off by.

    NaN while fewer than ``ENOUGH_UNITS`` of a kind are known: nothing is then said of new ones.
    """
    known = tracks.blocks >= LEARN
    base = np.where(known, tracks.base, np.nan).astype(np.float64)
    kinds = int(make.max(initial=0)) + 1
    centre = robust.grouped_median(base, make, kinds)
    size = np.stack([np.bincount(make[of], minlength=kinds) for of in known.T], axis=1)
    apart = robust.grouped_median(np.abs(base - centre[make]), make, kinds)
    wide = np.where(size >= ENOUGH_UNITS, robust.MAD_TO_SD * apart, np.nan)
    return np.asarray(np.maximum(wide, 1e-6)[make])


def inflation(pairs: Floats) -> Floats:
    """By how much correlation over many blocks inflates the variance of their sum, (2, m).

    The variance of a running mean of z over that of z, against what it were without correlation:
    jobs that last for hours are seen by it, where the correlation of neighbours is not enough.
    """
    few = 500.0
    share = (pairs[..., 0] + few * UNKNOWN_INFLATION * SLOW / (2 - SLOW)) / (pairs[..., 1] + few)
    return np.asarray(np.clip(share * (2 - SLOW) / SLOW, 1.0, MOST_INFLATION))


def _accumulate(
    tracks: Tracks,
    shared: Shared,
    hour: Hour,
    learned: Flags,
    own: Floats,
    error: Floats,
    inflated: Floats,
    of: Limits,
    now_s: float,
) -> None:
    """The one-sided sums against both baselines, their excursions, and what chance makes of it."""
    top = HIGHEST * inflated
    clipped = np.clip(hour.z, -CLIP, CLIP)
    allowed = np.maximum(ALLOWANCE + DOUBT * error / own, of.floor / own)
    level = np.clip(tracks.level + clipped - allowed, 0.0, top)
    tracks.level = np.where(learned, level, tracks.level).astype(np.float32)
    drifted = hour.mean + tracks.base - tracks.first
    frozen = learned & np.isfinite(drifted)
    doubt = DOUBT * np.sqrt(inflated / (RECENT * COMMISSION))
    allowed = np.maximum(ALLOWANCE + doubt, of.drift / own)
    clipped = np.clip(of.bad * drifted / own, -CLIP, CLIP)
    level = np.clip(tracks.level_first + clipped - allowed, 0.0, top)
    tracks.level_first = np.where(frozen, level, tracks.level_first).astype(np.float32)
    height = np.maximum(tracks.level, tracks.level_first) / inflated
    tracks.peak = np.where(learned, np.maximum(tracks.peak, height), tracks.peak).astype(np.float32)
    over = _excursion(tracks, np.where(frozen, drifted, hour.mean), learned, of, now_s)
    well = tracks.opened < SUSPECTED
    shared.null += null.counted(np.where(over & well & (tracks.peak > 0), tracks.peak, np.nan))
    shared.days += (learned & well).sum(axis=0) / HOURS_A_DAY
    tracks.peak = np.where(over, 0.0, tracks.peak).astype(np.float32)
    height = np.where(over, 0.0, height)
    p = null.p_values(shared.null, shared.days, np.where(learned, height, np.nan))
    tracks.chance = np.where(learned, p, tracks.chance).astype(np.float32)


def _excursion(tracks: Tracks, shift: Floats, learned: Flags, of: Limits, now_s: float) -> Flags:
    """Since when a sum has been above zero, by how much on average; which excursions are over."""
    above = learned & ((tracks.level > 0) | (tracks.level_first > 0))
    begun = above & ~np.isfinite(tracks.since)
    tracks.since = np.where(begun, now_s - BLOCK_S, tracks.since)
    usual = of.bad * tracks.shift / np.maximum(tracks.shifted, 1.0)
    well = learned & (tracks.opened > 0) & (of.bad * shift < usual / 2)
    calm = np.where(well, tracks.calm + 1, 0.0)
    tracks.calm = np.where(learned, calm, tracks.calm).astype(np.float32)
    counts = above & ~well
    tracks.shift = np.where(counts, tracks.shift + shift, tracks.shift).astype(np.float32)
    tracks.shifted = np.where(counts, tracks.shifted + 1, tracks.shifted).astype(np.float32)
    over = learned & (~above | (tracks.calm >= CALM_BLOCKS))
    tracks.since = np.where(over, np.nan, tracks.since)
    for name in ("level", "level_first", "shift", "shifted", "calm"):
        setattr(tracks, name, np.where(over, 0.0, getattr(tracks, name)).astype(np.float32))
    return np.asarray(over)


def _learn_shared(
    tracks: Tracks, shared: Shared, make: NDArray[np.int64], hour: Hour, learned: Flags
) -> None:
    """The pooled spread and the correlation of successive blocks."""
    well = learned & ~(tracks.chance < USUAL_P)
    kinds, m, bins = shared.spreads.shape
    row = 2 * make[:, None] + hour.case
    cell = (row * m + np.arange(m)) * bins + robust.spread_bin(np.where(well, hour.mean, 1.0))
    counted = np.bincount(cell[well], minlength=kinds * m * bins)
    shared.spreads += counted.reshape(kinds, m, bins)
    z = np.clip(np.where(well, hour.z, 0.0), -3, 3)
    slow = np.where(well, (1 - SLOW) * tracks.slow + SLOW * z, tracks.slow)
    tracks.slow = slow.astype(np.float32)
    for case in (0, 1):
        of_case = well & (hour.case == case)
        shared.pairs[case, :, 0] += np.where(of_case, slow**2, 0.0).sum(axis=0)
        shared.pairs[case, :, 1] += np.where(of_case, z**2, 0.0).sum(axis=0)


def _learn_own(tracks: Tracks, hour: Hour, pooled: Floats, predicted: Floats, of: Limits) -> None:
    """The own baseline and spread; nothing is learned from what is odd.

    ``predicted`` (n, m) is the spread of the next hour, with the baseline's own doubt.
    """
    young = tracks.blocks < LEARN
    improbable = np.nan_to_num(tracks.chance, nan=1.0) < LEARN_ABOVE_P
    odd = (np.abs(hour.mean) > LEARN_BELOW_Z * predicted) | improbable | (tracks.opened > 0)
    odd &= ~(young & np.isfinite(tracks.anchor))
    learns = hour.ready & ~odd
    share = np.maximum(2 / (tracks.blocks + 2), 1 / MEMORY_BLOCKS)
    base = tracks.base + share * hour.mean
    anchored = np.isfinite(tracks.anchor)
    near = np.clip(base, tracks.anchor - of.shift, tracks.anchor + of.shift)
    base = np.where(anchored, near, base)
    tracks.base = np.where(learns, base, tracks.base).astype(np.float32)
    tracks.blocks = np.where(learns, tracks.blocks + 1, tracks.blocks).astype(np.float32)
    done = learns & (tracks.blocks >= COMMISSION)
    fresh = done & ~np.isfinite(tracks.first)
    tracks.first = np.where(fresh, tracks.base, tracks.first).astype(np.float32)
    tracks.anchor = np.where(done, np.nan, tracks.anchor).astype(np.float32)
    settled = hour.ready & ~young & ~improbable & (tracks.opened == 0)
    keep = 1 - 1 / MEMORY_BLOCKS
    square = np.minimum((hour.mean / pooled) ** 2, 9.0)
    tracks.squares = np.where(settled, keep * tracks.squares + square, tracks.squares).astype(
        np.float32
    )
    tracks.freedom = np.where(settled, keep * tracks.freedom + 1, tracks.freedom).astype(np.float32)


def fade(shared: Shared, seconds: float) -> None:
    """What the fleet showed counts for less as time goes by: half after 14 days."""
    keep = 0.5 ** (seconds / HALF_LIFE_S)
    for name in ("spreads", "slopes", "pairs", "null", "days"):
        getattr(shared, name)[...] *= keep
