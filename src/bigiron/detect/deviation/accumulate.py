"""From an hour's mean to evidence: spreads, one-sided sums, baselines, chance.

Deviations of a healthy part are not independent from hour to hour: a job that lasts a day holds a
part at one load, a sensor rounds to one side for as long. So there are two ways. The sum over
hours passes over whatever a day of a healthy part may differ by: it finds large shifts within
hours. The scan over blocks of hours (``scan``) finds small shifts that stay.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.chance import null, robust
from bigiron.detect.deviation import scan
from bigiron.detect.deviation.state import CASES, DAY, HOUR, SUSPECTED, Limits, Shared, Tracks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

BLOCK_S = 3600.0
"""A block is an hour at work: five and more autocorrelation times of a GPU's readings."""

BLOCK_HOURS = 6.0
"""Hours at work in a block of the scan (methods.md 3.1)."""

LEARN = 8.0
"""Hours at work before anything is accumulated."""

ENOUGH_UNITS = 16
"""Units of a kind with a baseline before it is known how far such baselines lie apart."""

ALLOWANCE = 0.5
"""Half the shift looked for, in standard deviations of an hour: 1 sigma."""

DOUBT = 2.0
"""What an own baseline may be off by: this many standard errors are passed over."""

RARE = 0.99
"""The sum over hours passes over what this share of healthy blocks do not exceed. A quantile, for
blocks have heavy tails: most are alike, and now and then a job is unlike all others for a day."""

CLIP = 4.0
"""An hour adds at most so many standard deviations to its sum."""

FEWEST_HOURS = 3.0
"""Hours that a sum must be above zero before it says anything: two wild ones are no trend."""

FAR_HOUR = 4.0
"""An hour counts in its block at most so many standard deviations: one wild hour is no change."""

OWN_FREEDOM = 10.0
"""The pooled spread counts for so many blocks against the unit's own (methods.md 3.1)."""

YOUNG_BLOCKS = 48.0
RECENT = 0.75
"""While a baseline is young its later blocks weigh more, so that a bad start is soon outgrown; it
is then worth three quarters of a plain mean of as many."""

MEMORY_BLOCKS = 240.0
"""The adapting baseline's memory in hours at work, once it is no longer young: ten days and more.
A shorter one would learn a fault before it is found."""

LEARN_BELOW_Z, LEARN_ABOVE_P = 3.0, 0.02
"""A block this odd, or a sum this improbable, teaches the baseline nothing."""

USUAL_P = 0.01
"""A unit that is this improbable does not tell how far healthy ones spread."""

HIGHEST = 40.0
"""A sum is not kept above this, so that it can end."""

CALM_BLOCKS = 12.0
"""So many hours in a row with less than half the shift: it is over, whatever the sums say."""

UNKNOWN_BLOCKS = 200.0
"""Until a fleet has shown this many blocks of parts, a block's mean is taken to be no steadier than
an hour's: what holds for the hours of one long job."""

HALF_LIFE_S = 14 * 86_400.0
HOURS_A_DAY = 24.0

BLOCKS_A_DAY = HOURS_A_DAY / BLOCK_HOURS

ONSET = 1.5
"""The scan's excursions are counted from this height on: one in fifteen comparisons is as high."""

SUM_USUAL, SCAN_USUAL = (1.0, null.PRIOR_FALL), (0.15, 0.6)
"""What is taken for usual of a healthy unit until a fleet has shown it: how often a day at work the
sum or the scan rises, and by how much its heights fall to 1/e. The scan's heights are standard
deviations of means of many hours: a normal tail falls by 0.6 at 1.7, and faster beyond."""


@dataclass(frozen=True, slots=True)
class Hour:
    """A finished block (n, m): which tracks had one, their means, and what is known of them.

    ``hourly`` and ``daily`` are the spreads of an hour's and a block's mean, ``alone`` an hour's on
    a node with one job, ``reach`` how far a healthy block may go, ``error`` how far the own
    baseline may be off, ``learned`` whether enough is known to accumulate. ``weight`` is what the
    hour counts for in its block: less where jobs share the node.
    """

    ready: Flags
    learned: Flags
    mean: Floats
    hourly: Floats
    alone: Floats
    daily: Floats
    reach: Floats
    error: Floats
    weight: Floats
    case: Ints


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
    tracks: Tracks, shared: Shared, make: Ints, of: Limits, steps: float, now_s: float
) -> None:
    """End the hour of every track that has half of its ``steps`` samples; others go on.

    ``make`` (n,) is each row's kind of part. Tracks and what is shared are written to.
    """
    ready = tracks.count >= max(1.0, steps / 2)
    if not ready.any():
        return
    hour = _hour(tracks, shared, make, of, ready)
    _fast(tracks, shared, hour, of)
    ended = _scan(tracks, shared, make, hour, of)
    _excursion(tracks, hour, ended, of, now_s)
    _learn_shared(tracks, shared, make, hour)
    _learn_own(tracks, hour)


def _hour(tracks: Tracks, shared: Shared, make: Ints, of: Limits, ready: Flags) -> Hour:
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(ready, tracks.total / tracks.count, np.nan).astype(np.float64)
        plain = np.where(ready, tracks.plain_total / tracks.count, tracks.plain)
    tracks.plain = plain.astype(np.float32)
    case = (tracks.mixed > tracks.count / 2).astype(np.int64)
    for name in HOUR:
        shown = getattr(tracks, name)
        setattr(tracks, name, np.where(ready, 0, shown).astype(shown.dtype))
    hourly, alone, daily, reach = spreads(shared, make, case, of)
    mean = mean - common(mean, make, hourly)
    own = np.sqrt((OWN_FREEDOM + tracks.squares) / (OWN_FREEDOM + tracks.freedom))
    late = np.fmax(tracks.blocks - YOUNG_BLOCKS, 0.0) / 4
    worth = np.fmax(RECENT * np.fmin(tracks.blocks, YOUNG_BLOCKS) + late, 1.0) / BLOCK_HOURS
    old = tracks.blocks >= LEARN
    error = np.where(old, daily * own / np.sqrt(worth), offsets(tracks, make))
    learned = ready & np.isfinite(error)
    weight = (alone / hourly) ** 2
    return Hour(ready, learned, mean, hourly * own, alone, daily * own, reach, error, weight, case)


def common(mean: Floats, make: Ints, hourly: Floats) -> Floats:
    """What all tracks of a kind moved by (n, m), 0 for kinds with fewer than ``ENOUGH_UNITS``.

    A cohort's median is in the middle of skewed deviations, their mean is not; without this every
    baseline would follow that difference, and the median them, for ever.
    """
    m = mean.shape[1]
    usable = np.isfinite(mean)
    kinds = int(make.max(initial=0)) + 1
    cell = (make[:, None] + kinds * np.arange(m))[usable]
    near = np.clip(mean, -3 * hourly, 3 * hourly)[usable]
    size = np.bincount(cell, minlength=kinds * m)
    total = np.bincount(cell, weights=near, minlength=kinds * m)
    centre = np.where(size >= ENOUGH_UNITS, total / np.maximum(size, 1), 0.0)
    return np.asarray(centre.reshape(m, kinds).T[make])


def spreads(
    shared: Shared, make: Ints, case: Ints, of: Limits
) -> tuple[Floats, Floats, Floats, Floats]:
    """What is pooled (n, m): an hour's spread in its case, an hour's with one job, a block's
    spread, and how far a healthy block goes (``RARE``)."""
    alone, mixed, block = (pooled(shared.spreads[of_case::CASES], of) for of_case in range(3))
    mixed = np.maximum(mixed, alone)
    counted = shared.spreads[2::CASES].sum(axis=-1)
    share = counted / (counted + UNKNOWN_BLOCKS)
    daily = np.minimum(share * block + (1 - share) * alone, 2 * alone)
    daily = np.maximum(daily, 0.3 * alone)
    far = robust.size_at(shared.spreads[2::CASES], RARE)
    far = np.where(np.isfinite(far), share * far, 0.0) + (1 - share) * 2 * alone
    hourly = np.where(case > 0, mixed[make], alone[make])
    return hourly, alone[make], daily[make], np.maximum(far, 2 * daily)[make]


def pooled(counted: Floats, of: Limits) -> Floats:
    """The spread of what was counted (g, m, bins), by kind of part and stream; wide while unknown,
    and never below what is believed."""
    spread = robust.spread(counted)
    return np.fmax(np.where(np.isfinite(spread), spread, 4 * of.least), of.least)


def offsets(tracks: Tracks, make: Ints) -> Floats:
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


def _fast(tracks: Tracks, shared: Shared, hour: Hour, of: Limits) -> None:
    """The hours' sum and its chance."""
    passed = np.hypot(hour.reach, DOUBT * hour.error)
    allowed = np.maximum(ALLOWANCE + passed / hour.hourly, of.floor / hour.hourly)
    over = np.minimum(of.bad * hour.mean / hour.hourly - allowed, CLIP)
    level = np.clip(tracks.level + over, 0.0, HIGHEST)
    tracks.level = np.where(hour.learned, level, tracks.level).astype(np.float32)
    tracks.peak, chance = _chance(
        tracks, shared, 0, hour.learned, tracks.level, tracks.peak, tracks.chance
    )
    early = hour.learned & (tracks.shifted + 1 < FEWEST_HOURS)
    tracks.chance = np.where(early, np.float32(1.0), chance)


def _scan(tracks: Tracks, shared: Shared, make: Ints, hour: Hour, of: Limits) -> Flags:
    """The blocks that ended are held against those before; whose block ended (n, m)."""
    weight = np.where(hour.learned, hour.weight, 0.0)
    near = np.clip(hour.mean, -FAR_HOUR * hour.hourly, FAR_HOUR * hour.hourly)
    shown = np.where(hour.learned, near + tracks.base, 0.0)
    tracks.day_total = (tracks.day_total + weight * shown).astype(np.float32)
    tracks.day_weight = (tracks.day_weight + weight).astype(np.float32)
    ended = tracks.day_weight >= BLOCK_HOURS
    block = np.where(ended, tracks.day_total / np.maximum(tracks.day_weight, 1.0), np.nan)
    for name in DAY:
        setattr(tracks, name, np.where(ended, 0.0, getattr(tracks, name)).astype(np.float32))
    told = scan.push(tracks, ended, block, held(tracks))
    at = told.row, told.column
    height = np.full(ended.shape, np.nan)
    height[at] = scan.heights(told, shared, make, hour.alone, of)
    known = np.isfinite(height)
    tracks.day_level = np.where(
        known, np.clip(height - ONSET, 0, HIGHEST), tracks.day_level
    ).astype(np.float32)
    tracks.day_peak, tracks.day_chance = _chance(
        *(tracks, shared, 1, known, tracks.day_level, tracks.day_peak, tracks.day_chance)
    )
    well = ended & ~(tracks.chance < USUAL_P) & ~(tracks.day_chance < USUAL_P)
    scan.count(told, shared, make, well[at])
    _count_spreads(shared, make, np.full(make.shape, 2)[:, None], block - tracks.base, well)
    return np.asarray(ended)


def held(tracks: Tracks) -> Flags:
    """Tracks that something is held against, or nearly: they teach nothing."""
    improbable = (tracks.chance < LEARN_ABOVE_P) | (tracks.day_chance < LEARN_ABOVE_P)
    return np.asarray(improbable | (tracks.opened > 0))


def _chance(
    tracks: Tracks,
    shared: Shared,
    sum_of: int,
    new: Flags,
    level: NDArray[np.float32],
    peak: NDArray[np.float32],
    chance: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Count the excursions that ended, and how improbable those are that go on.

    One that was called a suspect and ended by itself counts like any other: it was chance.
    """
    a_day, usual = ((HOURS_A_DAY, SUM_USUAL), (BLOCKS_A_DAY, SCAN_USUAL))[sum_of]
    peak = np.where(new, np.maximum(peak, level), peak)
    over = new & (level <= 0)
    shared.null[sum_of] += null.counted(np.where(over & (peak > 0), peak, np.nan))
    shared.days[sum_of] += (new & (tracks.opened < SUSPECTED)).sum(axis=0) / a_day
    height = np.where(new, level, np.nan).astype(np.float64)
    p = null.p_values(shared.null[sum_of], shared.days[sum_of], height, *usual)
    peak = np.where(over, 0.0, peak).astype(np.float32)
    return peak, np.where(new, p, chance).astype(np.float32)


def _excursion(tracks: Tracks, hour: Hour, ended: Flags, of: Limits, now_s: float) -> None:
    """Since when a sum has been above zero, by how much on average; what is over ends."""
    above = (tracks.level > 0) | (tracks.day_level > 0)
    begun = hour.learned & above & (tracks.begun_s == 0)
    length = np.where(ended & (tracks.level <= 0), BLOCK_HOURS, 1.0) * BLOCK_S
    tracks.begun_s = np.where(begun, now_s - length, tracks.begun_s).astype(np.uint32)
    first = np.where(np.isfinite(tracks.first), tracks.first, tracks.base)
    shift = np.where(hour.learned, hour.mean + tracks.base - first, 0.0)
    usual = of.bad * tracks.shift / np.maximum(tracks.shifted, 1)
    calm = hour.learned & (tracks.opened > 0) & (of.bad * shift < usual / 2)
    tracks.calm = np.where(hour.learned, np.where(calm, tracks.calm + 1, 0), tracks.calm)
    counts = hour.learned & above & ~calm
    tracks.shift = (tracks.shift + np.where(counts, shift, 0.0)).astype(np.float32)
    tracks.shifted = tracks.shifted + counts
    well = hour.learned & (tracks.calm >= CALM_BLOCKS)
    for name in ("level", "day_level", "peak", "day_peak", "ringed"):
        shown = getattr(tracks, name)
        setattr(tracks, name, np.where(well, 0.0, shown).astype(shown.dtype))
    for name in ("chance", "day_chance"):
        setattr(tracks, name, np.where(well, 1.0, getattr(tracks, name)).astype(np.float32))
    over = hour.learned & (well | ~above)
    for name in ("begun_s", "shift", "shifted", "calm"):
        shown = getattr(tracks, name)
        setattr(tracks, name, np.where(over, 0, shown).astype(shown.dtype))


def _learn_shared(tracks: Tracks, shared: Shared, make: Ints, hour: Hour) -> None:
    """The pooled spread of an hour, of units that nothing is held against."""
    improbable = (tracks.chance < USUAL_P) | (tracks.day_chance < USUAL_P)
    well = hour.ready & (tracks.blocks >= LEARN) & ~improbable
    _count_spreads(shared, make, hour.case, hour.mean, well)


def _count_spreads(shared: Shared, make: Ints, which: Ints, mean: Floats, well: Flags) -> None:
    rows, m, bins = shared.spreads.shape
    row = CASES * make[:, None] + which
    cell = (row * m + np.arange(m)) * bins + robust.spread_bin(np.where(well, mean, 1.0))
    counted = np.bincount(cell[well], minlength=rows * m * bins)
    shared.spreads += counted.reshape(rows, m, bins)


def _learn_own(tracks: Tracks, hour: Hour) -> None:
    """The own baseline and spread; nothing is learned from what is odd."""
    young = tracks.blocks < LEARN
    holds = held(tracks)
    predicted = np.hypot(hour.hourly, hour.error)
    odd = (np.abs(hour.mean) > LEARN_BELOW_Z * predicted) | holds
    learns = hour.ready & ~odd
    share = np.where(tracks.blocks < YOUNG_BLOCKS, 2 / (tracks.blocks + 2), 1 / MEMORY_BLOCKS)
    base = tracks.base + share * hour.mean
    tracks.base = np.where(learns, base, tracks.base).astype(np.float32)
    tracks.blocks = np.where(learns, tracks.blocks + 1, tracks.blocks).astype(np.float32)
    settled = hour.ready & ~young & ~holds
    keep = 1 - 1 / MEMORY_BLOCKS
    own = np.sqrt((OWN_FREEDOM + tracks.squares) / (OWN_FREEDOM + tracks.freedom))
    square = np.minimum((hour.mean / hour.hourly * own) ** 2, 9.0)
    squares = np.where(settled, keep * tracks.squares + square, tracks.squares)
    freedom = np.where(settled, keep * tracks.freedom + 1, tracks.freedom)
    tracks.squares, tracks.freedom = squares.astype(np.float32), freedom.astype(np.float32)


def kept_share(seconds: float) -> float:
    """What the fleet showed counts for less as time goes by: half after 14 days."""
    return float(0.5 ** (seconds / HALF_LIFE_S))
