"""How often a unit errs, and how far that wanders: gamma-Poisson with levels mixed over the fleet.

A unit has a level (errors an hour), and the rate of one day is the level times a gamma variable of
mean 1, so that a day's count is negative binomial about the level: healthy units have bad days. The
levels of like units are mixed on a grid of logarithms, since one gamma has too light a tail for
units whose rates lie decades apart. Everything else follows by Bayes' rule: how likely a past is
at each level, and how probable so many errors are after such a past.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LOWEST, HIGHEST, POINTS = 1e-4, 8.0, 30
"""The grid of rates, in errors an hour at work: one a year at the low end, at the high end more
than are counted (``tally.MOST_AN_HOUR``)."""

RATES = np.geomspace(LOWEST, HIGHEST, POINTS)

WANDERS = (0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 1024.0)
"""Shapes of the gamma variable of one day: from a rate that is all in a few days to one that never
moves. What the fleet shows decides between them."""

_SHAPES = 0.25 * 2.0 ** np.arange(17)
"""Several days together have the sum of their shapes; to the nearest power of two."""

_TERMS = 24
_FINE = 12


def tail(count: Floats, mean: Floats) -> Floats:
    """P(N >= count) of Poisson variables; arrays that broadcast. Slightly too high near 1."""
    n, mean = np.broadcast_arrays(count, np.maximum(mean, 1e-300))
    total = 1.0 / np.maximum(1.0 - mean / (n + _TERMS + 1), 0.02)
    for term in range(_TERMS, 0, -1):
        total = 1.0 + total * mean / (n + term)
    with np.errstate(over="ignore"):
        upper = np.exp(_log_pmf(n, mean) + np.log(total))
    return np.where(n <= 0, 1.0, np.minimum(upper, 1.0))


def pmf(count: Floats, mean: Floats) -> Floats:
    """P(N = count) of Poisson variables; arrays that broadcast, counts need not be whole."""
    return np.asarray(np.exp(_log_pmf(count, np.maximum(mean, 1e-300))))


def _log_pmf(count: Floats, mean: Floats) -> Floats:
    return np.asarray(count * np.log(mean) - mean - log_factorial(count))


def log_factorial(count: Floats) -> Floats:
    """ln n!, for any n >= 0, to 1e-9 (Stirling's series for n + 8)."""
    x = np.asarray(count, np.float64) + 8.0
    product = np.ones_like(x)
    for step in range(8):
        product = product * (x - step)
    series = (x + 0.5) * np.log(x) - x + 0.5 * np.log(2 * np.pi) + 1 / (12 * x) - 1 / (360 * x**3)
    return np.asarray(series - np.log(product))


def binomial_tail(count: Floats, of: Floats, share: Floats) -> Floats:
    """P(N >= count) of binomial variables of ``of`` trials (n,). Slightly too high near 1."""
    n, rest = np.maximum(count, 0.0), np.maximum(of - count, 0.0)
    p = np.clip(share, 1e-12, 1 - 1e-12)
    odds = p / (1 - p)
    ratio = np.maximum(rest - _TERMS, 0.0) / (n + _TERMS + 1) * odds
    total = 1.0 / np.maximum(1.0 - ratio, 0.02)
    for term in range(_TERMS, 0, -1):
        total = 1.0 + total * odds * np.maximum(rest - term + 1, 0.0) / (n + term)
    log = log_factorial(of) - log_factorial(n) - log_factorial(rest)
    log = log + n * np.log(p) + rest * np.log1p(-p) + np.log(total)
    return np.where(n <= 0, 1.0, np.exp(np.minimum(log, 0.0)))


@lru_cache(maxsize=1)
def kernels() -> Floats:
    """P(rate | level) for each of ``_SHAPES``: (shapes, levels, rates), rows sum to 1.

    All that falls below the grid is at its lowest point, which is as good as none.
    """
    step = np.log(RATES[1] / RATES[0])
    log_rate = np.log(LOWEST) + step / _FINE * np.arange(-80 * _FINE, POINTS * _FINE)
    nearest = np.clip(np.rint((log_rate - np.log(LOWEST)) / step), 0, POINTS - 1).astype(np.int64)
    found = np.zeros((_SHAPES.size, POINTS, POINTS))
    for at, shape in enumerate(_SHAPES):
        apart = log_rate - np.log(RATES)[:, None]
        log_mass = shape * (apart - np.exp(np.minimum(apart, 50.0)))
        mass = np.exp(log_mass - log_mass.max(axis=1, keepdims=True))
        for rate in range(POINTS):
            found[at, :, rate] = mass[:, nearest == rate].sum(axis=1)
    return np.asarray(found / found.sum(axis=2, keepdims=True))


def kernel_of(wander: float, days: Floats) -> Ints:
    """Which kernel holds for so many days together."""
    shape = np.log2(np.maximum(wander * np.maximum(days, 1.0), 1e-9) / _SHAPES[0])
    return np.asarray(np.clip(np.rint(shape), 0, _SHAPES.size - 1), np.int64)


def at_levels(by_rate: Floats, kernel: Ints) -> Floats:
    """What is known by rate (n, rates), by level (n, levels), for each row's kernel (n,)."""
    found = np.empty_like(by_rate)
    every = kernels()
    for one in np.unique(kernel):
        rows = kernel == one
        found[rows] = by_rate[rows] @ every[one].T
    return found


def likelihood(count: Floats, hours: Floats, days: Floats, wander: float) -> Floats:
    """How likely so many errors in so many hours and days are at each level (n, levels)."""
    by_rate = pmf(count[:, None], hours[:, None] * RATES)
    return at_levels(by_rate, kernel_of(wander, days))


def surprise(
    levels: Floats,
    wanders: Floats,
    past: tuple[Floats, Floats, Floats],
    now: tuple[Floats, Floats, Floats],
) -> tuple[Floats, Floats]:
    """The chance of so many errors or more (n,): of a unit with such a past, and of any like it.

    ``levels`` (n, levels) is the mixture each unit is drawn from, ``wanders`` (n, shapes) how
    probable each of ``WANDERS`` is; ``past`` and ``now`` are counts, hours and days, each (n,).
    """
    of_past = pmf(past[0][:, None], past[1][:, None] * RATES)
    of_now = tail(now[0][:, None], now[1][:, None] * RATES)
    own, like = np.zeros(len(levels)), np.zeros(len(levels))
    evidence = np.zeros(len(levels))
    for at, wander in enumerate(WANDERS):
        share = wanders[:, at]
        if not (share > 1e-4).any():
            continue
        known = levels * at_levels(of_past, kernel_of(wander, past[2]))
        chance = at_levels(of_now, kernel_of(wander, now[2]))
        own += share * (known * chance).sum(axis=1)
        evidence += share * known.sum(axis=1)
        like += share * (levels * chance).sum(axis=1)
    return own / np.maximum(evidence, 1e-300), like
