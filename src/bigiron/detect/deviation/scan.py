"""Has a part's level changed for good, and when: the newest blocks against everything before them.

The means of a track's last blocks at work are kept. For several numbers of the newest, their mean
is compared with the mean of all before (the likelihood ratio of one step in the mean), in units of
what healthy parts show at that very comparison. Nothing of a change that began within the window
is in what it is compared with, so a fault is not learned away while it is being found; and how
little is known of a young past widens the comparison instead of forbidding it.

A drift so slow that every window holds some of it is seen against the commissioning baseline.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.chance import robust
from bigiron.detect.deviation.state import CASES, RING, Limits, Shared, Tracks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

WINDOWS = (1, 2, 4, 8, RING)
"""Numbers of newest blocks that are compared with all before: a quarter of a day to three days
and a half at work. Twice as many each time: a change in between is hardly seen later."""

LEAST_BEFORE = 4.0
"""Blocks of a past without which nothing is compared: a day at work."""

MOST_BEFORE = 112.0
"""The past's memory in blocks: four weeks at work. A longer one forgets too late what a part is
like after years, a shorter one follows a drift."""

LAG = 4
"""Blocks that a change may be older than it is noticed."""

COMMISSION = 8.0
"""Blocks of a past, two days at work, before the commissioning baseline is taken from it."""

UNKNOWN = 50.0
"""Until a kind's parts have shown so many comparisons, the mean of blocks is taken to be no
steadier than an hour: what holds for the hours of one long job."""

KINDS = len(WINDOWS) + 1
"""Comparisons of each track: the windows, and the newest blocks with the commissioning."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparisons (k, KINDS) of ``k`` tracks at ``row`` and ``column``: how far apart, and how
    far in units of one block's chance; NaN where there is no past for one."""

    row: Ints
    column: Ints
    shift: Floats
    scaled: Floats


def push(tracks: Tracks, ended: Flags, block: Floats, held: Flags) -> Compared:
    """New blocks (n, m) where ``ended``; what leaves the window joins the past.

    What came since something is ``held`` against a track, or shortly before, does not join it.
    Tracks are written to. Gives the comparisons of the tracks that have a new block.
    """
    row, column = np.nonzero(ended)
    at = row, column
    ring = tracks.ring[at]
    size = tracks.ringed[at].astype(np.int64)
    full = size >= RING
    run = np.where(held[at], np.minimum(tracks.run[at], 254) + 1, 0)
    tracks.run[at] = run
    _join(tracks, at, ring[:, RING - 1].astype(np.float64), full & (run + LAG <= RING))
    ring[:, 1:] = ring[:, :-1].copy()
    ring[:, 0] = block[at]
    tracks.ring[at] = ring
    size = np.minimum(size + 1, RING)
    tracks.ringed[at] = size
    return _compare(tracks, at, ring, size)


def _join(tracks: Tracks, at: tuple[Ints, Ints], oldest: Floats, joins: Flags) -> None:
    past, known = tracks.past[at].astype(np.float64), tracks.known[at].astype(np.float64)
    known = np.where(joins, np.minimum(known + 1, MOST_BEFORE), known)
    past = np.where(joins, past + (oldest - past) / np.maximum(known, 1.0), past)
    tracks.past[at], tracks.known[at] = past, known
    first = tracks.first[at]
    fresh = joins & (known >= COMMISSION) & ~np.isfinite(first)
    tracks.first[at] = np.where(fresh, past, first)


def _compare(
    tracks: Tracks, at: tuple[Ints, Ints], ring: NDArray[np.float32], size: Ints
) -> Compared:
    sums = np.cumsum(np.where(np.arange(RING) < size[:, None], ring, 0.0), axis=1, dtype=np.float64)
    whole = sums[:, -1]
    past, known = tracks.past[at].astype(np.float64), tracks.known[at].astype(np.float64)
    shift, scaled = (np.full((len(size), KINDS), np.nan) for _ in range(2))
    for k, window in enumerate(WINDOWS):
        before = known + size - window
        usable = (size >= window) & (before >= LEAST_BEFORE)
        earlier = (known * past + whole - sums[:, window - 1]) / np.maximum(before, 1.0)
        apart = sums[:, window - 1] / window - earlier
        shift[:, k] = np.where(usable, apart, np.nan)
        scaled[:, k] = shift[:, k] / np.sqrt(1 / window + 1 / np.maximum(before, 1.0))
    drifted = whole / RING - tracks.first[at]
    shift[:, -1] = scaled[:, -1] = np.where(size >= RING, drifted, np.nan)
    return Compared(*at, shift, scaled)


def heights(told: Compared, shared: Shared, make: Ints, alone: Floats, of: Limits) -> Floats:
    """The greatest comparison of each track (k,) in standard deviations, in the bad direction.

    ``alone`` (n, m) is an hour's pooled spread. Shifts that do not matter (``Limits.floor``,
    ``drift``) count nothing; NaN where nothing was compared.
    """
    m = alone.shape[1]
    kinds = np.arange(KINDS)
    rows = CASES * make[told.row][:, None] + CASES - KINDS + kinds
    cell, which = np.unique(rows * m + told.column[:, None], return_inverse=True)
    counted = shared.spreads.reshape(-1, robust.BINS)[cell]
    which = which.reshape(rows.shape)
    shown, size = robust.spread(counted)[which], counted.sum(axis=-1)[which]
    share = size / (size + UNKNOWN)
    hour = alone[told.row, told.column][:, None]
    width = np.sqrt(share * np.nan_to_num(shown) ** 2 + (1 - share) * hour**2)
    width = np.maximum(width, of.least[told.column][:, None] / 4)
    bad = of.bad[told.column][:, None]
    least = np.repeat(of.floor[told.column][:, None], KINDS, axis=1)
    least[:, -1] = of.drift[told.column]
    with np.errstate(invalid="ignore"):
        height = np.where(bad * told.shift >= least, bad * told.scaled / width, 0.0)
    height = np.where(np.isfinite(told.scaled), height, np.nan)
    known: Flags = np.asarray(np.isfinite(height).any(axis=1))
    greatest = np.where(known, np.nanmax(np.where(known[:, None], height, 0.0), axis=1), np.nan)
    return np.asarray(greatest)


def count(told: Compared, shared: Shared, make: Ints, well: Flags) -> None:
    """Add the sizes of the comparisons of tracks that are ``well`` (k,) to the kind's spreads."""
    rows, m, bins = shared.spreads.shape
    usable = np.isfinite(told.scaled) & well[:, None]
    of = CASES * make[told.row][:, None] + CASES - KINDS + np.arange(KINDS)
    size = robust.spread_bin(np.where(usable, told.scaled, 1.0))
    cell = (of * m + told.column[:, None]) * bins + size
    counted = np.bincount(cell[usable], minlength=rows * m * bins)
    shared.spreads += counted.reshape(rows, m, bins)
