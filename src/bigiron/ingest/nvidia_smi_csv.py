"""``nvidia-smi --query-gpu=... --format=csv`` and the other query commands.

With or without units. Without a header the columns are known only if the command line stands
above the values; else no more than UUID, PCI address and model are taken from them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, pci_address, reader
from bigiron.ingest.nvidia_failures import failure, failures
from bigiron.ingest.nvidia_fields import FACTS, FLAGS, MEASURES, NUMBER_FACTS, REASONS, canonical
from bigiron.ingest.nvidia_gpu import Reading, device_name, observe
from bigiron.ingest.nvidia_values import absent, clean, taken_at
from bigiron.model import Device, Fact, FactValue, Note, Observation, Sample

COLUMN_LIMIT = 1000
LINE_LIMIT = 16_384
GROUP_LIMIT = 4096
"""GPUs of which processes or pages are counted, and processes or pages of one."""

_KNOWN = frozenset(
    [measure.field for measure in (*MEASURES, *NUMBER_FACTS)]
    + [source for source, _ in (*FLAGS, *FACTS)]
    + ["index", "timestamp", "count", "driver_version", "pci.bus_id", "pid", "process_name"]
    + ["used_gpu_memory", "gpu_recovery_action", "retired_pages.address", "retired_pages.cause"]
    + [f"clocks_event_reasons.{reason}" for reason in ("active", *(name for name, _ in REASONS))]
)
_ANYBODYS = frozenset({"name", "index", "count", "timestamp", "pid", "process_name"})
_COMMAND = re.compile(
    r"nvidia-smi\b.*?--query-(?P<what>[\w-]+)[= ]['\"]?(?P<fields>[\w.,]+)(?P<rest>.*)$"
)
_UUID = re.compile(r"^GPU-[0-9a-fA-F-]{8,40}$")
_UNITS = re.compile(r"\s*\[[^\]]*\]\s*$")
_HEX_UUID = re.compile(r"\bGPU-[0-9a-fA-F]{8}-[0-9a-fA-F-]+")


@dataclass(slots=True)
class _Table:
    columns: list[str]
    uuids: dict[str, int] = field(default_factory=dict)
    rows: int = 0


class _Reader:
    def sniff(self, head: Head) -> float:
        lines = [line[:LINE_LIMIT] for line in head.text.splitlines()[:50] if line.strip()]
        if any(_COMMAND.search(line) for line in lines[:20]):
            return 0.9
        headers = {line for line in lines if _is_header(line) and _ours(line, head.text)}
        names = sum("," not in line for line in headers)
        if headers and names < 2:  # a mere list of names is no table
            return 0.9
        shown = [_HEX_UUID.search(line) and "," in line and "{" not in line for line in lines[:8]]
        if lines and all(shown):
            return 0.5
        return 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        parser = _Parser(document)
        for number, line in enumerate(document.lines(), 1):
            if line.strip():
                yield from parser.feed(number, line[:LINE_LIMIT])
        yield from parser.counted()
        events = list(failures(document, iter(parser.outside)))
        if parser.table is None:
            bare = _bare(document, parser.outside)
            if not events and not bare:
                raise ParseError(document.name, 1, "no query header and no command line in it")
            yield from bare
        yield from events
        if parser.odd:
            yield Note(document.name, "rows with too few or too many values", parser.odd)
        if parser.accounted:
            yield Note(document.name, "accounted processes are not kept", parser.accounted)


def _columns(line: str) -> list[str]:
    cells = line.split(",")[:COLUMN_LIMIT]
    return [canonical(_UNITS.sub("", cell.strip()[:200])) for cell in cells]


def _is_header(line: str) -> bool:
    """Whether a line names columns: mostly known names, none of them a value."""
    names = _columns(line)
    known = sum(name in _KNOWN for name in names)
    dotted = sum(bool(re.fullmatch(r"[a-zA-Z][\w]*(?:\.\w+)*", name)) for name in names)
    return known >= 1 and known * 3 >= len(names) and dotted == len(names)


def _ours(header: str, text: str) -> bool:
    """Whether it names more than a table of anything might, or the rest is of NVIDIA's."""
    return "NVIDIA" in text or bool(set(_columns(header)) & _KNOWN - _ANYBODYS)


def _names_columns(line: str, table: _Table) -> bool:
    """Whether a line repeats the names that the command line asked for."""
    names = _columns(line)
    same = sum(name == column for name, column in zip(names, table.columns, strict=False))
    return same * 2 > len(table.columns)


class _Parser:
    """Reads row after row: a log of ``-l 1`` may be days long."""

    def __init__(self, document: Document) -> None:
        self.table: _Table | None = None
        self.outside: list[tuple[int, str]] = []
        self.odd = 0
        self.accounted = 0
        self._document = document
        self._told: dict[tuple[str, str], FactValue] = {}
        self._devices: set[Device] = set()
        self._counts: dict[tuple[str, str], set[str]] = {}

    def feed(self, number: int, line: str) -> Iterator[Observation]:
        """What this line tells."""
        command = _COMMAND.search(line)
        table = self.table
        if command is not None:
            self.table = _Table([canonical(n) for n in command["fields"].split(",") if n])
        elif line.lstrip()[:1].isalpha() and (
            _is_header(line) or (table is not None and _names_columns(line, table))
        ):
            columns = _columns(line)
            if table is None or table.columns != columns:
                self.table = _Table(columns)
        elif table is None or failure(line) or ("," not in line and len(table.columns) > 1):
            if len(self.outside) < GROUP_LIMIT:
                self.outside.append((number, line))
            self.odd += table is not None and not failure(line) and not line.startswith("#")
        else:
            yield from self._row(table, number, line)

    def _row(self, table: _Table, number: int, line: str) -> Iterator[Observation]:
        cells = line.split(", ")
        if len(cells) != len(table.columns):
            cells = line.split(",")
        if len(cells) != len(table.columns):
            self.odd += 1
            return
        row = dict(zip(table.columns, (cell.strip() for cell in cells), strict=True))
        table.rows += 1
        if "max_memory_usage" in row or "mem_utilization" in row:
            self.accounted += 1
        elif "pid" in row:
            self._count(row, "gpu_processes", row["pid"])
        elif "retired_pages.cause" in row:
            double = "double bit" in row["retired_pages.cause"].lower()
            metric = f"gpu_retired_pages_{'dbe' if double else 'sbe'}_total"
            self._count(row, metric, row.get("retired_pages.address", ""))
        else:
            yield from self._gpu(table, Reading(row, number), number)

    def _gpu(self, table: _Table, reading: Reading, number: int) -> Iterator[Observation]:
        document, row = self._document, reading.fields
        reading.time = taken_at(row.get("timestamp", ""), document)
        reading.line = number
        for source, name in (("driver_version", "driver_version"), ("count", "gpu_count")):
            word = reading.get(source)
            if word:
                whole = source == "count" and word.isdecimal() and len(word) < 6
                yield from self._fact(Fact(document.node, name, int(word) if whole else word))
        for one in observe(document, reading, _name(table, reading)):
            if isinstance(one, Fact):
                yield from self._fact(one)
            elif not isinstance(one, Device):
                yield one
            elif one not in self._devices:
                self._devices.add(one)
                yield one

    def _fact(self, fact: Fact) -> Iterator[Fact]:
        """A fact only when it is new or has changed since the row before."""
        if self._told.get((fact.device, fact.name)) != fact.value:
            self._told[fact.device, fact.name] = fact.value
            yield fact

    def _count(self, row: dict[str, str], metric: str, what: str) -> None:
        bus = pci_address(clean(row.get("pci.bus_id", "")))
        name = bus or clean(row.get("uuid", ""))
        if name and not absent(what) and len(self._counts) < GROUP_LIMIT:
            known = self._counts.setdefault((name, metric), set())
            if len(known) < GROUP_LIMIT:
                known.add(what)

    def counted(self) -> Iterator[Sample]:
        """How many processes or retired pages each GPU has."""
        for (name, metric), known in self._counts.items():
            yield Sample(self._document.node, name, metric, float(len(known)))


def _name(table: _Table, reading: Reading) -> str:
    """By index, else PCI address, else the order of first sight (of UUIDs where there are any)."""
    if reading.get("index"):
        return device_name(reading, None)
    bus = pci_address(reading.get("pci.bus_id"))
    if bus:
        return bus
    order = table.rows - 1
    count = reading.get("count")
    if reading.get("uuid"):
        order = table.uuids.setdefault(reading.get("uuid"), len(table.uuids))
    elif count.isdecimal() and int(count[:6]) > 0:
        order %= int(count[:6])
    return device_name(reading, order)


def _bare(document: Document, outside: Sequence[tuple[int, str]]) -> list[Observation]:
    """What can be told of values whose columns are not named: which GPUs there are."""
    found: list[Observation] = []
    for _, line in outside:
        cells = [clean(cell) for cell in line.split(",")]
        uuid = next((cell for cell in cells if _UUID.match(cell)), "")
        bus = next((pci_address(cell) for cell in cells if pci_address(cell)), "")
        model = next((cell for cell in cells if cell.startswith(("NVIDIA ", "Tesla "))), "")
        if uuid:
            name = bus or f"gpu{len(found)}"
            found.append(Device(document.node, name, "gpu", uuid, bus, model, "NVIDIA"))
    if found:
        found.append(Note(document.name, "values without a header: columns unknown", len(found)))
    return found


@reader()
def nvidia_smi_csv() -> _Reader:
    """nvidia-smi --query-gpu=... --format=csv, and its queries of processes and retired pages."""
    return _Reader()
