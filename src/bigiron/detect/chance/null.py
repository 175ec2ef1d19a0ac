"""How often a healthy fleet shows so much: empirical nulls with an exponential tail.

A statistic that is accumulated against a negative drift has a tail that falls exponentially
(Lundberg), also where its steps are correlated or heavy-tailed. So the body of the null is what
the fleet itself showed (a conformal p-value), and beyond its 1 % point the fall between the
10 % and the 1 % point goes on. A fleet with much history moves both points outwards.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BINS, WIDTH = 256, 0.25
"""Bins of the null's histogram: 0 to 64 in quarters; the last holds all above."""

PRIOR_COUNT = 400.0
PRIOR_ABOVE_ZERO = 0.3
PRIOR_FALL = 1.5
"""Before a fleet has a history of its own: an accumulated sum is above zero in 3 of 10 blocks and
falls to 1/e every 1.5. Siegmund's formula gives 0.5 to 1 for independent normal steps at the
allowances used here; heavy tails and slow wander are why it is taken wider."""


def prior() -> Floats:
    """The counts (BINS,) that stand for a history a fleet has not had yet."""
    edges = np.arange(BINS) * WIDTH
    above = PRIOR_ABOVE_ZERO * (np.exp(-edges / PRIOR_FALL) - np.exp(-(edges + WIDTH) / PRIOR_FALL))
    above[0] += 1 - PRIOR_ABOVE_ZERO
    return np.asarray(PRIOR_COUNT * above)


def counted(statistics: Floats) -> Floats:
    """A histogram (m, BINS) of statistics (n, m); NaN is left out."""
    m = statistics.shape[1]
    usable = np.isfinite(statistics)
    bins = np.minimum(statistics[usable] / WIDTH, BINS - 1).astype(np.int64)
    cell = np.broadcast_to(np.arange(m) * BINS, statistics.shape)[usable] + bins
    return np.bincount(cell, minlength=m * BINS).reshape(m, BINS).astype(np.float64)


def p_values(null: Floats, statistics: Floats) -> Floats:
    """The chance that a healthy unit shows as much or more, (n, m); NaN where there is none.

    ``null`` (m, BINS) counts what was seen, without the prior.
    """
    counts = null + prior()
    total = counts.sum(axis=1)
    upward = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    deep = np.clip(100.0 / total, 1e-4, 0.01)
    near = _point(upward, 10 * deep * total)
    far = _point(upward, deep * total)
    fall = np.maximum(far - near, 2 * WIDTH) / np.log(10.0)
    shown = np.where(np.isfinite(statistics), statistics, 0.0)
    bins = np.minimum(shown / WIDTH, BINS - 1).astype(np.int64)
    body = (1 + upward[np.arange(null.shape[0]), bins]) / (1 + total)
    tail = deep * np.exp(-(shown - far) / fall)
    p = np.where(shown <= far, np.maximum(body, deep), tail)
    return np.where(np.isfinite(statistics), np.minimum(p, 1.0), np.nan)


def _point(upward: Floats, count: Floats) -> Floats:
    """Where no more than ``count`` are left above, (m,), between bins' edges."""
    at = np.argmax(upward <= count[:, None], axis=1)
    at = np.where(upward[:, -1] > count, BINS - 1, at)
    rows = np.arange(upward.shape[0])
    above, below = upward[rows, at], upward[rows, np.maximum(at - 1, 0)]
    gap = np.where(below > above, below - above, 1.0)
    part = np.clip((count - above) / gap, 0.0, 1.0)
    return np.asarray((at - np.where(at > 0, part, 0.0)) * WIDTH)
