"""Samples side by side: a stretch of one metric's samples of many subjects, in two arrays.

It holds what a ``Series`` for each subject would hold, by the same rules, and gives them as such;
but taking a reading of a thousand subjects, and asking which of them are past a limit, costs
microseconds instead of milliseconds.
"""

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Columnar, Key, Series

FIRST = 4
"""So many samples a subject there is room for at first; it doubles as needed."""

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


class Kept(msgspec.Struct, frozen=True):
    """All that columns hold, row by row."""

    names: tuple[Key, ...]
    times: Floats
    values: Floats
    count: Rows
    serial: Rows
    before: Floats
    last: Floats
    newest: Floats
    oldest_s: float


class Columns(Columnar):
    """One metric: a mapping of subjects to series, with the newest of all of them as arrays.

    A subject without samples has a row but is not in the mapping. ``version`` tells whether rows
    are still where they were.
    """

    def __init__(self, gap_s: float, span_s: float, history: bool = True) -> None:
        """Without ``history`` only the newest sample of each subject is held."""
        self._history = history
        self.names: tuple[Key, ...] = ()
        self.version = 0
        self._gap_s, self._span_s = gap_s, span_s
        self._row: dict[Key, int] = {}
        self._times: Floats = np.empty((0, FIRST))
        self._values: Floats = np.empty((0, FIRST))
        self._count: Rows = np.zeros(0, np.intp)
        self._oldest_s = np.inf
        self._before: Floats = np.empty(0)
        self._last: Floats = np.empty(0)
        self._newest: Floats = np.empty(0)
        self._serial: Rows = np.zeros(0, np.intp)

    # --- in

    def rows(self, keys: tuple[Key, ...]) -> Rows:
        """The row of each key; keys not known get one."""
        new = [key for key in dict.fromkeys(keys) if key not in self._row]
        if new:
            for key in new:
                self._row[key] = len(self._row)
            self.names = keys if len(new) == len(keys) == len(self._row) else (*self.names, *new)
            self._widen(len(new))
        return np.fromiter((self._row[key] for key in keys), np.intp, len(keys))

    def take(self, rows: Rows, times: Floats, values: Floats, serial: int = 0) -> None:
        """Add a sample to each row; one out of order or seen before is dropped, NaN is none.

        ``serial`` is the number of the batch that brought them. A sample that comes while the two
        newest are closer than the gap takes the place of the newest. What is older than the span
        is let go for all rows together, a quarter of the span at a time.
        """
        last = self._last[rows]
        good = (values == values) & (times > last)
        if not good.all():
            rows, times, values, last = rows[good], times[good], values[good], last[good]
        if not len(rows):
            return
        if self._history:
            self._append(rows, times, values, last)
        else:
            self._count[rows] = 1
        self._last[rows] = times
        self._newest[rows] = values
        self._serial[rows] = serial

    def _append(self, rows: Rows, times: Floats, values: Floats, last: Floats) -> None:
        before = self._before[rows]
        close = last < before + self._gap_s
        place = self._count[rows] - close
        if int(place.max()) >= self._times.shape[1]:
            self._lengthen()
        self._times[rows, place] = times
        self._values[rows, place] = values
        self._count[rows] = place + 1
        self._before[rows] = np.where(close, before, last)
        newest_s = float(times.max())
        self._oldest_s = min(self._oldest_s, float(times.min()))
        if newest_s - self._oldest_s > 1.25 * self._span_s:
            self._trim(newest_s - self._span_s)

    def drop(self, key: Key) -> None:
        """Forget all samples of a subject."""
        row = self._row.get(key)
        if row is not None:
            self._empty(np.array([row]))

    def rename(self, old: Key, new: Key) -> None:
        """What came under one name is another's; what that one has already stays."""
        row = self._row.get(old)
        if row is None or not self._count[row]:
            return
        if new in self:
            self.drop(old)
            return
        to = self.rows((new,))
        array: NDArray[np.generic]
        for array in self._arrays():
            array[to] = array[row]
        self.drop(old)

    def prune(self, stale_s: float) -> None:
        """Forget subjects not heard since a time, and their rows once they are most of all."""
        self._empty(np.flatnonzero((self._count > 0) & (self._last < stale_s)))
        kept = np.flatnonzero(self._count)
        if len(kept) >= len(self.names) / 2:
            return
        self.version += 1
        self.names = tuple(self.names[row] for row in kept.tolist())
        self._row = {key: row for row, key in enumerate(self.names)}
        self._times, self._values = self._times[kept], self._values[kept]
        self._count, self._serial = self._count[kept], self._serial[kept]
        self._before, self._last = self._before[kept], self._last[kept]
        self._newest = self._newest[kept]

    def kept(self) -> Kept:
        """What a replay that stops writes down; the arrays are not copied."""
        return Kept(self.names, *self._arrays(), self._oldest_s)

    def restore(self, kept: Kept) -> None:
        """Hold what was written down, and nothing else."""
        self.version += 1
        self.names = kept.names
        self._row = {key: row for row, key in enumerate(kept.names)}
        self._times, self._values = kept.times, kept.values
        self._count, self._serial = kept.count, kept.serial
        self._before, self._last, self._newest = kept.before, kept.last, kept.newest
        self._oldest_s = kept.oldest_s

    def _arrays(self) -> tuple[Floats, Floats, Rows, Rows, Floats, Floats, Floats]:
        newest = self._before, self._last, self._newest
        return self._times, self._values, self._count, self._serial, *newest

    def _empty(self, rows: Rows) -> None:
        self._count[rows] = 0
        self._before[rows] = self._last[rows] = -np.inf
        self._newest[rows] = np.nan
        self._serial[rows] = 0

    def _widen(self, by: int) -> None:
        more = np.zeros((by, self._times.shape[1]))
        self._times = np.concatenate((self._times, more))
        self._values = np.concatenate((self._values, more))
        self._count = np.concatenate((self._count, np.zeros(by, np.intp)))
        self._serial = np.concatenate((self._serial, np.zeros(by, np.intp)))
        never = np.full(by, -np.inf)
        self._before = np.concatenate((self._before, never))
        self._last = np.concatenate((self._last, never))
        self._newest = np.concatenate((self._newest, np.full(by, np.nan)))

    def _lengthen(self) -> None:
        more = np.zeros_like(self._times)
        self._times = np.concatenate((self._times, more), axis=1)
        self._values = np.concatenate((self._values, more), axis=1)

    def _trim(self, oldest_s: float) -> None:
        """Let go of what is older; the rest moves to the front of its row."""
        length = self._times.shape[1]
        held = np.arange(length) < self._count[:, None]
        gone = (held & (self._times < oldest_s)).sum(axis=1)
        usual = int(np.bincount(gone).argmax())
        odd = np.flatnonzero(gone != usual)
        places = np.minimum(np.arange(length) + gone[odd, None], length - 1)
        for array in (self._times, self._values):
            kept = np.take_along_axis(array[odd], places, axis=1)
            array[:, : length - usual] = array[:, usual:]
            array[odd] = kept
        self._count -= gone
        self._oldest_s = float(self.first_times[self._count > 0].min(initial=np.inf))

    # --- out

    @property
    def last_times(self) -> Floats:
        """When each subject was last heard, -inf for one that has no samples."""
        return self._last

    @property
    def last_values(self) -> Floats:
        """The newest value of each subject, NaN for one that has no samples."""
        return self._newest

    def newest(self, key: Key) -> float | None:
        """The newest value of one subject; None if it has no samples."""
        row = self._row.get(key)
        return float(self._newest[row]) if row is not None and self._count[row] else None

    def since(self, serial: int) -> Floats:
        """The newest value of each subject that came after the batch of a number; else NaN."""
        return np.where(self._serial > serial, self._newest, np.nan)

    def recent(self, oldest_s: float) -> Floats:
        """The samples since a time, a row a subject, the newest in the last column; else NaN."""
        length = int(self._count.max(initial=0))
        recent = (self._times[:, :length] >= oldest_s) & (np.arange(length) < self._count[:, None])
        width = int(recent.sum(axis=1).max(initial=0))
        places = self._count[:, None] - np.arange(width, 0, -1)
        held = places >= 0
        places = np.where(held, places, 0)
        held &= np.take_along_axis(recent, places, axis=1)
        return np.where(held, np.take_along_axis(self._values, places, axis=1), np.nan)

    def moving(self) -> NDArray[np.bool_]:
        """Whether each subject's newest value differs from the one before it."""
        rows = np.arange(len(self._count))
        before = self._values[rows, np.maximum(self._count - 2, 0)]
        moving: NDArray[np.bool_] = (self._count > 1) & (before != self._newest)
        return moving

    @property
    def first_times(self) -> Floats:
        """The time of each subject's oldest sample held, -inf for one that has none."""
        return np.where(self._count > 0, self._times[:, 0], -np.inf)

    def __getitem__(self, key: Key) -> Series:
        row = self._row[key]
        count = int(self._count[row])
        if not count:
            raise KeyError(key)
        times, values = self._times[row, :count], self._values[row, :count]
        return Series(times.tolist(), values.tolist())

    def __contains__(self, key: object) -> bool:
        row = self._row.get(key) if isinstance(key, tuple) else None
        return row is not None and bool(self._count[row])

    def __iter__(self) -> Iterator[Key]:
        return (self.names[row] for row in np.flatnonzero(self._count).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._count))


class Both(Mapping[Key, Series]):
    """One metric that comes side by side from one source and singly from another."""

    def __init__(self, columns: Columns, singly: Mapping[Key, Series]) -> None:
        self._columns, self._singly = columns, singly

    def __getitem__(self, key: Key) -> Series:
        one, other = self._columns.get(key), self._singly.get(key)
        if one is None or other is None:
            found = one or other
            if found is None:
                raise KeyError(key)
            return found
        told = dict(zip(other.times, other.values, strict=True))
        told |= zip(one.times, one.values, strict=True)
        times = sorted(told)
        return Series(times, [told[time_s] for time_s in times])

    def __iter__(self) -> Iterator[Key]:
        yield from self._columns
        yield from (key for key in self._singly if key not in self._columns)

    def __len__(self) -> int:
        return sum(1 for _ in self)
