"""Questions to the ledger, answered while the hub goes on writing it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import ColumnElement, RowMapping, Select, Table, func, or_, select

from bigiron.errors import NoData
from bigiron.model import (
    Action,
    Batch,
    Change,
    Closing,
    Device,
    Event,
    Evidence,
    Finding,
    FindingChange,
    Health,
    Node,
    NodeState,
    Verdict,
)
from bigiron.store import recall, rows, schema
from bigiron.store.database import FILE, explained, open_to_read
from bigiron.store.turn import Meter
from bigiron.words import chance

T = TypeVar("T")
LIMIT = 1000
CLOSED_SHOWN = 3
BY_PEOPLE = ("closed by ", "returned to service ")
"""So begins why a finding was closed, where a person closed it (``detect.closing``)."""


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding as it stands or stood last."""

    id: str
    finding: Finding
    opened: datetime
    updated: datetime
    closed: datetime | None
    because: str


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node with what is judged of it. ``verdict`` is None where it was never judged."""

    node: Node
    verdict: Verdict | None
    state: NodeState | None
    action: Action | None


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of a node's history."""

    time: datetime
    what: str
    text: str
    device: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """A finding in a chain of reasons, with its raw lines and samples."""

    row: FindingRow
    evidence: tuple[Evidence, ...]
    events: tuple[Event, ...]
    """Ledger events of this fault on this node that the evidence does not quote."""


@dataclass(frozen=True, slots=True)
class Why:
    """The chain from what was asked for down to what was seen."""

    node: NodeRow
    actions: tuple[Action, ...]
    reasons: tuple[Reason, ...]
    asked: tuple[Closing, ...] = ()
    """Requests to close one of these findings that no hub has taken up yet."""
    closed: tuple[FindingRow, ...] = ()
    """What people closed lately, newest first."""


class Reading:
    """A ledger open for reading. Raises NoData where there is none, Permanent if damaged."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._connection = open_to_read(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def named(self, name: str) -> str:
        """The node that goes by a name: its own, one joined with it, or its first label alone."""
        every = [row.node.name for row in self.nodes()]
        if name in every:
            return name
        kept = schema.detector_state
        for row in self._every(select(kept.c.state).where(kept.c.name == rows.JOINED)):
            with explained(self.path):
                joined = rows.of_json(row["state"], dict[str, str], kept.name, rows.JOINED)
            if name in joined:
                return joined[name]
        longer = [one for one in every if one.startswith(f"{name}.")]
        return longer[0] if len(longer) == 1 else name

    def nodes(self, names: Sequence[str] = ()) -> list[NodeRow]:
        """The nodes by name, all or these, each with its verdict, state and newest action."""
        nodes = {r["name"]: Node(**r) for r in self._every(select(schema.nodes))}
        verdicts = {v.node: v for v in self._all(select(schema.verdicts), rows.verdict_of)}
        states = {s.node: s for s in self._all(select(schema.node_states), rows.state_of)}
        actions = {action.node: action for action in self._standing_actions(verdicts)}
        found = set(nodes) | set(verdicts) | set(states)
        return [
            NodeRow(
                nodes.get(name, Node(name)),
                verdicts.get(name),
                states.get(name),
                actions.get(name),
            )
            for name in sorted(found)
            if not names or name in names
        ]

    def configuration(self) -> Batch:
        """All nodes, devices and facts, and the planned work."""
        work = self._all(select(schema.maintenance), rows.maintenance_of)
        with explained(self.path), self._connection.begin():
            told = tuple(recall.facts(self._connection))
        return Batch(
            max((f.time for f in told if f.time is not None), default=datetime.now(UTC)),
            "ledger",
            nodes=tuple(Node(**r) for r in self._every(select(schema.nodes))),
            devices=tuple(Device(**r) for r in self._every(select(schema.devices))),
            facts=told,
            maintenance=tuple(work),
        )

    def findings(
        self, *, closed: bool = False, nodes: Sequence[str] = (), limit: int = LIMIT
    ) -> list[FindingRow]:
        """The open findings, and with ``closed`` the closed ones, newest first."""
        table = schema.findings
        query = select(table).order_by(table.c.opened.desc(), table.c.id.desc())
        if not closed:
            query = query.where(table.c.closed.is_(None))
        if not nodes:
            return self._all(query.limit(limit), _finding_row)
        own = self._all(query.where(table.c.node.in_(nodes)).limit(limit), _finding_row)
        groups = self._all(query.where(table.c.node == ""), _finding_row)
        found = [*own, *islice((row for row in groups if _about(row, nodes)), limit)]
        return sorted(found, key=lambda row: (row.opened, row.id), reverse=True)[:limit]

    def events(
        self,
        *,
        nodes: Sequence[str] = (),
        since: datetime | None = None,
        code: str = "",
        limit: int = LIMIT,
    ) -> list[Event]:
        """The newest events, oldest of them first. ``code`` also takes the codes below it."""
        table = schema.events
        query = select(table).order_by(table.c.number.desc()).limit(limit)
        if nodes:
            query = query.where(table.c.node.in_(nodes))
        if since is not None:
            query = query.where(or_(table.c.time >= since, table.c.time.is_(None)))
            query = query.where(table.c.seen >= since)
        if code:
            query = query.where(_below(table, code))
        return self._all(query, rows.event_of)[::-1]

    def actions(self, *, nodes: Sequence[str] = (), limit: int = LIMIT) -> list[Action]:
        """The newest actions, oldest of them first."""
        table = schema.actions
        query = select(table).order_by(table.c.number.desc()).limit(limit)
        if nodes:
            query = query.where(table.c.node.in_(nodes))
        return self._all(query, rows.action_of)[::-1]

    def changes(self, id_: str) -> list[FindingChange]:
        """Everything that happened to one finding, oldest first."""
        table = schema.finding_changes
        query = select(table).where(table.c.id == id_).order_by(table.c.number)
        return self._all(query, _change)

    def timeline(self, node: str, *, limit: int = LIMIT) -> list[Moment]:
        """The newest ``limit`` moments of a node's history, oldest of them first."""
        moments = [
            *self._events_as_moments(node, limit),
            *self._changes_as_moments(node, limit),
            *self._verdicts_as_moments(node, limit),
            *self._states_as_moments(node, limit),
            *self._facts_as_moments(node, limit),
            *(
                Moment(a.time, "action", f"{a.kind} ({a.mode}): {a.reason}{_held(a)}")
                for a in self.actions(nodes=[node], limit=limit)
            ),
        ]
        return sorted(moments, key=lambda moment: moment.time)[-limit:]

    def why(self, node: str) -> Why:
        """From a node's actions to the lines and samples they rest on. Raises NoData."""
        found = self.nodes([node])
        if not found:
            raise NoData(f"{node}: no such node in {self.path}")
        wanted = set(found[0].verdict.findings) if found[0].verdict else set()
        actions = tuple(a for a in self.actions(nodes=[node]) if _rests_on(a, wanted))
        table = schema.findings
        here = or_(table.c.node == node, table.c.id.in_(wanted))
        query = select(table).where(here, table.c.closed.is_(None)).order_by(table.c.id)
        standing = self._all(query, _finding_row)
        groups = [f for f in self.findings(nodes=[node]) if f.finding.subject.by]
        known = {row.id: row for row in (*standing, *groups)}
        reasons = tuple(self._reason(row, node) for _, row in sorted(known.items()))
        asked = tuple(closing for closing in self.asked() if closing.finding in known)
        return Why(found[0], actions, reasons, asked, self._closed_by_people(node))

    def asked(self) -> list[Closing]:
        """The requests to close a finding that no hub has taken up yet, in order."""
        table = schema.closings
        query = select(table).where(table.c.applied.is_(None)).order_by(table.c.number)
        return self._all(query, rows.closing_of)

    def cursors(self) -> dict[str, str]:
        """How far each source has been read."""
        return {r["source"]: r["cursor"] for r in self._every(select(schema.cursors))}

    def meters(self) -> list[tuple[Meter, datetime]]:
        """What the hub last said of itself, and when."""
        query = select(schema.meters).order_by(schema.meters.c.name, schema.meters.c.label)
        return [
            (Meter(r["name"], r["value"], r["label"], r["said"]), r["time"])
            for r in self._every(query)
        ]

    def notes(self, limit: int = LIMIT) -> list[tuple[str, str, int]]:
        """(source, what, count) of what was read and not used, most frequent first."""
        query = select(schema.notes).order_by(schema.notes.c.count.desc()).limit(limit)
        return [(r["source"], r["what"], r["count"]) for r in self._every(query)]

    def count(self, table: str) -> int:
        """How many rows a table holds."""
        chosen = schema.tables.tables[table]
        return int(next(self._every(select(func.count().label("n")).select_from(chosen)))["n"])

    def _all(self, query: Select[Any], of: Callable[[RowMapping], T]) -> list[T]:
        """The rows of an answer as nouns. Raises StoreError naming a row that is damaged."""
        with explained(self.path):
            return list(map(of, self._every(query)))

    def _every(self, query: Select[Any]) -> Iterator[RowMapping]:
        with explained(self.path), self._connection.begin():
            yield from self._connection.execute(query).mappings().all()

    def _standing_actions(self, verdicts: dict[str, Verdict]) -> list[Action]:
        """Actions of nodes that are not healthy, whose findings the verdict still rests on."""
        table = schema.actions
        ill = [node for node, v in verdicts.items() if v.health is not Health.HEALTHY]
        found: list[Action] = []
        for start in range(0, len(ill), 500):
            some = table.c.node.in_(ill[start : start + 500])
            query = select(table).where(some).order_by(table.c.number)
            found += self._all(query, rows.action_of)
        return [a for a in found if _rests_on(a, set(verdicts[a.node].findings))]

    def _reason(self, row: FindingRow, node: str) -> Reason:
        quoted = {(e.source, e.line) for e in row.finding.evidence if e.line}
        events = self.events(nodes=[node], code=row.finding.fault, limit=20)
        device = row.finding.subject.device
        return Reason(
            row,
            row.finding.evidence,
            tuple(
                event
                for event in events
                if (event.source, event.line) not in quoted
                and (not device or event.device in ("", device))
            ),
        )

    def _closed_by_people(self, node: str) -> tuple[FindingRow, ...]:
        table = schema.findings
        told = or_(*(table.c.because.startswith(word) for word in BY_PEOPLE))
        query = select(table).where(table.c.node == node, table.c.closed.is_not(None), told)
        newest = query.order_by(table.c.closed.desc(), table.c.id.desc()).limit(CLOSED_SHOWN)
        return tuple(self._all(newest, _finding_row))

    def _events_as_moments(self, node: str, limit: int) -> Iterator[Moment]:
        table = schema.events
        query = select(table).where(table.c.node == node)
        for row in self._every(query.order_by(table.c.number.desc()).limit(limit)):
            times = f" ({row['count']} times)" if row["count"] > 1 else ""
            text = f"{row['code']}: {row['text']}{times}"
            yield Moment(row["time"] or row["seen"], "event", text, row["device"])

    def _changes_as_moments(self, node: str, limit: int) -> Iterator[Moment]:
        changes, findings = schema.finding_changes, schema.findings
        query = (
            select(changes)
            .join(findings, findings.c.id == changes.c.id)
            .where(findings.c.node == node)
            .order_by(changes.c.number.desc())
            .limit(limit)
        )
        for change in self._all(query, _change):
            because = change.because or "; ".join(change.finding.because)
            yield Moment(
                change.time,
                f"finding {change.change}",
                f"{change.id} {change.finding.fault} ({change.finding.severity}): {because}",
                change.finding.subject.device,
            )

    def _verdicts_as_moments(self, node: str, limit: int) -> Iterator[Moment]:
        for row in self._history(schema.verdict_history, node, limit):
            p = f"fails within 24 h: {chance(row['p_fail_24h'])}"
            because = f": {row['because']}" if row["because"] else ""
            yield Moment(row["time"], "verdict", f"{row['health']}, {p}{because}")

    def _states_as_moments(self, node: str, limit: int) -> Iterator[Moment]:
        for row in self._history(schema.node_state_history, node, limit):
            reason = f": {row['reason']}" if row["reason"] else ""
            yield Moment(row["time"], "scheduler", f"{row['state']}{reason}")

    def _facts_as_moments(self, node: str, limit: int) -> Iterator[Moment]:
        for row in self._history(schema.fact_history, node, limit):
            yield Moment(row["time"], "fact", f"{row['name']} = {row['value']}", row["device"])

    def _history(self, table: Table, node: str, limit: int) -> Iterator[RowMapping]:
        query = select(table).where(table.c.node == node)
        return self._every(query.order_by(table.c.number.desc()).limit(limit))


def _below(table: Table, code: str) -> ColumnElement[bool]:
    return or_(table.c.code == code, table.c.code.startswith(f"{code}.", autoescape=True))


def _held(action: Action) -> str:
    return f" (held: {action.held})" if action.held else ""


def _rests_on(action: Action, findings: set[str]) -> bool:
    """Whether an action still has a ground to stand on."""
    return bool(findings.intersection(action.findings))


def _about(row: FindingRow, nodes: Sequence[str]) -> bool:
    subject = row.finding.subject
    return subject.node in nodes or any(node in subject.members for node in nodes)


def _finding_row(row: RowMapping) -> FindingRow:
    return FindingRow(
        row["id"],
        rows.finding_of(row),
        row["opened"],
        row["updated"],
        row["closed"],
        row["because"],
    )


def _change(row: RowMapping) -> FindingChange:
    return FindingChange(
        row["time"],
        row["id"],
        Change(row["change"]),
        rows.finding_of(row, "finding_changes"),
        row["because"],
    )
