"""What `bigiron score` reads: a recording's truth, and what a replay wrote. Errors name the file.

This is the one place that opens truth.jsonl.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bigiron.analyze.score_tally import Tally, tally
from bigiron.analyze.score_truth import USEFUL_H, Drain, Episode, Scene, Suspicion, strength
from bigiron.errors import ParseError
from bigiron.ingest.recording import Recording
from bigiron.ingest.recording_tables import Tables
from bigiron.model import Device, Node, Note, Severity, Subject

T = TypeVar("T")
DRAINS = frozenset({"drain", "drain_now"})


class TruthSubject(msgspec.Struct, frozen=True):
    """Of a line of truth.jsonl or findings.jsonl."""

    kind: str = ""
    node: str = ""
    device: str = ""
    by: str = ""
    group: str = ""
    members: tuple[str, ...] = ()


class TruthLine(msgspec.Struct, frozen=True):
    """A line of truth.jsonl."""

    episode: str
    kind: str = msgspec.field(name="class")
    label: str
    subject: TruthSubject
    onset: datetime
    fails: datetime | None = None
    end: datetime | None = None
    precursor: bool = False
    effect: float = 0.0
    sigma: float | None = None


class FindingLine(msgspec.Struct, frozen=True):
    """What of a line of findings.jsonl counts here."""

    time: datetime
    id: str
    change: str
    detector: str
    fault: str
    severity: Severity
    subject: TruthSubject


class ActionLine(msgspec.Struct, frozen=True):
    """What of a line of actions.jsonl counts here; ``held`` means that it was not asked for."""

    time: datetime
    node: str
    action: str
    held: str = ""


class Judged(msgspec.Struct, frozen=True):
    """A tally, and what of the input could not be judged."""

    tally: Tally
    notes: tuple[Note, ...]


class Truth:
    """A recording's fleet and what happened to it. Raises ParseError naming file and line."""

    def __init__(self, folder: Path) -> None:
        about = Recording(folder).about
        tables = Tables(folder, folder.name)
        nodes = tables.nodes()
        self.notes: list[Note] = []
        self._nodes = {node.name: node for node in nodes}
        self._devices = _aliases(tables.devices())
        self.scene = Scene(
            about.name,
            tuple(self._nodes),
            about.start.timestamp(),
            about.end.timestamp(),
        )
        path = folder / "truth.jsonl"
        source = f"{folder.name}/truth.jsonl"
        if not path.is_file():
            raise ParseError(source, 0, "the file is missing: there is nothing to score against")
        self.episodes = tuple(
            self._episode(line, f"{source}:{number}")
            for number, line in _lines(path, source, TruthLine)
        )

    def against(self, out: Path) -> Judged:
        """What a replay's findings and actions are worth. Raises ParseError as well."""
        if not out.is_dir():
            raise ParseError(str(out), 0, "no such folder: give the one `bigiron replay` wrote")
        suspicions = list(self._suspicions(out))
        drains = list(self._drains(out))
        return Judged(tally(self.scene, self.episodes, suspicions, drains), tuple(self.notes))

    def _episode(self, line: TruthLine, where: str) -> Episode:
        if line.label not in ("fault", "benign"):
            name, _, number = where.rpartition(":")
            problem = f"label {line.label!r}: 'fault' or 'benign' is wanted"
            raise ParseError(name, int(number), problem)
        subject = self._subject(line.subject)
        fault = line.label == "fault"
        if fault and line.kind not in USEFUL_H and line.kind != "unattributed_failure":
            self.notes.append(
                Note(where, f"class {line.kind!r} has no deadline: scored to the recording's end")
            )
        nodes = self._members(subject)
        if not nodes:
            self.notes.append(Note(where, f"no members known of {subject}: nobody to be blamed"))
        return Episode(
            line.episode,
            line.kind,
            fault,
            subject,
            line.onset.timestamp(),
            None if line.fails is None else line.fails.timestamp(),
            None if line.end is None else line.end.timestamp(),
            line.precursor,
            nodes,
            strength(line.kind, line.effect, line.sigma) if fault else "",
        )

    def _members(self, subject: Subject) -> tuple[str, ...]:
        if not subject.by:
            return (subject.node,) if subject.node else ()
        if subject.members:
            return subject.members
        if subject.by not in Node.__struct_fields__:
            return ()
        named = self._nodes.values()
        return tuple(n.name for n in named if getattr(n, subject.by) == subject.group)

    def _subject(self, told: TruthSubject) -> Subject:
        device = self._devices.get((told.node, told.device), told.device)
        if told.by:
            return Subject(by=told.by, group=told.group, members=told.members)
        return Subject(told.node, device)

    def _suspicions(self, out: Path) -> Iterator[Suspicion]:
        """Each finding once, when it first is a warning or worse."""
        raised: set[str] = set()
        path, source = out / "findings.jsonl", f"{out.name}/findings.jsonl"
        for _, line in _lines(path, source, FindingLine):
            if line.change == "close" or line.id in raised:
                continue
            if line.severity.rank >= Severity.WARNING.rank:
                raised.add(line.id)
                yield Suspicion(
                    line.time.timestamp(),
                    line.id,
                    line.detector,
                    line.fault,
                    self._subject(line.subject),
                )

    def _drains(self, out: Path) -> Iterator[Drain]:
        path, source = out / "actions.jsonl", f"{out.name}/actions.jsonl"
        for _, line in _lines(path, source, ActionLine):
            if line.action in DRAINS and not line.held:
                yield Drain(line.time.timestamp(), line.node)


def _aliases(devices: list[Device]) -> dict[tuple[str, str], str]:
    """A device's address or serial stands for its name."""
    aliases = {}
    for device in devices:
        for other in (device.bus, device.id):
            if other:
                aliases[device.node, other] = device.name
    return aliases


def _lines(path: Path, source: str, kind: type[T]) -> Iterator[tuple[int, T]]:
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, _decoded(decoder, line, source, number)
    except OSError as error:
        problem = "the file is missing" if not path.exists() else str(error.strerror)
        raise ParseError(source, 0, problem) from error


def _decoded(decoder: msgspec.json.Decoder[Any], line: bytes, source: str, number: int) -> Any:
    try:
        decoded = decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ParseError(source, number, str(error)) from error
    for name in ("time", "onset", "fails", "end"):
        time = getattr(decoded, name, None)
        if time is not None and time.tzinfo is None:
            raise ParseError(source, number, f"{name}: a time with an offset is wanted")
    return decoded
