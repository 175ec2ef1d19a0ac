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
from bigiron.ingest.nvidia_fields import FACTS, FLAGS, MEASURES, NUMBER_FACTS, canonical
from bigiron.ingest.nvidia_gpu import Reading, device_name, observe
from bigiron.ingest.nvidia_values import absent, clean, taken_at
from bigiron.model import Device, Fact, Note, Observation, Sample

COLUMN_LIMIT = 2000
ROW_LIMIT = 200_000

_KNOWN = frozenset(
    [measure.field for measure in (*MEASURES, *NUMBER_FACTS)]
    + [source for source, _ in (*FLAGS, *FACTS)]
    + ["index", "timestamp", "count", "driver_version", "pci.bus_id", "pid", "process_name"]
    + ["used_gpu_memory", "gpu_recovery_action", "retired_pages.address", "retired_pages.cause"]
)
_COMMAND = re.compile(
    r"nvidia-smi\b.*?--query-(?P<what>[\w-]+)[= ]['\"]?(?P<fields>[\w.,]+)(?P<rest>.*)$"
)
_UUID = re.compile(r"^GPU-[0-9a-fA-F-]{8,40}$")
_UNITS = re.compile(r"\s*\[[^\]]*\]\s*$")
_HEX_UUID = re.compile(r"\bGPU-[0-9a-fA-F]{8}-[0-9a-fA-F-]+")


@dataclass(slots=True)
class _Table:
    columns: list[str]
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    odd: int = 0


class _Reader:
    def sniff(self, head: Head) -> float:
        lines = [line for line in head.text.splitlines()[:50] if line.strip()]
        if any(_COMMAND.search(line) for line in lines[:20]):
            return 0.9
        headers = {line for line in lines if _is_header(line)}
        names = sum("," not in line for line in headers)
        if headers and names < 2:  # a mere list of names is no table
            return 0.9
        if lines and all(_HEX_UUID.search(line) and "," in line for line in lines[:8]):
            return 0.5
        return 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        tables, outside = _tables(document)
        events = list(failures(document, iter(outside)))
        if not any(table.rows for table in tables):
            bare = _bare(document, outside)
            if not events and not tables and not bare:
                raise ParseError(document.name, 1, "no query header and no command line in it")
            yield from bare
        for table in tables:
            yield from _observe(document, table)
            if table.odd:
                yield Note(document.name, "rows with too few or too many values", table.odd)
        yield from events


def _columns(line: str) -> list[str]:
    cells = line.split(",")[:COLUMN_LIMIT]
    return [canonical(_UNITS.sub("", cell)) for cell in cells]


def _is_header(line: str) -> bool:
    """Whether a line names columns: mostly known names, none of them a value."""
    names = _columns(line)
    known = sum(name in _KNOWN for name in names)
    dotted = sum(bool(re.fullmatch(r"[a-zA-Z][\w]*(?:\.\w+)*", name)) for name in names)
    return known >= 1 and known * 3 >= len(names) and dotted == len(names)


def _names_columns(line: str, table: _Table) -> bool:
    """Whether a line repeats the names that the command line asked for."""
    names = _columns(line)
    same = sum(name == column for name, column in zip(names, table.columns, strict=False))
    return same * 2 > len(table.columns)


def _tables(document: Document) -> tuple[list[_Table], list[tuple[int, str]]]:
    tables: list[_Table] = []
    outside: list[tuple[int, str]] = []
    rows = 0
    for number, line in enumerate(document.lines(), 1):
        if not line.strip():
            continue
        command = _COMMAND.search(line)
        if command is not None:
            tables.append(_Table([canonical(n) for n in command["fields"].split(",") if n]))
        elif _is_header(line) or (tables and _names_columns(line, tables[-1])):
            columns = _columns(line)
            if tables and not tables[-1].rows:
                tables[-1].columns = columns
            elif not tables or tables[-1].columns != columns:
                tables.append(_Table(columns))
        elif failure(line) or not tables or ("," not in line and len(tables[-1].columns) > 1):
            outside.append((number, line))
        elif rows < ROW_LIMIT:
            rows += 1
            _add(tables[-1], number, line)
        else:
            tables[-1].odd += 1
    return tables, outside


def _add(table: _Table, number: int, line: str) -> None:
    cells = line.split(", ")
    if len(cells) != len(table.columns):
        cells = line.split(",")
    if len(cells) != len(table.columns):
        table.odd += 1
        return
    row = dict(zip(table.columns, (cell.strip() for cell in cells), strict=True))
    table.rows.append((number, row))


def _observe(document: Document, table: _Table) -> Iterator[Observation]:
    if "pid" in table.columns:
        yield from _processes(document, table)
    elif "retired_pages.cause" in table.columns:
        yield from _retired_pages(document, table)
    else:
        yield from _gpus(document, table)


def _gpus(document: Document, table: _Table) -> Iterator[Observation]:
    told: set[Fact] = set()
    for order, (number, row) in enumerate(table.rows):
        time = taken_at(row.get("timestamp", ""), document)
        for source, name in (("driver_version", "driver_version"), ("count", "gpu_count")):
            word = row.get(source, "")
            if not absent(word):
                value = clean(word)
                whole = int(value) if source == "count" and value.isdecimal() else value
                fact = Fact(document.node, name, whole)
                if fact not in told:
                    told.add(fact)
                    yield fact
        reading = Reading(row, number, time)
        yield from observe(document, reading, _name(table, reading, order))


def _name(table: _Table, reading: Reading, order: int) -> str:
    """By index, else PCI address, else the order of first sight (of UUIDs where there are any)."""
    if reading.get("index"):
        return device_name(reading, None)
    bus = pci_address(reading.get("pci.bus_id"))
    if bus:
        return bus
    uuids = list(dict.fromkeys(row.get("uuid", "") for _, row in table.rows))
    count = reading.get("count")
    if "uuid" in table.columns:
        return device_name(reading, uuids.index(reading.fields["uuid"]))
    if count.isdecimal() and 0 < int(count[:6]) <= len(table.rows):
        return device_name(reading, order % int(count[:6]))
    return device_name(reading, order)


def _per_gpu(table: _Table) -> dict[str, list[dict[str, str]]]:
    groups: dict[str, list[dict[str, str]]] = {}
    for _, row in table.rows:
        name = pci_address(clean(row.get("pci.bus_id", ""))) or clean(row.get("uuid", ""))
        groups.setdefault(name, []).append(row)
    return groups


def _processes(document: Document, table: _Table) -> Iterator[Observation]:
    accounted = any(name in table.columns for name in ("max_memory_usage", "mem_util"))
    if accounted:
        if table.rows:
            yield Note(document.name, "accounted processes are not kept", len(table.rows))
        return
    for name, rows in _per_gpu(table).items():
        pids = {row["pid"] for row in rows if not absent(row["pid"])}
        if name and pids:
            yield Sample(document.node, name, "gpu_processes", float(len(pids)))


def _retired_pages(document: Document, table: _Table) -> Iterator[Observation]:
    for name, rows in _per_gpu(table).items():
        for cause, metric in (
            ("single bit", "gpu_retired_pages_sbe_total"),
            ("double bit", "gpu_retired_pages_dbe_total"),
        ):
            pages = {
                row.get("retired_pages.address", "")
                for row in rows
                if cause in row["retired_pages.cause"].lower()
                and not absent(row.get("retired_pages.address", ""))
            }
            if name and pages:
                yield Sample(document.node, name, metric, float(len(pages)))


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
