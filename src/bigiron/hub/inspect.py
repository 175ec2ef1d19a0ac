"""Inspection: files of one or more hosts in, a diagnosis out. One look, no state, base install.

The same readers, memory and detectors as the hub's; a document's samples are as old as the
document, so nothing in it is stale.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from bigiron.detect import Window, detector
from bigiron.faults import catalogue
from bigiron.hub.documents import Documents
from bigiron.hub.hosts import Reading
from bigiron.hub.manifest import declared
from bigiron.hub.memory import Limits, Memory
from bigiron.hub.recognise import read_all
from bigiron.ingest import gather
from bigiron.model import (
    Blame,
    CheckResult,
    CheckStatus,
    Event,
    Finding,
    Health,
    Job,
    Maintenance,
    Node,
    Note,
    Observation,
    Recovery,
    Severity,
)
from bigiron.registry import Plugin

__all__ = [
    "Diagnosis",
    "Report",
    "Seen",
    "claims",
    "exit_code",
    "inspect",
    "judge",
    "owned",
    "read_all",
]


Detector = Plugin[[Window], Iterator[Finding | Recovery]]

AGES_S = 1e9
"""Some thirty years: a document's jobs are kept whatever their age."""


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
    """Everything an inspection says. ``exit_code``: 0 healthy, 1 warning, 2 critical, 3 nothing.

    ``groups`` are findings about more than one host: a job, a rollout. ``jobs`` counts the jobs
    that were listed, by how they ended.
    """

    exit_code: int
    diagnoses: tuple[Diagnosis, ...]
    groups: tuple[Finding, ...]
    seen: tuple[Seen, ...]
    notes: tuple[Note, ...]
    jobs: Mapping[str, int] = {}


def inspect(paths: list[str], documents: Documents, now: datetime | None = None) -> Report:
    """Reads every document under the paths and says what is wrong with whom."""
    notes: list[Note] = []
    readings = read_all(paths, documents, notes)
    notes += documents.notes
    findings, window = judge(readings, now or datetime.now(UTC), notes)
    return _report(readings, findings, window, notes)


def judge(
    readings: Sequence[Reading], now: datetime, notes: list[Note]
) -> tuple[list[Finding], Window]:
    """What is claimed of everything read, and the window it was claimed of; ``notes`` grows."""
    memory = Memory(
        Limits(
            series_s=float("inf"),
            gap_s=0.0,
            events_s=float("inf"),
            events_per_key=1000,
            jobs_s=AGES_S,
        )
    )
    newest = datetime.min.replace(tzinfo=UTC)
    machines = [r for r in readings if not (r.golden or r.of_rank or r.of_job)]
    for reading in sorted(machines, key=lambda r: (r.document.now, r.document.name)):
        observations = list(owned(reading))
        times = [o.time for o in observations if isinstance(o, Event) and o.time is not None]
        newest = max([newest, reading.document.now, *times])
        memory.take(gather(reading.document.now, reading.document.name, observations))
    at = min(newest, now) if machines else now
    window = memory.window(at, fresh_s=float("inf"), sustain_s=0.0)
    if any(reading.golden for reading in readings):
        said = tuple(declared(readings, window.fleet))
        window = memory.window(at, fresh_s=float("inf"), sustain_s=0.0, declared=said)
    findings = list(claims(window, notes))
    if len(machines) < len(readings):
        from bigiron.hub.hung import hung_jobs  # few inspections hold a job's dumps

        findings += hung_jobs(readings)
    if any(reading.of_job for reading in readings):
        from bigiron.hub.slow import slow_jobs

        findings += slow_jobs(readings, notes)
    return findings, window


def claims(
    window: Window, notes: list[Note], detectors: Iterable[Detector] = detector
) -> Iterator[Finding]:
    """What the detectors claim; one that fails is noted and the others go on."""
    for plugin in detectors:
        try:
            found = [claim for claim in plugin.run(window) if isinstance(claim, Finding)]
        except Exception as error:  # noqa: BLE001  (one detector's bug must not stop the others)
            what = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
            notes.append(Note(f"detector {plugin.name}", what))
            continue
        yield from found


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
    unknown = _only_tried(window)
    diagnoses = [
        Diagnosis(node, _health(found, node in unknown), parts(node, window), _ranked(found))
        for node, found in ((node, by_node.get(node, [])) for node in sorted(hosts - {""}))
    ]
    diagnoses.sort(key=lambda d: (-d.health.rank, d.node))
    seen = tuple(
        Seen(r.document.name, r.format, r.host or _several(r.told), len(r.observations))
        for r in readings
    )
    read = any(not reading.golden for reading in readings)
    return Report(
        exit_code(findings) if read else 3,
        tuple(diagnoses),
        _ranked([f for f in findings if f.subject.by]),
        seen,
        tuple(_merged(notes)),
        dict(sorted(Counter(job.state for job in window.jobs).items())),
    )


def exit_code(findings: Iterable[Finding]) -> int:
    """0 healthy, 1 warning, 2 critical or fatal."""
    worst = max((f.severity.rank for f in findings), default=0)
    return min(worst, Severity.CRITICAL.rank)


def _only_tried(window: Window) -> set[str]:
    """Nodes of which nothing is known but that a check did not run."""
    tried = {c.node for c in window.checks if c.status is CheckStatus.ERROR}
    ran = {c.node for c in window.checks if c.status is not CheckStatus.ERROR}
    told = {node for of_metric in window.series.values() for node, _ in of_metric}
    return tried - ran - told - {event.node for event in window.events}


def _health(findings: Sequence[Finding], unknown: bool) -> Health:
    """Application faults never lower a node; a warning degrades it, more makes it unhealthy."""
    ranks = [
        f.severity.rank
        for f in findings
        if f.blame is not Blame.APPLICATION and not f.fault.startswith("check.error")
    ]
    worst = max(ranks, default=0)
    if worst == 0 and unknown:
        return Health.UNKNOWN
    return (Health.HEALTHY, Health.DEGRADED, Health.UNHEALTHY)[min(worst, 2)]


def _ranked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The worst first; of equal ones what would be worse were it not over, then the first."""
    late = datetime.max.replace(tzinfo=UTC)

    def key(finding: Finding) -> tuple[int, int, datetime, str]:
        in_itself = catalogue().find(finding.fault).severity.rank
        return -finding.severity.rank, -in_itself, finding.since or late, finding.key

    return tuple(sorted(findings, key=key))


def parts(node: str, window: Window) -> str:
    """One line on what the host is: "8 × NVIDIA H100 80GB HBM3, driver 580.105.08"."""
    devices = [d for d in window.fleet.devices.values() if d.node == node]
    gpus = Counter(d.model or "GPU" for d in devices if d.kind == "gpu")
    words = [f"{count} × {model}" for model, count in sorted(gpus.items())]
    for kind, one, many in _OTHER_PARTS:
        count = sum(device.kind == kind for device in devices)
        words += [f"{count} {one if count == 1 else many}"] if count else []
    facts = window.facts.get((node, ""), {})
    words += [f"{said} {facts[name].value}" for name, said in _ABOUT if name in facts]
    return ", ".join(words)


_OTHER_PARTS = (
    ("switch", "NVSwitch", "NVSwitches"),
    ("ibswitch", "InfiniBand switch", "InfiniBand switches"),
    ("nic", "network adapter", "network adapters"),
    ("nvme", "NVMe drive", "NVMe drives"),
)
_ABOUT = (("driver_version", "driver"), ("cuda_version", "CUDA"), ("kernel", "kernel"))


def _several(names: set[str]) -> str:
    return f"{len(names)} hosts" if names else ""


def _merged(notes: Iterable[Note]) -> list[Note]:
    counts: Counter[tuple[str, str]] = Counter()
    for note in notes:
        counts[note.source, note.what] += note.count
    return [Note(source, what, count) for (source, what), count in counts.items()]
