"""Our nouns as rows of the ledger, and back."""

from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from bigiron.errors import StoreError
from bigiron.model import (
    Action,
    ActionKind,
    CheckResult,
    Closing,
    Contribution,
    Event,
    FactValue,
    Finding,
    FindingChange,
    Health,
    Job,
    Maintenance,
    Mode,
    NodeState,
    Verdict,
    When,
)

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

T = TypeVar("T")
Word = TypeVar("Word", bound=StrEnum)
Row = dict[str, Any]
GIVEN_TIME = "given_time"
"""Attribute that keeps the time an event claimed, where the hub did not believe it."""
REMEDY = "restore a copy, or correct that row"
JOINED = "names"
"""Under this name ``detector_state`` keeps, as JSON, the other names that nodes go by."""


def json(value: object) -> str:
    """Compact JSON text."""
    return msgspec.json.encode(value).decode()


def of_json(text: str | bytes, kind: type[T], table: str, row: object) -> T:
    """What a row's JSON says. Raises StoreError naming the table and the row."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise StoreError(table, str(row), f"damaged ({error}); {REMEDY}") from error


def _word(kind: type[Word], text: str, table: str, row: object) -> Word:
    try:
        return kind(text)
    except ValueError as error:
        raise StoreError(table, str(row), f"damaged ({error}); {REMEDY}") from error


def digest(*parts: object) -> str:
    """A short name for the same parts, always the same."""
    return blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()


def event_key(event: Event) -> str:
    """Identity of an event: the same line read twice is the same event."""
    time = event.attrs.get(GIVEN_TIME) or (event.time.isoformat() if event.time else "")
    return digest(
        event.source,
        event.line,
        event.node,
        event.device,
        event.code,
        time,
        event.uptime_s,
        event.text,
    )


def event_row(event: Event, seen: datetime) -> Row:
    """The row of an event first seen at ``seen``."""
    return {
        "key": event_key(event),
        "seen": seen,
        "time": event.time,
        "node": event.node,
        "device": event.device,
        "code": event.code,
        "text": event.text,
        "source": event.source,
        "line": event.line,
        "uptime_s": event.uptime_s,
        "attrs": json(event.attrs),
        "count": event.count,
    }


def event_of(row: "RowMapping") -> Event:
    """The event of a row."""
    return Event(
        node=row["node"],
        code=row["code"],
        text=row["text"],
        device=row["device"],
        time=row["time"],
        uptime_s=row["uptime_s"],
        source=row["source"],
        line=row["line"],
        attrs=of_json(row["attrs"], dict[str, str], "events", row["number"]),
        count=row["count"],
    )


def fact_value(text: str, *key: str) -> FactValue:
    """The value of the fact with this key (node, device, name)."""
    of_any = cast("type[FactValue]", FactValue)
    return of_json(text, of_any, "facts", " ".join(filter(None, key)))


def state_of(row: "RowMapping") -> NodeState:
    """The scheduler's word in a row."""
    return of_json(row["node_state"], NodeState, "node_states", row["node"])


def attempt_of(job: Job) -> str:
    """What tells the attempts of one job apart: when each started, or was queued."""
    time = job.start or job.submit
    return time.isoformat() if time is not None else ""


def job_row(job: Job) -> Row:
    """The row of one attempt of a job."""
    return {
        "id": job.id,
        "attempt": attempt_of(job),
        "state": job.state,
        "user": job.user,
        "nodes": json(job.nodes),
        "start": job.start,
        "end": job.end,
        "job": json(job),
    }


def check_row(check: CheckResult, seen: datetime) -> Row:
    """The row of a check's result."""
    text = json(check)
    return {
        "key": digest(text),
        "node": check.node,
        "device": check.device,
        "check_name": check.check,
        "status": check.status.value,
        "result": text,
        "time": check.time or seen,
    }


def maintenance_row(work: Maintenance) -> Row:
    """The row of planned work."""
    return {
        "key": digest(work.start, work.end, work.kind, work.nodes),
        "start": work.start,
        "end": work.end,
        "kind": work.kind,
        "nodes": json(work.nodes),
    }


def maintenance_of(row: "RowMapping") -> Maintenance:
    """The planned work of a row."""
    nodes = of_json(row["nodes"], tuple[str, ...], "maintenance", row["key"])
    return Maintenance(row["start"], row["end"], nodes, row["kind"])


def change_row(change: FindingChange) -> Row:
    """The row of a finding's change, for the history."""
    return {
        "time": change.time,
        "id": change.id,
        "change": change.change.value,
        "because": change.because,
        "finding": json(change.finding),
    }


def finding_of(row: "RowMapping", table: str = "findings") -> Finding:
    """The finding of a row of ``findings`` or ``finding_changes``."""
    number = row["number"] if "number" in row else row["id"]
    return of_json(row["finding"], Finding, table, number)


def closing_of(row: "RowMapping") -> Closing:
    """The request of a row."""
    return Closing(row["time"], row["finding"], row["by"], row["because"], row["number"])


def verdict_row(verdict: Verdict) -> Row:
    """The row of a verdict."""
    return {
        "node": verdict.node,
        "health": verdict.health.value,
        "findings": json(verdict.findings),
        "because": verdict.because,
        "time": verdict.time,
        "p_fail_24h": verdict.p_fail_24h,
        "p_fail_7d": verdict.p_fail_7d,
        "held_until": verdict.held_until,
        "contributions": json(verdict.contributions),
    }


def verdict_of(row: "RowMapping") -> Verdict:
    """The verdict of a row; what an older bigiron judged tells less."""
    told = row["contributions"] or "[]"
    return Verdict(
        time=row["time"],
        node=row["node"],
        health=_word(Health, row["health"], "verdicts", row["node"]),
        p_fail_24h=row["p_fail_24h"],
        findings=of_json(row["findings"], tuple[str, ...], "verdicts", row["node"]),
        because=row["because"],
        p_fail_7d=row["p_fail_24h"] if row["p_fail_7d"] is None else row["p_fail_7d"],
        held_until=row["held_until"],
        contributions=of_json(told, tuple[Contribution, ...], "verdicts", row["node"]),
    )


def action_row(action: Action) -> Row:
    """The row of an action."""
    key = action.key or digest(action.node, action.kind, action.time, action.findings)
    return {
        "once": f"{key}|held" if action.held else key,
        "key": key,
        "time": action.time,
        "node": action.node,
        "kind": action.kind.value,
        "mode": action.mode.value,
        "reason": action.reason,
        "findings": json(action.findings),
        "when": action.when.value,
        "held": action.held,
    }


def action_of(row: "RowMapping") -> Action:
    """The action of a row."""
    return Action(
        time=row["time"],
        node=row["node"],
        kind=_word(ActionKind, row["kind"], "actions", row["number"]),
        mode=_word(Mode, row["mode"], "actions", row["number"]),
        reason=row["reason"],
        findings=of_json(row["findings"], tuple[str, ...], "actions", row["number"]),
        when=_word(When, row["when"], "actions", row["number"]),
        key=row["key"],
        held=row["held"],
    )
