"""Whom a part is compared with, and what is left of it after that."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.chance.robust import grouped_median

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ENOUGH = 16
"""Smaller cohorts' medians call healthy parts odd (methods.md 0.2): the next rung is taken."""

FEWEST = 4
"""With fewer on the last rung there are no peers at all."""

MOST_SLOPE_SHARE = 3.0
"""A slope is believed up to three times what was expected, and never of the other sign."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left: ``full`` against the cohort, and the covariate's deviation that was used."""

    full: Floats
    covariate: Floats


def ladder(rungs: Sequence[Ints], usable: NDArray[np.bool_]) -> tuple[Ints, int]:
    """The cohort of each unit and stream (n, m) and how many there are.

    Each rung (n,) names groups, -1 is none. A unit takes the first rung on which at least
    ``ENOUGH`` are comparable at this moment; -1 where none is large enough.
    """
    n, m = usable.shape
    cohort = np.full((n, m), -1, np.int64)
    offset = 0
    for rung in rungs:
        count = int(rung.max(initial=-1)) + 1
        if count == 0:
            continue
        free = usable & (cohort < 0) & (rung >= 0)[:, None]
        cell = rung[:, None] + count * np.arange(m)
        size = np.bincount(cell[free], minlength=count * m)
        take = free & (size[np.where(free, cell, 0)] >= ENOUGH)
        cohort = np.where(take, rung[:, None] + offset, cohort)
        offset += count
    return cohort, offset


def residual(
    values: Floats,
    expected: Floats,
    covariates: Floats,
    slopes: Floats,
    rungs: Sequence[Ints],
    last: Ints,
) -> Rest:
    """Values less what the covariate explains, less the own baseline, less the cohort's median.

    ``values``, ``expected`` (each unit's own baseline), ``covariates`` and ``slopes`` are (n, m);
    ``rungs`` and the ``last`` rung (n,) are the ladder. NaN where there are no peers.
    """
    usable = np.isfinite(values)
    cohort, count = ladder(rungs, usable)
    final = int(last.max(initial=-1)) + 1
    alone = usable & (cohort < 0)
    joined = np.where(alone, last[:, None] + count, cohort)
    mean = _means(covariates, np.where(usable, joined, -1), count + final)
    deviation = np.where(np.isfinite(covariates), covariates, 0.0)
    centre = np.take_along_axis(mean, np.maximum(joined, 0), 0)
    deviation = np.where(np.isfinite(covariates) & usable, deviation - centre, 0.0)
    own = values - slopes * deviation - expected
    full = own - _centres(own, cohort, count)
    if alone.any():
        rest = grouped_median(own, last, final)
        size = _sizes(usable, last, final)
        centre = np.take_along_axis(
            np.where(size >= FEWEST, rest, np.nan), np.broadcast_to(last[:, None], own.shape), 0
        )
        full = np.where(alone, own - centre, full)
    return Rest(full, deviation)


def _centres(own: Floats, cohort: Ints, count: int) -> Floats:
    """Each unit's cohort's median, NaN without a cohort."""
    if count == 0:
        return np.full(own.shape, np.nan)
    medians = grouped_median(own, cohort, count)
    found = np.take_along_axis(medians, np.maximum(cohort, 0), 0)
    return np.where(cohort >= 0, found, np.nan)


def _means(values: Floats, cohort: Ints, count: int) -> Floats:
    m = values.shape[1]
    usable = np.isfinite(values) & (cohort >= 0)
    cell = (cohort + count * np.arange(m))[usable]
    size = np.bincount(cell, minlength=count * m)
    total = np.bincount(cell, weights=values[usable], minlength=count * m)
    return (total / np.maximum(size, 1)).reshape(m, count).T


def _sizes(usable: NDArray[np.bool_], groups: Ints, count: int) -> Ints:
    m = usable.shape[1]
    cell = (groups[:, None] + count * np.arange(m))[usable]
    return np.bincount(cell, minlength=count * m).reshape(m, count).T


def by_node(full: Floats, node: Ints, count: int) -> tuple[Floats, Floats]:
    """What a node's parts share (count, m) and what is each part's own (n, m).

    With one or two parts of a kind a node has no median of its own: all is the part's. With
    fewer than half of them comparable at this moment (or three), nothing can be told apart.
    """
    size = np.bincount(node, minlength=count)
    comparable = _sizes(np.isfinite(full), node, count)
    shared = grouped_median(full, node, count)
    needed = np.maximum(3, (size + 1) // 2)[:, None]
    shared = np.where(comparable >= needed, shared, np.nan)
    single = (size < 3)[:, None]
    taken = np.where(single, 0.0, shared)
    return np.where(single, np.nan, shared), full - taken[node]


def without_place(shared: Floats, place: Ints, spread: Floats) -> Floats:
    """What a node shows beyond the others of its place (cooling loop or rack).

    ``spread`` (m,) is the usual spread of a node. The place's median is taken off as far as it is
    more than chance: a small group's median would add more noise than it removes.
    """
    count = int(place.max(initial=-1)) + 1
    if count == 0:
        return shared
    median = grouped_median(shared, place, count)
    usable = np.isfinite(shared) & (place >= 0)[:, None]
    size = _sizes(usable, np.maximum(place, 0), count)
    with np.errstate(invalid="ignore", divide="ignore"):
        chance = 2.0 * 1.25 * spread / np.sqrt(size)
        common = np.sign(median) * np.maximum(np.abs(median) - chance, 0.0)
    common = np.where((size >= FEWEST) & np.isfinite(common), common, 0.0)
    taken = common[np.maximum(place, 0)]
    return np.where((place >= 0)[:, None], shared - taken, shared)


def slopes_of(sums: Floats, expected: Floats, size: float) -> Floats:
    """The slopes (g, m) that the fleet showed, held near what was expected while little is known.

    ``sums`` (g, m, 2) are products and squares; ``expected`` (m,); ``size`` is how much of
    the squares the expectation counts for.
    """
    slope = (sums[..., 0] + size * expected) / (sums[..., 1] + size)
    low = np.where(expected > 0, 0.0, MOST_SLOPE_SHARE * expected)
    high = np.where(expected < 0, 0.0, MOST_SLOPE_SHARE * expected)
    free = expected == 0
    return np.where(free, slope, np.clip(slope, low, high))
