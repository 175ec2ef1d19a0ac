"""Each node among the other nodes of its job: their median, and the nearest that show the same."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALIKE = 0.05
"""If this share of the other nodes (one at least) shows the same, it is no node's own: a stage of
a pipeline, say."""


@dataclass(frozen=True, slots=True)
class Among:
    """All (n, m): the median of the others, how many they are, and which value the highest and
    the lowest of them reach (each but the ``ALIKE`` share of them); NaN where there is none."""

    median: Floats
    others: Ints
    high: Floats
    low: Floats


def among(values: Floats, group: Ints) -> Among:
    """``values`` (n, m), NaN is left out; ``group`` (n,) from 0."""
    median, high, low = (np.full(values.shape, np.nan) for _ in range(3))
    others = np.zeros(values.shape, np.int64)
    for column in range(values.shape[1]):
        value = values[:, column]
        rows = np.flatnonzero(np.isfinite(value))
        if not rows.size:
            continue
        order = rows[np.lexsort((value[rows], group[rows]))]
        of = group[order]
        first = np.searchsorted(of, of, "left")
        size = np.searchsorted(of, of, "right") - first
        place = np.arange(of.size) - first
        ordered = value[order]

        def other(
            rank: Ints, ordered: Floats = ordered, first: Ints = first, place: Ints = place
        ) -> Floats:
            """The others' value of a rank from below: one's own place is passed over."""
            at = first + rank + (rank >= place)
            return np.asarray(ordered[np.clip(at, 0, ordered.size - 1)])

        left = size - 1
        some = left > 0
        middle = (other((left - 1) // 2) + other(left // 2)) / 2
        alike = np.maximum(1, np.ceil(ALIKE * left)).astype(np.int64)
        median[order, column] = np.where(some, middle, np.nan)
        high[order, column] = np.where(some, other(left - alike), np.nan)
        low[order, column] = np.where(some, other(alike - 1), np.nan)
        others[order, column] = left
    return Among(median, others, high, low)
