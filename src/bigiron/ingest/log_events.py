"""One line of interest to events and facts: what the reader and the follower share.

Xid and SXid lines are read by their own grammar, everything else by the catalogue's patterns.
Besides faults, a log tells when a machine started and which GPU sits at which PCI address.
"""

import re
from collections.abc import Iterator
from datetime import datetime

from bigiron.faults import Catalogue
from bigiron.ingest import log_json, pci_address
from bigiron.ingest.log_lines import LogLine, Prefixes
from bigiron.ingest.log_literals import Gate, Literals
from bigiron.ingest.log_patterns import FaultPatterns
from bigiron.ingest.xid_line import NEEDS as XID_NEEDS
from bigiron.ingest.xid_line import Other, XidLine, XidLines
from bigiron.ingest.xid_nvlink import NvlinkCodes
from bigiron.model import Event, Fact, FactValue

TEXT_LIMIT = 2_000
FACT_LIMIT = 100_000
HOST_BYTES, HOST_LINES = 4_096, 100
FABRIC_NEED, FABRIC_ERROR = "] [ERROR] [tid ", ("fabric", "ERROR")

_GPU_AT = re.compile(r"NVRM: GPU at (?:PCI:)?(\S{1,40}): (GPU-[0-9a-fA-F-]{8,40})")
_BOARD = re.compile(r"NVRM: GPU Board Serial Number: (\w{1,40})")
_SERIAL = re.compile(r"NVRM: GPU (\S{1,40}): GPU serial number is (\w{1,40})")
_DRIVER = re.compile(
    r"NVRM: loading NVIDIA UNIX .{1,80}?Kernel Module.{0,80}? (\d{3,4}\.[\d.]{1,12})\b"
)
_KERNEL = re.compile(r"Linux version (\S{1,100})")
_MARK = re.compile(r"-- (?:Boot ([0-9a-f]{32})|Reboot) --$")
_DUMP = re.compile(r"(\w{2,20}#\d{1,6}) Part(\d{1,6})$")
_CONTINUED = re.compile(r" [A-Z_]+=")

BOOT_NEEDS = ("Linux version ", "-- Boot ", "-- Reboot --")
FACT_NEEDS = (
    "GPU at PCI:",
    "GPU Board Serial Number",
    "GPU serial number is",
    "loading NVIDIA UNIX",
)
DUMP_NEEDS = ("Panic#", "Oops#", "Emergency#", "Shutdown#", "Restart#", "Halt#", "Poweroff#")
"""Heads of the parts in which pstore keeps a dump (fs/pstore/platform.c)."""
QUOTING = frozenset({"sudo", "su", "audit", "auditd", "CRON", "crond", "sshd", "bash"})
"""Programs whose messages quote what people typed: a grep for an Xid is not an Xid."""


def boot_mark(message: str) -> str | None:
    """The boot id that journalctl's mark between two boots gives ("" in its older form)."""
    found = _MARK.match(message)
    return (found[1] or "") if found else None


class Knowledge:
    """What a catalogue lets a log reader recognise; built once, shared by all documents."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.patterns = FaultPatterns(catalogue)
        self.xids = XidLines(NvlinkCodes(catalogue))
        own = (*XID_NEEDS, *BOOT_NEEDS, *FACT_NEEDS, *DUMP_NEEDS, *log_json.ARRAY_NEEDS)
        self.fabric = (FABRIC_NEED,) if "fm.error" in catalogue else ()
        self.gates = (
            Gate((*own, *self.fabric)),
            *(Gate(*map(_spelled, gate)) for gate in self.patterns.gates),
        )


def _spelled(literals: Literals) -> Literals:
    return tuple(text for literal in literals for text in log_json.spellings(literal))


class LineEvents:
    """Turns lines into observations, in order; keeps what earlier lines said about a host."""

    def __init__(self, knowledge: Knowledge, source: str, now: datetime) -> None:
        self._known = knowledge
        self.source = source
        self._prefixes = Prefixes(now)
        self._facts: dict[tuple[str, str, str], FactValue] = {}
        self._gpu_at: dict[str, str] = {}
        self._boots: dict[str, str] = {}
        self._hosts: set[str] = set()
        self._mark: tuple[int, str] | None = None
        self.dump = Dumps()
        self.notes: dict[str, int] = {}

    def wants_next(self) -> bool:
        """Whether the next line tells host and time of a boot mark just seen."""
        return self._mark is not None

    def read(self, line: int, raw: bytes) -> Iterator[Event | Fact]:
        """What this line says."""
        text = raw.decode("utf-8", "replace").replace("\0", "").rstrip("\r")
        if line == 1:
            text = text.lstrip("\ufeff")
        parsed = self._parse(text)
        if parsed is None:
            return
        if not parsed.zoned:
            self.notes["no time zone given: UTC assumed"] = 1
        if (boot_id := boot_mark(parsed.message)) is not None:
            self._mark = (line, boot_id)
            return
        if self.dump.header(parsed.message):
            return
        yield from self._boot(line, parsed)
        yield from self._meaning(line, parsed)

    def next_line(self, raw: bytes) -> Iterator[Event]:
        """The line after a boot mark: only its host and time are of interest here."""
        parsed = self._parse(raw.decode("utf-8", "replace"))
        yield from self._marked(parsed or LogLine(""))

    def look_for_hosts(self, data: bytes, line: int) -> None:
        """The hosts that the first lines name: a log without faults is of somebody, too."""
        for raw in data.split(b"\n", HOST_LINES - line + 1)[: HOST_LINES - line + 1]:
            text = raw[:HOST_BYTES].decode("utf-8", "replace").replace("\0", "").lstrip("\ufeff")
            parsed = log_json.parse(text, self._prefixes) if text.startswith("{") else None
            parsed = parsed or self._prefixes.parse(text)
            if parsed.host:
                self._hosts.add(parsed.host)

    def finish(self) -> Iterator[Event | Fact]:
        """What was still waiting for a next line, and the hosts that the log is of."""
        yield from self._marked(LogLine(""))
        for name in sorted(self._hosts):
            yield Fact(name, "hostname", name)

    def _parse(self, text: str) -> LogLine | None:
        if text.startswith("{"):
            parsed = log_json.parse(text, self._prefixes)
            if parsed is None:
                self.note("JSON lines that are no log records")
            return parsed
        if _CONTINUED.match(text):  # a /dev/kmsg record's dictionary
            return None
        return self._prefixes.parse(text)

    def note(self, what: str, count: int = 1) -> None:
        """Count something that was not used."""
        self.notes[what] = self.notes.get(what, 0) + count

    def _event(
        self, line: int, parsed: LogLine, code: str, device: str, attrs: dict[str, str]
    ) -> Event:
        if parsed.program not in ("", "kernel"):
            attrs.setdefault("program", parsed.program)
        if parsed.level:
            attrs.setdefault("level", parsed.level)
        return Event(
            node=parsed.host,
            code=code,
            text=parsed.message[:TEXT_LIMIT].strip(),
            device=device,
            time=parsed.time,
            uptime_s=parsed.uptime_s,
            source=self.source,
            line=line,
            attrs=self.dump.attrs(attrs),
            count=parsed.times,
        )

    def _boot(self, line: int, parsed: LogLine) -> Iterator[Event | Fact]:
        """A start of the machine: ``Linux version``, or another boot id than before."""
        before = self._boots.get(parsed.host, "")
        first = parsed.message.startswith("Linux version ") and parsed.program in ("", "kernel")
        if parsed.boot_id:
            self._boots[parsed.host] = parsed.boot_id
        if first and (found := _KERNEL.match(parsed.message)):
            yield from self._fact(parsed, "kernel", found[1], "")
            if before != "marked":
                attrs = {"boot_id": parsed.boot_id} if parsed.boot_id else {}
                yield self._event(line, parsed, "kernel.reboot", "", attrs)
            self._boots[parsed.host] = parsed.boot_id
        elif parsed.boot_id and before not in ("", "marked", parsed.boot_id):
            yield self._event(line, parsed, "kernel.reboot", "", {"boot_id": parsed.boot_id})

    def _marked(self, parsed: LogLine) -> Iterator[Event]:
        """journalctl's boot mark, with host and time from the line after it."""
        if self._mark is None:
            return
        line, boot_id = self._mark
        self._mark = None
        self._boots[parsed.host] = "marked"
        attrs = {"boot_id": boot_id} if boot_id else {}
        said = parsed._replace(message=f"-- Boot {boot_id} --", level="", program="", times=1)
        yield self._event(line, said, "kernel.reboot", "", attrs)

    def _meaning(self, line: int, parsed: LogLine) -> Iterator[Event | Fact]:
        message = parsed.message
        if parsed.program in QUOTING:
            self.note("lines that only quote a fault (sudo, audit and the like)")
            return
        if "Xid" in message:
            xid = self._known.xids.parse(message)
            if isinstance(xid, XidLine):
                yield self._event(line, parsed, *xid)
                return
            if xid is Other.UNREADABLE:
                self.note("Xid lines whose number cannot be read")
            if xid is not None:
                return
        if "NVRM: " in message:
            yield from self._gpu_facts(parsed)
        if message.startswith("Linux version "):
            return
        yield from self._by_pattern(line, parsed)

    def _by_pattern(self, line: int, parsed: LogLine) -> Iterator[Event]:
        match = self._known.patterns.match(parsed.message)
        if match is None and parsed.program not in ("", "kernel"):
            tag = f"{parsed.program}[{parsed.pid}]" if parsed.pid else parsed.program
            match = self._known.patterns.match(f"{tag}: {parsed.message}")
        if match is not None:
            yield self._event(line, parsed, *match)
        elif self._known.fabric and (parsed.form, parsed.level) == FABRIC_ERROR:
            yield self._event(line, parsed, "fm.error", "", {})

    def _gpu_facts(self, parsed: LogLine) -> Iterator[Fact]:
        message = parsed.message
        if found := _GPU_AT.search(message):
            device = pci_address(found[1])
            self._gpu_at[parsed.host] = device
            yield from self._fact(parsed, "uuid", found[2], device)
        elif found := _BOARD.search(message):
            yield from self._fact(parsed, "serial", found[1], self._gpu_at.get(parsed.host, ""))
        elif found := _SERIAL.search(message):
            device = pci_address(found[1])
            if (parsed.host, device, "serial") not in self._facts:
                yield from self._fact(parsed, "serial", found[2], device)
        elif found := _DRIVER.search(message):
            yield from self._fact(parsed, "driver_version", found[1], "")

    def _fact(self, parsed: LogLine, name: str, value: str, device: str) -> Iterator[Fact]:
        """A fact once, and again when it changes. What a crash dump says is no longer so."""
        key = (parsed.host, device, name)
        if name in ("uuid", "serial") and not device:
            return
        if self.dump.open or self._facts.get(key) == value or len(self._facts) >= FACT_LIMIT:
            return
        self._facts[key] = value
        yield Fact(parsed.host, name, value, device, parsed.time)


class Dumps:
    """Where in a pstore dump the reader stands. Part 1 is the newest part of each dump."""

    def __init__(self) -> None:
        self.open = False
        self._name = ""
        self._part = 0
        self._number = 0
        self._seen: set[int] = set()

    def header(self, message: str) -> bool:
        """Whether this line begins a part; the lines after it belong to it."""
        found = _DUMP.match(message)
        if found is None:
            return False
        name, part = found[1], int(found[2])
        if not self.open or name != self._name or part in self._seen:
            self._number += 1
            self._seen = set()
        self.open, self._name, self._part = True, name, part
        self._seen.add(part)
        return True

    @property
    def order(self) -> tuple[int, int]:
        """Sorts what was read by dump and, in a dump, by time."""
        return self._number, -self._part

    def attrs(self, attrs: dict[str, str]) -> dict[str, str]:
        """The same, and that the event belongs to a boot before the present one."""
        if self.open:
            return {**attrs, "earlier_boot": "yes", "dump": self._name}
        return attrs
