"""A block cleaned: a pure step from one state and block to the next state and a ``Clean``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Block, Column
from bigiron.detect.hygiene import NODE, Clean, Rows
from bigiron.detect.hygiene.layout import Layout, Part, Table, laid
from bigiron.detect.hygiene.state import Kind, Pending, State
from bigiron.detect.hygiene.tracks import STILL, Coverage, Reading, moved, read
from bigiron.detect.state import carried, follow

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

GRACE_S = 900.0
"""After a boot links retrain, clocks and temperatures settle, jobs start: 15 minutes."""

AWAY_S, AWAY_STEPS = 600.0, 3.0
"""A unit that was silent for both so long comes back as after a boot."""

BOOT_S = 60.0
"""Boot times are computed from an uptime and wobble by seconds; more is another boot."""

BOOT = "node_boot_time_seconds"
BOOTED = frozenset({"kernel.reboot"})

_LAST: list[Layout] = []
"""The newest layout, to be used again as long as it holds: nothing but saved work."""


def clean(state: State, block: Block) -> tuple[State, Clean | None]:
    """The state after a block, and the cleaned step if one is complete.

    Steps are ``block.step_s`` long (0: every block is one). A block within a step only adds its
    newest values to it.
    """
    now_s = block.time.timestamp()
    rebooted = (*state.rebooted, *(e.node for e in block.events if e.code in BOOTED))
    columns = _joined(state.pending, block.columns)
    if state.time_s and now_s - state.time_s < 0.999 * block.step_s:
        pending = {metric: Pending(c.keys, c.values) for metric, c in columns.items()}
        return msgspec.structs.replace(state, pending=pending, rebooted=rebooted), None
    layout = _layout(state, block, columns)
    step = _Step(state, layout, columns, frozenset(rebooted), now_s, block.step_s)
    return step.run()


def _joined(pending: Mapping[str, Pending], new: Mapping[str, Column]) -> Mapping[str, Column]:
    """The newest values of what waited and what came."""
    if not pending:
        return new
    joined = {metric: Column(p.keys, p.values) for metric, p in pending.items()}
    for metric, column in new.items():
        old = joined.get(metric)
        if old is None:
            joined[metric] = column
        elif old.keys is column.keys or old.keys == column.keys:
            told = np.isnan(column.values)
            joined[metric] = Column(column.keys, np.where(told, old.values, column.values))
        else:
            newest = dict(zip(old.keys, old.values.tolist(), strict=True))
            came = zip(column.keys, column.values.tolist(), strict=True)
            newest |= {key: value for key, value in came if value == value or key not in newest}
            joined[metric] = Column(tuple(newest), np.array(list(newest.values())))
    return joined


def _layout(state: State, block: Block, columns: Mapping[str, Column]) -> Layout:
    """The rows of this step; the newest layout is used again if the state is about it."""
    parts = {name: kind.parts for name, kind in state.kinds.items() if name != NODE}
    before = _LAST[0] if _LAST else None
    if before is None or before.nodes != state.nodes or before.parts != parts:
        before = Layout(state.nodes, parts) if state.kinds else None
    layout = laid(before, block.fleet, block.facts, columns.values())
    _LAST[:] = [layout]
    return layout


@dataclass(slots=True)
class _Step:
    """One step's work."""

    state: State
    layout: Layout
    columns: Mapping[str, Column]
    rebooted: frozenset[str]
    now_s: float
    step_s: float
    elapsed_s: float = 0.0
    booted_s: Floats = field(default_factory=lambda: np.empty(0))
    boots: Flags = field(default_factory=lambda: np.empty(0, np.bool_))
    dropped: dict[tuple[str, str], int] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)

    def run(self) -> tuple[State, Clean]:
        state, layout = self.state, self.layout
        self.elapsed_s = self.now_s - state.time_s if state.time_s else self.step_s
        of_kind = self._sorted()
        self._boots(of_kind)
        for name, table in layout.kinds.items():
            self._kind(name, table, of_kind.get(name, {}))
        after = State(self.now_s, layout.nodes, self.booted_s, self.kinds)
        step_s = self.step_s or self.elapsed_s
        told = Clean(self.now_s, step_s, layout.nodes, self.rows, self.booted_s, self.dropped)
        return after, told

    def _sorted(self) -> dict[str, dict[str, Floats]]:
        """Each metric's values in the rows of the kinds it is about, NaN where nothing is told."""
        of_kind: dict[str, dict[str, Floats]] = {}
        for metric in sorted(self.columns):
            column = self.columns[metric]
            for kind, (which, to) in self.layout.places(column).of_kind.items():
                values = np.full(len(self.layout.kinds[kind].parts), np.nan)
                values[to] = column.values[which]
                of_kind.setdefault(kind, {})[metric] = values
        return of_kind

    def _boots(self, of_kind: Mapping[str, Mapping[str, Floats]]) -> None:
        """Which nodes booted since the step before, by their boot time or by their log."""
        nodes = self.layout.nodes
        old = carried(self.state.booted_s, follow(self.state.nodes, nodes), np.nan)
        new = of_kind.get(NODE, {}).get(BOOT)
        self.booted_s = old
        self.boots = np.zeros(len(nodes), np.bool_)
        if new is not None:
            told = ~np.isnan(new)
            self.boots = told & (new - old > BOOT_S)
            self.booted_s = np.where(told & ~(np.abs(new - old) <= BOOT_S), new, old)
        if self.rebooted:
            self.boots |= np.array([node in self.rebooted for node in nodes], np.bool_)

    def _kind(self, name: str, table: Table, told: Mapping[str, Floats]) -> None:
        """Clean the rows of one kind."""
        old, changed = self._known(name, table)
        boots = self.boots[table.node]
        metrics = {
            metric: read(metric, old.tracks.get(metric), told.get(metric), boots, self.elapsed_s)
            for metric in sorted({*old.tracks, *told})
        }
        present, still, frozen = _still(old.still, metrics.values())
        grace_s = self._grace(old, present, boots)
        silent_s = np.where(present, 0.0, old.silent_s + self.elapsed_s).astype(np.float32)
        metrics = {metric: one.without(frozen) for metric, one in metrics.items()}
        for metric, one in metrics.items():
            for reason, count in (("impossible", one.impossible), ("stale", one.dropped)):
                if count:
                    self.dropped[metric, reason] = self.dropped.get((metric, reason), 0) + count
        tracks = {metric: one.track for metric, one in metrics.items()}
        self.kinds[name] = Kind(table.units, table.parts, silent_s, grace_s, still, tracks)
        self.rows[name] = Rows(
            kind=name,
            units=table.units,
            keys=table.keys,
            node=table.node,
            slot=table.slot,
            values={m: one.values for m, one in metrics.items() if one.increments is None},
            increments={
                m: one.increments for m, one in metrics.items() if one.increments is not None
            },
            spans={m: one.spans for m, one in metrics.items() if one.spans is not None},
            coverage=Coverage(tracks),
            present=present,
            grace=grace_s > 0,
            frozen=frozen,
            moved=changed,
        )

    def _known(self, name: str, table: Table) -> tuple[Kind, Flags]:
        """What is remembered of these rows, and which of them are new or elsewhere."""
        n = len(table.parts)
        old = self.state.kinds.get(name)
        if old is None:
            nothing = np.zeros(n, np.float32)
            new = Kind(table.units, table.parts, nothing, nothing, np.zeros(n, np.uint8), {})
            return new, np.ones(n, np.bool_)
        if old.parts is table.parts or old.parts == table.parts:
            return old, np.zeros(n, np.bool_)
        index = follow(old.units, table.units)
        before = {part.unit: part for part in old.parts}
        changed = [_elsewhere(before.get(part.unit), part) for part in table.parts]
        kind = Kind(
            table.units,
            table.parts,
            carried(old.silent_s, index, 0.0),
            carried(old.grace_s, index, 0.0),
            carried(old.still, index, 0),
            {metric: moved(track, index) for metric, track in old.tracks.items()},
        )
        return kind, np.array(changed, np.bool_)

    def _grace(self, old: Kind, present: Flags, boots: Flags) -> NDArray[np.float32]:
        """How much longer each unit is not to be taken at its word."""
        away = (old.silent_s >= AWAY_S) & (old.silent_s >= AWAY_STEPS * self.step_s)
        begins = boots | (present & away)
        left = np.maximum(old.grace_s - self.elapsed_s, 0.0)
        return np.where(begins, GRACE_S, left).astype(np.float32)


def _elsewhere(before: Part | None, now: Part) -> bool:
    return before is None or (before.key[0], before.slot) != (now.key[0], now.slot)


def _still(
    before: NDArray[np.uint8], readings: Iterable[Reading]
) -> tuple[Flags, NDArray[np.uint8], Flags]:
    """Which units told anything, for how many steps all of it has repeated, and which of them
    are frozen: readings that always move elsewhere are among what repeats.
    """
    present, changed, lively = (np.zeros(len(before), np.bool_) for _ in range(3))
    for one in readings:
        present |= one.fresh
        changed |= one.moved
        lively |= one.stale
    still = np.where(present, np.where(changed, 0, np.minimum(before, 254) + 1), before)
    return present, still.astype(np.uint8), present & (still >= STILL) & lively
