"""The tables of a recording: nodes, devices, facts, jobs, states, planned work, checks, the log."""

import csv
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import msgspec

from bigiron.errors import ParseError
from bigiron.ingest import Document, pci_address
from bigiron.ingest.kernel_log import KernelLog
from bigiron.ingest.slurm_jobs import SacctTable
from bigiron.model import (
    CheckResult,
    Device,
    Event,
    Fact,
    FactValue,
    Job,
    Maintenance,
    Node,
    NodeState,
    Note,
)
from bigiron.nodesets import unfold

T = TypeVar("T")
_EVER = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)


class FactLine(msgspec.Struct, frozen=True):
    """A line of facts.jsonl."""

    time: datetime
    node: str
    facts: dict[str, FactValue | None]
    device: str = ""


class Tables:
    """Reads the files of one recording; ``notes`` counts rows that were left out."""

    def __init__(self, folder: Path, label: str) -> None:
        self.notes: list[Note] = []
        self._folder = folder
        self._label = label

    def nodes(self) -> list[Node]:
        """nodes.csv. Raises ParseError without it or without its columns."""
        return self._csv("nodes.csv", ("node",), _node, required=True)

    def devices(self) -> list[Device]:
        """devices.csv."""
        return self._csv("devices.csv", ("node", "device"), _device)

    def states(self) -> list[NodeState]:
        """nodestate.csv, in order of time."""
        states = self._csv("nodestate.csv", ("time", "node", "state"), _state)
        return self._ordered("nodestate.csv", states, lambda s: s.time)

    def maintenance(self) -> list[Maintenance]:
        """maintenance.csv."""
        return self._csv("maintenance.csv", ("start", "end", "nodes"), _maintenance)

    def facts(self) -> list[Fact]:
        """facts.jsonl, in order of time."""
        decoder = msgspec.json.Decoder(FactLine)
        facts: list[Fact] = []
        for line in self._jsonl("facts.jsonl", decoder.decode):
            time = _utc(line.time)
            facts += [
                Fact(line.node, name, value, line.device, time)
                for name, value in line.facts.items()
                if value is not None
            ]
        return self._ordered("facts.jsonl", facts, lambda f: f.time)

    def checks(self) -> list[CheckResult]:
        """checks.jsonl, in order of time."""
        decoder = msgspec.json.Decoder(CheckResult)
        checks = list(self._jsonl("checks.jsonl", decoder.decode))
        return self._ordered("checks.jsonl", checks, lambda c: c.time)

    def jobs(self) -> list[Job]:
        """jobs.psv: one attempt of a job at a time, none that ends before it begins."""
        path = self._folder / "jobs.psv"
        if not path.exists():
            return []
        read = SacctTable().read(self._document("jobs.psv"))
        return self._one_at_a_time(list(self._kept(read, Job)))

    def _one_at_a_time(self, jobs: list[Job]) -> list[Job]:
        """Attempts of one job that overlap: the earlier is taken to end where the next begins.

        Different jobs on one node are no error: nodes are shared.
        """
        source = f"{self._label}/jobs.psv"
        kept: dict[str, list[Job]] = {}
        for job in sorted(jobs, key=lambda j: (j.start or _LATEST, j.end or _LATEST)):
            if job.start is not None and job.end is not None and job.end < job.start:
                what = f"row left out: it ends at {job.end:%Y-%m-%d %H:%M:%S}, before it begins"
                self.notes.append(Note(f"{source}: job {job.id}", what))
                continue
            attempts = kept.setdefault(job.id, [])
            before = attempts[-1] if attempts else None
            if before is not None and _overlap(before, job):
                if (before.start, before.end) == (job.start, job.end):
                    self.notes.append(Note(f"{source}: job {job.id}", "row told twice, left out"))
                    continue
                what = "two attempts of it overlap; the first is taken to end where the next begins"
                self.notes.append(Note(f"{source}: job {job.id}", what))
                attempts[-1] = msgspec.structs.replace(before, end=job.start)
            attempts.append(job)
        return [job for attempts in kept.values() for job in attempts]

    def events(self, log: KernelLog) -> list[Event]:
        """logs/kernel.log: what it means, in order of time; lines without a time are left out."""
        path = self._folder / "logs" / "kernel.log"
        if not path.exists():
            return []
        read = log.read(self._document("logs/kernel.log"))
        events = [e for e in self._kept(read, Event) if e.time is not None]
        return sorted(events, key=lambda e: (e.time or _EVER, e.line))

    def _kept(self, read: Iterable[object], kind: type[T]) -> Iterator[T]:
        for seen in read:
            if isinstance(seen, kind):
                yield seen
            elif isinstance(seen, Note):
                self.notes.append(seen)

    def _document(self, name: str) -> Document:
        path = self._folder / name
        now = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return Document(f"{self._label}/{name}", now, lambda: path.open("rb"))

    def _csv(
        self,
        name: str,
        wanted: tuple[str, ...],
        make: Callable[[dict[str, str]], T],
        *,
        required: bool = False,
    ) -> list[T]:
        path, source = self._folder / name, f"{self._label}/{name}"
        if not path.exists():
            if required:
                raise ParseError(source, 0, "the file is missing")
            return []
        made: list[T] = []
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            rows = csv.DictReader(file)
            missing = [column for column in wanted if column not in (rows.fieldnames or ())]
            if missing:
                held = ", ".join(rows.fieldnames or ()) or "nothing"
                raise ParseError(source, 1, f"no column {missing[0]!r}; it holds {held}")
            for row in rows:
                try:
                    made.append(make({k: v or "" for k, v in row.items() if k is not None}))
                except (ValueError, ParseError) as error:
                    self._skipped(f"{source}:{rows.line_num}", error)
        return made

    def _jsonl(self, name: str, decode: Callable[[str], T]) -> Iterator[T]:
        path = self._folder / name
        if not path.exists():
            return
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    yield decode(line)
                except (msgspec.DecodeError, ValueError) as error:
                    self._skipped(f"{self._label}/{name}:{number}", error)

    def _skipped(self, where: str, error: Exception) -> None:
        self.notes.append(Note(where, f"row left out: {error}"))

    def _ordered(self, name: str, rows: list[T], key: Callable[[T], datetime | None]) -> list[T]:
        times = [key(row) or _EVER for row in rows]
        if any(a > b for a, b in pairwise(times)):
            self.notes.append(Note(f"{self._label}/{name}", "rows out of order of time, sorted"))
            rows = sorted(rows, key=lambda row: key(row) or _EVER)
        return rows


def _overlap(before: Job, after: Job) -> bool:
    """Whether an attempt still runs, or never began to, when the next begins."""
    if before.start is None or after.start is None:
        return before.start == after.start
    return before.end is None or before.end > after.start


def _named(row: dict[str, str], column: str) -> str:
    value = row[column].strip()
    if not value:
        raise ValueError(f"no {column}")
    return value


def _node(row: dict[str, str]) -> Node:
    fields = {f: row.get(f, "").strip() for f in Node.__struct_fields__ if f != "name"}
    return Node(_named(row, "node"), **fields)


def _device(row: dict[str, str]) -> Device:
    bus = row.get("bus", "").strip()
    return Device(
        _named(row, "node"),
        _named(row, "device"),
        row.get("kind", "").strip(),
        row.get("id", "").strip(),
        pci_address(bus) or bus,
        row.get("model", "").strip(),
        row.get("vendor", "").strip(),
    )


def _state(row: dict[str, str]) -> NodeState:
    time = _time(row, "time")
    state = _named(row, "state").lower()
    return NodeState(_named(row, "node"), state, row.get("reason", ""), since=time, time=time)


def _maintenance(row: dict[str, str]) -> Maintenance:
    return Maintenance(
        _time(row, "start"), _time(row, "end"), unfold(row["nodes"]), row.get("kind", "")
    )


def _time(row: dict[str, str], column: str) -> datetime:
    return _utc(datetime.fromisoformat(_named(row, column)))


def _utc(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise ValueError(f"{time.isoformat()}: a time without an offset")
    return time.astimezone(UTC)
