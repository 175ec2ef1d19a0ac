"""A recording through the same turn as life: findings, verdicts and actions as files.

The same recording, settings and version give byte-identical lines (docs/formats.md).
"""

import os
import resource
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

import msgspec

from bigiron import __version__
from bigiron.errors import Permanent
from bigiron.hub import ahead, snapshot
from bigiron.hub.folding import Folded
from bigiron.hub.memory import Limits, Memory
from bigiron.hub.tally import Summary, Tally
from bigiron.hub.turn import EXPLAINED, Outcome, Settings, Standing, fold_reads, turn
from bigiron.ingest.recording import About, Recording
from bigiron.model import Action, Batch, Change, FindingChange, Note, Subject, Verdict

FILES = ("findings.jsonl", "verdicts.jsonl", "actions.jsonl")

Steps = Generator[tuple[Batch, Folded | None], None, None]

MANY_ROWS = 3_000_000
"""From so many samples on a second process is worth its start."""


class How(msgspec.Struct, frozen=True):
    """How a replay is run; none of it changes what is written.

    ``processes`` is 1, 2, or 0 for as many as help. It stops after ``until`` and writes what it
    needs to go on into the file ``keep``; it goes on from the file ``resume``. ``fault_files``
    are the site's own faults, for the second process.
    """

    processes: int = 0
    until: datetime | None = None
    keep: Path | None = None
    resume: Path | None = None
    fault_files: tuple[Path, ...] = ()


def fitting(settings: Settings, step_s: float) -> Settings:
    """The settings for samples ``step_s`` apart: fresh must outlast a step, sustained several.

    Half a step more than whole ones: scrapes come a little early or late.
    """
    return msgspec.structs.replace(
        settings,
        fresh_s=max(settings.fresh_s, 2.5 * step_s),
        sustain_s=max(settings.sustain_s, 2.5 * step_s),
        step_s=step_s,
    )


def replay(
    recording: Recording,
    out: Path,
    settings: Settings | None = None,
    progress: Callable[[datetime], None] | None = None,
    how: How | None = None,
) -> Summary:
    """Run the steps of a recording and write what came of them into ``out``.

    A replay that goes on (``how.resume``) in the folder it was stopped in completes the files
    there; in another folder it writes the rest. Raises Permanent if ``out`` cannot be written,
    ParseError if the recording or the snapshot cannot be read.
    """
    begun = monotonic()
    run = _Run(recording, settings or Settings(), how or How())
    try:
        out.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            files = [
                stack.enter_context(_open(out / name, size))
                for name, size in zip(FILES, run.sizes, strict=True)
            ]
            for outcome in run.turns():
                _write(files, outcome)
                if progress is not None and run.standing.time is not None:
                    progress(run.standing.time)
            sizes = tuple(file.tell() for file in files)
        summary = run.close(sizes)
        summary.wall_s = round(monotonic() - begun, 3)
        summary.peak_mib = round(_peak_mib(), 1)
        text = msgspec.json.format(msgspec.json.encode(summary), indent=2)
        (out / "summary.json").write_bytes(text + b"\n")
    except OSError as error:
        raise Permanent(f"{error.filename or out}: {error.strerror}") from error
    return summary


class _Run:
    """One replay, from its start or from a snapshot."""

    def __init__(self, recording: Recording, settings: Settings, how: How) -> None:
        self.recording, self.how = recording, how
        about = recording.about
        self.settings = fitting(settings, about.step_s)
        self.limits = Limits(
            series_s=max(3600.0, 20 * about.step_s), gap_s=min(45.0, about.step_s / 2)
        )
        self.memory = Memory(self.limits, fold_reads())
        self.standing = Standing()
        self.tally = Tally(Summary(about.name, _time(about.start), _time(about.end)))
        self.sizes: tuple[int, ...] = (0,) * len(FILES)
        self.notes: list[Note] = []
        self._after: datetime | None = None
        if how.resume is not None:
            before = snapshot.load(how.resume, about)
            self.memory.go_on(before.memory)
            self.standing, self.tally = before.standing, before.tally
            self.sizes, self._after = before.sizes, before.time

    def turns(self) -> Iterator[Outcome]:
        """Judge step after step."""
        two = self.how.processes == 2 or (self.how.processes == 0 and self._many())
        with closing(self._ahead() if two else self._here()) as steps:
            for batch, folded in steps:
                self.memory.take(batch)
                given = self.memory, self.standing, batch.time, self.settings
                self.standing, outcome = turn(*given, folded=folded)
                self.tally.turn(batch, outcome)
                yield outcome

    def _many(self) -> bool:
        return len(os.sched_getaffinity(0)) > 1 and self.recording.rows >= MANY_ROWS

    def _here(self) -> Steps:
        until = self.how.until
        for batch in self.recording.batches(after=self._after):
            if until is not None and batch.time > until:
                break
            yield batch, None
        self.notes = self.recording.notes

    def _ahead(self) -> Steps:
        start = None
        if self._after is not None:
            folds = dict(self.standing.folds)
            own = {name: folds.pop(name) for name in (EXPLAINED,) if name in folds}
            self.standing = msgspec.structs.replace(self.standing, folds=own)
            start = ahead.Start(ahead.packed(self.memory.kept()), ahead.packed(folds))
        course = ahead.Course(
            self.recording.folder,
            self.recording.stretch_rows,
            self.limits,
            self.settings,
            self.how.fault_files,
            self._after,
            self.how.until,
        )
        with closing(ahead.ahead(course, start)) as steps:
            for told in steps:
                if not isinstance(told, ahead.End):
                    yield told
                    continue
                self.notes = told.notes
                every = {**ahead.unpacked(told.folds), **self.standing.folds}
                self.standing = msgspec.structs.replace(self.standing, folds=every)

    def close(self, sizes: tuple[int, ...]) -> Summary:
        """The summary; and the snapshot, if one is asked for."""
        about, how = self.recording.about, self.how
        if how.keep is not None:
            snapshot.save(how.keep, self._snapshot(about, how.until, sizes))
        summary = self.tally.summary
        summary.nodes = len(self.memory.nodes)
        end = min(how.until or about.end, about.end)
        summary.node_days = summary.nodes * (end - about.start).total_seconds() / 86_400
        summary.findings_open = len(self.standing.open)
        self.tally.close(self.notes)
        return summary

    def _snapshot(
        self, about: About, until: datetime | None, sizes: tuple[int, ...]
    ) -> snapshot.Snapshot:
        time = self.standing.time or until or about.start
        where = about.name, about.start, about.end, about.step_s, time
        kept = self.memory.kept()
        return snapshot.Snapshot(__version__, *where, kept, self.standing, self.tally, sizes)


def _open(path: Path, size: int) -> BinaryIO:
    """A file to write; one that a stopped replay has begun is cut to where that was."""
    if not size or not path.exists():
        return path.open("wb")
    if path.stat().st_size < size:
        raise Permanent(f"{path}: shorter than where the snapshot was taken")
    file = path.open("r+b")
    file.truncate(size)
    file.seek(size)
    return file


def _peak_mib() -> float:
    """The most memory held, of both processes together."""
    return sum(
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


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
    """A line of verdicts.jsonl; ``held_until`` where a node is not better yet than its findings."""
    line: dict[str, Any] = {
        "time": _time(verdict.time),
        "node": verdict.node,
        "health": verdict.health,
        "p_fail_24h": verdict.p_fail_24h,
        "p_fail_7d": verdict.p_fail_7d,
        "findings": list(verdict.findings),
        "because": verdict.because,
    }
    if verdict.held_until is not None:
        line["held_until"] = _time(verdict.held_until)
    return line


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
