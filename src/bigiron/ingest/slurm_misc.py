"""The rest of Slurm's text: configuration, partitions, reservations, topology, sdiag, events."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.ingest.slurm_reason import events_of
from bigiron.ingest.slurm_state import flags_of, state_of
from bigiron.ingest.slurm_values import NO_ZONE, has_zone, text_or_empty, time_of
from bigiron.model import Fact, Maintenance, Node, NodeState, Note, Observation, Sample
from bigiron.nodesets import unfold

CONTROLLER = "slurmctld"
"""The device under which the controller's own facts and samples go; they are of no node."""

_CONFIG = re.compile(r"^Configuration data as of ", re.MULTILINE)
_SETTING = re.compile(r"^(\w+)\s+= (.*)$", re.MULTILINE)
_SETTINGS = frozenset(
    [
        "SLURM_VERSION",
        "ClusterName",
        "SlurmdTimeout",
        "SlurmctldTimeout",
        "ReturnToService",
        "HealthCheckProgram",
        "HealthCheckInterval",
        "HealthCheckNodeState",
        "RebootProgram",
        "ResumeTimeout",
        "UnkillableStepTimeout",
        "KillWait",
        "MinJobAge",
        "SelectType",
        "GresTypes",
        "JobRequeue",
    ]
)
_RESERVATION = re.compile(r"^ReservationName=(\S+)", re.MULTILINE)
_PARTITION = re.compile(r"^PartitionName=(\S+)\s+AllowGroups=", re.MULTILINE)
_SWITCH = re.compile(r"^SwitchName=(\S+) Level=(\d+)", re.MULTILINE)
_SDIAG = (
    ("Server thread count", "slurm_server_threads"),
    ("Agent queue size", "slurm_agent_queue_length"),
    ("DBD Agent queue size", "slurm_dbd_agent_queue_length"),
    ("Jobs pending", "slurm_jobs_pending"),
    ("Jobs running", "slurm_jobs_running"),
)
_EVENT_COLUMNS = frozenset({"NodeName", "TimeStart", "TimeEnd", "State", "Reason"})


def _field(text: str, name: str) -> str:
    match = re.search(rf"(?:^|\s){name}=(\S*)", text)
    return text_or_empty(match[1]) if match else ""


def _blocks(pattern: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    starts = list(pattern.finditer(text))
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        yield start, text[start.start() : end]


def reservations_of_text(text: str) -> Iterator[Maintenance | None]:
    """Each maintenance reservation of ``scontrol show reservation``; None if it makes no sense."""
    for start, block in _blocks(_RESERVATION, text):
        if "MAINT" not in _field(block, "Flags").split(","):
            continue
        begin, end = time_of(_field(block, "StartTime")), time_of(_field(block, "EndTime"))
        try:
            nodes = unfold(_field(block, "Nodes"))
        except ParseError:
            nodes = ()
        usable = begin is not None and end is not None and nodes
        yield Maintenance(begin, end, nodes, start[1]) if usable and begin and end else None


class ControllerText:
    """``scontrol show config|partition|reservation|topology`` and ``sdiag``."""

    def sniff(self, head: Head) -> float:
        """The first line names what it is."""
        return 0.95 if any(pattern.search(head.text) for pattern, _ in _KINDS) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """What the kind at hand tells. Raises ParseError if it is none of them."""
        text = document.text()
        for pattern, read in _KINDS:
            if pattern.search(text):
                yield from read(text, document)
                return
        raise ParseError(document.name, 0, "not an output of scontrol show or sdiag")


def _config(text: str, document: Document) -> Iterator[Observation]:
    for name, value in _SETTING.findall(text):
        if name in _SETTINGS and text_or_empty(value):
            known = "slurm_version" if name == "SLURM_VERSION" else f"slurm_{name}"
            yield Fact("", known, value.strip(), CONTROLLER, document.now)


def _reservations(text: str, document: Document) -> Iterator[Observation]:
    skipped = found = 0
    for maintenance in reservations_of_text(text):
        if maintenance is None:
            skipped += 1
        else:
            found += 1
            yield maintenance
    if skipped:
        yield Note(document.name, "reservations without nodes or times", skipped)
    if found:
        yield Note(document.name, NO_ZONE, found)


def _partitions(text: str, document: Document) -> Iterator[Observation]:
    skipped = 0
    for start, block in _blocks(_PARTITION, text):
        try:
            for name in unfold(_field(block, "Nodes")):
                yield Node(name=name, partition=start[1])
        except ParseError:
            skipped += 1
    if skipped:
        yield Note(document.name, "partitions with a malformed node list", skipped)


def leaves_of_text(text: str) -> Iterator[Node | None]:
    """Nodes and the switch of level 0 they hang on, of ``scontrol show topology``.

    None stands for a switch whose nodes cannot be read.
    """
    for start, block in _blocks(_SWITCH, text):
        if start[2] != "0":
            continue
        try:
            names = unfold(_field(block, "Nodes"))
        except ParseError:
            yield None
            continue
        for name in names:
            yield Node(name=name, leaf=start[1])


def _topology(text: str, document: Document) -> Iterator[Observation]:
    skipped = 0
    for node in leaves_of_text(text):
        if node is None:
            skipped += 1
        else:
            yield node
    if skipped:
        yield Note(document.name, "switches with a malformed node list", skipped)


def _sdiag(text: str, document: Document) -> Iterator[Observation]:
    for label, metric in _SDIAG:
        match = re.search(rf"^{label}:\s+(\d+)", text, re.MULTILINE)
        if match is not None:
            yield Sample("", CONTROLLER, metric, float(match[1]), document.now)


_KINDS = (
    (_CONFIG, _config),
    (_RESERVATION, _reservations),
    (_PARTITION, _partitions),
    (_SWITCH, _topology),
    (re.compile(r"^sdiag output at ", re.MULTILINE), _sdiag),
)


@dataclass(frozen=True, slots=True)
class _Period:
    """A stretch in which a node was out of service, as slurmdbd keeps it."""

    node: str
    start: datetime
    end: datetime | None
    state: str
    reason: str
    by: str
    line: int


class NodeHistory:
    """``sacctmgr show event``, delimited (``-P``) or as a table under a ruler."""

    def sniff(self, head: Head) -> float:
        """A header with NodeName, TimeStart and TimeEnd."""
        first = re.split(r"[|\s]+", head.text.split("\n", 1)[0].strip())
        return 0.95 if len(_EVENT_COLUMNS & set(first)) >= 4 else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """States in time order: each period's begin, and ``resume`` where the last one ended."""
        periods: list[_Period] = []
        skipped = zoneless = 0
        for number, row in _event_rows(document.text()):
            start = time_of(row.get("TimeStart", ""))
            if not row.get("NodeName") and start is not None:
                continue  # of the cluster as a whole: its size was registered
            if start is None:
                skipped += 1
                continue
            zoneless += not has_zone(row["TimeStart"])
            by = text_or_empty(row.get("User")).partition("(")[0]
            periods.append(
                _Period(
                    row["NodeName"],
                    start,
                    time_of(row.get("TimeEnd", "")),
                    row.get("State", ""),
                    text_or_empty(row.get("Reason")),
                    by,
                    number,
                )
            )
        yield from _states(periods, document.name)
        if skipped:
            yield Note(document.name, "events without a time", skipped)
        if zoneless:
            yield Note(document.name, NO_ZONE, zoneless)


def _event_rows(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    lines = text.splitlines()
    if not lines:
        return
    ruler = list(re.finditer(r"-+", lines[1])) if len(lines) > 1 and "--" in lines[1] else []
    if ruler:
        names = [lines[0][mark.start() : mark.end()].strip() for mark in ruler]
    else:
        names = [name.strip() for name in lines[0].split("|")]
    for number, line in enumerate(lines[2 if ruler else 1 :], 3 if ruler else 2):
        if not line.strip():
            continue
        if ruler:
            values = [line[mark.start() : mark.end()].strip() for mark in ruler]
        else:
            values = [value.strip() for value in line.split("|")]
        yield number, dict(zip(names, values, strict=False))


def _states(periods: list[_Period], source: str) -> Iterator[Observation]:
    by_node: dict[str, list[_Period]] = {}
    found: list[tuple[datetime, int, Observation]] = []
    for period in periods:
        by_node.setdefault(period.node, []).append(period)
        flags = flags_of(period.state)
        state = state_of(flags)
        told = NodeState(
            period.node, state, period.reason, period.by, period.start, period.start, flags
        )
        found.append((period.start, period.line, told))
        where = (source, period.line)
        found += [
            (period.start, period.line, event)
            for event in events_of(
                period.node, flags, state, period.reason, period.by, period.start, where
            )
        ]
    for period in periods:
        end = period.end
        if end is not None and not any(_covers(other, end) for other in by_node[period.node]):
            found.append((end, period.line, NodeState(period.node, "resume", time=end, since=end)))
    found.sort(key=lambda entry: entry[:2])
    for _, _, observation in found:
        yield observation


def _covers(period: _Period, time: datetime) -> bool:
    """Whether the node was out of service just after ``time`` in this period."""
    return period.start <= time and (period.end is None or period.end > time)


@reader()
def slurm_controller() -> Reader:
    """`scontrol show config|partition|reservation|topology` and `sdiag` text."""
    return ControllerText()


@reader()
def slurm_events() -> Reader:
    """`sacctmgr show event`: when nodes were out of service, and why."""
    return NodeHistory()
