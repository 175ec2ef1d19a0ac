"""The GPUs at work for a while, side by side: what ``peers`` compares."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Columnar, Key, Window
from bigiron.detect.claims import MIN_SAMPLES
from bigiron.detect.peers import BUSY
from bigiron.detect.recent import recent, recent_of

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


class Busy(NamedTuple):
    """Busy devices, and their medians over the window's ``sustain_s``; NaN is not known."""

    keys: Sequence[Key]
    node: Rows
    like: Rows
    """Numbers of their nodes, and of their SKUs and models."""
    power_w: Floats
    temp_c: Floats
    clock_hz: Floats

    def cohorts(self) -> "list[Busy]":
        """Those of each SKU and model, in the order in which they come."""
        likes = dict.fromkeys(self.like.tolist())
        return [self.some(np.flatnonzero(self.like == like)) for like in likes]

    def some(self, rows: Rows) -> "Busy":
        """Some of them."""
        return Busy(
            [self.keys[row] for row in rows.tolist()],
            self.node[rows],
            self.like[rows],
            self.power_w[rows],
            self.temp_c[rows],
            self.clock_hz[rows],
        )

    def near(self, values: Floats, more_than: int) -> Floats:
        """For each, the median of its node's values; NaN without more than so many."""
        told = np.flatnonzero(values == values)
        order = told[np.lexsort((values[told], self.node[told]))]
        _, first, of, size = np.unique(
            self.node[order], return_index=True, return_inverse=True, return_counts=True
        )
        low, high = order[first + (size - 1) // 2], order[first + size // 2]
        middle = np.where(size > more_than, (values[low] + values[high]) / 2, np.nan)
        near = np.full(len(values), np.nan)
        near[order] = middle[of]
        return near


def busy(window: Window) -> Busy:
    """The devices at work throughout ``sustain_s``, with their medians."""
    used = window.series.get("gpu_utilization_ratio", {})
    names = used.names if isinstance(used, Columnar) else tuple(used)
    count, least, _ = _recent(window, "gpu_utilization_ratio", names)
    power_w, temp_c, clock_hz = (
        _medians(window, metric, names)
        for metric in ("gpu_power_watts", "gpu_temp_celsius", "gpu_sm_clock_hertz")
    )
    rows = np.flatnonzero((count >= MIN_SAMPLES) & (least >= BUSY) & (power_w == power_w))
    node, like = _whose(window, names)
    return Busy(names, node, like, power_w, temp_c, clock_hz).some(rows)


def _medians(window: Window, metric: str, names: tuple[Key, ...]) -> Floats:
    """The median of each subject; NaN without enough samples."""
    count, _, middle = _recent(window, metric, names)
    return np.where(count >= MIN_SAMPLES, middle, np.nan)


def _recent(window: Window, metric: str, names: tuple[Key, ...]) -> tuple[Rows, Floats, Floats]:
    """The count, the least and the median of each subject's recent samples."""
    of_metric = window.series.get(metric, {})
    if not isinstance(of_metric, Columnar):
        told = [recent(of_metric.get(key), window) for key in names]
        count = np.array([len(values) for values in told], np.intp)
        least = np.array([min(values, default=np.inf) for values in told], np.float64)
        middle = np.array([median(values) if values else np.nan for values in told], np.float64)
        return count, least, middle
    found = recent_of(of_metric, window.now.timestamp(), window.sustain_s, window.fresh_s)
    if of_metric.names is names:
        return found
    rows, here = _rows(window, metric, of_metric.names, names)
    return np.where(here, found[0][rows], 0), found[1][rows], found[2][rows]


def _rows(
    window: Window, metric: str, names: tuple[Key, ...], wanted: tuple[Key, ...]
) -> tuple[Rows, NDArray[np.bool_]]:
    """Where among the subjects of a metric those of another are, and whether they are."""

    def make() -> tuple[Rows, NDArray[np.bool_]]:
        row = {key: n for n, key in enumerate(names)}
        rows = np.array([row.get(key, -1) for key in wanted], np.intp)
        return rows, rows >= 0

    return window.memo.made(f"peers {metric}", (names, wanted), make)


def _whose(window: Window, names: tuple[Key, ...]) -> tuple[Rows, Rows]:
    """The numbers of the node, and of the SKU and model, of each subject."""
    known, changes = window.fleet, window.facts_at

    def make() -> tuple[Rows, Rows]:
        nodes: dict[str, int] = {}
        likes: dict[tuple[str, str], int] = {}
        node, like = np.empty(len(names), np.intp), np.empty(len(names), np.intp)
        for row, key in enumerate(names):
            of, part = known.nodes.get(key[0]), known.devices.get(key)
            kind = (of.sku if of else "", part.model if part else "")
            node[row] = nodes.setdefault(key[0], len(nodes))
            like[row] = likes.setdefault(kind, len(likes))
        return node, like

    version = changes.get("", 0) if changes is not None else object()
    return window.memo.made("peers", (names, known.nodes, known.devices, version), make)
