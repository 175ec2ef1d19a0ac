"""The fold: one cleaned step in, a new state and the units whose rates rose."""

from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Block, Fleet
from bigiron.detect.chance.multiplicity import Budget
from bigiron.detect.hygiene import Clean, Rows
from bigiron.detect.rate import NAME, READS, absolute, evidence, groups, state, streams, tally
from bigiron.detect.rate.claims import claims
from bigiron.detect.rate.decide import decide
from bigiron.detect.rate.places import places, together
from bigiron.detect.rate.state import State, Table
from bigiron.detect.state import carried, follow
from bigiron.model import Finding, Recovery

Flags = NDArray[np.bool_]

HOUR_S, DAY_S = 3600.0, 86_400.0

SHARE = 0.25
"""What this detector may spend of the false suspects."""

AWAY = frozenset({"drain", "down"})


class Rate:
    """The detector; ``budget`` is what it may spend of the fleet's false suspects."""

    name = NAME
    reads = READS

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget(share=SHARE)

    def start(self, fleet: Fleet) -> State:
        """Nothing is known."""
        del fleet
        return State()

    def step(self, before: State, block: Block) -> tuple[State, list[Finding | Recovery]]:
        """The state after this block and the units whose rates are raised now."""
        clean = block.clean
        if clean is None or not clean.nodes:
            return before, []
        step = _Step(before, block, clean)
        step.count()
        step.limits()
        if step.ended(HOUR_S):
            step.close_hour()
            if step.ended(DAY_S):
                step.close_day()
            step.judge(self.budget)
        return step.after, claims(step.after, clean)


@dataclass(slots=True)
class _Step:
    """One step's work on a copy of the state."""

    before: State
    block: Block
    clean: Clean
    after: State = field(init=False)

    def __post_init__(self) -> None:
        clean = self.clean
        self.after = msgspec.structs.replace(
            self.before,
            time_s=clean.time_s,
            tables=dict(self.before.tables),
            held=dict(self.before.held),
            nodes=clean.nodes,
            away=_away(clean, self.block),
        )
        index = follow(self.before.nodes, clean.nodes)
        back = carried(self.before.away, index, False)
        if back.shape != self.after.away.shape:
            back = np.zeros(len(clean.nodes), bool)
        back = back & ~self.after.away
        for kind, rows in clean.rows.items():
            names = streams.told(kind, rows)
            if names or kind in self.before.tables:
                self._align(kind, rows, names, back[rows.node])

    def _align(self, kind: str, rows: Rows, names: tuple[str, ...], back: Flags) -> None:
        """A copy of a table to write to, whose rows and streams are those of this step."""
        old = self.before.tables.get(kind)
        if old is None:
            self.after.tables[kind] = state.new_table(rows.units, names, len(self.after.groups))
            self._group(kind, rows)
            return
        wanted = (*old.streams, *(name for name in names if name not in old.streams))
        index = follow(old.units, rows.units)
        new = wanted != old.streams or bool(rows.moved.any())
        if index is None and not (new or back.any() or self.ended(HOUR_S)):
            tracks, shared = state.for_a_step(old.tracks, old.shared)
        else:
            tracks, shared = state.moved(old.tracks, index), state.copied(old.shared)
        table = Table(rows.units, old.streams, carried(old.group, index, 0), tracks, shared)
        table.shared = state.widened(shared, len(self.after.groups))
        if wanted != old.streams:
            table = state.with_streams(table, wanted)
        self.after.tables[kind] = table
        if rows.moved.any():
            state.forget(table.tracks, rows.moved)
        if back.any():
            state.returned(table.tracks, back)
        if new or self.ended(DAY_S):
            self._group(kind, rows)

    def _group(self, kind: str, rows: Rows) -> None:
        """Which units are alike."""
        table = self.after.tables[kind]
        of = [streams.BY_NAME[kind, name] for name in table.streams]
        self.after.groups, table.group = groups.of_units(self.after.groups, rows, of, self.block)
        for other in self.after.tables.values():
            other.shared = state.widened(other.shared, len(self.after.groups))

    def count(self) -> None:
        """Add this step's errors to the hour that runs."""
        work = streams.work_of(self.clean)
        for kind, table in self.after.tables.items():
            rows = self.clean.rows.get(kind)
            if rows is None:
                continue
            of = tuple(streams.BY_NAME[kind, name] for name in table.streams)
            panel = streams.panel(rows, of, table.shared, work[kind])
            tally.add(table.tracks, table.shared, panel.errors, panel.hours, panel.activity)

    def limits(self) -> None:
        """Follow what is too high by itself."""
        after, clean = self.after, self.clean
        for kind, rows in clean.rows.items():
            if kind in absolute.LIMITS and any(
                limit.metric in rows.increments for limit in absolute.LIMITS[kind]
            ):
                links = groups.links(rows, self.block) if kind == streams.GPU else np.empty((0, 2))
                after.held[kind] = absolute.follow_limits(
                    after.held.get(kind), kind, rows, links, clean.step_s, clean.time_s
                )
        gpus = clean.rows.get(streams.GPU)
        if gpus is not None:
            after.remaps = absolute.remapped(after.remaps, gpus, clean.time_s)

    def ended(self, length_s: float) -> bool:
        """Whether a full hour or day of the clock has come since the step before."""
        before_s, now_s = self.before.time_s, self.clean.time_s
        return before_s > 0 and now_s // length_s > before_s // length_s

    def close_hour(self) -> None:
        """End the hour of every unit."""
        of_nodes = places(self.block.fleet, self.clean.nodes)
        for kind, table in self.after.tables.items():
            tracks = table.tracks
            node = self.clean.rows[kind].node
            counted, errors = tally.take_hour(tracks, together(tracks, node, of_nodes))
            evidence.rise(tracks, table.shared, table.group, counted, self.clean.time_s)
            risen = np.isfinite(tracks.since)
            tracks.raw = np.where(risen, tracks.raw + errors, 0.0).astype(np.float32)

    def close_day(self) -> None:
        """End the day of every unit."""
        for table in self.after.tables.values():
            evidence.close_day(table.tracks, table.shared, table.group, self.clean.time_s)

    def judge(self, budget: Budget) -> None:
        """How improbable it all is, and who is a suspect."""
        for table in self.after.tables.values():
            evidence.chances(table.tracks, table.shared)
        decide(self.after, budget.q(len(self.clean.nodes), self.block.false_per_node_day))


def _away(clean: Clean, block: Block) -> Flags:
    """Which nodes are drained or down."""
    away = np.zeros(len(clean.nodes), bool)
    where = {name: i for i, name in enumerate(clean.nodes)}
    for name, told in block.states.items():
        if name in where and told.state in AWAY:
            away[where[name]] = True
    return away
