"""A turn as rows: what came in and what was made of it, inside one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, bindparam, func, select, update

from bigiron.model import (
    Action,
    Batch,
    Change,
    Device,
    FactValue,
    FindingChange,
    Node,
    NodeState,
    Verdict,
)
from bigiron.store import rows, schema
from bigiron.store.database import insert_new, upsert
from bigiron.store.known import Delta


@dataclass(frozen=True, slots=True)
class Meter:
    """A number about the hub itself, or what it last said about a source."""

    name: str
    value: float
    label: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """All that one turn writes: what came in, how far, and what was made of it."""

    time: datetime
    batches: Sequence[Batch] = ()
    cursors: Mapping[str, str] = field(default_factory=dict)
    changes: Sequence[FindingChange] = ()
    verdicts: Sequence[Verdict] = ()
    actions: Sequence[Action] = ()
    detector_state: Mapping[str, bytes] = field(default_factory=dict)
    folded: bool = False
    """``detector_state`` holds every fold as it is after all events up to this turn's."""
    meters: Sequence[Meter] = ()
    answered: Sequence[int] = ()
    """Numbers of the requests to close a finding that this turn has dealt with."""


def write(to: Connection, turn: Turn, delta: Delta) -> None:
    """Write the turn; ``delta`` is what of its batches and verdicts is new."""
    _write_input(to, turn, delta)
    _write_outcome(to, turn, delta)


def _write_input(to: Connection, turn: Turn, delta: Delta) -> None:
    events = [rows.event_row(e, b.time) for b in turn.batches for e in b.events]
    insert_new(to, schema.events, events, ["key"])
    upsert(to, schema.nodes, [_plain(n) for n in delta.nodes.values()], ["name"])
    upsert(to, schema.devices, [_plain(d) for d in delta.devices.values()], ["node", "name"])
    _write_facts(to, delta)
    _write_states(to, delta)
    upsert(to, schema.jobs, [rows.job_row(job) for job in delta.jobs.values()], ["id", "attempt"])
    checks = [rows.check_row(c, b.time) for b in turn.batches for c in b.checks]
    insert_new(to, schema.checks, checks, ["key"])
    work = [rows.maintenance_row(m) for b in turn.batches for m in b.maintenance]
    insert_new(to, schema.maintenance, work, ["key"])
    _write_notes(to, delta, turn.time)
    cursors = [
        {"source": source, "cursor": cursor, "time": turn.time}
        for source, cursor in turn.cursors.items()
    ]
    upsert(to, schema.cursors, cursors, ["source"])


def _write_outcome(to: Connection, turn: Turn, delta: Delta) -> None:
    _write_changes(to, turn.changes)
    verdicts = [rows.verdict_row(verdict) for verdict in delta.verdicts.values()]
    upsert(to, schema.verdicts, verdicts, ["node"])
    _insert(to, schema.verdict_history, verdicts)
    insert_new(to, schema.actions, [rows.action_row(a) for a in turn.actions], ["once"])
    states = [
        {"name": name, "state": state, "time": turn.time}
        for name, state in turn.detector_state.items()
    ]
    upsert(to, schema.detector_state, states, ["name"])
    if turn.folded:
        newest = to.scalar(select(func.max(schema.events.c.number))) or 0
        upsert(to, schema.meta, [{"name": "folded", "value": str(newest)}], ["name"])
    if turn.answered:
        asked = schema.closings
        done = update(asked).where(asked.c.number.in_(turn.answered))
        to.execute(done.values(applied=turn.time))
    meters = {(m.name, m.label): _meter_row(m, turn.time) for m in turn.meters}
    upsert(to, schema.meters, list(meters.values()), ["name", "label"])


def _plain(noun: Node | Device) -> rows.Row:
    return {name: getattr(noun, name) for name in noun.__struct_fields__}


def _meter_row(meter: Meter, time: datetime) -> rows.Row:
    return {
        "name": meter.name,
        "label": meter.label,
        "value": meter.value,
        "said": meter.said,
        "time": time,
    }


def _insert(to: Connection, table: Table, new: Sequence[Mapping[str, Any]]) -> None:
    if new:
        to.execute(table.insert(), list(new))


def _write_facts(to: Connection, delta: Delta) -> None:
    def row(at: tuple[str, str, str], value: FactValue, time: datetime) -> rows.Row:
        node, device, name = at
        return {
            "node": node,
            "device": device,
            "name": name,
            "value": rows.json(value),
            "time": time,
        }

    current = [row(at, value, time) for at, (value, time) in delta.facts.items()]
    upsert(to, schema.facts, current, ["node", "device", "name"])
    _insert(to, schema.fact_history, [row(*change) for change in delta.fact_changes])


def _write_states(to: Connection, delta: Delta) -> None:
    def row(state: NodeState, time: datetime) -> rows.Row:
        return {
            "node": state.node,
            "state": state.state,
            "reason": state.reason,
            "time": time,
            "node_state": rows.json(state),
        }

    upsert(to, schema.node_states, [row(*had) for had in delta.states.values()], ["node"])
    _insert(to, schema.node_state_history, [row(*change) for change in delta.state_changes])


def _write_notes(to: Connection, delta: Delta, time: datetime) -> None:
    table = schema.notes
    new = [
        {"source": source, "what": what, "count": 0, "first": time, "last": time}
        for source, what in delta.notes
    ]
    if not new:
        return
    insert_new(to, table, new, ["source", "what"])
    to.execute(
        update(table)
        .where(table.c.source == bindparam("at_source"), table.c.what == bindparam("at_what"))
        .values(count=table.c.count + bindparam("more"), last=bindparam("at")),
        [
            {"at_source": source, "at_what": what, "more": count, "at": time}
            for (source, what), count in delta.notes.items()
        ],
    )


def _write_changes(to: Connection, changes: Iterable[FindingChange]) -> None:
    changes = list(changes)
    for change in changes:
        finding = change.finding
        row = {
            "key": finding.key,
            "fault": finding.fault,
            "severity": finding.severity.value,
            "node": finding.subject.node,
            "device": finding.subject.device,
            "finding": rows.json(finding),
            "updated": change.time,
            "because": change.because,
        }
        if change.change is Change.OPEN:
            to.execute(schema.findings.insert(), {"id": change.id, "opened": change.time, **row})
            continue
        closed = change.time if change.change is Change.CLOSE else None
        where = schema.findings.c.id == change.id
        to.execute(update(schema.findings).where(where).values(closed=closed, **row))
    _insert(to, schema.finding_changes, [rows.change_row(change) for change in changes])
    opened = [int(c.id.lstrip("F") or 0) for c in changes if c.change is Change.OPEN]
    if opened:
        upsert(to, schema.meta, [{"name": "last_finding", "value": str(max(opened))}], ["name"])
