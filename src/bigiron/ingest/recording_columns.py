"""One stretch of one metric's rows, and the readings of each step in it.

Rows become arrays once: who they are about is a number, values are in the signal's unit. numpy
and polars come with it; only recordings are read so.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bigiron import signals
from bigiron.model import Readings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Noted = Callable[[str, int, int], None]
"""Takes what was left out, how often, and the first row it was (from 1, 0 if not known)."""

LARGE = 2e9
"""Only values this large can be an exporter's "there is none"."""

THERE_IS_NONE = 'values that mean "there is none"'


Keys = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Told:
    """Whom a stretch of rows is about: their nodes and devices, and the number of each row's key.

    ``before`` and ``after`` are the keys that had a number before and after it was read.
    """

    nodes: pl.Series
    devices: pl.Series
    numbers: Ints
    before: Keys
    after: Keys

    def about(self, nodes: pl.Series, devices: pl.Series) -> bool:
        """Whether other rows are about the same, row by row."""
        return nodes.equals(self.nodes) and devices.equals(self.devices)


@dataclass(slots=True)
class Shared:
    """What the metrics of a recording have in common: most are told of the same subjects at once.

    ``keys`` holds every tuple of keys given out, so that metrics of the same subjects share one;
    ``newest`` is whom the rows that were read last are about.
    """

    keys: dict[Keys, Keys] = field(default_factory=dict)
    newest: Told | None = None


class Subjects:
    """The node and device of each key number of a metric, in the order they are first read in."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._number: dict[tuple[str, str], int] = {}
        self._first: dict[int, Keys] = {}

    def __len__(self) -> int:
        return len(self._number)

    def first(self, count: int) -> Keys:
        """The first ``count`` of them."""
        keys = self._first.get(count)
        if keys is None:
            keys = tuple(itertools.islice(self._number, count))
            keys = self._shared.keys.setdefault(keys, keys)
            self._first = {count: keys}
        return keys

    def numbers(self, nodes: pl.Series, devices: pl.Series) -> Ints:
        """The key number of each row, from its node and device.

        They are those of the rows read last if these are about the same.
        """
        before, last = self.first(len(self)), self._shared.newest
        if last is not None and last.before is before and last.about(nodes, devices):
            self._number.update((key, number) for number, key in enumerate(last.after))
            return last.numbers
        numbers = self._numbered(nodes, devices)
        self._shared.newest = Told(nodes, devices, numbers, before, self.first(len(self)))
        return numbers

    def _numbered(self, nodes: pl.Series, devices: pl.Series) -> Ints:
        node, node_names = _coded(nodes)
        device, device_names = _coded(devices)
        pair = node * len(device_names) + device
        first = np.full(len(node_names) * len(device_names), -1, np.int64)
        first[pair[::-1]] = np.arange(len(pair))[::-1]
        number = np.full(len(first), -1, np.int64)
        held = np.flatnonzero(first >= 0)
        for code in held[np.argsort(first[held])].tolist():
            of_node, of_device = divmod(code, len(device_names))
            number[code] = self._of(node_names[of_node], device_names[of_device])
        numbers: Ints = number[pair]
        return numbers

    def _of(self, node: str, device: str) -> int:
        return self._number.setdefault((node, device), len(self._number))


def _coded(column: pl.Series) -> tuple[Ints, list[str]]:
    """A column of text as dense codes and the text of each."""
    column = column.cast(pl.Categorical)
    codes = column.to_physical().to_numpy().astype(np.int64)
    if not len(codes):
        return codes, []
    first = np.full(int(codes.max()) + 1, -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    held = np.flatnonzero(first >= 0)
    dense = np.zeros(len(first), np.int64)
    dense[held] = np.arange(len(held))
    return dense[codes], column.gather(first[held]).cast(pl.String).to_list()


@dataclass(slots=True)
class Stretch:
    """Rows by time: milliseconds since 1970, key numbers, values (NaN is none).

    ``starts`` (steps + 1,) are the row each step begins at, ``known`` (steps,) how many subjects
    have been read of by the end of each.
    """

    metric: str
    subjects: Subjects
    ms: Ints
    numbers: Ints
    values: Floats
    starts: Ints
    known: Ints
    note: Noted
    row: int
    """The row of the file that the first of these is, from 1; 0 if they were sorted."""

    def readings(self, step: int) -> Iterator[Readings]:
        """The readings of one step: one, or more where a subject was read several times in it."""
        first, last = int(self.starts[step]), int(self.starts[step + 1])
        if first == last:
            return
        ms, numbers = self.ms[first:last], self.numbers[first:last]
        values = self.values[first:last]
        keys = self.subjects.first(int(self.known[step]))
        held = np.zeros(len(keys), np.bool_)
        held[numbers] = True
        if np.count_nonzero(held) == len(numbers):
            yield self._reading(keys, ms, numbers, values)
            return
        order = np.lexsort((ms, numbers))
        ordered, at = numbers[order], ms[order]
        same = ordered[1:] == ordered[:-1]
        twice = np.concatenate(([False], same & (at[1:] == at[:-1])))
        if twice.any():
            row = first + int(order[twice].min()) + self.row if self.row else 0
            self.note("rows told twice", int(twice.sum()), row)
            order, ordered = order[~twice], ordered[~twice]
        begins = np.concatenate(([True], ordered[1:] != ordered[:-1]))
        nth = np.arange(len(ordered)) - np.flatnonzero(begins)[np.cumsum(begins) - 1]
        for n in range(int(nth.max()) + 1):
            rows = order[nth == n]
            yield self._reading(keys, ms[rows], numbers[rows], values[rows])

    def _reading(self, keys: Keys, ms: Ints, numbers: Ints, values: Floats) -> Readings:
        told = np.full(len(keys), np.nan)
        told[numbers] = values
        times = np.full(len(keys), ms[0] / 1000)
        if ms[0] != ms[-1] or ms.min() != ms.max():
            times[numbers] = ms / 1000
        return Readings(self.metric, keys, told, times)


def known_by(numbers: Ints, starts: Ints, before: int) -> Ints:
    """How many subjects have been read of by the end of each step, ``before`` of them earlier."""
    if not len(numbers):
        return np.full(len(starts) - 1, before, np.int64)
    most = np.concatenate(([before], np.maximum.accumulate(numbers) + 1))
    known: Ints = np.maximum(most[starts[1:]], before)
    return known


def converted(values: Floats, how: signals.Source, note: Noted, row: int) -> Floats:
    """Values in the signal's unit; blanks and states that nobody knows become NaN, counted."""
    _noted(note, "values that are no number", np.isnan(values), row)
    large = np.abs(values) >= LARGE
    if large.any():
        blanks = [value for value in np.unique(values[large]).tolist() if signals.is_blank(value)]
        blank = np.isin(values, blanks)
        _noted(note, THERE_IS_NONE, blank, row)
        values = np.where(blank, np.nan, values)
    if how.table is not None:
        told, which = np.unique(values, return_inverse=True)
        known = np.array([how.convert(value) for value in told.tolist()], np.float64)[which]
        _noted(note, "states that are not known", np.isnan(known) & ~np.isnan(values), row)
        return known
    return values * how.scale if how.scale != 1.0 else values


def _noted(note: Noted, what: str, which: NDArray[np.bool_], row: int) -> None:
    count = int(np.count_nonzero(which))
    if count:
        note(what, count, int(np.argmax(which)) + row if row else 0)
