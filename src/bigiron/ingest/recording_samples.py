"""The samples of a recording: one Parquet file a metric, read a stretch of time at a time.

polars and numpy are imported where they are used: reading other documents must not need them.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bigiron import signals
from bigiron.errors import ParseError, Permanent
from bigiron.model import Note, Readings

if TYPE_CHECKING:
    import polars as pl

    from bigiron.ingest.recording_columns import Shared, Stretch, Subjects

COLUMNS = ("time", "node", "device", "value")
STRETCH_ROWS = 6_000_000
"""So many rows of all metrics are held at a time: about 150 MB."""

MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Left:
    """How often something was left out, and at which row it was first (from 1; 0 is not known)."""

    count: int = 0
    row: int = 0


@dataclass(slots=True)
class Metric:
    """One file: the exporter's name, what it means, and how its values are converted.

    ``starts`` is the row each stretch begins at, where the rows are in order of time; None where
    they are not, and must be picked out and sorted.
    """

    path: Path
    source: str
    name: str
    convert: signals.Source
    rows: int = 0
    starts: list[int] | None = None
    subjects: "Subjects | None" = None
    left: dict[str, Left] = field(default_factory=dict)

    def note(self, what: str, count: int, row: int = 0) -> None:
        """Count what was left out."""
        if count:
            left = self.left.setdefault(what, Left())
            left.count += count
            left.row = left.row or row


class Samples:
    """The sample files of a recording. What is left out is counted, and ``told``."""

    def __init__(self, folder: Path, label: str, stretch_rows: int = STRETCH_ROWS) -> None:
        try:
            import polars  # noqa: F401  (asked for here, where the reason can be told)
        except ImportError as error:
            raise Permanent("a recording needs polars: pip install 'bigiron[hub]'") from error
        self._label, self._stretch_rows = label, stretch_rows
        self._metrics: list[Metric] = []
        self._unknown: list[str] = []
        for path in sorted(folder.glob("*.parquet")):
            found = signals.find(path.stem)
            convert = signals.source(path.stem)
            if found is None or convert is None:
                self._unknown.append(path.name)
                continue
            _columns(path, f"{label}/{path.name}")
            self._metrics.append(Metric(path, f"{label}/{path.name}", found[0].name, convert))
        self._metrics.sort(key=lambda m: (m.name, signals.rank(m.path.stem), m.path.name))

    def steps(
        self, start: datetime, end: datetime, step_s: float, skip: int = 0
    ) -> Iterator[list[Readings]]:
        """The samples of each step: those after the step before it, up to its own time.

        The first ``skip`` steps are passed over.
        """
        from bigiron.ingest.recording_columns import Shared

        step = timedelta(seconds=step_s)
        ends = [_ms(start + i * step) for i in range(-1, int((end - start) / step) + 1)]
        each = max(1, int(self._stretch_rows * len(ends) / max(self.rows, 1)))
        stretches = [ends[i : i + each + 1] for i in range(skip, len(ends) - 1, each)]
        shared = Shared()
        for metric in self._metrics:
            _survey(metric, [limits[0] for limits in stretches], ends, shared)
        for number, limits in enumerate(stretches):
            read = [_stretch(metric, number, limits) for metric in self._metrics]
            shared.newest = None
            for i in range(len(limits) - 1):
                yield [told for one in read if one is not None for told in one.readings(i)]

    @functools.cached_property
    def rows(self) -> int:
        """The rows of all files. Raises ParseError if one cannot be read."""
        return sum(_rows(metric) for metric in self._metrics)

    def told(self) -> Iterator[Note]:
        """What was left out, counted."""
        for name in self._unknown:
            yield Note(self._label, f"{name}: a metric that is not catalogued")
        for metric in self._metrics:
            for what, left in metric.left.items():
                where = f", the first at row {left.row}" if left.row else ""
                yield Note(self._label, f"{metric.path.name}: {what}{where}", left.count)


def _columns(path: Path, source: str) -> None:
    """Raises ParseError if the file is not the Parquet table it should be."""
    import polars as pl

    try:
        schema = pl.read_parquet_schema(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ParseError(source, 0, f"not Parquet: {_first_line(error)}") from error
    missing = [name for name in COLUMNS if name not in schema]
    if missing:
        held = ", ".join(schema)
        raise ParseError(source, 0, f"no column {missing[0]!r}; it holds {held}")
    wrong = None
    if not isinstance(schema["time"], pl.Datetime):
        wrong = f"column 'time' is {schema['time']}, a timestamp is wanted"
    elif not schema["value"].is_numeric() and schema["value"] != pl.Boolean:
        wrong = f"column 'value' is {schema['value']}, a number is wanted"
    if wrong:
        raise ParseError(source, 0, wrong)


def _rows(metric: Metric) -> int:
    import polars as pl

    metric.rows = int(_collect(metric, pl.scan_parquet(metric.path).select(pl.len())).item())
    return metric.rows


def _survey(metric: Metric, begins: list[int], ends: list[int], shared: "Shared") -> None:
    """Look at a file's times once: are they in order, are any outside the recording.

    ``begins`` is when each stretch begins, ``ends`` every step and the one before the first.
    """
    import numpy as np
    import polars as pl

    from bigiron.ingest.recording_columns import Subjects

    metric.subjects = Subjects(shared)
    frame = pl.scan_parquet(metric.path).select(pl.col("time").dt.epoch("ms").alias("ms"))
    ms = _collect(metric, frame)["ms"]
    if ms.null_count():
        row = int(ms.is_null().arg_max() or 0) + 1
        metric.note("rows without a time", ms.null_count(), row)
        ms = ms.drop_nulls()
    times = ms.to_numpy()
    for what, outside in (
        ("rows from before its start", times <= ends[0]),
        ("rows from after its end", times > ends[-1]),
    ):
        count = int(np.count_nonzero(outside))
        metric.note(what, count, int(np.argmax(outside)) + 1 if count else 0)
    back = np.flatnonzero(times[1:] < times[:-1])
    if len(back):
        metric.note("rows out of order of time, sorted", len(back), int(back[0]) + 2)
    elif len(times) == metric.rows:
        metric.starts = np.searchsorted(times, [*begins, ends[-1]], side="right").tolist()


def _stretch(metric: Metric, number: int, limits: list[int]) -> "Stretch | None":
    """The rows of one stretch of time; None if there are none."""
    import numpy as np
    import polars as pl

    from bigiron.ingest.recording_columns import Stretch, converted, known_by

    frame, row = pl.scan_parquet(metric.path), 0
    if metric.starts is not None:
        first, last = metric.starts[number], metric.starts[number + 1]
        if first == last:
            return None
        frame, row = frame.slice(first, last - first), first + 1
    ms = pl.col("time").dt.epoch("ms").alias("ms")
    if not row:
        frame = frame.filter((ms > limits[0]) & (ms <= limits[-1])).sort(
            "time", maintain_order=True
        )
    device, node = pl.col("device").cast(pl.String).fill_null(""), pl.col("node").cast(pl.String)
    frame = frame.select(ms, node, device, pl.col("value").cast(pl.Float64))
    rows = _collect(metric, frame)
    if rows["node"].null_count() or rows["value"].null_count():
        whole = rows.drop_nulls()
        gone = rows.select(pl.any_horizontal(pl.all().is_null()).arg_max()).item()
        metric.note("rows without node or value", rows.height - whole.height, row and row + gone)
        rows, row = whole, 0
    subjects = metric.subjects
    if rows.is_empty() or subjects is None:
        return None
    before = len(subjects)
    numbers = subjects.numbers(rows["node"], rows["device"])
    values = converted(rows["value"].to_numpy(), metric.convert, metric.note, row)
    times = rows["ms"].to_numpy()
    starts = np.searchsorted(times, limits, side="right")
    known = known_by(numbers, starts, before)
    return Stretch(metric.name, subjects, times, numbers, values, starts, known, metric.note, row)


def _collect(metric: Metric, frame: "pl.LazyFrame") -> "pl.DataFrame":
    """Raises ParseError, naming the file, if it cannot be read to its end."""
    import polars as pl

    try:
        return frame.collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ParseError(metric.source, 0, _first_line(error)) from error


def _ms(time: datetime) -> int:
    return (time - EPOCH) // MILLISECOND


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
