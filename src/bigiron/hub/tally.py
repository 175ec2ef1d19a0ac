"""What a replay did, counted."""

from collections.abc import Iterable

import msgspec

from bigiron.hub.turn import Outcome
from bigiron.model import Batch, Change, Note


class Summary(msgspec.Struct):
    """What a replay did; ``wall_s`` and ``peak_mib`` alone differ from run to run."""

    recording: str
    start: str
    end: str
    nodes: int = 0
    node_days: float = 0.0
    turns: int = 0
    samples: int = 0
    events: int = 0
    findings: int = 0
    findings_open: int = 0
    verdicts: int = 0
    actions: int = 0
    actions_held: int = 0
    findings_per_1000_node_days: dict[str, float] = {}
    notes: list[Note] = []
    wall_s: float = 0.0
    peak_mib: float = 0.0


class Tally(msgspec.Struct):
    """Counts what the turns bring: findings opened by detector, failures by where and what."""

    summary: Summary
    opened: dict[str, int] = {}
    failed: list[Note] = []

    def turn(self, batch: Batch, outcome: Outcome) -> None:
        """Count one turn."""
        summary = self.summary
        summary.turns += 1
        summary.samples += len(batch.samples) + sum(
            int((told.values == told.values).sum()) for told in batch.columns
        )
        summary.events += len(batch.events)
        for change in outcome.changes:
            if change.change is Change.OPEN:
                detector = change.finding.detector
                self.opened[detector] = self.opened.get(detector, 0) + 1
                summary.findings += 1
        summary.verdicts += len(outcome.verdicts)
        summary.actions += len(outcome.actions)
        summary.actions_held += sum(bool(a.held) for a in outcome.actions)
        self.failed = added(self.failed, outcome.notes)

    def close(self, notes: Iterable[Note]) -> None:
        """The rates, and everything that was left out or failed."""
        summary = self.summary
        per = 1000 / summary.node_days if summary.node_days else 0.0
        summary.findings_per_1000_node_days = {
            name: round(count * per, 3) for name, count in sorted(self.opened.items())
        }
        summary.notes = [*notes, *self.failed]


def added(notes: list[Note], new: Iterable[Note]) -> list[Note]:
    """Notes with others counted to those that say the same."""
    by_what = {(note.source, note.what): note for note in notes}
    for note in new:
        old = by_what.get((note.source, note.what))
        count = note.count + (old.count if old is not None else 0)
        by_what[note.source, note.what] = msgspec.structs.replace(note, count=count)
    return list(by_what.values()) if by_what else notes
