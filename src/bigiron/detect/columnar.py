"""The samples of one metric, by subject: one series each, or all newest values as arrays.

numpy is imported where it is used: what reads a single document must not need it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Key = tuple[str, str]
"""Node and device name ("" is the node itself)."""


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one subject: epoch seconds and values, oldest first, equally long."""

    times: Sequence[float]
    values: Sequence[float]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.values[-1]


NEVER = float("-inf")


class Columnar(Mapping[Key, Series], ABC):
    """The series of one metric where they are kept side by side: all newest values as arrays.

    Row i of each array is about ``names[i]``; a subject without samples has a row, but is not in
    the mapping. For detectors that look at thousands of subjects; the mapping does for the rest.
    """

    names: tuple[Key, ...]
    _nodes: "tuple[tuple[Key, ...], list[str], NDArray[np.intp]] | None" = None
    """For which names, and what ``nodes`` gives for them."""

    @property
    @abstractmethod
    def last_times(self) -> "NDArray[np.float64]":
        """When each subject was last heard, epoch seconds; -inf if it has no samples."""

    @property
    @abstractmethod
    def last_values(self) -> "NDArray[np.float64]":
        """The newest value of each subject; NaN if it has no samples."""

    @property
    @abstractmethod
    def first_times(self) -> "NDArray[np.float64]":
        """The time of each subject's oldest sample held; -inf if it has none."""

    @abstractmethod
    def recent(self, oldest_s: float) -> "NDArray[np.float64]":
        """The samples since a time: a row a subject, newest last, NaN where there is none."""

    @abstractmethod
    def moving(self) -> "NDArray[np.bool_]":
        """Whether each subject's newest value differs from the one before it."""

    def newest(self, key: Key) -> float | None:
        """The newest value of one subject; None if it has no samples."""
        series = self.get(key)
        return series.last if series is not None else None

    def uneven(self, oldest_s: float) -> set[str]:
        """The nodes whose subjects heard since a time differ in their newest value."""
        import numpy as np

        fresh = np.flatnonzero(self.last_times >= oldest_s)
        nodes, node = self.nodes
        node, values = node[fresh], self.last_values[fresh]
        first = np.full(len(nodes), np.nan)
        first[node] = values
        return {nodes[one] for one in node[first[node] != values].tolist()}

    @property
    def nodes(self) -> "tuple[list[str], NDArray[np.intp]]":
        """The nodes, and for each row which of them it is about."""
        import numpy as np

        if self._nodes is None or self._nodes[0] is not self.names:
            number = {node: n for n, node in enumerate(dict.fromkeys(n for n, _ in self.names))}
            node = np.fromiter((number[n] for n, _ in self.names), np.intp, len(self.names))
            self._nodes = self.names, list(number), node
        return self._nodes[1:]

    def where(self, oldest_s: float, test: Callable[[float], bool]) -> list[Key]:
        """The subjects heard since a time whose newest value passes a test, in order."""
        import numpy as np

        fresh = np.flatnonzero(self.last_times >= oldest_s)
        told, which = np.unique(self.last_values[fresh], return_inverse=True)
        passes = np.fromiter(map(test, told.tolist()), np.bool_, len(told))
        if not passes.any():
            return []
        return [self.names[row] for row in fresh[passes[which]].tolist()]
