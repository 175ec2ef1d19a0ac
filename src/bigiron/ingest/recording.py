"""A recording: a fleet's history in one folder (docs/formats.md), as batches in order of time.

Nothing is told before its time: a job's end is not known at its start. ``truth.jsonl`` is not
for judging and is never opened here.
"""

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from bigiron.errors import ParseError
from bigiron.ingest.kernel_log import KernelLog, shipped
from bigiron.ingest.recording_samples import STRETCH_ROWS, Samples
from bigiron.ingest.recording_tables import Tables
from bigiron.model import Batch, Job, Note

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class About:
    """recording.toml."""

    name: str
    start: datetime
    end: datetime
    step_s: float
    description: str = ""


class Recording:
    """One folder. Raises ParseError, naming the file, if it is not a recording.

    ``stretch_rows`` is how many rows of samples are held at a time.
    """

    def __init__(
        self, folder: Path, log: KernelLog | None = None, stretch_rows: int = STRETCH_ROWS
    ) -> None:
        self.about = _about(folder)
        self.folder, self.stretch_rows = folder, stretch_rows
        self._log = log or shipped()
        self._label = folder.name
        self._tables = Tables(folder, self._label)
        self._samples = Samples(folder / "samples", f"{self._label}/samples", stretch_rows)

    @property
    def rows(self) -> int:
        """How many samples its files hold."""
        return self._samples.rows

    @property
    def notes(self) -> list[Note]:
        """What was left out so far, and how often."""
        return [*self._tables.notes, *self._samples.told()]

    def batches(self, step_s: float = 0.0, after: datetime | None = None) -> Iterator[Batch]:
        """What was known at each step, from start to end; ``step_s`` 0 is the recording's own.

        With ``after``, a step's time, only the steps after it.
        """
        about, tables = self.about, self._tables
        step = timedelta(seconds=step_s or about.step_s)
        skip = int((after - about.start) / step) + 1 if after is not None else 0
        nodes, devices = tuple(tables.nodes()), tuple(tables.devices())
        maintenance = tuple(tables.maintenance())
        facts = _Queue(tables.facts(), lambda f: f.time)
        states = _Queue(tables.states(), lambda s: s.time)
        checks = _Queue(tables.checks(), lambda c: c.time)
        events = _Queue(tables.events(self._log), lambda e: e.time)
        jobs = _Queue(_told_in_time(tables.jobs()), lambda told: told[0])
        if after is not None:
            for queue in (facts, states, checks, events, jobs):
                queue.pass_over(after)
        time = about.start + skip * step
        for samples in self._samples.steps(about.start, about.end, step.total_seconds(), skip):
            first = time == about.start
            yield Batch(
                time,
                self._label,
                nodes=nodes if first else (),
                devices=devices if first else (),
                columns=tuple(samples),
                events=tuple(events.until(time)),
                facts=tuple(facts.until(time)),
                jobs=tuple(job for _, job in jobs.until(time)),
                states=tuple(states.until(time)),
                checks=tuple(checks.until(time)),
                maintenance=maintenance if first else (),
            )
            time += step


def _told_in_time(jobs: Sequence[Job]) -> list[tuple[datetime, Job]]:
    """Each job when it starts, as running, and when it ends, as it ended."""
    told: list[tuple[datetime, Job]] = []
    for job in jobs:
        if job.start is not None:
            running = msgspec.structs.replace(
                job, state="RUNNING", end=None, exit_code=0, signal=0, reason=""
            )
            told.append((job.start, running))
        if job.end is not None:
            told.append((job.end, job))
    told.sort(key=lambda one: (one[0], one[1].id, one[1].state))
    return told


class _Queue(Generic[T]):
    """Rows in order of time, handed out up to a time."""

    def __init__(self, rows: Sequence[T], time: Callable[[T], datetime | None]) -> None:
        self._rows = rows
        self._time = time
        self._at = 0

    def pass_over(self, time: datetime) -> None:
        """Leave out the rows up to a time."""
        for _ in self.until(time):
            pass

    def until(self, time: datetime) -> Iterator[T]:
        """The rows up to a time, each once."""
        while self._at < len(self._rows):
            row = self._rows[self._at]
            if (self._time(row) or time) > time:
                return
            self._at += 1
            yield row


def _about(folder: Path) -> About:
    path, source = folder / "recording.toml", f"{folder.name}/recording.toml"
    if not folder.is_dir():
        raise ParseError(str(folder), 0, "no such folder")
    if not path.is_file():
        raise ParseError(str(path), 0, "the file is missing: this is no recording")
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParseError(source, 0, f"not TOML: {error}") from error
    start, end = _moment(data, "start", source), _moment(data, "end", source)
    step_s = data.get("step_s")
    if not isinstance(step_s, int | float) or isinstance(step_s, bool) or not 0 < step_s <= 86_400:
        raise ParseError(source, 0, "step_s: seconds between two scrapes, above 0")
    if end < start:
        raise ParseError(source, 0, "end: it lies before start")
    return About(
        str(data.get("name", folder.name)), start, end, float(step_s), str(data.get("description"))
    )


def _moment(data: dict[str, Any], key: str, source: str) -> datetime:
    value = data.get(key)
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError as error:
        raise ParseError(source, 0, f"{key}: an RFC 3339 time is wanted") from error
    if time.tzinfo is None:
        raise ParseError(source, 0, f"{key}: a time with an offset is wanted")
    return time.astimezone(UTC)
