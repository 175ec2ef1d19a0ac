"""Medians of groups and pooled spreads, without a loop over devices."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SPAN = 64.0
"""Values are told apart from their group's number within this span: see ``grouped_median``."""

MAD_TO_SD = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""

BINS, PER_OCTAVE, LOWEST = 128, 4, 2.0**-20
"""Bins of ``spread_bin``: four an octave, from 1e-6 to 4e3."""


def grouped_median(values: Floats, groups: Ints, count: int) -> Floats:
    """The median of each group of each column.

    ``values`` (n, m) within ±31, NaN is left out; ``groups`` (n,) or (n, m) from 0 to count - 1,
    negative is left out. Gives (count, m), NaN where a group has no value.

    Values are sorted once, as group number times a span plus value: a sort of plain numbers is
    many times faster than one by two keys.
    """
    n, m = values.shape
    groups = np.broadcast_to(groups[:, None] if groups.ndim == 1 else groups, (n, m))
    usable = np.isfinite(values) & (groups >= 0)
    cell = (groups + count * np.arange(m))[usable]
    half = SPAN / 2 - 1
    sortable = np.clip(values[usable], -half, half) + SPAN * cell
    sortable.sort()
    size = np.bincount(cell, minlength=count * m)
    first = np.concatenate(([0], np.cumsum(size)[:-1]))
    some = size > 0
    median = np.full(count * m, np.nan)
    low = first[some] + (size[some] - 1) // 2
    high = first[some] + size[some] // 2
    middle = (sortable[low] + sortable[high]) / 2
    median[some] = middle - SPAN * np.flatnonzero(some)
    return median.reshape(m, count).T


def spread_bin(deviations: Floats) -> Ints:
    """The bin of each deviation's size on a logarithmic scale."""
    with np.errstate(divide="ignore"):
        octave = np.log2(np.abs(deviations) / LOWEST)
    return np.asarray(np.clip(octave * PER_OCTAVE, 0, BINS - 1), np.int64)


def spread(histogram: Floats) -> Floats:
    """The robust standard deviation of what was counted: 1.4826 times the median of the sizes.

    ``histogram`` (..., BINS) by ``spread_bin``; NaN where nothing was counted.
    """
    return MAD_TO_SD * size_at(histogram, 0.5)


def size_at(histogram: Floats, share: float) -> Floats:
    """The size that a share of what was counted does not exceed; NaN where nothing was."""
    found = np.full(histogram.shape[:-1], np.nan)
    total = histogram.sum(axis=-1)
    some = total > 0  # most kinds of parts have none of most streams
    counted = histogram[some]
    below = np.cumsum(counted, axis=-1)
    wanted = share * total[some]
    at = np.argmax(below >= wanted[:, None], axis=-1)
    row = np.arange(len(counted))
    count = counted[row, at]
    before = below[row, at] - count
    part = np.where(count > 0, (wanted - before) / np.where(count > 0, count, 1.0), 0.5)
    found[some] = LOWEST * 2.0 ** ((at + part) / PER_OCTAVE)
    return found
