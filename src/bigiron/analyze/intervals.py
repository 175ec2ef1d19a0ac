"""95 % intervals of shares and rates, and percentiles in which a miss counts as never.

* Shares: Wilson's score interval (E. B. Wilson, JASA 22, 1927), sound for small n and near 0 or 1.
* Rates and ratios over a fleet: a bootstrap that draws whole nodes, since what one node raises is
  not independent (B. Efron and R. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 8).
* A rate of which nothing was seen: the exact Poisson bound, -ln(0.025) over the exposure.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

Z95 = 1.959964
DRAWS = 1000
SEED = 20_260_301
"""Of the bootstrap's draws: the same input gives the same interval."""

NOTHING_SEEN = -math.log(0.025)


class Share(msgspec.Struct, frozen=True):
    """``hits`` of ``n``, its value and 95 % interval; all None where n is 0."""

    hits: int
    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


class Rate(msgspec.Struct, frozen=True):
    """``count`` within ``exposure``, per ``per`` of it, with its interval; None without any."""

    count: int
    exposure: float
    value: float | None = None
    low: float | None = None
    high: float | None = None


class Percentiles(msgspec.Struct, frozen=True):
    """Percentiles of ``n`` values; None where the percentile falls on a miss."""

    n: int
    p10: float | None = None
    p50: float | None = None
    p90: float | None = None


def share(hits: int, n: int) -> Share:
    """The share with Wilson's interval."""
    if n == 0:
        return Share(hits, n)
    p, z2 = hits / n, Z95 * Z95
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return Share(hits, n, p, max(0.0, middle - half), min(1.0, middle + half))


def rate(counts: Sequence[int], exposures: Sequence[float], per: float = 1000.0) -> Rate:
    """A rate over blocks (nodes): ``counts[i]`` within ``exposures[i]``, per ``per`` exposure."""
    total, exposure = sum(counts), sum(exposures)
    if exposure <= 0:
        return Rate(total, exposure)
    if total == 0:
        return Rate(0, exposure, 0.0, 0.0, per * NOTHING_SEEN / exposure)
    low, high = _drawn(counts, exposures)
    return Rate(total, exposure, per * total / exposure, per * low, per * high)


def ratio(hits: Sequence[int], of: Sequence[int]) -> Share:
    """A share whose cases come in blocks (nodes): ``hits[i]`` of ``of[i]``.

    The wider of the bootstrap's and Wilson's interval: where all cases agree the first
    has no width.
    """
    n = sum(of)
    if n == 0:
        return Share(sum(hits), n)
    low, high = _drawn(hits, of)
    alone = share(sum(hits), n)
    low, high = min(low, alone.low or 0.0), max(high, alone.high or 0.0)
    return Share(sum(hits), n, alone.value, low, high)


def percentiles(values: Sequence[float], *, missing: float | None = None) -> Percentiles:
    """p10, p50 and p90 by the nearest rank; an infinite one is told as ``missing``."""
    if not values:
        return Percentiles(0)
    ranked = sorted(values)

    def at(share_below: float) -> float | None:
        value = ranked[max(0, math.ceil(share_below * len(ranked)) - 1)]
        return value if math.isfinite(value) else missing

    return Percentiles(len(ranked), at(0.1), at(0.5), at(0.9))


def _drawn(tops: Sequence[float], bottoms: Sequence[float]) -> tuple[float, float]:
    """2.5 and 97.5 percentiles of sum(tops) / sum(bottoms) over draws of whole blocks."""
    import numpy as np

    top, bottom = np.asarray(tops, float), np.asarray(bottoms, float)
    blocks = len(top)
    draws: NDArray[float64] = np.empty((DRAWS, 2))
    rng = np.random.default_rng(SEED)
    for i in range(DRAWS):
        times = np.bincount(rng.integers(0, blocks, blocks), minlength=blocks)
        draws[i] = times @ top, times @ bottom
    whole = draws[draws[:, 1] > 0]
    values = whole[:, 0] / whole[:, 1]
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))
