"""Spools to Parquet, kept for some days and some bytes; and reading both.

``python -m bigiron.store.archive FOLDER KEEP NOW`` does one round in a process of its own and
prints notes as JSON: polars takes more memory than the rest of the hub.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import polars as pl

from bigiron.errors import ParseError
from bigiron.model import Note
from bigiron.store import segments, spool
from bigiron.store.segments import Keep

ROW_GROUP = 32_768
"""Rows that are read or passed over together; sorted, so a metric lies in few of them."""
MERGE_AFTER = timedelta(hours=2)
SPOOLS_TOGETHER = 8
"""Spools made into segments at once: memory for some minutes of a large fleet."""
SOURCE = "samples"
SCHEMA = pl.Schema(
    {
        "time": pl.Datetime("ms", "UTC"),
        "node": pl.String(),
        "device": pl.String(),
        "metric": pl.String(),
        "value": pl.Float64(),
    }
)
ORDER = ("metric", "node", "device", "time")


class Archive:
    """The segments in ``folder``. One process at a time works on them; any may read."""

    def __init__(self, folder: Path, keep: Keep | None = None) -> None:
        self.folder = folder
        self.keep = keep or Keep()
        self._notes: list[Note] = []

    def convert(self) -> None:
        """Make every spool into segments, and remove it."""
        found = list(spool.every(self.folder))
        for start in range(0, len(found), SPOOLS_TOGETHER):
            some = found[start : start + SPOOLS_TOGETHER]
            frames = [
                frame for stamp, path in some if (frame := self._spooled(stamp, path)) is not None
            ]
            if frames:
                self._write(pl.concat(frames), some[0][0], some[-1][0])
            for _, path in some:
                path.unlink(missing_ok=True)

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
        """What has been removed or set aside since this was last asked."""
        notes, self._notes = self._notes, []
        return notes

    def _spooled(self, stamp: int, path: Path) -> pl.DataFrame:
        """A spool's rows that no segment holds yet; none where it cannot be read."""
        try:
            return _uncovered(_frame(spool.read(path)), stamp, segments.every(self.folder))
        except ParseError as error:
            path.rename(path.with_suffix(segments.DAMAGED))
            self._notes.append(Note(str(path), f"spool set aside: {error.problem}"))
            return pl.DataFrame(schema=SCHEMA)

    def _write(self, frame: pl.DataFrame, first: int, last: int) -> None:
        hour = pl.col("time").dt.truncate("1h")
        for (start,), part in frame.group_by(hour, maintain_order=True):
            if not isinstance(start, datetime):
                raise TypeError(f"not an hour: {start!r}")
            _write(part.sort(*ORDER), segments.path_of(self.folder, start, first, last))

    def _remove_leftovers(self, now: datetime) -> None:
        for path in self.folder.glob(f"*/*{segments.UNFINISHED}"):
            path.unlink(missing_ok=True)
        oldest = now - timedelta(days=self.keep.days)
        for path in self.folder.rglob(f"*{segments.DAMAGED}"):
            if datetime.fromtimestamp(path.stat().st_mtime, UTC) < oldest:
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

    Columns time (UTC, ms), node, device, metric, value. A damaged file is passed over and named
    in a note. Only the row groups that may hold what is asked for are read.
    """
    wanted = (
        pl.col("metric").is_in(list(metrics)) & (pl.col("time") >= start) & (pl.col("time") < end)
    )
    if nodes:
        wanted &= pl.col("node").is_in(list(nodes))
    frames: list[pl.DataFrame] = [pl.DataFrame(schema=SCHEMA)]
    notes: list[Note] = []
    spools = list(spool.every(folder))  # first: one archived meanwhile is then found as segment
    found = segments.counting(folder)[0]
    for segment in found:
        if segment.ends <= start or segment.hour >= end:
            continue
        try:
            frames.append(pl.scan_parquet(segment.path).filter(wanted).collect())
        except (OSError, pl.exceptions.PolarsError):
            said = damage(segment.path) or "damaged inside"
            notes.append(Note(str(segment.path), f"segment passed over: {said}"))
    for stamp, path in spools:
        try:
            frames.append(_uncovered(_frame(spool.read(path)), stamp, found).filter(wanted))
        except FileNotFoundError:
            continue
        except ParseError as error:
            notes.append(Note(str(path), f"spool passed over: {error.problem}"))
    return pl.concat(frames).sort(*ORDER), notes


def damage(path: Path) -> str:
    """What is wrong with a segment's ends and footer, in words; "" if nothing is."""
    try:
        found = pl.read_parquet_schema(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        size = path.stat().st_size if path.exists() else 0
        said = str(error).splitlines()[0][:200]
        return f"not a whole Parquet file ({size} bytes): {said}"
    return "" if set(found) == set(SCHEMA) else f"has columns {', '.join(found)}"


def _frame(columns: spool.Columns) -> pl.DataFrame:
    times = pl.Series("time", columns.times, dtype=pl.Float64)
    series = pl.DataFrame(list(columns.series), schema=["node", "device", "metric"], orient="row")
    if not columns.series:
        return pl.DataFrame(schema=SCHEMA)
    of_row = series[pl.Series(columns.numbers, dtype=pl.UInt32)]
    return of_row.select(
        (times * 1000).round().cast(pl.Int64).cast(pl.Datetime("ms", "UTC")),
        "node",
        "device",
        "metric",
        pl.Series("value", columns.values, dtype=pl.Float64),
    )


def _uncovered(frame: pl.DataFrame, stamp: int, found: Iterable[segments.Segment]) -> pl.DataFrame:
    """The rows of the spool of ``stamp`` whose hour has no segment that stands for it."""
    done = [s.hour for s in found if s.first <= stamp <= s.last]
    return frame.filter(~pl.col("time").dt.truncate("1h").is_in(done)) if done else frame


def _write(frame: pl.DataFrame, path: Path) -> None:
    """Write beside and rename, so that a segment is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(segments.UNFINISHED)
    frame.write_parquet(part, compression="zstd", row_group_size=ROW_GROUP)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(part, path)


def main() -> None:
    """One round: spools to segments, old ones removed, small ones merged."""
    folder, keep, now = sys.argv[1:]
    archive = Archive(Path(folder), msgspec.json.decode(keep, type=Keep))
    archive.convert()
    archive.tend(datetime.fromisoformat(now))
    sys.stdout.write(msgspec.json.encode(archive.notes()).decode())


if __name__ == "__main__":
    main()
