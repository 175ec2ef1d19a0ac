"""The ledger: what happened, what was found, decided and asked for. One process writes it.

A turn is one transaction: the cursors move on together with everything that was made of the
batches they stand for. A hub that is killed at any moment therefore finds either all of a turn
or nothing of it, and asks its sources again from the cursors.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from sqlalchemy import delete, select

from bigiron.model import Action, Batch, Change, Closing, Event, FindingChange, Verdict
from bigiron.store import rows, schema
from bigiron.store.database import FILE, explained, open_to_write
from bigiron.store.known import Delta
from bigiron.store.recall import known, recall
from bigiron.store.turn import Turn, write

KEYS_ASKED = 500
"""Keys in one IN (...); SQLite's own limit on parameters is far higher."""
KEEP_DAYS = 400.0
PRUNED_ROWS = 20_000
"""Rows removed from one table at a time, so that pruning never holds up a turn."""


class Ledger:
    """The ledger in ``folder``, open for writing."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._connection = open_to_write(self.path)
        with explained(self.path), self._connection.begin():
            self._known = known(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; what was committed stays."""
        self._connection.close()

    def commit_turn(self, turn: Turn) -> None:
        """Write a whole turn or nothing of it. Raises Temporary (try again) or Permanent."""
        delta = Delta()
        for batch in turn.batches:
            self._known.compare(batch, delta)
        for verdict in turn.verdicts:
            self._known.compare_verdict(verdict, delta)
        with explained(self.path), self._connection.begin():
            write(self._connection, turn, delta)
        self._known.learn(delta)

    def unseen(self, batch: Batch) -> tuple[Batch, int]:
        """The batch without events the ledger holds already or it holds twice, and how many."""
        if not batch.events:
            return batch, 0
        by_key: dict[str, Event] = {}
        for event in batch.events:
            by_key.setdefault(rows.event_key(event), event)
        keys = list(by_key)
        with explained(self.path), self._connection.begin():
            for start in range(0, len(keys), KEYS_ASKED):
                some = keys[start : start + KEYS_ASKED]
                known = select(schema.events.c.key).where(schema.events.c.key.in_(some))
                for key in self._connection.scalars(known):
                    del by_key[key]
        repeated = len(batch.events) - len(by_key)
        if not repeated:
            return batch, 0
        return msgspec.structs.replace(batch, events=tuple(by_key.values())), repeated

    def cursors(self) -> dict[str, str]:
        """How far each source has been read and committed."""
        with explained(self.path), self._connection.begin():
            found = self._connection.execute(
                select(schema.cursors.c.source, schema.cursors.c.cursor)
            )
            return {row.source: row.cursor for row in found}

    def detector_state(self) -> dict[str, bytes]:
        """What each stateful detector remembered."""
        table = schema.detector_state
        with explained(self.path), self._connection.begin():
            found = self._connection.execute(select(table.c.name, table.c.state))
            return {row.name: row.state for row in found}

    def verdicts(self) -> dict[str, Verdict]:
        """The verdict that stands on each node."""
        return dict(self._known.verdicts)

    def open_findings(self) -> list[FindingChange]:
        """The findings that stand, each as the change that last touched it, by id."""
        table = schema.findings
        query = select(table).where(table.c.closed.is_(None)).order_by(table.c.id)
        with explained(self.path), self._connection.begin():
            return [
                FindingChange(row["updated"], row["id"], Change.OPEN, rows.finding_of(row))
                for row in self._connection.execute(query).mappings()
            ]

    def asked_to_close(self) -> list[Closing]:
        """What people asked to be closed and no turn has dealt with yet, in order."""
        table = schema.closings
        query = select(table).where(table.c.applied.is_(None)).order_by(table.c.number)
        with explained(self.path), self._connection.begin():
            return list(map(rows.closing_of, self._connection.execute(query).mappings()))

    def last_finding(self) -> int:
        """The number of the newest finding there has ever been; 0 at first."""
        return self._meta("last_finding")

    def events_not_folded(self) -> list[Event]:
        """The events that came after the folds in ``detector_state`` were last written."""
        table = schema.events
        after = self._meta("folded")
        query = select(table).where(table.c.number > after).order_by(table.c.number)
        with explained(self.path), self._connection.begin():
            return list(map(rows.event_of, self._connection.execute(query).mappings()))

    def actions_of(self, nodes: Sequence[str]) -> list[Action]:
        """Every action on these nodes, asked for or held back, oldest first."""
        table = schema.actions
        found: list[Action] = []
        with explained(self.path), self._connection.begin():
            for start in range(0, len(nodes), KEYS_ASKED):
                some = table.c.node.in_(nodes[start : start + KEYS_ASKED])
                query = select(table).where(some).order_by(table.c.number)
                found += map(rows.action_of, self._connection.execute(query).mappings())
        return found

    def recall(self, now: datetime, event_days: float) -> Batch:
        """What a hub that starts must know again, as one batch.

        Nodes, devices, facts and states as they stand; events and checks of the last
        ``event_days`` and the events of open findings, without those ``events_not_folded``;
        running and recent jobs. Bounded: the newest RECALL_EVENTS events and RECALL_JOBS jobs.
        """
        since, folded = now - timedelta(days=event_days), self._meta("folded")
        with explained(self.path), self._connection.begin():
            return recall(self._connection, self._known, now, since, folded)

    def prune(self, now: datetime, keep_days: float = KEEP_DAYS) -> int:
        """Remove history older than ``keep_days``; what stands is never removed. Rows removed."""
        before = now - timedelta(days=keep_days)
        removed = 0
        with explained(self.path), self._connection.begin():
            for table, time in (
                (schema.events, "seen"),
                (schema.fact_history, "time"),
                (schema.node_state_history, "time"),
                (schema.verdict_history, "time"),
                (schema.checks, "time"),
            ):
                old = select(table.c.number).where(table.c[time] < before).limit(PRUNED_ROWS)
                done = self._connection.execute(delete(table).where(table.c.number.in_(old)))
                removed += done.rowcount
        return removed

    def _meta(self, name: str) -> int:
        query = select(schema.meta.c.value).where(schema.meta.c.name == name)
        with explained(self.path), self._connection.begin():
            return int(self._connection.scalar(query) or 0)
