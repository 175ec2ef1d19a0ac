"""``nvidia-smi dmon`` and ``pmon``: one line a GPU, or a process, every second."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.nvidia_failures import failure, failures
from bigiron.ingest.nvidia_values import absent, number, taken_at
from bigiron.model import Device, Note, Observation, Sample

_COLUMNS: dict[str, tuple[str, str]] = {
    "pwr": ("gpu_power_watts", "W"),
    "gtemp": ("gpu_temp_celsius", "C"),
    "temp": ("gpu_temp_celsius", "C"),
    "mtemp": ("gpu_memory_temp_celsius", "C"),
    "sm": ("gpu_utilization_ratio", "%"),
    "mem": ("gpu_memory_utilization_ratio", "%"),
    "enc": ("gpu_encoder_utilization_ratio", "%"),
    "dec": ("gpu_decoder_utilization_ratio", "%"),
    "mclk": ("gpu_memory_clock_hertz", "MHz"),
    "pclk": ("gpu_sm_clock_hertz", "MHz"),
    "fb": ("gpu_memory_used_bytes", "MiB"),
    "sbecc": ("gpu_ecc_correctable_aggregate_total", ""),
    "dbecc": ("gpu_ecc_uncorrectable_aggregate_total", ""),
    "pci": ("gpu_pcie_replays_total", ""),
    "rxpci": ("gpu_pcie_rx_bytes_per_second", "MB/s"),
    "txpci": ("gpu_pcie_tx_bytes_per_second", "MB/s"),
}
"""Columns of dmon -s pucvmet; its ECC columns are the aggregate counts."""

_HEADING = re.compile(r"^#\s*(?:Date\s+Time\s+)?gpu\b", re.IGNORECASE)
ROW_LIMIT = 1_000_000


@dataclass(slots=True)
class _Monitor:
    columns: list[str] = field(default_factory=list)
    latest: dict[str, dict[str, str]] = field(default_factory=dict)
    timed: bool = False
    pids: dict[str, set[str]] = field(default_factory=dict)
    odd: int = 0

    @property
    def by_process(self) -> bool:
        return "pid" in self.columns


class _Reader:
    def sniff(self, head: Head) -> float:
        return 0.9 if any(_HEADING.match(line) for line in head.text.splitlines()[:40]) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        monitor = _Monitor()
        outside: list[tuple[int, str]] = []
        for at, line in enumerate(document.lines(), 1):
            if at > ROW_LIMIT:
                yield Note(document.name, f"no more than {ROW_LIMIT} lines are read")
                break
            if _HEADING.match(line):
                monitor.columns = line.lstrip("# ").lower().split()
                monitor.timed = monitor.columns[:2] == ["date", "time"]
            elif failure(line):
                outside.append((at, line))
            elif monitor.columns and line.strip() and not line.startswith("#"):
                yield from _row(document, monitor, line.split())
        events = list(failures(document, iter(outside)))
        if not monitor.columns and not events:
            raise ParseError(document.name, 1, "no '# gpu' heading in it")
        yield from _last(document, monitor)
        yield from events
        if monitor.odd:
            yield Note(document.name, "rows that do not fit the heading", monitor.odd)


def _row(document: Document, monitor: _Monitor, words: list[str]) -> Iterator[Sample]:
    columns = monitor.columns
    fits = len(words) >= len(columns) if monitor.by_process else len(words) == len(columns)
    row = dict(zip(columns, words, strict=False))
    if not fits or not row.get("gpu", "").isdecimal() or len(row["gpu"]) > 3:
        monitor.odd += 1
        return
    gpu = f"gpu{int(row['gpu'])}"
    if monitor.by_process:
        pids = monitor.pids.setdefault(gpu, set())
        if not absent(row["pid"]):
            pids.add(row["pid"])
        return
    monitor.latest[gpu] = row
    time = taken_at(f"{row['date']} {row['time']}", document) if monitor.timed else None
    if time is not None:
        yield from _samples(document, gpu, row, time)


def _last(document: Document, monitor: _Monitor) -> Iterator[Observation]:
    """The newest row of each GPU; all were told already where each carries its own time."""
    for gpu, row in monitor.latest.items():
        yield Device(document.node, gpu, "gpu", vendor="NVIDIA")
        if not monitor.timed:
            yield from _samples(document, gpu, row, None)
    for gpu, pids in monitor.pids.items():
        yield Device(document.node, gpu, "gpu", vendor="NVIDIA")
        yield Sample(document.node, gpu, "gpu_processes", float(len(pids)))


def _samples(
    document: Document, gpu: str, row: dict[str, str], time: datetime | None
) -> Iterator[Sample]:
    for column, (metric, unit) in _COLUMNS.items():
        word = row.get(column, "")
        value = None if absent(word) else number(word, unit)
        if value is not None:
            yield Sample(document.node, gpu, metric, value, time)


@reader()
def nvidia_smi_monitor() -> _Reader:
    """nvidia-smi dmon and pmon: a line a GPU or process, every second."""
    return _Reader()
