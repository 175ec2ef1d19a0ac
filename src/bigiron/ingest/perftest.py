"""The tables of perftest: ``ib_write_bw``, ``ib_read_bw``, ``ib_send_lat`` and their sisters.

A test without a row of results, or with a bandwidth of zero, is an error. MB/s are 10^6 bytes a
second only with ``--report_gbits`` off in old versions (2^20 since 4.x), so values keep the
table's own unit in their name. Source: perftest's output and its README.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bigiron.ingest import Document, Head, Reader, reader
from bigiron.model import CheckResult, CheckStatus, Observation

_TITLE = re.compile(
    r"^\s*((?:RDMA_Write|RDMA_Read|Send|Raw_?\w*|Atomic\w*)[\w ]*?(?:BW|Latency))\b.*Test"
)
_FIELD = re.compile(r"\b(Device|Link type|Mtu|Number of qps)\s*:\s*(\S+)")
_HEADER = re.compile(r"^\s*#bytes\s+#iterations\s+(.*)$")
_COLUMN = re.compile(r"(\w[\w .%]*?)\s*\[(\w+/?\w*)\]")
_FAILURE = re.compile(
    r"Couldn't|Unable to|Failed |Completion with error|Connection refused|Problems? with|"
    r"\bIB device \S+ not found|Did not detect devices",
)


@dataclass(slots=True)
class _Table:
    title: str = ""
    device: str = ""
    columns: list[tuple[str, str]] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    rows: int = 0
    failure: str = ""

    @property
    def begun(self) -> bool:
        return bool(self.title or self.rows or self.failure)


class Perftest:
    """One CheckResult a table; the largest message's row counts."""

    def sniff(self, head: Head) -> float:
        """Certain by title and header."""
        title = re.search(_TITLE.pattern, head.text, re.MULTILINE)
        header = re.search(_HEADER.pattern, head.text, re.MULTILINE)
        return 0.95 if title and header else 0.9 if header else 0.7 if title else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Tables in order."""
        table = _Table()
        for line in document.lines():
            if title := _TITLE.match(line):
                if table.begun:
                    yield _result(document, table)
                table = _Table(" ".join(title[1].split()))
            _take(table, line)
        yield _result(document, table)


@reader()
def perftest() -> Reader:
    """perftest tables (ib_write_bw, ib_read_lat ...)."""
    return Perftest()


def _take(table: _Table, line: str) -> None:
    for name, said in _FIELD.findall(line):
        if name == "Device":
            table.device = said
    if header := _HEADER.match(line):
        table.columns = [(name.strip(), unit) for name, unit in _COLUMN.findall(header[1])]
    elif _FAILURE.search(line):
        table.failure = table.failure or line.strip()
    elif table.columns:
        _row(table, line.split())


def _row(table: _Table, cells: list[str]) -> None:
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        return
    if len(numbers) < 3:
        return
    table.rows += 1
    table.values = {"size_bytes": numbers[0], "iterations": numbers[1]}
    for (name, unit), number in zip(table.columns, numbers[2:], strict=False):
        key = re.sub(r"\W+", "_", name).strip("_").casefold()
        table.values[f"{key}_{unit.replace('/', '_per_').casefold()}"] = number


def _result(document: Document, table: _Table) -> CheckResult:
    average = next((v for k, v in table.values.items() if "average" in k or "typical" in k), None)
    if table.failure:
        status, text = CheckStatus.ERROR, table.failure
    elif not table.rows:
        status, text = CheckStatus.ERROR, "no result: the test did not finish"
    elif average is not None and average <= 0:
        status, text = CheckStatus.ERROR, "measured zero"
    else:
        shown = ", ".join(f"{key} {value:g}" for key, value in list(table.values.items())[2:5])
        status, text = CheckStatus.PASS, f"{shown} at {table.values['size_bytes']:.0f} bytes"
    check = f"perftest {table.title}".strip()
    return CheckResult(
        document.node,
        check,
        status,
        table.device,
        text=text[:500],
        time=document.now,
        source=document.name,
        values=table.values,
    )
