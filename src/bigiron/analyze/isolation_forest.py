"""An isolation forest in numpy: what is separated from the rest by few random cuts is odd.

F. Liu, K. Ting and Z. Zhou, "Isolation Forest" (ICDM 2008). A baseline, seeded: the same input
gives the same scores.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TREES, SAMPLE, SEED = 64, 256, 8
EULER = 0.5772156649


@dataclass(slots=True)
class _Tree:
    """Nodes as arrays; a leaf has ``left`` 0 and its expected depth in ``at``."""

    feature: list[int]
    at: list[float]
    left: list[int]
    right: list[int]


class IsolationForest:
    """Fitted to ``rows[case, feature]`` without NaN."""

    def __init__(self, rows: Floats) -> None:
        rng = np.random.default_rng(SEED)
        size = min(SAMPLE, len(rows))
        deepest = max(1, int(np.ceil(np.log2(max(2, size)))))
        self._usual = _depth(size)
        self._trees = []
        for _ in range(TREES):
            tree = _Tree([], [], [], [])
            sample = rows[rng.choice(len(rows), size, replace=False)]
            _grow(tree, sample, 0, deepest, rng)
            self._trees.append(tree)

    def score(self, rows: Floats) -> Floats:
        """0 to 1, odd ones above about 0.6."""
        total = np.zeros(len(rows))
        for tree in self._trees:
            total += _walk(tree, rows)
        return np.asarray(2.0 ** (-total / TREES / max(self._usual, 1e-9)), np.float64)


def _grow(tree: _Tree, rows: Floats, depth: int, deepest: int, rng: np.random.Generator) -> int:
    here = len(tree.feature)
    tree.feature.append(0)
    tree.at.append(depth + _depth(len(rows)))
    tree.left.append(0)
    tree.right.append(0)
    if depth >= deepest or len(rows) <= 1:
        return here
    low, high = rows.min(axis=0), rows.max(axis=0)
    usable = np.nonzero(high > low)[0]
    if not len(usable):
        return here
    feature = int(rng.choice(usable))
    cut = float(rng.uniform(low[feature], high[feature]))
    below = rows[:, feature] < cut
    tree.feature[here], tree.at[here] = feature, cut
    tree.left[here] = _grow(tree, rows[below], depth + 1, deepest, rng)
    tree.right[here] = _grow(tree, rows[~below], depth + 1, deepest, rng)
    return here


def _walk(tree: _Tree, rows: Floats) -> Floats:
    feature, at = np.array(tree.feature), np.array(tree.at)
    left, right = np.array(tree.left), np.array(tree.right)
    node = np.zeros(len(rows), np.int64)
    every = np.arange(len(rows))
    while True:
        inner = left[node] > 0
        if not inner.any():
            return np.asarray(at[node], np.float64)
        go_left = rows[every, feature[node]] < at[node]
        node = np.where(inner, np.where(go_left, left[node], right[node]), node)


def _depth(n: int) -> float:
    """Expected depth of an unsuccessful search in a binary tree of n."""
    if n <= 1:
        return 0.0
    return 2.0 * (np.log(n - 1) + EULER) - 2.0 * (n - 1) / n if n > 2 else 1.0
