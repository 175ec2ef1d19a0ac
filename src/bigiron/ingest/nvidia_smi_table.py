"""``nvidia-smi``: the default table, and the texts it prints instead of one.

The table of drivers 450 to 610: three lines a GPU in three cells each. ``ERR!`` in a cell is a
GPU that did not answer.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.nvidia_failures import failure, failures, tells_failure
from bigiron.ingest.nvidia_gpu import Reading, observe
from bigiron.ingest.nvidia_values import taken_at
from bigiron.model import Fact, Note, Observation

_VERSIONS = re.compile(
    r"NVIDIA-SMI\s+(?P<smi>\S+)(?:.*?(?:KMD|Driver) Version:\s*(?P<driver>[\d.]+|N/A|ERR!))?"
    r"(?:.*?CUDA (?:UMD )?Version:\s*(?P<cuda>[\d.]+|N/A|ERR!))?"
)
_FIRST = re.compile(
    r"^\|\s*(?P<index>\d{1,3})\s+(?P<name>\S.*?)\s+(?P<mode>On|Off|WDDM|TCC|MCDM|N/A|ERR!)\s*\|"
    r"\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s+\S+\s*\|"
    r"\s*(?P<ecc>\S+)\s*\|"
)
_SECOND = re.compile(
    r"^\|\s*(?P<fan>\S+)\s+(?P<temp>\S+)\s+(?P<perf>\S+)\s+(?P<use>\S+(?: Error)?)\s*/"
    r"\s*(?P<cap>\S+(?: Error)?)\s*\|\s*(?P<memory>[^|]*?)\s*\|"
    r"\s*(?P<util>\S+)\s+(?P<compute>[^|]*?)\s*\|"
)
_THIRD = re.compile(r"^\|\s*\|\s*\|\s*(?P<mig>\S+)\s*\|")
_MEMORY = re.compile(r"^(?P<used>\S+)\s*/\s*(?P<total>\S+)$")
_PROCESS = re.compile(
    r"^\|\s*(?P<index>\d{1,3})\s+(?:\S+\s+\S+\s+)?(?P<pid>\d+)\s+(?P<type>[CGM+]{1,3})\s"
)
_CLOCK = re.compile(r"^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$")
_HEADING = re.compile(r"^\|\s*GPU\s+Name\b")


@dataclass(slots=True)
class _Table:
    head: dict[str, str] = field(default_factory=dict)
    gpus: list[Reading] = field(default_factory=list)
    seconds: int = 0
    ended: bool = False


class _Parser:
    def __init__(self) -> None:
        self.tables: list[_Table] = []
        self.outside: list[tuple[int, str]] = []
        self._time = ""

    def feed(self, number: int, line: str) -> None:
        text = line[:512].expandtabs().rstrip()
        if text.startswith("|") and "NVIDIA-SMI" in text:
            self._open(text)
        elif not text.startswith(("|", "+")):
            if _CLOCK.match(text):
                self._time = text
            elif text and (failure(text) or not self.tables):
                self.outside.append((number, text))
        elif self.tables:
            self._row(self.tables[-1], number, text)

    def _open(self, text: str) -> None:
        match = _VERSIONS.search(text)
        head = {"timestamp": self._time}
        if match is not None:
            head["driver_version"] = match["driver"] or ""
            head["cuda_version"] = match["cuda"] or ""
        self.tables.append(_Table(head))

    def _row(self, table: _Table, number: int, text: str) -> None:
        first = _FIRST.match(text)
        if first is not None and not table.ended:
            table.gpus.append(_first(number, first))
            return
        if "Processes:" in text:
            table.ended = True
            for gpu in table.gpus:
                gpu.processes = 0
            return
        if text.startswith("| MIG devices"):
            table.ended = True
            return
        process = _PROCESS.match(text) if table.ended else None
        if process is not None:
            for gpu in table.gpus:
                if gpu.fields["index"] == process["index"]:
                    gpu.processes = (gpu.processes or 0) + 1
        elif table.gpus and not table.ended:
            self._more(table, text)

    def _more(self, table: _Table, text: str) -> None:
        fields = table.gpus[-1].fields
        second = _SECOND.match(text)
        third = _THIRD.match(text)
        if second is not None and "temperature.gpu" not in fields:
            table.seconds += 1
            memory = _MEMORY.match(second["memory"])
            fields.update(
                {
                    "fan.speed": second["fan"],
                    "temperature.gpu": second["temp"],
                    "pstate": second["perf"],
                    "power.draw": second["use"],
                    "enforced.power.limit": second["cap"],
                    "memory.used": memory["used"] if memory else second["memory"],
                    "memory.total": memory["total"] if memory else "",
                    "utilization.gpu": second["util"],
                    "compute_mode": second["compute"].rstrip(".*"),
                }
            )
        elif third is not None:
            fields["mig.mode.current"] = third["mig"].rstrip("*")


def _first(number: int, match: re.Match[str]) -> Reading:
    name = match["name"]
    fields = {
        "index": match["index"],
        "pci.bus_id": match["bus"],
        # A name that the table cuts is no model to compare with.
        "name": "" if name.endswith("...") else name,
    }
    if match["mode"] in ("On", "Off"):
        fields["persistence_mode"] = "Enabled" if match["mode"] == "On" else "Disabled"
    elif match["mode"] != "N/A":
        fields["driver_model.current"] = match["mode"]
    ecc = match["ecc"].rstrip("*")
    if ecc.isdecimal():
        fields["ecc.errors.uncorrected.volatile.total"] = ecc
        fields["ecc.mode.current"] = "Enabled"
    elif ecc in ("On", "Off"):
        fields["ecc.mode.current"] = "Enabled" if ecc == "On" else "Disabled"
    else:
        fields["ecc.errors.uncorrected.volatile.total"] = ecc
    return Reading(fields, number)


class _Reader:
    def sniff(self, head: Head) -> float:
        lines = head.text.splitlines()[:400]
        if any(line.startswith("| NVIDIA-SMI") for line in lines):
            return 0.9
        if any(_HEADING.match(line) for line in lines):
            return 0.6
        few = sum(bool(line.strip()) for line in lines) <= 40
        return 0.55 if few and tells_failure(head.text) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        parser = _Parser()
        for number, line in enumerate(document.lines(), 1):
            parser.feed(number, line)
        events = list(failures(document, iter(parser.outside)))
        if not parser.tables and not events:
            raise ParseError(document.name, 1, "no nvidia-smi table in it")
        for table in parser.tables:
            yield from _observe(document, table)
        yield from events


def _observe(document: Document, table: _Table) -> Iterator[Observation]:
    time = taken_at(table.head.get("timestamp", ""), document)
    for name in ("driver_version", "cuda_version"):
        word = table.head.get(name, "")
        if word and word[0].isdecimal():
            yield Fact(document.node, name, word, time=time)
    if table.ended and any(gpu.fields["index"] == "0" for gpu in table.gpus):  # not by -i
        yield Fact(document.node, "gpu_count", len(table.gpus), time=time)
    for reading in table.gpus:
        reading.time = time
        yield from observe(document, reading, f"gpu{int(reading.fields['index'])}")
    if not table.ended or table.seconds < len(table.gpus):
        yield Note(document.name, "table cut short, used as far as it goes")


@reader()
def nvidia_smi_table() -> _Reader:
    """nvidia-smi: the default table, or what it prints when the driver or a GPU is gone."""
    return _Reader()
