"""What each rank of a training job computed in each step: a table, however it was written.

CSV, TSV, JSON (a list, or one object a line) or Parquet; a row a step and rank with its compute
time, or a row an operation (``optype``, ``duration``), of which forward and backward compute are
summed: the columns of ByteDance's StragglerAnalysis traces (OSDI 2025). Sends, receives and
collectives contain the waiting for others, and so does the time of a whole step: neither tells
the slow rank from those that wait for it.

A rank yields facts of a device named ``rank9``: ``step_stage``, ``step_replica`` (its data parallel
rank; its own number where none is told) and ``step_compute``, "16:1.24 17:1.25 ...", of the steps
with their seconds. Ranks of one stage are compared in ratios, so a wrong unit does no harm.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, reader
from bigiron.model import Fact, Note, Observation

_NAMES: Mapping[str, tuple[str, ...]] = {
    "step": ("step", "iteration", "iter", "global_step"),
    "rank": ("rank", "global_rank", "worker", "worker_rank"),
    "stage": ("stage", "pp_rank", "pp_stage", "pipeline_stage", "pipeline_rank"),
    "replica": ("dp_rank", "data_parallel_rank", "replica"),
    "node": ("node", "host", "hostname", "node_name"),
    "operation": ("optype", "op_type", "operation", "op"),
}
_WHOLE = frozenset({"compute", "compute_time", "compute_duration", "forward_backward"})
_HALVES = frozenset({"forward", "backward", "forward_compute", "backward_compute"})
_DURATIONS = frozenset({"duration", "dur", "time", "elapsed"})
_STEP_TIMES = frozenset({"step_time", "iteration_time", "step_duration", "iter_time", *_DURATIONS})
_COMPUTE = frozenset(
    {"compute", "forward", "backward", "forward_compute", "backward_compute", "forward_backward"}
)
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
_UNIT = re.compile(r"_(ns|us|ms|s|sec|seconds)$")
_OBJECT = re.compile(r"\{[^{}]*\}")
PARQUET = b"PAR1"

JSON_LIMIT = 256 * 1024 * 1024
LONGEST = 65_536
"""Characters of a line; no row of numbers is longer."""

MOST_VALUES = 2_000_000
KEPT_STEPS = 400
"""The newest steps of a rank; more than enough to be sure of it."""


class Layout(NamedTuple):
    """Where the columns of a table are: by role, and those of times with their unit in seconds.

    Without ``times`` there is only the time of whole steps.
    """

    roles: Mapping[str, str]
    times: Mapping[str, float]

    @classmethod
    def of(cls, names: Iterable[str]) -> "Layout | None":
        """None if these are no columns of step times."""
        known = {_plain(name): name for name in names}
        roles = {
            role: known[name]
            for role, spellings in _NAMES.items()
            if (name := next((s for s in spellings if s in known), None)) is not None
        }
        if not roles.keys() >= {"step", "rank"}:
            return None
        bases = {name: _UNIT.sub("", name) for name in known}
        for wanted in (_WHOLE, _HALVES, _DURATIONS if "operation" in roles else frozenset()):
            times = {known[n]: _unit(n) for n, base in bases.items() if base in wanted}
            if times:
                return cls(roles, times)
        return cls(roles, {}) if _STEP_TIMES & set(bases.values()) else None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


def _unit(name: str) -> float:
    found = _UNIT.search(name)
    return _UNITS[found[1]] if found else 1.0


@dataclass(slots=True)
class _Rank:
    node: str
    stage: int
    replica: int
    steps: dict[int, float] = field(default_factory=dict)


class StepTimes:
    """Facts of each rank in the order of ranks."""

    def sniff(self, head: Head) -> float:
        """Nearly certain by its columns; likely if it is a Parquet file that names a rank."""
        if head.data.startswith(PARQUET):
            return 0.6 if b"rank" in head.data else 0.35
        found = Layout.of(_columns(head.text))
        return 0.0 if found is None else 0.9 if found.times else 0.4

    def read(self, document: Document) -> Iterator[Observation]:
        """Raises ParseError if no row holds the compute time of a rank in a step."""
        table = _Table(document.name)
        for row in _rows(document):
            table.add(row)
        yield from table.told(document)


@reader()
def step_times() -> Reader:
    """Compute times of a training job by step and rank (CSV, JSON or Parquet)."""
    return StepTimes()


class _Table:
    """Rows as they come, summed by rank and step."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._layouts: dict[tuple[str, ...], Layout | None] = {}
        self._ranks: dict[int, _Rank] = {}
        self._values = self._bad = self._beyond = 0

    def add(self, row: Mapping[str, object]) -> None:
        """One row of the table; its keys are the columns."""
        names = tuple(row)
        if names not in self._layouts:
            self._layouts[names] = Layout.of(names)
        layout = self._layouts[names]
        if layout is None or not layout.times:
            self._bad += 1
            return
        roles = layout.roles
        if "operation" in roles and not _computes(row[roles["operation"]]):
            return
        step, number = _whole(row[roles["step"]]), _whole(row[roles["rank"]])
        spent = [json_text.number(row[name]) for name in layout.times]
        if step is None or number is None or None in spent:
            self._bad += 1
            return
        seconds = sum(s * u for s, u in zip(spent, layout.times.values(), strict=True) if s)
        rank = self._ranks.get(number)
        if rank is None:
            stage, replica = (_whole(row.get(roles.get(r, ""))) for r in ("stage", "replica"))
            node = json_text.text(row.get(roles.get("node", "")))
            own = number if replica is None else replica
            rank = self._ranks[number] = _Rank(node, stage or 0, own)
        if step not in rank.steps:
            self._values += 1
            if self._values > MOST_VALUES:
                self._beyond += 1
                return
        rank.steps[step] = rank.steps.get(step, 0.0) + seconds

    def told(self, document: Document) -> Iterator[Observation]:
        """The ranks' facts, and what was left out."""
        known = {number: rank for number, rank in sorted(self._ranks.items()) if rank.steps}
        if not known:
            raise ParseError(self._name, 0, self._empty())
        for number, rank in known.items():
            kept = sorted(rank.steps)[-KEPT_STEPS:]
            packed = " ".join(f"{step}:{rank.steps[step]:.7g}" for step in kept)
            for name, value in (
                ("step_stage", rank.stage),
                ("step_replica", rank.replica),
                ("step_compute", packed),
            ):
                yield Fact(rank.node, name, value, f"rank{number}", document.now)
        if self._bad:
            yield Note(self._name, "step times: rows without step, rank or time", self._bad)
        if self._beyond:
            yield Note(self._name, "step times: rows beyond the limit", self._beyond)

    def _empty(self) -> str:
        layouts = [layout for layout in self._layouts.values() if layout is not None]
        if layouts and not any(layout.times for layout in layouts):
            return "no compute times: a step takes all ranks as long, whoever is slow"
        return "no row with step, rank and compute time"


def _computes(operation: object) -> bool:
    return _plain(json_text.text(operation)) in _COMPUTE


def _whole(value: object) -> int | None:
    found = json_text.number(value)
    return int(found) if found is not None else None


def _columns(text: str) -> list[str]:
    """The columns of a table by its first line, or by its first JSON object."""
    body = text.lstrip()
    if body.startswith(("{", "[")):
        first = _OBJECT.search(body)
        try:
            return list(json_text.mapping(json.loads(first[0]))) if first else []
        except ValueError:
            return []
    header = body.split("\n", 1)[0].rstrip("\r")
    return _cells(header, _delimiter(header))


def _delimiter(header: str) -> str:
    return max(",\t;|", key=header.count)


def _cells(line: str, delimiter: str) -> list[str]:
    if '"' not in line:
        return line.split(delimiter)
    return next(csv.reader([line.replace("\r", " ")], delimiter=delimiter), [])


def _rows(document: Document) -> Iterator[Mapping[str, object]]:
    """The rows of a table, whatever it is written in."""
    if document.head().startswith(PARQUET):
        yield from _parquet(document)
        return
    start = document.head().decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if start.startswith("["):
        yield from json_text.objects(json_text.load(document, JSON_LIMIT))
    elif start.startswith("{"):
        yield from map(_object, filter(str.strip, document.lines()))
    else:
        told = (line for line in document.lines() if line.strip() and len(line) <= LONGEST)
        lines = (line.lstrip("\ufeff") for line in told)
        header = next(lines, "")
        delimiter = _delimiter(header)
        names = _cells(header, delimiter)
        for cells in (_cells(line, delimiter) for line in lines):
            yield dict(zip(names, cells, strict=False)) if len(cells) == len(names) else {}


def _object(line: str) -> Mapping[str, object]:
    try:
        return json_text.mapping(json.loads(line))
    except (ValueError, RecursionError):
        return {}


def _parquet(document: Document) -> Iterator[Mapping[str, object]]:
    """Rows of a Parquet file; what reads it is not in the base install."""
    try:
        import polars as pl
    except ImportError as error:
        raise ParseError(document.name, 0, "Parquet needs the hub's install (polars)") from error
    try:
        with document.open() as file:
            frame = pl.read_parquet(file)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise ParseError(document.name, 0, f"no Parquet file: {error}") from error
    layout = Layout.of(frame.columns)
    if layout is None:
        raise ParseError(document.name, 0, "a Parquet file without columns of step times")
    names = [*layout.roles.values(), *layout.times]
    yield from frame.select(names).iter_rows(named=True)
