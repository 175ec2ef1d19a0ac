"""A recording through the same turn as life: findings, verdicts and actions as files.

The same recording, settings and version give byte-identical lines (docs/formats.md).
"""

import resource
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

import msgspec

from bigiron.errors import Permanent
from bigiron.hub.memory import Limits, Memory
from bigiron.hub.turn import Outcome, Settings, Standing, fold_reads, turn
from bigiron.ingest.recording import Recording
from bigiron.model import Action, Batch, Change, FindingChange, Note, Subject, Verdict

FILES = ("findings.jsonl", "verdicts.jsonl", "actions.jsonl")


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


def fitting(settings: Settings, step_s: float) -> Settings:
    """The settings for samples ``step_s`` apart: fresh must outlast a step, sustained several."""
    return msgspec.structs.replace(
        settings,
        fresh_s=max(settings.fresh_s, 2.5 * step_s),
        sustain_s=max(settings.sustain_s, 2 * step_s),
        step_s=step_s,
    )


def replay(
    recording: Recording,
    out: Path,
    settings: Settings | None = None,
    progress: Callable[[datetime], None] | None = None,
) -> Summary:
    """Run every step of a recording and write what came of it into ``out``.

    Raises Permanent if ``out`` cannot be written, ParseError if the recording cannot be read.
    """
    begun = monotonic()
    about = recording.about
    settings = fitting(settings or Settings(), about.step_s)
    limits = Limits(series_s=max(3600.0, 20 * about.step_s), gap_s=min(45.0, about.step_s / 2))
    memory, standing = Memory(limits, fold_reads()), Standing()
    tally = Tally(Summary(about.name, _time(about.start), _time(about.end)))
    try:
        out.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            files = [stack.enter_context((out / name).open("wb")) for name in FILES]
            for batch in recording.batches():
                memory.take(batch)
                standing, outcome = turn(memory, standing, batch.time, settings)
                _write(files, outcome)
                tally.turn(batch, outcome)
                if progress is not None:
                    progress(batch.time)
        summary = tally.summary
        summary.nodes = len(memory.nodes)
        summary.node_days = summary.nodes * (about.end - about.start).total_seconds() / 86_400
        summary.findings_open = len(standing.open)
        tally.close(recording.notes)
        summary.wall_s = round(monotonic() - begun, 3)
        summary.peak_mib = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
        text = msgspec.json.format(msgspec.json.encode(summary), indent=2)
        (out / "summary.json").write_bytes(text + b"\n")
    except OSError as error:
        raise Permanent(f"{error.filename or out}: {error.strerror}") from error
    return summary


@dataclass(slots=True)
class Tally:
    """Counts what the turns bring."""

    summary: Summary
    opened: Counter[str] = field(default_factory=Counter)
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)

    def turn(self, batch: Batch, outcome: Outcome) -> None:
        """Count one turn."""
        summary = self.summary
        summary.turns += 1
        summary.samples += len(batch.samples) + sum(
            int((told.values == told.values).sum()) for told in batch.columns
        )
        summary.events += len(batch.events)
        opened = [c.finding.detector for c in outcome.changes if c.change is Change.OPEN]
        self.opened.update(opened)
        summary.findings += len(opened)
        summary.verdicts += len(outcome.verdicts)
        summary.actions += len(outcome.actions)
        summary.actions_held += sum(bool(a.held) for a in outcome.actions)
        self.failed.update((n.source, n.what) for n in outcome.notes)

    def close(self, notes: Iterable[Note]) -> None:
        """The rates, and everything that was left out or failed."""
        summary = self.summary
        per = 1000 / summary.node_days if summary.node_days else 0.0
        summary.findings_per_1000_node_days = {
            name: round(count * per, 3) for name, count in sorted(self.opened.items())
        }
        failed = (Note(source, what, count) for (source, what), count in self.failed.items())
        summary.notes = [*notes, *failed]


def _write(files: Sequence[BinaryIO], outcome: Outcome) -> None:
    findings, verdicts, actions = files
    for change in outcome.changes:
        findings.write(msgspec.json.encode(finding_line(change)) + b"\n")
    for verdict in outcome.verdicts:
        verdicts.write(msgspec.json.encode(verdict_line(verdict)) + b"\n")
    for action in outcome.actions:
        actions.write(msgspec.json.encode(action_line(action)) + b"\n")


def finding_line(change: FindingChange) -> dict[str, Any]:
    """A line of findings.jsonl."""
    finding = change.finding
    line: dict[str, Any] = {
        "time": _time(change.time),
        "id": change.id,
        "change": change.change,
        "detector": finding.detector,
        "fault": finding.fault,
        "severity": finding.severity,
        "subject": _subject(finding.subject),
        "confidence": round(finding.confidence, 4),
        "because": list(finding.because),
    }
    if change.change is Change.CLOSE:
        line["closed_because"] = change.because
    return line


def verdict_line(verdict: Verdict) -> dict[str, Any]:
    """A line of verdicts.jsonl."""
    return {
        "time": _time(verdict.time),
        "node": verdict.node,
        "health": verdict.health,
        "p_fail_24h": verdict.p_fail_24h,
        "findings": list(verdict.findings),
        "because": verdict.because,
    }


def action_line(action: Action) -> dict[str, Any]:
    """A line of actions.jsonl; ``held`` says why it was not asked for after all."""
    line: dict[str, Any] = {
        "time": _time(action.time),
        "node": action.node,
        "action": action.kind,
        "mode": action.mode,
        "reason": action.reason,
        "findings": list(action.findings),
        "when": action.when,
    }
    if action.held:
        line["held"] = action.held
    return line


def _subject(subject: Subject) -> dict[str, Any]:
    if subject.by:
        return {
            "kind": "group",
            "by": subject.by,
            "group": subject.group,
            "members": list(subject.members),
        }
    line = {"kind": subject.kind, "node": subject.node}
    return {**line, "device": subject.device} if subject.device else line


def _time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
