"""The fold: one cleaned step in, a new state and what deviates now."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Block, Fleet
from bigiron.detect.chance.multiplicity import Budget
from bigiron.detect.deviation import READS, accumulate, state
from bigiron.detect.deviation.changes import changes
from bigiron.detect.deviation.claims import claims
from bigiron.detect.deviation.decide import decide
from bigiron.detect.deviation.look import Look, native_streams, node_makes
from bigiron.detect.deviation.state import GPU, SHARED, State, Table
from bigiron.detect.deviation.streams import GPU_STREAMS, NODE_STREAMS, Stream
from bigiron.detect.hygiene import Clean, Rows
from bigiron.detect.state import follow
from bigiron.model import Finding, Recovery

Ints = NDArray[np.int64]

GROUPS = 6
"""Streams end their hours in so many groups, ten minutes apart: so no step has all the work."""


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
        step.close_hours()
        if step.decides:
            decide(step.after, self.budget.q(len(clean.nodes), block.false_per_node_day))
        return step.after, claims(step.after, clean, block)


@dataclass(slots=True)
class _Step:
    """One step's work on a copy of the state."""

    before: State
    block: Block
    clean: Clean
    after: State = field(init=False)
    ends: tuple[int, ...] = ()
    """The groups of streams whose hour has come to its end since the step before."""
    decides: bool = False
    """Whether it is time to look over the whole fleet: once an hour."""
    make: dict[str, Ints] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clean, every = self.clean, accumulate.BLOCK_S / GROUPS
        self.ends = tuple(group for group in range(GROUPS) if self._passes(group * every))
        self.decides = self._passes(every / 2)
        self.after = msgspec.structs.replace(
            self.before, time_s=clean.time_s, tables=dict(self.before.tables)
        )
        self._know_makes()
        changed = changes(self.after, self.before.time_s, clean, self.block)
        for kind, rows in clean.rows.items():
            streams = _streams(kind, rows)
            if streams:
                self._align(kind, rows.units, streams, changed.of(rows), rows.moved)
        if GPU in clean.rows:
            new = np.zeros(len(clean.nodes), bool)
            self._align(SHARED, clean.nodes, GPU_STREAMS, changed.of_nodes, new)

    def _passes(self, start_s: float) -> bool:
        """Whether so many seconds after a full hour have come since the step before."""
        was, now, hour = self.before.time_s, self.clean.time_s, accumulate.BLOCK_S
        return was > 0 and (now - start_s) // hour > (was - start_s) // hour

    def _know_makes(self) -> None:
        """Which kind of part each row is, where it has streams: its node's SKU and its own model.

        Looked up where rows are new, and once an hour, between the hours' ends.
        """
        was, hour = self.before.time_s, accumulate.BLOCK_S
        due = was // hour > (was - self.clean.step_s) // hour
        makes, known = list(self.after.makes), {make: i for i, make in enumerate(self.after.makes)}
        for kind, rows in self.clean.rows.items():
            table = self.before.tables.get(kind)
            if table is None and not _streams(kind, rows):
                continue
            old = self.before.make.get(kind)
            same = table is not None and follow(table.units, rows.units) is None
            if old is not None and same and len(old) == len(rows.units) and not due:
                self.make[kind] = old
                continue
            of_rows = np.zeros(len(rows.units), np.int64)
            for i, name in enumerate(self._makes_of(kind, rows)):
                at = known.get(name)
                if at is None:
                    at = known[name] = len(makes)
                    makes.append(name)
                of_rows[i] = at
            self.make[kind] = of_rows
        most = np.zeros(len(makes))
        most[: len(self.after.makes)] = self.after.most_w
        self.after.makes, self.after.most_w, self.after.make = tuple(makes), most, self.make

    def _makes_of(self, kind: str, rows: Rows) -> Iterator[str]:
        fleet = self.block.fleet
        for key in rows.keys:
            node, part = fleet.nodes.get(key[0]), fleet.devices.get(key)
            make = f"{node.sku if node else ''}|{part.model if part else ''}"
            yield make if kind == GPU else f"{make}|{key[1]}"

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
        versions, returned = changed
        versions = versions if kind == SHARED else np.zeros_like(versions)
        tracks = old.tracks if index is None else state.moved(old.tracks, index)
        if index is None and (new | versions | returned).any():
            tracks = state.for_all(tracks)
        else:
            tracks = state.for_a_step(tracks)
        for change, rows in (
            (state.forget, new),
            (state.relearn, versions),
            (state.repaired, returned),
        ):
            if rows.any():
                change(tracks, rows)
        keep = accumulate.kept_share(max(0.0, self.clean.time_s - self.before.time_s))
        shared = state.faded(old.shared, keep, makes)
        self.after.tables[kind] = Table(units, names, tracks, shared)

    def look(self) -> None:
        """Add this step's deviations to the hour that runs."""
        Look(self.before, self.after, self.block, self.clean, self.make).run()

    def close_hours(self) -> None:
        """End the hour of the streams whose time has come; one after another, not all at once."""
        steps = accumulate.BLOCK_S / max(self.clean.step_s, 1.0)
        for kind, table in self.after.tables.items():
            due = np.isin(np.arange(len(table.streams)) % GROUPS, self.ends)
            columns = np.flatnonzero(due & table.tracks.count.any(axis=0))
            if columns.size == 0:
                continue
            if kind == SHARED:
                rows = self.clean.rows[GPU]
                make = node_makes(rows.node.astype(np.int64), self.make[GPU], len(table.units))
            elif kind in self.make:
                make = self.make[kind]
            else:
                continue
            of = state.limits(tuple(_streams_of(table)[column] for column in columns))
            some = state.taken(table, columns)
            accumulate.close(some.tracks, some.shared, make, of, steps, self.clean.time_s)
            state.put_back(table, columns, some)


def _streams(kind: str, rows: Rows) -> tuple[Stream, ...]:
    return GPU_STREAMS if kind == GPU else native_streams(rows)


def _streams_of(table: Table) -> tuple[Stream, ...]:
    by_name = {s.name: s for s in (*GPU_STREAMS, *NODE_STREAMS)}
    return tuple(by_name[name] for name in table.streams)
