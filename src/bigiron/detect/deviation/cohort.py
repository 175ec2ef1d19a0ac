"""Whom a part is compared with, and what is left of it after that.

A part is compared with the others of its node, which do the same work in the same air: what they
share is the node's, the rest its own. A node is compared with its cohort. Where parts sit in a
node, and how units differ, is in their own baselines.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.chance.robust import grouped_median

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

ENOUGH_PARTS = 16
"""Cohorts of fewer parts call healthy ones odd (methods.md 0.2): the next rung is taken."""

ENOUGH_NODES = 4
"""So do cohorts of fewer nodes, and the median of two nodes is neither's."""

FEWEST = 4
"""With fewer on the last rung there are no peers at all."""

MOST_SLOPE_SHARE = 3.0
"""A slope is believed up to three times what was expected, and never of the other sign."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left after the comparison, and the covariate's deviation that was used."""

    left: Floats
    covariate: Floats


def by_node(values: Floats, node: Ints, count: int) -> tuple[Floats, Floats]:
    """What a node's parts share (count, m) and how far each is from that (n, m).

    A node with fewer than three parts of a kind shares their mean, and nothing is a part's own.
    With fewer than half of them comparable at this moment (or three), nothing can be told apart.
    """
    size = np.bincount(node, minlength=count)
    comparable = sizes(np.isfinite(values), node, count)
    shared = grouped_median(values, node, count)
    needed = np.minimum(np.maximum(3, (size + 1) // 2), size)[:, None]
    shared = np.where(comparable >= np.maximum(needed, 1), shared, np.nan)
    return shared, values - shared[node]


def ladder(rungs: Sequence[Ints], usable: Flags, parts: Floats) -> tuple[Ints, int]:
    """The cohort of each node and stream (n, m) and how many there are.

    Each rung (n,) names groups, -1 is none. A node takes the first rung on which enough nodes,
    with enough parts between them, are comparable at this moment; -1 where none is large enough.
    ``parts`` (n,) is how many parts each node has.
    """
    n, m = usable.shape
    cohort = np.full((n, m), -1, np.int64)
    offset = 0
    for rung in rungs:
        count = int(rung.max(initial=-1)) + 1
        if count == 0:
            continue
        free = usable & (cohort < 0) & (rung >= 0)[:, None]
        cell = np.where(free, rung[:, None] + count * np.arange(m), 0)
        nodes = np.bincount(cell[free], minlength=count * m)
        weight = np.broadcast_to(parts[:, None], (n, m))[free]
        held = np.bincount(cell[free], weights=weight, minlength=count * m)
        take = free & (nodes[cell] >= ENOUGH_NODES) & (held[cell] >= ENOUGH_PARTS)
        cohort = np.where(take, rung[:, None] + offset, cohort)
        offset += count
    return cohort, offset


def against(values: Floats, rungs: Sequence[Ints], last: Ints, parts: Floats) -> Floats:
    """Each node's values less its cohort's median (n, m), NaN where there are no peers."""
    cohort, count = ladder(rungs, np.isfinite(values), parts)
    rest = values - _centres(values, cohort, count)
    if (np.isfinite(values) & (cohort < 0)).any():
        rest = np.where(cohort < 0, values - against_all(values, last), rest)
    return rest


def within(values: Floats, rung: Ints, parts: Floats) -> Floats:
    """Each node's values less the median of its group on one rung; NaN where that is too small."""
    cohort, count = ladder([rung], np.isfinite(values), parts)
    return values - _centres(values, cohort, count)


def against_all(values: Floats, group: Ints) -> Floats:
    """The median of each unit's whole group (n, m); NaN with fewer than ``FEWEST`` in it."""
    count = int(group.max(initial=0)) + 1
    medians = grouped_median(values, group, count)
    enough = sizes(np.isfinite(values), group, count) >= FEWEST
    return np.where(enough, medians, np.nan)[group]


def sensors(values: Floats, covariates: Floats, slopes: Floats, base: Floats, group: Ints) -> Rest:
    """Sensors of one name in nodes of one kind: less what load explains, own baseline, peers.

    Groups with fewer than ``FEWEST`` members are held against their own past alone.
    """
    usable = np.isfinite(values) & np.isfinite(covariates)
    count = int(group.max(initial=0)) + 1
    centre = grouped_mean(np.where(usable, covariates, np.nan), group, count)[group]
    deviation = np.where(usable, covariates - centre, 0.0)
    own = values - slopes * deviation - base
    alone = (np.bincount(group, minlength=count) < FEWEST)[group][:, None]
    return Rest(np.where(alone, own, own - against_all(own, group)), deviation)


def _centres(values: Floats, cohort: Ints, count: int) -> Floats:
    """Each unit's cohort's median, NaN without a cohort."""
    if count == 0:
        return np.full(values.shape, np.nan)
    medians = grouped_median(values, cohort, count)
    found = np.take_along_axis(medians, np.maximum(cohort, 0), 0)
    return np.where(cohort >= 0, found, np.nan)


def grouped_mean(values: Floats, group: Ints, count: int) -> Floats:
    """The mean of each group of each column (count, m), NaN where a group has no value."""
    m = values.shape[1]
    usable = np.isfinite(values)
    cell = (group[:, None] + count * np.arange(m))[usable]
    size = np.bincount(cell, minlength=count * m)
    total = np.bincount(cell, weights=values[usable], minlength=count * m)
    mean = np.where(size > 0, total / np.maximum(size, 1), np.nan)
    return mean.reshape(m, count).T


def sizes(usable: Flags, group: Ints, count: int) -> Ints:
    """How many of each group are usable, by column (count, m)."""
    m = usable.shape[1]
    cell = (group[:, None] + count * np.arange(m))[usable]
    return np.bincount(cell, minlength=count * m).reshape(m, count).T


def without_place(shared: Floats, place: Ints, spread: Floats) -> Floats:
    """What a node shows beyond the others of its place (cooling loop or rack).

    ``spread`` (m,) is the usual spread of a node. The place's median is taken off as far as it is
    more than chance: a small group's median would add more noise than it removes.
    """
    count = int(place.max(initial=-1)) + 1
    if count == 0:
        return shared
    median = grouped_median(shared, place, count)
    size = sizes(np.isfinite(shared) & (place >= 0)[:, None], np.maximum(place, 0), count)
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
