"""The fold: one cleaned step in, a new state and what deviates now."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Block, Fleet
from bigiron.detect.chance.multiplicity import Budget
from bigiron.detect.deviation import READS, accumulate, cohort, state
from bigiron.detect.deviation.changes import changes
from bigiron.detect.deviation.claims import claims
from bigiron.detect.deviation.decide import decide
from bigiron.detect.deviation.state import State, Table
from bigiron.detect.deviation.streams import (
    GPU_STREAMS,
    NODE_STREAMS,
    SMOOTH_S,
    Panel,
    Stream,
    gpu_panel,
    inlet_of,
    native_panel,
    value,
)
from bigiron.detect.hygiene import Clean, Rows
from bigiron.detect.state import carried, follow
from bigiron.model import Finding, Recovery

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GPU, SHARED = "gpu", "gpu@node"
"""The tables of GPUs, and of what the GPUs of a node share."""

BANDS = (0.5, 0.8)
"""Shares of the most power where a load band ends and the next begins."""

PRIOR_SQUARES = 1.0
"""How much sum of squares of the covariate an expected slope counts for: as much as a hundred
readings a tenth (of power, of load) away from their cohort's."""


class Deviation:
    """The detector; ``budget`` is what it may spend of the fleet's false suspects."""

    name = "deviation"
    reads = READS

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()

    def start(self, fleet: Fleet) -> State:
        """Nothing is known."""
        del fleet
        return State()

    def step(self, before: State, block: Block) -> tuple[State, list[Finding | Recovery]]:
        """The state after this block and the parts that deviate now."""
        clean = block.clean
        if clean is None or not clean.nodes:
            return before, []
        step = _Step(before, block, clean)
        step.look()
        if step.hour_ended():
            step.close_hour()
            decide(step.after, self.budget, len(clean.nodes))
        return step.after, claims(step.after, clean, block)


@dataclass(slots=True)
class _Step:
    """One step's work on a copy of the state."""

    before: State
    block: Block
    clean: Clean
    after: State = field(init=False)
    make: dict[str, Ints] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clean = self.clean
        self.after = msgspec.structs.replace(
            self.before, time_s=clean.time_s, tables=dict(self.before.tables)
        )
        self._know_makes()
        changed = changes(self.after, self.before.time_s, clean, self.block)
        for kind, rows in clean.rows.items():
            streams = GPU_STREAMS if kind == GPU else _native(rows)
            if streams:
                self._align(kind, rows.units, streams, changed.of(rows), rows.moved)
        if GPU in clean.rows:
            new = np.zeros(len(clean.nodes), bool)
            self._align(SHARED, clean.nodes, GPU_STREAMS, changed.of_nodes, new)

    def _know_makes(self) -> None:
        """Which kind of part each row is: its node's SKU and its own model."""
        fleet, makes = self.block.fleet, list(self.after.makes)
        known = {make: i for i, make in enumerate(makes)}
        for kind, rows in self.clean.rows.items():
            of_rows = np.zeros(len(rows.units), np.int64)
            for i, key in enumerate(rows.keys):
                node, part = fleet.nodes.get(key[0]), fleet.devices.get(key)
                make = f"{node.sku if node else ''}|{part.model if part else ''}"
                if kind != GPU:
                    make = f"{make}|{key[1]}"
                at = known.get(make)
                if at is None:
                    at = known[make] = len(makes)
                    makes.append(make)
                of_rows[i] = at
            self.make[kind] = of_rows
        most = np.zeros(len(makes))
        most[: len(self.after.makes)] = self.after.most_w
        self.after.makes, self.after.most_w = tuple(makes), most

    def _align(
        self,
        kind: str,
        units: tuple[str, ...],
        streams: tuple[Stream, ...],
        changed: tuple[NDArray[np.bool_], NDArray[np.bool_]],
        new: NDArray[np.bool_],
    ) -> None:
        """A copy of a table to write to, whose rows are those of this step."""
        makes = len(self.after.makes)
        old = self.before.tables.get(kind)
        names = tuple(s.name for s in streams)
        if old is None or old.streams != names:
            self.after.tables[kind] = state.new_table(units, streams, makes)
            return
        index = follow(old.units, units)
        tracks = state.moved(old.tracks, index)
        state.forget(tracks, new)
        versions, returned = changed
        if versions.any():
            state.relearn(tracks, versions)
        if returned.any():
            state.repaired(tracks, returned)
        shared = state.widened(old.shared, makes)
        accumulate.fade(shared, max(0.0, self.clean.time_s - self.before.time_s))
        self.after.tables[kind] = Table(units, names, tracks, shared)

    def look(self) -> None:
        """Add this step's deviations to the hour that runs."""
        gpus = self.clean.rows.get(GPU)
        load = np.full(len(self.clean.nodes), np.nan)
        if gpus is not None:
            watts, before = self._smooth(gpus)
            load = np.bincount(gpus.node, weights=np.nan_to_num(watts) / 1000, minlength=len(load))
            self._gpus(gpus, watts, before)
        for kind, rows in self.clean.rows.items():
            if kind != GPU:
                self._native(kind, rows, load)

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

    def _gpus(self, rows: Rows, watts: Floats, before: Floats) -> None:
        clean, make = self.clean, self.make[GPU]
        most = np.maximum(self.after.most_w[make], 1.0)
        inlet = inlet_of(clean.rows.values(), len(clean.nodes))
        told = np.isfinite(inlet)
        panel = gpu_panel(rows, np.where(told, inlet, 25.0)[rows.node], watts, before, most)
        table, parts = self.after.tables[GPU], self.after.tables[SHARED]
        node = rows.node.astype(np.int64)
        expected = (table.tracks.base + parts.tracks.base[node]).astype(np.float64)
        rungs = self._rungs(rows, watts / most)
        slopes = _slopes(table, GPU_STREAMS)[make]
        rest = cohort.residual(panel.values, expected, panel.covariates, slopes, rungs, make)
        shared, own = cohort.by_node(rest.full, node, len(clean.nodes))
        _learn_slopes(table, make, own, rest.covariate, slopes)
        of_nodes = _node_makes(node, make, len(clean.nodes))
        spread = self._spread(parts, of_nodes, GPU_STREAMS)
        shared = cohort.without_place(shared, self._places(), spread)
        heat = [s.name.endswith("thermal_resistance") for s in GPU_STREAMS]
        shared[np.ix_(~told, np.array(heat))] = np.nan
        accumulate.add(table.tracks, own, panel.plain)
        accumulate.add(parts.tracks, shared, _node_means(panel.plain, node, len(clean.nodes)))

    def _spread(self, table: Table, make: Ints, streams: tuple[Stream, ...]) -> Floats:
        pooled, _ = accumulate.spreads(table.tracks, table.shared, make, state.limits(streams))
        return np.median(pooled, axis=0)

    def _native(self, kind: str, rows: Rows, load: Floats) -> None:
        panel = native_panel(rows, load[rows.node])
        if panel is None:
            return
        table, make = self.after.tables[kind], self.make[kind]
        slopes = _slopes(table, panel.streams)[make]
        rest = _against_like(panel, table, slopes, make)
        _learn_slopes(table, make, rest.full, rest.covariate, slopes)
        accumulate.add(table.tracks, rest.full, panel.plain)

    def _rungs(self, rows: Rows, load: Floats) -> list[Ints]:
        """Job and slot, job, kind and load."""
        node = rows.node.astype(np.int64)
        job = _jobs(self.block, self.clean.nodes)[node]
        slots = int(rows.slot.max(initial=0)) + 2
        slot = rows.slot.astype(np.int64) + 1
        band = np.digitize(np.nan_to_num(load), BANDS).astype(np.int64)
        return [
            np.where(job >= 0, job * slots + slot, -1),
            job,
            self.make[GPU] * (len(BANDS) + 1) + band,
        ]

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

    def hour_ended(self) -> bool:
        """Whether a full hour of the clock has come since the step before."""
        hours = accumulate.BLOCK_S
        return self.before.time_s > 0 and self.clean.time_s // hours > self.before.time_s // hours

    def close_hour(self) -> None:
        """End the hour of every track."""
        steps = accumulate.BLOCK_S / max(self.clean.step_s, 1.0)
        for kind, table in self.after.tables.items():
            streams = _streams_of(table)
            if kind == SHARED:
                rows = self.clean.rows[GPU]
                make = _node_makes(rows.node.astype(np.int64), self.make[GPU], len(table.units))
            elif kind in self.make:
                make = self.make[kind]
            else:
                continue
            of = state.limits(streams)
            accumulate.close(table.tracks, table.shared, make, of, steps, self.clean.time_s)


def _native(rows: Rows) -> tuple[Stream, ...]:
    return tuple(s for s in NODE_STREAMS if s.metrics[0] in rows.values)


def _streams_of(table: Table) -> tuple[Stream, ...]:
    by_name = {s.name: s for s in (*GPU_STREAMS, *NODE_STREAMS)}
    return tuple(by_name[name] for name in table.streams)


def _against_like(panel: Panel, table: Table, slopes: Floats, make: Ints) -> cohort.Rest:
    """Sensors against those of the same name in nodes of the same kind; own past where too few."""
    none: Sequence[Ints] = ()
    base = table.tracks.base.astype(np.float64)
    rest = cohort.residual(panel.values, base, panel.covariates, slopes, none, make)
    few = np.bincount(make)[make] < cohort.FEWEST
    alone = panel.values - base
    return cohort.Rest(np.where(few[:, None], alone, rest.full), rest.covariate)


def _slopes(table: Table, streams: tuple[Stream, ...]) -> Floats:
    of = state.limits(streams)
    return cohort.slopes_of(table.shared.slopes, of.slope, PRIOR_SQUARES)


def _learn_slopes(
    table: Table, make: Ints, rest: Floats, covariate: Floats, slopes: Floats
) -> None:
    """Sum products and squares: what is left still moves with the covariate or it does not."""
    usable = np.isfinite(rest)
    m = rest.shape[1]
    near = np.clip(np.where(usable, rest, 0.0), -0.1, 0.1)
    product = np.where(usable, (near + slopes * covariate) * covariate, 0.0)
    square = np.where(usable, covariate**2, 0.0)
    cell = (make[:, None] * m + np.arange(m)).ravel()
    size = table.shared.slopes[..., 0].size
    for at, terms in enumerate((product, square)):
        summed = np.bincount(cell, weights=terms.ravel(), minlength=size)
        table.shared.slopes[..., at] += summed.reshape(table.shared.slopes.shape[:2])


def _node_makes(node: Ints, make: Ints, count: int) -> Ints:
    """The kind of each node's first GPU."""
    of_nodes = np.zeros(count, np.int64)
    of_nodes[node[::-1]] = make[::-1]
    return of_nodes


def _node_means(plain: Floats, node: Ints, count: int) -> Floats:
    means = np.full((count, plain.shape[1]), np.nan)
    for at in range(plain.shape[1]):
        usable = np.isfinite(plain[:, at])
        size = np.bincount(node[usable], minlength=count)
        total = np.bincount(node[usable], weights=plain[usable, at], minlength=count)
        with np.errstate(invalid="ignore"):
            means[:, at] = np.where(size > 0, total / np.maximum(size, 1), np.nan)
    return means


def _jobs(block: Block, nodes: tuple[str, ...]) -> Ints:
    """The one running job of each node that spans several; -1 where there is none or many."""
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
    return np.where(held == 1, job, -1)
