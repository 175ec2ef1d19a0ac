"""What was measured: Parquet segments in a folder, kept for some days and some bytes.

Samples are buffered in memory and written every ``flush_s``. A hub that is killed loses what was
buffered, at most ``flush_s`` seconds of samples: findings never rest on this store but on what
was in memory when they were made, so no finding is lost with it.
"""

from __future__ import annotations

import os
import time as clock
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bigiron.errors import Temporary
from bigiron.model import Batch, Note
from bigiron.store import segments

if TYPE_CHECKING:  # polars takes 0.2 s and 40 MB: a hub that keeps no samples does without
    import polars as pl

ROWS_MAX = 500_000
"""Samples buffered at most; past it the oldest half is dropped and counted."""
FLUSH_ROWS = 250_000
ROW_GROUP = 32_768
"""Rows that are read or passed over together; sorted, so a metric lies in few of them."""
MERGE_AFTER = timedelta(hours=2)
SOURCE = "samples"


@dataclass(slots=True)
class _Buffer:
    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    nodes: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)

    def drop_half(self) -> int:
        """Forget the older half; how many."""
        half = len(self.times) // 2
        del self.times[:half], self.values[:half]
        del self.nodes[:half], self.devices[:half], self.metrics[:half]
        return half


@dataclass(frozen=True, slots=True)
class Keep:
    """How long samples are buffered and kept."""

    flush_s: float = 60.0
    days: float = 30.0
    bytes: int = 20_000_000_000


class Samples:
    """The samples in ``folder``, for writing. One process writes them."""

    def __init__(self, folder: Path, keep: Keep = Keep()) -> None:
        self.folder = folder
        self.keep = keep
        self._buffer = _Buffer()
        self._names: dict[str, str] = {}
        self._flushed = clock.monotonic()
        self._notes: list[Note] = []
        self._stamp = 0

    @property
    def buffered(self) -> int:
        """How many samples wait to be written."""
        return len(self._buffer.times)

    def add(self, batch: Batch) -> None:
        """Buffer a batch's samples."""
        buffer, names = self._buffer, self._names
        last: datetime | None = None
        time_s = at_s = batch.time.timestamp()
        for sample in batch.samples:
            if sample.time is not last:
                last = sample.time
                time_s = at_s if last is None else last.timestamp()
            buffer.times.append(time_s)
            buffer.values.append(sample.value)
            buffer.nodes.append(names.setdefault(sample.node, sample.node))
            buffer.devices.append(names.setdefault(sample.device, sample.device))
            buffer.metrics.append(names.setdefault(sample.metric, sample.metric))
        if self.buffered > ROWS_MAX:
            dropped = buffer.drop_half()
            self._notes.append(Note(SOURCE, "samples dropped: they could not be written", dropped))

    def due(self) -> bool:
        """Whether it is time to flush."""
        late = clock.monotonic() - self._flushed >= self.keep.flush_s
        return self.buffered >= FLUSH_ROWS or (late and self.buffered > 0)

    def flush(self) -> int:
        """Write what is buffered; how many samples. Raises Temporary, and keeps them then."""
        rows = self.buffered
        self._flushed = clock.monotonic()
        if not rows:
            return 0
        import polars as pl

        frame = _frame(self._buffer)
        hour = pl.col("time").dt.truncate("1h")
        # Tried again under the same name: an hour that was written is replaced, not doubled.
        self._stamp = stamp = self._stamp or clock.time_ns() // 1000
        for (start,), part in frame.group_by(hour, maintain_order=True):
            if not isinstance(start, datetime):
                raise TypeError(f"not an hour: {start!r}")
            path = segments.path_of(self.folder, start, stamp, stamp)
            try:
                _write(part, path)
            except (OSError, pl.exceptions.PolarsError) as error:
                raise Temporary(f"{path}: cannot be written: {error}") from error
        self._buffer = _Buffer()
        self._names.clear()
        self._stamp = 0
        return rows

    def tend(self, now: datetime) -> None:
        """Remove what is too old or too much, and merge the small segments of past hours."""
        self._remove_leftovers(now)
        count, covered = segments.counting(self.folder)
        for segment in covered:
            segment.path.unlink(missing_ok=True)
        count = self._remove_old(count, now)
        by_hour: dict[datetime, list[segments.Segment]] = {}
        for segment in count:
            if segment.ends + MERGE_AFTER <= now:
                by_hour.setdefault(segment.hour, []).append(segment)
        for some in by_hour.values():
            if len(some) > 1:
                self._merge(some)

    def notes(self) -> list[Note]:
        """What has been dropped or removed since this was last asked."""
        notes, self._notes = self._notes, []
        return notes

    def _remove_leftovers(self, now: datetime) -> None:
        for path in self.folder.glob(f"*/*{segments.UNFINISHED}"):
            path.unlink(missing_ok=True)
        for path in self.folder.glob(f"*/*{segments.DAMAGED}"):
            if path.parent.name < f"{now - timedelta(days=self.keep.days):%Y-%m-%d}":
                path.unlink(missing_ok=True)

    def _set_aside(self, path: Path) -> bool:
        """Rename a segment that cannot be read, and say so; whether it was one."""
        said = damage(path)
        if said:
            path.rename(path.with_suffix(segments.DAMAGED))
            self._notes.append(Note(str(path), f"segment set aside: {said}"))
        return bool(said)

    def _remove_old(self, count: list[segments.Segment], now: datetime) -> list[segments.Segment]:
        oldest = now - timedelta(days=self.keep.days)
        sizes = {s.path: s.path.stat().st_size for s in count}
        total = sum(sizes.values())
        kept: list[segments.Segment] = []
        for segment in count:
            too_much = total > self.keep.bytes
            if segment.ends > oldest and not too_much:
                kept.append(segment)
                continue
            segment.path.unlink(missing_ok=True)
            total -= sizes[segment.path]
            if segment.ends > oldest:
                what = f"segments removed before {self.keep.days:g} days: keep_bytes is reached"
                self._notes.append(Note(SOURCE, what))
        for day in {s.path.parent for s in count} - {s.path.parent for s in kept}:
            if not any(day.iterdir()):
                day.rmdir()
        return kept

    def _merge(self, some: Sequence[segments.Segment]) -> None:
        good = [s for s in some if not self._set_aside(s.path)]
        if len(good) < 2:
            return
        import polars as pl

        first, last = min(s.first for s in good), max(s.last for s in good)
        path = segments.path_of(self.folder, good[0].hour, first, last)
        part = path.with_suffix(segments.UNFINISHED)
        try:
            # Streamed in the order of the segments: an hour of a large fleet is never in memory.
            pl.scan_parquet([s.path for s in good], low_memory=True).sink_parquet(
                part, compression="zstd", row_group_size=ROW_GROUP, maintain_order=True
            )
            os.replace(part, path)
        except (OSError, pl.exceptions.PolarsError) as error:
            part.unlink(missing_ok=True)
            self._notes.append(Note(SOURCE, f"{path}: not merged: {error}"))
            return
        for segment in good:
            if segment.path != path:
                segment.path.unlink(missing_ok=True)


def read(
    folder: Path,
    metrics: Sequence[str],
    start: datetime,
    end: datetime,
    nodes: Sequence[str] = (),
) -> tuple[pl.DataFrame, list[Note]]:
    """Samples of some metrics from ``start`` to before ``end``, by metric, node, device, time.

    Columns time (UTC, ms), node, device, metric, value. A damaged segment is passed over and named
    in a note. Only the row groups that may hold what is asked for are read.
    """
    import polars as pl

    wanted = (
        pl.col("metric").is_in(list(metrics)) & (pl.col("time") >= start) & (pl.col("time") < end)
    )
    if nodes:
        wanted &= pl.col("node").is_in(list(nodes))
    frames: list[pl.DataFrame] = [pl.DataFrame(schema=_schema())]
    notes: list[Note] = []
    for segment in segments.counting(folder)[0]:
        if segment.ends <= start or segment.hour >= end:
            continue
        try:
            frames.append(pl.scan_parquet(segment.path).filter(wanted).collect())
        except (OSError, pl.exceptions.PolarsError):
            said = damage(segment.path) or "damaged inside"
            notes.append(Note(str(segment.path), f"segment passed over: {said}"))
    return pl.concat(frames).sort("metric", "node", "device", "time"), notes


def damage(path: Path) -> str:
    """What is wrong with a segment's ends and footer, in words; "" if nothing is."""
    import polars as pl

    try:
        found = pl.read_parquet_schema(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        size = path.stat().st_size if path.exists() else 0
        said = str(error).splitlines()[0][:200]
        return f"not a whole Parquet file ({size} bytes): {said}"
    return "" if set(found) == set(_schema()) else f"has columns {', '.join(found)}"


def _schema() -> pl.Schema:
    import polars as pl

    return pl.Schema(
        {
            "time": pl.Datetime("ms", "UTC"),
            "node": pl.String(),
            "device": pl.String(),
            "metric": pl.String(),
            "value": pl.Float64(),
        }
    )


def _frame(buffer: _Buffer) -> pl.DataFrame:
    import polars as pl

    times = pl.Series("time", buffer.times, dtype=pl.Float64)
    return pl.DataFrame(
        {
            "time": (times * 1000).round().cast(pl.Int64).cast(pl.Datetime("ms", "UTC")),
            "node": pl.Series(buffer.nodes, dtype=pl.String),
            "device": pl.Series(buffer.devices, dtype=pl.String),
            "metric": pl.Series(buffer.metrics, dtype=pl.String),
            "value": pl.Series(buffer.values, dtype=pl.Float64),
        }
    ).sort("metric", "node", "device", "time")


def _write(frame: pl.DataFrame, path: Path) -> None:
    """Write beside and rename, so that a segment is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(segments.UNFINISHED)
    try:
        frame.write_parquet(part, compression="zstd", row_group_size=ROW_GROUP)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
