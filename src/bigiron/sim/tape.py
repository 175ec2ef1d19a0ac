"""Samples on their way to disk: chunks go to plain files, then each metric to one Parquet file.

All metrics of a step are worked out together, but a Parquet file holds one metric in order of
time; the plain files between keep memory bounded by one chunk. Values are whole numbers of a
metric's smallest step, so four bytes hold each.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from bigiron.sim.noise import Floats

BLANK = 9_223_372_036_854_775_794.0
"""DCGM's "there is no value" of 64-bit fields."""
_BLANK, _LEAST = np.iinfo(np.int32).max, np.iinfo(np.int32).min + 1
SCHEMA = {
    "time": pl.Datetime("ms", "UTC"),
    "node": pl.String(),
    "device": pl.String(),
    "value": pl.Float64(),
}


@dataclass(frozen=True, slots=True)
class Track:
    """A metric: the exporter's name, whose it is, and the smallest step of its values."""

    metric: str
    source: str
    """dcgm (a GPU's), nic or node."""
    unit: float

    @property
    def devices(self) -> tuple[str, ...]:
        """The device names its rows carry."""
        prefix = {"dcgm": "gpu", "nic": "nic"}.get(self.source)
        return tuple(f"{prefix}{k}" for k in range(8)) if prefix else ("",)


@dataclass(slots=True)
class Tape:
    """Written chunk by chunk with ``put``, then turned into Parquet by ``close``."""

    folder: Path
    names: tuple[str, ...]
    start_ms: int
    tracks: tuple[Track, ...]
    count: int = 0
    _chunks: list[int] = field(default_factory=list)
    """Steps of each chunk."""

    def __post_init__(self) -> None:
        self._spool.mkdir(parents=True)

    @property
    def _spool(self) -> Path:
        return self.folder / ".spool"

    def put(
        self,
        times_ms: dict[str, NDArray[np.int64]],
        seen: dict[str, NDArray[np.bool_]],
        values: dict[str, Floats],
    ) -> None:
        """A chunk: by exporter (dcgm, node) the milliseconds since the start as (steps, nodes);
        by source what was scraped, and by metric its values, as (steps, nodes, devices).
        """
        first = next(iter(times_ms.values()))
        self._chunks.append(len(first))
        for name, times in times_ms.items():
            self._append(f"time.{name}", times.astype(np.int64))
        for name, mask in seen.items():
            self._append(f"seen.{name}", mask)
        for track in self.tracks:
            value = values[track.metric]
            code = np.clip(np.rint(value / track.unit), _LEAST, _BLANK - 1)
            self._append(track.metric, np.where(value >= BLANK, _BLANK, code).astype(np.int32))

    def close(self) -> int:
        """Writes the Parquet files and removes the plain ones; the number of samples."""
        for track in self.tracks:
            path = self.folder / f"{track.metric}.parquet"
            source = register_io_source(self._source(track), schema=SCHEMA)
            source.sink_parquet(path, row_group_size=1 << 20)
        shutil.rmtree(self._spool)
        return self.count

    def _append(self, name: str, array: NDArray[np.generic]) -> None:
        with (self._spool / name).open("ab") as file:
            file.write(np.ascontiguousarray(array).tobytes())

    def _source(self, track: Track):  # type: ignore[no-untyped-def]  # polars' own signature
        def frames(
            columns: list[str] | None,
            predicate: pl.Expr | None,
            rows: int | None,
            batch: int | None,
        ) -> Iterator[pl.DataFrame]:
            del columns, predicate, rows, batch  # all of it is wanted, as it comes
            yield from self._frames(track)

        return frames

    def _frames(self, track: Track) -> Iterator[pl.DataFrame]:
        exporter = "dcgm" if track.source == "dcgm" else "node"
        nodes, width = len(self.names), len(track.devices)
        names, devices = pl.Series(self.names), pl.Series(track.devices)
        with (
            (self._spool / f"time.{exporter}").open("rb") as time_file,
            (self._spool / f"seen.{track.source}").open("rb") as seen_file,
            (self._spool / track.metric).open("rb") as value_file,
        ):
            for steps in self._chunks:
                shape = (steps, nodes, width)
                times = np.fromfile(time_file, np.int64, steps * nodes).reshape(steps, nodes)
                seen = np.fromfile(seen_file, np.bool_, steps * nodes * width).reshape(shape)
                code = np.fromfile(value_file, np.int32, steps * nodes * width).reshape(shape)
                order = np.argsort(times, axis=1, kind="stable")
                row = np.arange(steps)[:, None]
                keep = np.flatnonzero(seen[row, order].reshape(-1))
                code = code[row, order].reshape(-1)[keep]
                value = np.where(code == _BLANK, BLANK, np.round(code * track.unit, 6))
                at = np.repeat(times[row, order].reshape(-1) + self.start_ms, width)[keep]
                node = np.repeat(order.reshape(-1), width)[keep]
                self.count += len(keep)
                yield pl.DataFrame(
                    {
                        "time": pl.Series(at).cast(pl.Datetime("ms", "UTC")),
                        "node": names.gather(node),
                        "device": devices.gather(keep % width),
                        "value": value,
                    }
                )
