"""What the fleet shows once a day: how its units' levels lie, and how far a day wanders.

Units that are alike in what is known of them are taken together, so that it costs the same for a
hundred thousand of them as for a thousand.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.rate import model

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SPREADS = (0.7, 1.2, 1.8, 2.5)
"""Spreads of the logarithm of units' levels that are thought of at first: from parts that err
within a factor of two of each other to parts decades apart, both of which are seen."""

GROUP_UNITS = 12.0
"""For how many units of a kind what all kinds show counts (methods.md 3.3: shrinkage by SKU)."""

ROUNDS = 6

SAYS = 1.0
"""One unit says at most so much, as a log-likelihood, of how far days wander, until what it said
has faded: a part that is failing must not teach that healthy ones do the same."""

ALIKE = 0.8
"""How probably a counter's days wander as those of another do."""

NEGLIGIBLE = 1e-3
"""What is less probable than this is not reckoned with."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Units taken together (c,): how many, of which group, with what numbers (means, each (c,)).

    ``of`` (n,) is where each unit went.
    """

    group: Ints
    size: Floats
    numbers: tuple[Floats, ...]
    of: Ints


PER_OCTAVE = 6
"""Numbers this close, in parts of a doubling of 1 + n, are about the same; small counts are not."""


def together(group: Ints, numbers: tuple[Floats, ...]) -> Cells:
    """Units of groups (n,) with their numbers (counts, hours, days; each (n,)), by likeness."""
    code = group.astype(np.int64)
    for of_number in numbers:
        near = np.rint(PER_OCTAVE * np.log2(1 + np.maximum(of_number, 0.0)))
        code = code * 128 + np.minimum(near, 127).astype(np.int64)
    _, first, which, size = np.unique(
        code, return_index=True, return_inverse=True, return_counts=True
    )
    means = tuple(np.bincount(which, weights=one, minlength=size.size) / size for one in numbers)
    return Cells(group[first], size.astype(np.float64), means, which)


def _shapes() -> Floats:
    """Mixtures thought of at first (s, levels): lognormal, by middle and spread."""
    log = np.log(model.RATES)
    found = [
        np.exp(-0.5 * ((log - middle) / spread) ** 2) for spread in SPREADS for middle in log[::2]
    ]
    shapes = np.array(found)
    return np.asarray(shapes / shapes.sum(axis=1, keepdims=True))


def unknown() -> Floats:
    """The mixture (levels,) of a fleet that has shown nothing."""
    return np.asarray(_shapes().mean(axis=0))


def levels(of: Cells, groups: int, wanders: Floats) -> Floats:
    """The mixture of levels of each group (groups, levels), drawn towards that of all.

    The numbers of ``of`` are counts, hours and days; ``wanders`` (shapes,) are probabilities.
    """
    likely = np.zeros((of.size.size, model.POINTS))
    for share, wander in zip(wanders, model.WANDERS, strict=True):
        if share > NEGLIGIBLE:
            count, hours, days = of.numbers
            likely += share * model.likelihood(count, hours, days, wander)
    shapes = _shapes()
    fits = of.size @ np.log(np.maximum(likely @ shapes.T, 1e-300))
    share_of = np.exp(fits - fits.max())
    common = share_of @ shapes / share_of.sum()
    found = np.tile(common, (groups, 1))
    for _ in range(ROUNDS):
        held = found[of.group] * likely
        held *= (of.size / np.maximum(held.sum(axis=1), 1e-300))[:, None]
        total = np.zeros_like(found)
        np.add.at(total, of.group, held)
        units = total.sum(axis=1, keepdims=True)
        found = (total + GROUP_UNITS * common) / (units + GROUP_UNITS)
    return found


def wandering(of: Cells, mixture: Floats) -> tuple[Floats, Floats]:
    """How much better each of ``model.WANDERS`` foretold a day than they did on average (shapes,).

    A log-likelihood; and how much of that each unit (n,) said. The numbers of ``of`` are the
    count, hours and days of the past, the count and hours of the day, and how much a unit has
    said already; ``mixture`` (groups, levels).
    """
    count, hours, days, day_count, day_hours, said = of.numbers
    of_past = model.pmf(count[:, None], hours[:, None] * model.RATES)
    of_day = model.pmf(day_count[:, None], day_hours[:, None] * model.RATES)
    found = np.empty((count.size, len(model.WANDERS)))
    for at, wander in enumerate(model.WANDERS):
        known = mixture[of.group] * model.at_levels(of_past, model.kernel_of(wander, days))
        day = model.at_levels(of_day, model.kernel_of(wander, np.ones_like(days)))
        found[:, at] = (known * day).sum(axis=1) / np.maximum(known.sum(axis=1), 1e-300)
    log = np.log(np.maximum(found, 1e-300))
    log -= log.mean(axis=1, keepdims=True)
    left = np.maximum(SAYS - said, 0.0)[:, None]
    log = np.clip(log, -left, left)
    return np.asarray(of.size @ log), np.abs(log).max(axis=1)[of.of]


def probable(log_likelihood: Floats) -> Floats:
    """The probabilities of ``model.WANDERS`` (streams, shapes) by what they foretold.

    How days wander lies in how work differs from day to day, so that what the other counters
    show is what is expected of one that has shown little.
    """
    own = _normal(log_likelihood)
    streams = len(own)
    others = (own.sum(axis=0) - own) / max(1, streams - 1)
    equal = 1 / len(model.WANDERS)
    expected = ALIKE * others + (1 - ALIKE) * equal if streams > 1 else np.full_like(own, equal)
    return _normal(log_likelihood + np.log(expected))


def _normal(log: Floats) -> Floats:
    share = np.exp(log - log.max(axis=-1, keepdims=True))
    return np.asarray(share / share.sum(axis=-1, keepdims=True))
