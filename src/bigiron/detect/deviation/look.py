"""One look: every part's streams less what load, past and peers explain."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Block
from bigiron.detect.chance import robust
from bigiron.detect.deviation import accumulate, cohort, state
from bigiron.detect.deviation.state import GPU, SHARED, State, Table
from bigiron.detect.deviation.streams import (
    GPU_STREAMS,
    NODE_STREAMS,
    SMOOTH_S,
    Stream,
    gpu_panel,
    inlet_of,
    native_panel,
    value,
)
from bigiron.detect.hygiene import Clean, Rows
from bigiron.detect.state import carried, follow

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

BANDS = (0.5, 0.8)
"""Shares of the most power where a load band ends and the next begins."""

PRIOR_SQUARES = 1.0
"""How much sum of squares of the covariate an expected slope counts for: as much as a hundred
readings a tenth (of power, of load) away from the others'."""

FAR = 4.0
"""What differs by more spreads than this is a fault or a glitch, and no teacher of slopes."""

UNEVEN = 0.1
"""Typical difference of the power of a node's GPUs, as a share, above which they do different work.
GPUs of one kind at one work differ by 2 to 4 %."""

ASSUMED_INLET_C = 25.0
"""Where no inlet temperature is told; what a node's parts share then says nothing of heat."""

WORK = np.array([s.work for s in GPU_STREAMS])
GPU_LIMITS = state.limits(GPU_STREAMS)
HEAT = np.array([s.name.endswith("thermal_resistance") for s in GPU_STREAMS])


@dataclass(slots=True)
class Look:
    """Adds one step to the hour that runs, in ``after``; ``make`` is each row's kind of part."""

    before: State
    after: State
    block: Block
    clean: Clean
    make: dict[str, Ints]
    job: Ints = field(init=False)
    several: Flags = field(init=False)

    def run(self) -> None:
        """Every kind of part."""
        self.job, self.several = jobs(self.block, self.clean.nodes)
        load = np.full(len(self.clean.nodes), np.nan)
        share = load
        gpus = self.clean.rows.get(GPU)
        if gpus is not None:
            watts, before = self._smooth(gpus)
            load, share = self._loads(gpus, watts)
            self._gpus(gpus, watts, before)
        for kind, rows in self.clean.rows.items():
            if kind != GPU:
                self._native(kind, rows, load, share)

    def _smooth(self, rows: Rows) -> tuple[Floats, Floats]:
        """Power as a heat sink feels it, now and a step ago; NaN where it is not told."""
        after = self.after
        old = self.before.tables.get(GPU)
        index = follow(old.units, rows.units) if old is not None else None
        before = carried(after.watts, index, np.nan)
        if before.shape != (len(rows.units),):
            before = np.full(len(rows.units), np.nan)
        told = value(rows, "gpu_power_watts")
        share = 1 - np.exp(-max(self.clean.step_s, 1.0) / SMOOTH_S)
        smooth = np.where(np.isfinite(before), before + share * (told - before), told)
        after.watts = smooth
        make = self.make[GPU]
        for at in np.unique(make):
            of_make = smooth[(make == at) & np.isfinite(smooth)]
            if of_make.size:
                after.most_w[at] = max(after.most_w[at], float(np.quantile(of_make, 0.95)))
        return smooth, before

    def _loads(self, rows: Rows, watts: Floats) -> tuple[Floats, Floats]:
        """What each node's GPUs draw together: kilowatts, and as a share of the most they do.

        The share is 0 where they do not tell at this moment, NaN where there are none that tell.
        """
        count = len(self.clean.nodes)
        drawn = np.bincount(rows.node, weights=np.nan_to_num(watts), minlength=count)
        most = self.after.most_w[self.make[GPU]]
        able = np.bincount(rows.node, weights=most, minlength=count)
        told = np.bincount(rows.node, weights=np.isfinite(watts), minlength=count) > 0
        share = np.where(able > 0, np.where(told, drawn, 0.0) / np.maximum(able, 1.0), np.nan)
        return np.where(told, drawn / 1000, 0.0), share

    def _gpus(self, rows: Rows, watts: Floats, before: Floats) -> None:
        make, node, count = self.make[GPU], rows.node.astype(np.int64), len(self.clean.nodes)
        most = np.maximum(self.after.most_w[make], 1.0)
        inlet = inlet_of(self.clean.rows.values(), count)
        told = np.isfinite(inlet)
        panel = gpu_panel(rows, np.where(told, inlet, ASSUMED_INLET_C)[node], watts, before, most)
        table, parts = self.after.tables[GPU], self.after.tables[SHARED]
        slopes = slopes_of(table, GPU_STREAMS)[make]
        covariate = np.where(np.isfinite(panel.covariates), panel.covariates, 0.0)
        values = panel.values - slopes * covariate - table.tracks.base
        values[np.ix_(self.several[node] | _uneven(watts, node, count)[node], WORK)] = np.nan
        shared, own = cohort.by_node(values, node, count)
        centre = cohort.grouped_mean(np.where(np.isfinite(values), covariate, np.nan), node, count)
        learn_slopes(table, make, own, covariate - centre[node], slopes, GPU_LIMITS.least)
        with np.errstate(invalid="ignore"):
            weight = np.where(HEAT, np.minimum(watts / most, 1.0)[:, None], 1.0)
        accumulate.add(table.tracks, own * weight, panel.plain, self.several[node])
        shared -= parts.tracks.base
        shared[np.ix_(~told, HEAT)] = np.nan
        of_nodes = node_makes(node, make, count)
        held = np.bincount(node, minlength=count).astype(np.float64)
        load = cohort.grouped_mean((watts / most)[:, None], node, count)[:, 0]
        rest = cohort.against(shared, self._rungs(of_nodes, load), of_nodes, held)
        rest[:, WORK] = cohort.within(shared[:, WORK], self.job, held)
        rest *= cohort.grouped_mean(np.where(np.isfinite(values), weight, np.nan), node, count)
        rest = cohort.without_place(rest, self._places(), _spread(parts, of_nodes))
        plain = cohort.grouped_mean(panel.plain, node, count)
        accumulate.add(parts.tracks, rest, plain, self.several)

    def _rungs(self, make: Ints, load: Floats) -> list[Ints]:
        """The nodes of a job, those of one kind at about one load, those of one kind: each first
        those that run the same versions, then all."""
        band = np.digitize(np.nan_to_num(load), BANDS).astype(np.int64)
        version = np.unique(self.after.versions, return_inverse=True)[1].astype(np.int64)
        few = int(version.max(initial=0)) + 1
        of_job = np.where(self.job >= 0, self.job * few + version, -1)
        alike = make * (len(BANDS) + 1) + band
        return [of_job, self.job, alike * few + version, alike, make * few + version, make]

    def _native(self, kind: str, rows: Rows, load: Floats, share: Floats) -> None:
        panel = native_panel(rows, load[rows.node], share[rows.node])
        if panel is None:
            return
        table, make = self.after.tables[kind], self.make[kind]
        slopes = slopes_of(table, panel.streams)[make]
        base = table.tracks.base.astype(np.float64)
        rest = cohort.sensors(panel.values, panel.covariates, slopes, base, make)
        learn_slopes(
            table, make, rest.left, rest.covariate, slopes, state.limits(panel.streams).least
        )
        alone = np.zeros(len(rows.units), bool)
        accumulate.add(table.tracks, rest.left, panel.plain, alone)

    def _places(self) -> Ints:
        """The cooling loop of each node, else its rack; -1 if neither is known."""
        known: dict[str, int] = {}
        place = np.full(len(self.clean.nodes), -1, np.int64)
        for i, name in enumerate(self.clean.nodes):
            node = self.block.fleet.nodes.get(name)
            where = (node.cooling or node.rack) if node is not None else ""
            if where:
                place[i] = known.setdefault(where, len(known))
        return place


def _uneven(watts: Floats, node: Ints, count: int) -> Flags:
    """Nodes whose GPUs draw unlike power (count,): several programs share them, told or not."""
    with np.errstate(invalid="ignore", divide="ignore"):
        logged = np.log(np.maximum(watts, 1.0))[:, None]
    middle = robust.grouped_median(logged, node, count)
    apart = robust.grouped_median(np.abs(logged - middle[node]), node, count)[:, 0]
    return np.asarray(apart > UNEVEN)


def native_streams(rows: Rows) -> tuple[Stream, ...]:
    """The streams that rows which are not GPUs have."""
    return tuple(s for s in NODE_STREAMS if s.metrics[0] in rows.values)


def _spread(table: Table, make: Ints) -> Floats:
    """The usual spread of an hour on a node with one job, of each stream (m,)."""
    hourly = accumulate.pooled(table.shared.spreads[0 :: state.CASES], GPU_LIMITS)
    return np.asarray(np.median(hourly[make], axis=0))


def slopes_of(table: Table, streams: tuple[Stream, ...]) -> Floats:
    """What the covariate does, by kind of part and stream."""
    of = state.limits(streams)
    return cohort.slopes_of(table.shared.slopes, of.slope, PRIOR_SQUARES)


def learn_slopes(
    table: Table, make: Ints, rest: Floats, covariate: Floats, slopes: Floats, least: Floats
) -> None:
    """Sum products and squares: what is left still moves with the covariate or it does not.

    Healthy parts teach it, and none more than ``FAR`` spreads: one slow GPU that works while others
    wait for it would teach the whole fleet that work slows clocks.
    """
    usable = np.isfinite(rest) & np.isfinite(covariate) & (table.tracks.opened == 0)
    m = rest.shape[1]
    spread = robust.spread(table.shared.spreads[0 :: state.CASES])
    far = FAR * np.fmax(np.where(np.isfinite(spread), spread, 0.0), least)[make]
    near = np.clip(np.where(usable, rest, 0.0), -far, far)
    with np.errstate(invalid="ignore"):
        product = np.where(usable, (near + slopes * covariate) * covariate, 0.0)
        square = np.where(usable, covariate**2, 0.0)
    cell = (make[:, None] * m + np.arange(m)).ravel()
    size = table.shared.slopes[..., 0].size
    for at, terms in enumerate((product, square)):
        summed = np.bincount(cell, weights=terms.ravel(), minlength=size)
        table.shared.slopes[..., at] += summed.reshape(table.shared.slopes.shape[:2])


def node_makes(node: Ints, make: Ints, count: int) -> Ints:
    """The kind of each node's first GPU."""
    of_nodes = np.zeros(count, np.int64)
    of_nodes[node[::-1]] = make[::-1]
    return of_nodes


def jobs(block: Block, nodes: tuple[str, ...]) -> tuple[Ints, NDArray[np.bool_]]:
    """The one running job of each node that spans several nodes, -1 where there is none or many;
    and whether several jobs share the node."""
    where = {name: i for i, name in enumerate(nodes)}
    job = np.full(len(nodes), -1, np.int64)
    held = np.zeros(len(nodes), np.int64)
    number = 0
    for one in block.jobs:
        if one.end is not None or one.start is None or one.start > block.time:
            continue
        at = [where[name] for name in one.nodes if name in where]
        held[at] += 1
        if len(at) > 1:
            job[at] = number
            number += 1
    return np.where(held == 1, job, -1), held > 1
