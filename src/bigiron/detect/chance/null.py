"""How often a healthy fleet shows so much: empirical nulls with an exponential tail.

A sum that is accumulated against a negative drift rises in excursions from zero, and the highest
points of its excursions have a tail that falls exponentially (Lundberg), also where steps are
correlated or heavy-tailed. So what counts is how often a day an excursion ends that rose so high:
the body is what the fleet itself showed (a conformal p-value), and beyond its far point the fall
between the near and the far point goes on. A fault under way is no excursion that ended, so a
part that is failing does not teach the fleet that failing is usual.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BINS, WIDTH = 256, 0.25
"""Bins of the null's histogram: 0 to 64 in quarters; the last holds all above."""

PRIOR_COUNT = 20.0
"""Before a fleet has a history of its own it is taken to have had so many excursions."""

PRIOR_FALL = 1.5
"""Their heights fall to 1/e every so much. Siegmund's formula gives 0.5 to 1 for sums of
independent normal steps at the allowances used here; heavy tails and slow wander are why it is
taken wider."""

FAR_COUNT = 50.0
"""The far point has about so many excursions beyond it, but at least 1 in 10,000 of all."""


def prior(fall: float = PRIOR_FALL) -> Floats:
    """The counts (BINS,) that stand for a history a fleet has not had yet."""
    edges = np.arange(BINS) * WIDTH
    falls = np.exp(-edges / fall) - np.exp(-(edges + WIDTH) / fall)
    return np.asarray(PRIOR_COUNT * falls)


def counted(heights: Floats) -> Floats:
    """A histogram (m, BINS) of excursions' heights (n, m); NaN is left out."""
    m = heights.shape[1]
    usable = np.isfinite(heights)
    bins = np.minimum(heights[usable] / WIDTH, BINS - 1).astype(np.int64)
    cell = np.broadcast_to(np.arange(m) * BINS, heights.shape)[usable] + bins
    return np.bincount(cell, minlength=m * BINS).reshape(m, BINS).astype(np.float64)


def p_values(
    null: Floats, days: Floats, heights: Floats, usual_a_day: float, fall: float = PRIOR_FALL
) -> Floats:
    """The chance that a healthy unit rises as high within a day at work, (n, m).

    ``null`` (m, BINS) counts excursions that ended and ``days`` (m,) the units' days at work they
    were seen in; ``heights`` (n, m), NaN where nothing is known. ``usual_a_day`` is how many
    excursions a unit is taken to have a day until the fleet has shown it, ``fall`` by how much
    their heights then fall to 1/e.
    """
    counts = null + prior(fall)
    total = counts.sum(axis=1)
    a_day = total / (days + PRIOR_COUNT / usual_a_day)
    upward = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    deep = np.clip(FAR_COUNT / total, 1e-4, 0.05)
    near = _point(upward, np.minimum(10 * deep, 0.5) * total)
    far = _point(upward, deep * total)
    shown_fall = np.maximum(far - near, 2 * WIDTH) / np.log(np.minimum(10 * deep, 0.5) / deep)
    p = np.where(np.isfinite(heights), 1.0, np.nan)
    row, column = np.nonzero(heights > 0)  # most rest at zero: nothing is worked out for them
    shown = heights[row, column]
    bins = np.minimum(shown / WIDTH, BINS - 1).astype(np.int64)
    body = (1 + upward[column, bins]) / (1 + total[column])
    tail = deep[column] * np.exp(-(shown - far[column]) / shown_fall[column])
    share = np.where(shown <= far[column], np.maximum(body, deep[column]), tail)
    p[row, column] = np.minimum(-np.expm1(-a_day[column] * share), 1.0)
    return p


def _point(upward: Floats, count: Floats) -> Floats:
    """Where no more than ``count`` are left above, (m,), between bins' edges."""
    at = np.argmax(upward <= count[:, None], axis=1)
    at = np.where(upward[:, -1] > count, BINS - 1, at)
    rows = np.arange(upward.shape[0])
    above, below = upward[rows, at], upward[rows, np.maximum(at - 1, 0)]
    gap = np.where(below > above, below - above, 1.0)
    part = np.clip((count - above) / gap, 0.0, 1.0)
    return np.asarray((at - np.where(at > 0, part, 0.0)) * WIDTH)
