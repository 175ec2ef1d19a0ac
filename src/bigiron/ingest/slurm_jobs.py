"""``sacct --parsable2`` and the like: any fields in any order, any delimiter, with a header.

Built for histories of millions of rows: a line is split once and its fields are found by index;
what repeats (node lists, resources, states, exit codes) is read once. A field may hold line
breaks, so a record ends when it has all its fields, not where a line ends.
"""

import re
from collections.abc import Iterator
from datetime import datetime

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.ingest.slurm_job import LIVE_STATES, nodes_or_none, state_and_reason
from bigiron.ingest.slurm_values import (
    NO_ZONE,
    exit_of,
    gres_gpus,
    has_zone,
    text_or_empty,
    time_of,
    tres_gpus,
)
from bigiron.model import Job, Note, Observation

RECORD_LIMIT = 262_144
"""Characters of one record spread over several lines; beyond it the lines are given up."""
ATTEMPTS_LIMIT = 1_000_000
"""Jobs remembered for counting their attempts where the Restarts column is missing."""

_FREE_TEXT = [
    "JobName",
    "Comment",
    "AdminComment",
    "SystemComment",
    "SubmitLine",
    "WorkDir",
    "Reason",
    "Constraints",
    "Container",
    "Extra",
    "FailedNode",
    "StdOut",
    "StdErr",
    "StdIn",
]
_FIRST_TWO = re.compile(r"([A-Za-z]+)([^A-Za-z0-9\s]+|\t)(?=[A-Z])")
_ID = re.compile(r"\d+(?:[_+.]\S*)?(?: *\(\d+\))?")
_HEAD_LINES = 5


def header_of(text: str) -> tuple[int, list[str], str] | None:
    """Line number, field names and delimiter of sacct's header, which needs an id and a state."""
    for number, line in enumerate(text.split("\n")[:_HEAD_LINES], 1):
        match = _FIRST_TWO.match(line.strip())
        if match is None:
            continue
        names = line.strip().split(match[2])
        if "State" in names and ("JobID" in names or "JobIDRaw" in names):
            return number, names, match[2]
    return None


class SacctTable:
    """Job accounting as delimited text; steps are counted and left out, attempts are kept."""

    def sniff(self, head: Head) -> float:
        """A header with JobID or JobIDRaw, and State."""
        return 0.95 if header_of(head.text) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Each attempt of each job. Raises ParseError without a header or any usable row."""
        found = header_of(Head.of(document).text)
        if found is None:
            raise ParseError(document.name, 1, "no sacct header with JobID and State")
        table = _Table(found[1], found[2])
        jobs = 0
        for fields in table.records(document, found[0]):
            job = table.job(fields)
            if job is not None:
                jobs += 1
                yield job
        if not jobs and table.broken and not table.steps:
            raise ParseError(document.name, found[0] + 1, "no row fits this sacct header")
        yield from table.notes(document.name)


class _Table:
    """One header and what has been counted under it."""

    def __init__(self, names: list[str], delimiter: str) -> None:
        self.steps = self.broken = self.zoneless = self.uncounted = 0
        self._names = names
        self._delimiter = delimiter
        at = {name: index for index, name in reversed(list(enumerate(names)))}
        self._at = at
        self._id = at.get("JobIDRaw", at.get("JobID", -1))
        self._state = at["State"]
        self._free = [at[name] for name in _FREE_TEXT if name in at]
        self._times = [at[name] for name in ("Submit", "Start", "End") if name in at]
        self._states: dict[str, tuple[str, str]] = {}
        self._attempts: dict[str, int] = {}

    def records(self, document: Document, header_line: int) -> Iterator[list[str]]:
        """The fields of each record, joined over line breaks and over delimiters in free text."""
        wanted, delimiter = len(self._names), self._delimiter
        header = delimiter.join(self._names)
        pending = ""
        for number, line in enumerate(document.lines(), 1):
            if number <= header_line or (not line and not pending) or line == header:
                continue
            fields = line.split(delimiter)
            if not pending and len(fields) == wanted:
                yield fields
                continue
            if pending:
                if len(fields) == wanted and self._plausible(fields):
                    self.broken += 1
                    pending = ""
                    yield fields
                    continue
                fields = f"{pending}\n{line}".split(delimiter)
            pending = ""
            if len(fields) < wanted:
                pending = delimiter.join(fields)
                if len(pending) > RECORD_LIMIT:
                    self.broken += 1
                    pending = ""
                continue
            whole = fields if len(fields) == wanted else self._realigned(fields)
            if whole is None or not self._plausible(whole):
                self.broken += 1
            else:
                yield whole
        self.broken += bool(pending)

    def job(self, fields: list[str]) -> Job | None:
        """The attempt these fields tell of; None for a step or for a row that makes no sense."""
        identity = fields[self._id]
        if "." in identity:
            self.steps += 1
            return None
        state = self._states.get(fields[self._state])
        if state is None:
            state = state_and_reason(fields[self._state])
            self._states[fields[self._state]] = state
        nodes = nodes_or_none(self._field(fields, "NodeList"))
        if not state[0] or nodes is None or not _ID.fullmatch(identity):
            self.broken += 1
            return None
        at = self._at
        submit, start, end = self._time_fields(fields)
        code, signal = exit_of(fields[at["ExitCode"]]) if "ExitCode" in at else (0, 0)
        return Job(
            id=identity,
            state=state[0],
            user=self._field(fields, "User"),
            name=self._field(fields, "JobName"),
            account=self._field(fields, "Account"),
            partition=self._field(fields, "Partition"),
            submit=submit,
            start=start,
            end=None if state[0] in LIVE_STATES else end,
            exit_code=code,
            signal=signal,
            nodes=nodes,
            gpus=self._gpus(fields),
            restarts=self._restarts(fields, identity, state[0]),
            reason=text_or_empty(self._field(fields, "Reason")) or state[1],
        )

    def notes(self, source: str) -> Iterator[Note]:
        """What was not read, and what was assumed."""
        for what, count in (
            ("job steps: the job's own row tells its outcome", self.steps),
            ("sacct rows that do not fit their header", self.broken),
            (NO_ZONE, self.zoneless),
            ("jobs whose earlier attempts were not counted", self.uncounted),
        ):
            if count:
                yield Note(source, what, count)

    def _field(self, fields: list[str], name: str) -> str:
        index = self._at.get(name)
        return "" if index is None else fields[index]

    def _time_fields(self, fields: list[str]) -> tuple[datetime | None, ...]:
        at = self._at
        return (
            self._time(fields[at["Submit"]]) if "Submit" in at else None,
            self._time(fields[at["Start"]]) if "Start" in at else None,
            self._time(fields[at["End"]]) if "End" in at else None,
        )

    def _time(self, text: str) -> datetime | None:
        if len(text) == 19 and text[10] == "T":
            self.zoneless += 1
            try:
                # with an offset the C parser yields the aware time in one step
                return datetime.fromisoformat(text + "+00:00")
            except ValueError:
                return None
        if not text or text[0].isalpha():
            return None
        found = time_of(text)
        self.zoneless += found is not None and not has_zone(text)
        return found

    def _gpus(self, fields: list[str]) -> int:
        found = tres_gpus(self._field(fields, "AllocTRES"))
        return found or gres_gpus(self._field(fields, "AllocGRES"))[0]

    def _restarts(self, fields: list[str], identity: str, state: str) -> int:
        """The Restarts column, or how many attempts of the job came before in this text."""
        told = self._field(fields, "Restarts")
        if told.isdigit():
            return int(told)
        before = self._attempts.get(identity, 0)
        if state == "COMPLETED" and not before:
            return 0  # a completed attempt is the last: nothing to remember
        if len(self._attempts) < ATTEMPTS_LIMIT or before:
            self._attempts[identity] = before + 1
        else:
            self.uncounted += 1
        return before

    def _plausible(self, fields: list[str]) -> bool:
        if not _ID.fullmatch(fields[self._id].split(".")[0]):
            return False
        if not state_and_reason(fields[self._state])[0]:
            return False
        return all(_is_time(fields[index]) for index in self._times)

    def _realigned(self, fields: list[str]) -> list[str] | None:
        """A row with delimiters in one of its free texts, put together again."""
        extra = len(fields) - len(self._names)
        for index in self._free:
            joined = self._delimiter.join(fields[index : index + extra + 1])
            whole = [*fields[:index], joined, *fields[index + extra + 1 :]]
            if self._plausible(whole):
                return whole
        return None


def _is_time(text: str) -> bool:
    return not text or text[0].isalpha() or time_of(text) is not None


@reader()
def slurm_sacct() -> Reader:
    """`sacct --parsable2` text with its header, any fields, any delimiter."""
    return SacctTable()
