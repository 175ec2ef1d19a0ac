"""A recording's samples as arrays, one metric at a time, for methods that look at whole series."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bigiron import signals
from bigiron.analyze.baselines import growth
from bigiron.ingest.recording import About
from bigiron.signals import Kind, Signal

Floats = NDArray[np.float64]
Key = tuple[str, str]

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Grid:
    """One metric of the whole fleet: ``values[step, stream]``, NaN where there is no sample.

    A counter is its growth within the last hour.
    """

    signal: Signal
    keys: tuple[Key, ...]
    values: Floats

    def hourly(self, per_hour: int) -> Floats:
        """Means of each hour; NaN for an hour less than half seen."""
        whole = len(self.values) // per_hour * per_hour
        blocks = self.values[:whole].reshape(-1, per_hour, self.values.shape[1])
        known = np.isfinite(blocks)
        n = known.sum(axis=1)
        total = np.where(known, blocks, 0.0).sum(axis=1)
        return np.where(2 * n >= per_hour, total / np.maximum(n, 1), np.nan)


def grids(folder: Path, about: About) -> Iterator[Grid]:
    """Every catalogued metric that is a gauge, a counter or a state, in order of its name."""
    found: dict[str, Path] = {}
    for path in sorted((folder / "samples").glob("*.parquet")):
        named = signals.find(path.stem)
        if named is not None and named[0].kind is not Kind.MASK:
            found.setdefault(named[0].name, path)
    for name in sorted(found):
        yield _grid(found[name], signals.SIGNALS[name], about)


def _grid(path: Path, signal: Signal, about: About) -> Grid:
    step_ms = about.step_s * 1000
    start_ms = about.start.timestamp() * 1000
    steps = int((about.end - about.start).total_seconds() // about.step_s) + 1
    rows = pl.read_parquet(path).drop_nulls(["time", "node", "value"])
    rows = rows.select(
        ((pl.col("time").dt.epoch("ms") - start_ms) / step_ms).round().cast(pl.Int64).alias("step"),
        pl.col("node").cast(pl.String),
        pl.col("device").cast(pl.String).fill_null(""),
        pl.col("value").cast(pl.Float64),
    ).filter(pl.col("step").is_between(0, steps - 1))
    keys = rows.select("node", "device").unique().sort("node", "device")
    keys = keys.with_columns(pl.int_range(pl.len()).alias("stream"))
    rows = rows.join(keys, on=["node", "device"])
    values = np.full((steps, keys.height), np.nan)
    values[rows["step"].to_numpy(), rows["stream"].to_numpy()] = _converted(path.stem, rows)
    if signal.kind is Kind.COUNTER:
        values = growth(values, max(1, round(HOUR_S / about.step_s)))
    return Grid(signal, tuple(keys.select("node", "device").iter_rows()), values)


def _converted(name: str, rows: pl.DataFrame) -> Floats:
    """In canonical units; blanks become NaN."""
    values = rows["value"].to_numpy().astype(np.float64)
    large = np.abs(values) >= 2e9
    if large.any():
        values = values.copy()
        values[large] = [np.nan if signals.is_blank(v) else v for v in values[large].tolist()]
    source = signals.source(name)
    if source is None:
        return values
    if source.table is not None:
        return np.array([source.convert(v) for v in values.tolist()])
    return values * source.scale


def by_machine(hourly: Mapping[str, tuple[tuple[Key, ...], Floats]], nodes: list[str]) -> Floats:
    """``[hour, node, metric]``: each node's mean over its devices."""
    place = {node: i for i, node in enumerate(nodes)}
    layers = []
    for keys, values in hourly.values():
        where = np.array([place.get(node, -1) for node, _ in keys])
        layer = np.full((len(values), len(nodes)), np.nan)
        for i in range(len(nodes)):
            mine = values[:, where == i]
            n = np.isfinite(mine).sum(axis=1)
            layer[:, i] = np.where(n > 0, np.nansum(mine, axis=1) / np.maximum(n, 1), np.nan)
        layers.append(layer)
    return np.stack(layers, axis=2)
