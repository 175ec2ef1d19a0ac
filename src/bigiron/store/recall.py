"""What a hub that starts must know again, from the ledger's current rows and recent history."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, Table, or_, select

from bigiron.model import (
    Batch,
    CheckResult,
    Device,
    Event,
    Fact,
    Job,
    Node,
)
from bigiron.store import rows, schema
from bigiron.store.known import Known

RECALL_EVENTS = 200_000
RECALL_JOBS = 50_000
RECALL_CHECKS = 50_000


def known(connection: Connection) -> Known:
    """The current rows that decide what of a batch is new."""

    def every(table: Table) -> Iterable[RowMapping]:
        return connection.execute(select(table)).mappings()

    of = schema.facts.c
    some = connection.execute(select(of.node, of.device, of.name, of.value))
    return Known(
        nodes={row["name"]: Node(**row) for row in every(schema.nodes)},
        devices={(row["node"], row["name"]): Device(**row) for row in every(schema.devices)},
        facts={
            (node, device, name): rows.fact_value(value, node, device, name)
            for node, device, name, value in some
        },
        states={row["node"]: rows.state_of(row) for row in every(schema.node_states)},
        notes={(row["source"], row["what"]) for row in every(schema.notes)},
        verdicts={row["node"]: rows.verdict_of(row) for row in every(schema.verdicts)},
    )


def recall(
    connection: Connection, current: Known, now: datetime, since: datetime, until: int
) -> Batch:
    """One batch of all that stands and of what happened since then.

    Events have numbers up to ``until``; later ones are to be folded as new.
    """
    work = select(schema.maintenance).where(schema.maintenance.c.end >= since)
    return Batch(
        time=now,
        source="ledger",
        nodes=tuple(current.nodes.values()),
        devices=tuple(current.devices.values()),
        facts=tuple(facts(connection)),
        states=tuple(current.states.values()),
        events=_events(connection, since, until),
        jobs=tuple(_jobs(connection, since)),
        checks=tuple(_checks(connection, since)),
        maintenance=tuple(rows.maintenance_of(row) for row in connection.execute(work).mappings()),
    )


def facts(connection: Connection) -> Iterator[Fact]:
    """Every fact as it is now."""
    table = schema.facts
    for row in connection.execute(select(table)):
        value = rows.fact_value(row.value, row.node, row.device, row.name)
        yield Fact(row.node, row.name, value, row.device, row.time)


def _events(connection: Connection, since: datetime, until: int) -> tuple[Event, ...]:
    """Recent events after the older ones that open findings are about, in order of arrival."""
    events, findings = schema.events, schema.findings
    of_open = (
        select(events)
        .join(
            findings,
            (findings.c.node == events.c.node)
            & (findings.c.fault == events.c.code)
            & findings.c.closed.is_(None),
        )
        .where(events.c.seen < since)
        .distinct()
    )
    recent = select(events).where(events.c.seen >= since)
    before = events.c.number <= until
    return (
        *_newest(connection, of_open.where(before)),
        *_newest(connection, recent.where(before)),
    )


def _newest(connection: Connection, query: Select[Any]) -> list[Event]:
    newest = query.order_by(schema.events.c.number.desc()).limit(RECALL_EVENTS)
    found = [rows.event_of(row) for row in connection.execute(newest).mappings()]
    return found[::-1]


def _jobs(connection: Connection, since: datetime) -> Iterator[Job]:
    table = schema.jobs
    recent = or_(table.c.end.is_(None), table.c.end >= since)
    chosen = select(table.c.id, table.c.job).where(recent)
    for id_, text in connection.execute(chosen.order_by(table.c.start.desc()).limit(RECALL_JOBS)):
        yield rows.of_json(text, Job, "jobs", id_)


def _checks(connection: Connection, since: datetime) -> list[CheckResult]:
    table = schema.checks
    query = select(table.c.number, table.c.result).where(table.c.time >= since)
    newest = query.order_by(table.c.number.desc()).limit(RECALL_CHECKS)
    found = [
        rows.of_json(text, CheckResult, "checks", number)
        for number, text in connection.execute(newest)
    ]
    return found[::-1]
