"""Inspection: files of one or more hosts in, a diagnosis out. One look, no state, base install.

The same readers, memory and detectors as the hub's; a document's samples are as old as the
document, so nothing in it is stale.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from bigiron.detect import Window, detector
from bigiron.errors import ParseError
from bigiron.hub.documents import Documents
from bigiron.hub.hosts import Reading, assign
from bigiron.hub.memory import Limits, Memory
from bigiron.ingest import Document, Head, Reader, gather, reader
from bigiron.model import (
    Blame,
    CheckResult,
    Event,
    Finding,
    Health,
    Job,
    Maintenance,
    Node,
    Note,
    Observation,
    Severity,
)

SURE = 0.3
"""A format recognised less surely than this is not read."""


class Seen(msgspec.Struct, frozen=True):
    """A document, what it was recognised as, whose it is and how much it held."""

    name: str
    format: str
    host: str
    observations: int


class Diagnosis(msgspec.Struct, frozen=True):
    """One host: its health, what it is, and what was found, worst and first cause first."""

    node: str
    health: Health
    parts: str
    findings: tuple[Finding, ...]


class Report(msgspec.Struct, frozen=True):
    """Everything an inspection says. ``exit_code``: 0 healthy, 1 warning, 2 critical, 3 nothing."""

    exit_code: int
    diagnoses: tuple[Diagnosis, ...]
    groups: tuple[Finding, ...]
    seen: tuple[Seen, ...]
    notes: tuple[Note, ...]


def inspect(paths: list[str], documents: Documents, now: datetime | None = None) -> Report:
    """Reads every document under the paths and says what is wrong with whom."""
    notes: list[Note] = []
    readings = read_all(paths, documents, notes)
    notes += documents.notes
    findings, window = judge(readings, now or datetime.now(UTC))
    return _report(readings, findings, window, notes)


def read_all(paths: list[str], documents: Documents, notes: list[Note]) -> list[Reading]:
    """Every recognised document under the paths, each with its host; ``notes`` grows."""
    formats = [(plugin.name, plugin.run()) for plugin in reader]
    readings = [
        reading
        for document in documents.of(paths)
        if (reading := _read(document, formats, notes)) is not None
    ]
    assign(readings)
    return readings


def _read(
    document: Document, formats: Sequence[tuple[str, Reader]], notes: list[Note]
) -> Reading | None:
    """The document as its best reader reads it, or None and a note that says why not."""
    head = Head.of(document)
    if not head.data:
        notes.append(Note(document.name, "empty"))
        return None
    sure, name, best = max(
        ((format_.sniff(head), name, format_) for name, format_ in formats),
        key=lambda one: one[0],
        default=(0.0, "", None),
    )
    if best is None or sure < SURE:
        notes.append(Note(document.name, _unrecognised(head)))
        return None
    reading = Reading(document, name)
    try:
        for seen in best.read(document):
            if isinstance(seen, Note):
                notes.append(seen)
            else:
                reading.observations.append(seen)
    except ParseError as error:
        notes.append(Note(document.name, f"not readable as {name}: {error.problem}"))
        return None
    return reading


def _unrecognised(head: Head) -> str:
    text = head.text.lstrip().lower()
    if text.startswith(("<!doctype html", "<html")):
        return "an HTML page, perhaps a proxy's error page: not recognised"
    if b"\0" in head.data[:4096]:
        return "binary: not recognised"
    return "not recognised"


def judge(readings: Sequence[Reading], now: datetime) -> tuple[list[Finding], Window]:
    """What the stateless detectors claim of everything read, and the window they saw."""
    memory = Memory(
        Limits(series_s=float("inf"), gap_s=0.0, events_s=float("inf"), events_per_key=1000)
    )
    newest = datetime.min.replace(tzinfo=UTC)
    for reading in sorted(readings, key=lambda r: (r.document.now, r.document.name)):
        observations = list(owned(reading))
        times = [o.time for o in observations if isinstance(o, Event) and o.time is not None]
        newest = max([newest, reading.document.now, *times])
        memory.take(gather(reading.document.now, reading.document.name, observations))
    window = memory.window(
        min(newest, now) if readings else now, fresh_s=float("inf"), sustain_s=0.0
    )
    return list(_claims(window)), window


def _claims(window: Window) -> Iterator[Finding]:
    for plugin in detector:
        for claim in plugin.run(window):
            if isinstance(claim, Finding):
                yield claim


def owned(reading: Reading) -> Iterator[Observation]:
    """The reading's observations, with its host where they name none, and its name as source."""
    for seen in reading.observations:
        changes: dict[str, str] = {}
        if not isinstance(seen, Node | Job | Maintenance | Note) and not seen.node:
            changes["node"] = reading.host
        if isinstance(seen, Event | CheckResult) and not seen.source:
            changes["source"] = reading.document.name
        yield msgspec.structs.replace(seen, **changes) if changes else seen


def _report(
    readings: Sequence[Reading], findings: Sequence[Finding], window: Window, notes: Sequence[Note]
) -> Report:
    by_node: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if not finding.subject.by:
            by_node[finding.subject.node].append(finding)
    hosts = {r.host for r in readings} | {name for r in readings for name in r.told} | set(by_node)
    diagnoses = [
        Diagnosis(node, _health(found), _parts(node, window), _ranked(found))
        for node, found in ((node, by_node.get(node, [])) for node in sorted(hosts - {""}))
    ]
    diagnoses.sort(key=lambda d: (-d.health.rank, d.node))
    seen = tuple(
        Seen(r.document.name, r.format, r.host or _several(r.told), len(r.observations))
        for r in readings
    )
    return Report(
        exit_code(findings) if readings else 3,
        tuple(diagnoses),
        _ranked([f for f in findings if f.subject.by]),
        seen,
        tuple(_merged(notes)),
    )


def exit_code(findings: Iterable[Finding]) -> int:
    """0 healthy, 1 warning, 2 critical or fatal."""
    worst = max((f.severity.rank for f in findings), default=0)
    return min(worst, Severity.CRITICAL.rank)


def _health(findings: Sequence[Finding]) -> Health:
    """Application faults never lower a node; a warning degrades it, more makes it unhealthy."""
    ranks = [f.severity.rank for f in findings if f.blame is not Blame.APPLICATION]
    worst = max(ranks, default=0)
    return (Health.HEALTHY, Health.DEGRADED, Health.UNHEALTHY)[min(worst, 2)]


def _ranked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    late = datetime.max.replace(tzinfo=UTC)
    return tuple(sorted(findings, key=lambda f: (-f.severity.rank, f.since or late, f.key)))


def _parts(node: str, window: Window) -> str:
    """One line on what the host is: "8 × NVIDIA H100 80GB HBM3, driver 580.105.08"."""
    gpus = [d for d in window.fleet.devices.values() if d.node == node and d.kind == "gpu"]
    models = Counter(d.model or "GPU" for d in gpus)
    words = [f"{count} × {model}" for model, count in sorted(models.items())]
    driver = window.facts.get((node, ""), {}).get("driver_version")
    return ", ".join([*words, f"driver {driver.value}"] if driver else words)


def _several(names: set[str]) -> str:
    return f"{len(names)} hosts" if names else ""


def _merged(notes: Iterable[Note]) -> list[Note]:
    counts: Counter[tuple[str, str]] = Counter()
    for note in notes:
        counts[note.source, note.what] += note.count
    return [Note(source, what, count) for (source, what), count in counts.items()]
