"""The samples the hub remembers: singly as series, or side by side as columns, by metric.

numpy is imported where columns come in: a look at a file needs none.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import msgspec

from bigiron.detect import NEVER, Column, Key, Series
from bigiron.detect.state import dec_hook
from bigiron.model import Readings, Sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bigiron.hub.columns import Columns

Name = Callable[[str, str], str]
"""A node and a device as told, to the name the device is known by."""


class Kept(msgspec.Struct, frozen=True):
    """All samples: series singly, columns side by side, and those held for the next block."""

    singly: list[tuple[str, str, str, list[float], list[float]]] = []
    """Metric, node, device, times, values."""
    columns: dict[str, Any] = {}
    """By metric, as ``hub.columns.Kept``."""
    recent: list[tuple[int, Sample]] = []


class Shelf:
    """Series no longer than ``series_s`` with samples at least ``gap_s`` apart.

    ``reads`` names the metrics of which single samples are also held for the next block, the
    newest ``recent`` of them. Without ``history`` columns hold the newest samples only.
    """

    def __init__(
        self,
        series_s: float,
        gap_s: float,
        recent: int,
        reads: frozenset[str],
        history: bool = True,
    ) -> None:
        self._series_s, self._gap_s, self._reads = series_s, gap_s, reads
        self._history = history
        self._series: dict[str, dict[Key, Series]] = {}
        self._recent: deque[tuple[int, Sample]] = deque(maxlen=recent)
        self._columns: dict[str, Columns] = {}
        self._merged: dict[str, Mapping[Key, Series]] = {}
        self._layouts: dict[tuple[str, int], _Layout] = {}
        self._nodes_of: dict[int, _Nodes] = {}
        self._names = 0

    # --- in

    def add(
        self, samples: Sequence[Sample], at: datetime, serial: int, name: Name
    ) -> dict[str, float]:
        """Take single samples; the newest time, in epoch seconds, of each node they are about."""
        last: datetime | None = None
        time_s = at_s = at.timestamp()
        newest: dict[str, float] = {}
        for sample in samples:
            if sample.time is not last:
                last = sample.time
                time_s = last.timestamp() if last is not None else at_s
            node = sample.node
            device = name(node, sample.device)
            newest[node] = time_s
            of_metric = self._series.get(sample.metric)
            if of_metric is None:
                of_metric = self._series[sample.metric] = {}
                self._merged.clear()
            series = of_metric.get((node, device))
            if series is None:
                of_metric[node, device] = Series(array("d", [time_s]), array("d", [sample.value]))
            else:
                _append(series, time_s, sample.value, self._gap_s, self._series_s)
            if sample.metric in self._reads:
                renamed = sample
                if device != sample.device or sample.time is None:
                    renamed = msgspec.structs.replace(sample, device=device, time=last or at)
                self._recent.append((serial, renamed))
        return newest

    def place(self, columns: Sequence[Readings], serial: int, name: Name) -> list[dict[str, float]]:
        """Take readings side by side; the newest times, in epoch seconds, of their nodes."""
        told: dict[int, _Nodes] = {}
        for readings in columns:
            self._place(readings, serial, name)
            nodes = self._nodes(readings.keys)
            nodes.tell(readings)
            told[id(nodes)] = nodes
        return [nodes.newest() for nodes in told.values()]

    def _place(self, readings: Readings, serial: int, name: Name) -> None:
        from bigiron.hub.columns import Columns

        columns = self._columns.get(readings.metric)
        if columns is None:
            given = self._gap_s, self._series_s, self._history
            columns = self._columns[readings.metric] = Columns(*given)
            self._merged.clear()
        layout = self._layout(readings, columns, name)
        columns.take(layout.rows, readings.times, readings.values, serial)

    def _layout(self, readings: Readings, columns: "Columns", name: Name) -> "_Layout":
        """Where in the columns a reading's keys are; made anew when either changed."""
        where = readings.metric, id(readings.keys)
        layout = self._layouts.get(where)
        if layout is None or not layout.holds(readings.keys, columns.version, self._names):
            keys = tuple((node, name(node, device)) for node, device in readings.keys)
            keys = readings.keys if keys == readings.keys else keys
            rows = columns.rows(keys)
            layout = _Layout(readings.keys, rows, columns.version, self._names)
            if len(self._layouts) > 4 * len(self._columns):
                self._layouts.clear()
            self._layouts[where] = layout
        return layout

    def _nodes(self, keys: tuple[Key, ...]) -> "_Nodes":
        nodes = self._nodes_of.get(id(keys))
        if nodes is None or nodes.keys is not keys:
            if len(self._nodes_of) > 4 * len(self._columns):
                self._nodes_of.clear()
            nodes = self._nodes_of[id(keys)] = _Nodes(keys)
        return nodes

    def renamed(self, node: str, ident: str, device: str) -> None:
        """Give what came under an address, before the device was known, its name."""
        self._names += 1
        for of_metric in self._series.values():
            if (node, ident) in of_metric:
                of_metric.setdefault((node, device), of_metric.pop((node, ident)))
        for columns in self._columns.values():
            columns.rename((node, ident), (node, device))

    def drop(self, key: Key) -> None:
        """Forget all samples of a subject: another unit sits there now."""
        for of_metric in self._series.values():
            of_metric.pop(key, None)
        for columns in self._columns.values():
            columns.drop(key)

    def forget(self, node: str) -> None:
        """Drop all of a node."""
        for of_metric in self._series.values():
            for key in [key for key in of_metric if key[0] == node]:
                del of_metric[key]
        for columns in self._columns.values():
            for key in [key for key in columns.names if key[0] == node]:
                columns.drop(key)

    def prune(self, stale_s: float) -> None:
        """Forget what was not heard since a time."""
        for of_metric in self._series.values():
            for key in [k for k, s in of_metric.items() if s.times[-1] < stale_s]:
                del of_metric[key]
        for columns in self._columns.values():
            columns.prune(stale_s)

    def kept(self) -> Kept:
        """What a replay that stops writes down."""
        singly = [
            (metric, node, device, list(series.times), list(series.values))
            for metric, of_metric in self._series.items()
            for (node, device), series in of_metric.items()
        ]
        columns = {metric: columns.kept() for metric, columns in self._columns.items()}
        return Kept(singly, columns, list(self._recent))

    def restore(self, kept: Kept) -> None:
        """Hold what was written down; to be called before anything is taken."""
        for metric, node, device, times, values in kept.singly:
            series = Series(array("d", times), array("d", values))
            self._series.setdefault(metric, {})[node, device] = series
        self._recent.extend(kept.recent)
        if kept.columns:
            from bigiron.hub import columns as side

            for metric, one in kept.columns.items():
                given = self._gap_s, self._series_s, self._history
                columns = self._columns[metric] = side.Columns(*given)
                columns.restore(msgspec.convert(one, side.Kept, dec_hook=dec_hook))

    # --- out

    def series(self) -> Mapping[str, Mapping[Key, Series]]:
        """Every metric's series. Nothing is copied; valid until something is taken."""
        if not self._columns:
            return self._series
        if not self._merged:
            from bigiron.hub.columns import Both

            self._merged.update(self._series)
            for metric, columns in self._columns.items():
                singly = self._series.get(metric)
                self._merged[metric] = columns if singly is None else Both(columns, singly)
        return self._merged

    def block(self, since: int) -> dict[str, Column]:
        """The newest value of each metric and subject that came after the batch ``since``."""
        told: dict[str, Column] = {
            metric: Column(columns.names, columns.since(since))
            for metric, columns in self._columns.items()
        }
        for metric, singly in self._newest(since).items():
            both = told.get(metric)
            if both is not None:
                here = dict(zip(both.keys, both.values.tolist(), strict=True))
                singly = {k: v for k, v in here.items() if v == v} | singly
            told[metric] = _column(singly)
        return told

    def samples(self, since: int) -> Iterator[Sample]:
        """The single samples that came after the batch ``since``."""
        return (sample for serial, sample in self._recent if serial > since)

    def _newest(self, since: int) -> dict[str, dict[Key, float]]:
        newest: dict[str, dict[Key, float]] = {}
        for sample in self.samples(since):
            newest.setdefault(sample.metric, {})[sample.node, sample.device] = sample.value
        return newest


class _Layout:
    """Where the keys of a reading are, for as long as neither they nor the names change."""

    def __init__(
        self, keys: tuple[Key, ...], rows: "NDArray[np.intp]", version: int, names: int
    ) -> None:
        self.keys, self.rows = keys, rows
        self._version, self._names = version, names

    def holds(self, keys: tuple[Key, ...], version: int, names: int) -> bool:
        """Whether it is about these keys and still right."""
        return self.keys is keys and (self._version, self._names) == (version, names)


class _Nodes:
    """Which node each key of a reading is of, and when each was last told of."""

    def __init__(self, keys: tuple[Key, ...]) -> None:
        import numpy as np

        self.keys = keys
        self._names = list(dict.fromkeys(node for node, _ in keys))
        number = {node: i for i, node in enumerate(self._names)}
        self._node = np.fromiter((number[node] for node, _ in keys), np.intp, len(keys))
        begins = np.flatnonzero(np.diff(self._node, prepend=-1))
        self._begins = begins if len(begins) == len(self._names) else None
        self._times = np.full(len(self._names), -np.inf)

    def tell(self, readings: Readings) -> None:
        """Note who is told of by a reading."""
        import numpy as np

        times = np.where(readings.values == readings.values, readings.times, -np.inf)
        if self._begins is not None and len(times):
            newest = np.maximum.reduceat(times, self._begins)
            np.maximum(self._times, newest, out=self._times)
        else:
            np.maximum.at(self._times, self._node, times)

    def newest(self) -> dict[str, float]:
        """The newest sample of each node told of since the last time this was asked."""
        told = zip(self._names, self._times.tolist(), strict=True)
        self._times.fill(NEVER)
        return {node: time_s for node, time_s in told if time_s > NEVER}


def _column(newest: Mapping[Key, float]) -> Column:
    import numpy as np

    keys = tuple(newest)
    return Column(keys, np.fromiter((newest[key] for key in keys), np.float64, len(keys)))


def newest_of(told: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The newest time of each node over several readings."""
    newest: dict[str, float] = {}
    for one in told:
        for node, time_s in one.items():
            if time_s > newest.get(node, float("-inf")):
                newest[node] = time_s
    return newest


def _append(series: Series, time_s: float, value: float, gap_s: float, span_s: float) -> None:
    """Add a sample to a series; one out of order or seen before is dropped."""
    times = cast("array[float]", series.times)
    values = cast("array[float]", series.values)
    if time_s <= times[-1]:
        return
    if len(times) > 1 and times[-1] - times[-2] < gap_s:
        times[-1], values[-1] = time_s, value
        return
    times.append(time_s)
    values.append(value)
    if time_s - times[0] > 1.25 * span_s:
        old = bisect_left(times, time_s - span_s)
        del times[:old]
        del values[:old]
