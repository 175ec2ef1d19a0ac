"""Many streams, many devices, every hour: which of them are more than chance.

p-values of a device's streams are combined by Cauchy's rule, which holds under any dependence
between them (Liu and Xie 2020). Across the fleet the Benjamini-Hochberg rule decides, at a level
that follows from one budget: how many false suspects a node may raise a day.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EXCURSION_DAYS = 1.0
"""How long a chance excursion stays above a high level: what one look at it must pay for."""

GREATEST_Q = 0.1
"""At most this share of what is reported may be chance, however large the fleet."""


UNREMARKABLE = 0.9
"""p-values above this say the same: nothing."""


class Budget(msgspec.Struct, frozen=True):
    """What one detector may spend: ``share`` of what all may together."""

    share: float = 0.5

    def q(self, nodes: int, false_per_node_day: float) -> float:
        """The level for Benjamini-Hochberg over the fleet: the false suspects standing at once."""
        return min(GREATEST_Q, false_per_node_day * self.share * EXCURSION_DAYS * nodes)


def cauchy(p: Floats, weights: Floats | None = None) -> Floats:
    """One p-value a row (n,) from those of its streams (n, m); NaN where a row has none.

    ``weights`` (m,) say how much each stream counts; none: all alike. A sum that rests at zero has
    p = 1, which Cauchy's rule would let cancel any evidence: it counts as ``UNREMARKABLE``.
    """
    usable = np.isfinite(p)
    clipped = np.clip(np.where(usable, p, 0.5), 1e-300, UNREMARKABLE)
    with np.errstate(over="ignore"):
        exact = np.tan((0.5 - clipped) * np.pi)
    small = clipped < 1e-8  # tan loses its digits there; 1 / (pi p) is its limit
    terms = np.where(small, 1 / (np.pi * clipped), exact)
    counts = usable * (np.ones(p.shape[1]) if weights is None else weights)
    count = counts.sum(axis=1)
    mean = np.where(usable, terms * counts, 0.0).sum(axis=1) / np.where(count > 0, count, 1.0)
    large = mean > 1e7
    combined = np.where(large, 1 / (np.pi * np.maximum(mean, 1.0)), 0.5 - np.arctan(mean) / np.pi)
    return np.where(count > 0, combined, np.nan)


def cutoff(p: Floats, q: float) -> float:
    """The Benjamini-Hochberg cutoff of p-values (n,); NaN counts as a test that saw nothing.

    A p-value at or below it is reported. It is never below q / n, the first step of the rule.
    """
    tests = max(1, p.size)
    ordered = np.sort(p[np.isfinite(p)])
    steps = q * np.arange(1, ordered.size + 1) / tests
    passed = np.flatnonzero(ordered <= steps)
    return float(q / tests if passed.size == 0 else steps[passed[-1]])
