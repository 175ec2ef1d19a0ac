"""Samples as they are first written: raw columns, fast, in a file that is there whole or not.

``samples/1764522000123456.spool`` was written at that epoch microsecond: a line of JSON (the
series and the number of rows), then the rows' times and values (float64) and series numbers
(uint32), in the machine's own byte order. ``archive`` turns spools into Parquet.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec

from bigiron.errors import ParseError
from bigiron.model import Batch

SUFFIX = ".spool"
UNFINISHED = ".part"


class _Header(msgspec.Struct):
    order: str
    rows: int
    series: list[tuple[str, str, str]]


@dataclass(slots=True)
class Columns:
    """Rows of samples; ``series`` has (node, device, metric) by number."""

    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    numbers: array[int] = field(default_factory=lambda: array("I"))
    series: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def add(self, batch: Batch) -> None:
        """Append a batch's samples; one without a time has its batch's."""
        series = self.series
        last: datetime | None = None
        time_s = at_s = batch.time.timestamp()
        for sample in batch.samples:
            if sample.time is not last:
                last = sample.time
                time_s = at_s if last is None else last.timestamp()
            self.times.append(time_s)
            self.values.append(sample.value)
            key = (sample.node, sample.device, sample.metric)
            self.numbers.append(series.setdefault(key, len(series)))

    def drop_half(self) -> int:
        """Forget the older half; how many rows."""
        half = len(self.times) // 2
        del self.times[:half], self.values[:half], self.numbers[:half]
        return half


def path_of(folder: Path, stamp: int) -> Path:
    """Where the spool written at ``stamp`` lies."""
    return folder / f"{stamp}{SUFFIX}"


def every(folder: Path) -> Iterator[tuple[int, Path]]:
    """(stamp, path) of every spool, oldest first."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        if path.stem.isdigit():
            yield int(path.stem), path


def write(columns: Columns, path: Path) -> None:
    """Write beside and rename. Raises OSError; then nothing is there."""
    header = _Header(sys.byteorder, len(columns.times), list(columns.series))
    part = path.with_suffix(UNFINISHED)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with part.open("wb") as file:
            file.write(msgspec.json.encode(header) + b"\n")
            for column in (columns.times, columns.values, columns.numbers):
                column.tofile(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def read(path: Path) -> Columns:
    """The rows of a spool. Raises ParseError if it is not a whole one, OSError."""
    columns = Columns()
    with path.open("rb") as file:
        try:
            header = msgspec.json.decode(file.readline(), type=_Header)
            for column in (columns.times, columns.values, columns.numbers):
                column.fromfile(file, header.rows)
        except (msgspec.DecodeError, EOFError, ValueError) as error:
            raise ParseError(str(path), 0, f"not a whole spool of samples: {error}") from error
    if header.order != sys.byteorder or max(columns.numbers, default=-1) >= len(header.series):
        raise ParseError(str(path), 0, "not a spool of samples of this machine")
    columns.series = {key: number for number, key in enumerate(header.series)}
    return columns
