"""The samples of a recording: one Parquet file a metric, read a stretch of time at a time.

polars is imported where it is used: reading other documents must not need it.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bigiron import signals
from bigiron.errors import ParseError, Permanent
from bigiron.model import Note, Sample

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("time", "node", "device", "value")
CHUNK_S = 6 * 3600.0
LARGE = 2e9
"""Only values this large can be an exporter's "there is none"."""


@dataclass(slots=True)
class Metric:
    """One file: the exporter's name, what it means, and how its values are converted."""

    path: Path
    source: str
    name: str
    convert: signals.Source


@dataclass(slots=True)
class Chunk:
    """One metric's rows of a stretch, by time; times in milliseconds since 1970."""

    metric: str
    times: list[int]
    nodes: list[str]
    devices: list[str]
    values: list[float]
    at: int = 0


class Samples:
    """The sample files of a recording; ``notes`` counts what was left out."""

    def __init__(self, folder: Path, label: str) -> None:
        try:
            import polars  # noqa: F401  (asked for here, where the reason can be told)
        except ImportError as error:
            raise Permanent("a recording needs polars: pip install 'bigiron[hub]'") from error
        self.notes: dict[str, int] = {}
        self._label = label
        self._metrics: list[Metric] = []
        for path in sorted(folder.glob("*.parquet")):
            found = signals.find(path.stem)
            convert = signals.source(path.stem)
            if found is None or convert is None:
                self._note(f"{path.name}: a metric that is not catalogued")
                continue
            self._columns(path)
            self._metrics.append(Metric(path, f"{label}/{path.name}", found[0].name, convert))
        self._metrics.sort(key=lambda m: (m.name, signals.rank(m.path.stem), m.path.name))

    def steps(self, start: datetime, end: datetime, step_s: float) -> Iterator[list[Sample]]:
        """The samples of each step: those after the step before it, up to its own time."""
        step = timedelta(seconds=step_s)
        steps = max(1, int(CHUNK_S / step_s))
        time = start
        after = datetime.min.replace(tzinfo=UTC, year=1970)
        while time <= end:
            last = min(time + (steps - 1) * step, end)
            chunks = [c for m in self._metrics if (c := self._chunk(m, after, last)) is not None]
            while time <= last:
                yield _until(chunks, time)
                time += step
            after = time - step

    def told(self) -> Iterator[Note]:
        """What was left out, counted."""
        for what, count in self.notes.items():
            yield Note(self._label, what, count)

    def _note(self, what: str, count: int = 1) -> None:
        if count:
            self.notes[what] = self.notes.get(what, 0) + count

    def _columns(self, path: Path) -> None:
        """Raises ParseError if the file is not the Parquet table it should be."""
        import polars as pl

        source = f"{self._label}/{path.name}"
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

    def _chunk(self, metric: Metric, after: datetime, last: datetime) -> Chunk | None:
        import polars as pl

        after_ms, last_ms = int(after.timestamp() * 1000), int(last.timestamp() * 1000)
        frame = (
            pl.scan_parquet(metric.path)
            .select(
                pl.col("time").dt.epoch("ms").alias("ms"),
                pl.col("node").cast(pl.String),
                pl.col("device").cast(pl.String).fill_null(""),
                pl.col("value").cast(pl.Float64),
            )
            .filter((pl.col("ms") > after_ms) & (pl.col("ms") <= last_ms))
        )
        try:
            rows = frame.collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise ParseError(metric.source, 0, _first_line(error)) from error
        rows = self._clean(metric, rows)
        if rows.is_empty():
            return None
        values = rows["value"].to_list()
        if metric.convert.table is not None:
            values = [metric.convert.convert(value) for value in values]
        elif metric.convert.scale != 1.0:
            scale = metric.convert.scale
            values = [value * scale for value in values]
        return Chunk(
            metric.name,
            rows["ms"].to_list(),
            rows["node"].to_list(),
            rows["device"].to_list(),
            values,
        )

    def _clean(self, metric: Metric, rows: "pl.DataFrame") -> "pl.DataFrame":
        """Rows without nulls, blanks and repetitions, in order of time; the rest is counted."""
        import polars as pl

        name = metric.path.name
        whole = rows.drop_nulls(["ms", "node", "value"]).filter(pl.col("value").is_not_nan())
        self._note(f"{name}: rows without time, node or value", rows.height - whole.height)
        large = whole.filter(pl.col("value").abs() >= LARGE)["value"].unique().to_list()
        blanks = [value for value in large if signals.is_blank(value)]
        if blanks:
            told = whole.filter(~pl.col("value").is_in(blanks))
            self._note(f'{name}: values that mean "there is none"', whole.height - told.height)
            whole = told
        if not whole["ms"].is_sorted():
            self._note(f"{name}: stretches out of order of time, sorted")
            whole = whole.sort("ms", maintain_order=True)
        once = whole.unique(["ms", "node", "device"], keep="first", maintain_order=True)
        self._note(f"{name}: rows told twice", whole.height - once.height)
        return once


def _until(chunks: list[Chunk], time: datetime) -> list[Sample]:
    """The samples of the chunks up to a time, each once."""
    limit = int(time.timestamp() * 1000)
    clock: dict[int, datetime] = {}
    samples: list[Sample] = []
    for chunk in chunks:
        first, last = chunk.at, bisect_right(chunk.times, limit, chunk.at)
        chunk.at = last
        metric = chunk.metric
        for i in range(first, last):
            ms = chunk.times[i]
            at = clock.get(ms)
            if at is None:
                at = clock[ms] = datetime.fromtimestamp(ms / 1000, UTC)
            samples.append(Sample(chunk.nodes[i], chunk.devices[i], metric, chunk.values[i], at))
    return samples


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
