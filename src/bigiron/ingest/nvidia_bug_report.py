"""``nvidia-bug-report.log`` and its ``.gz``: everything nvidia-bug-report.sh collects.

Parts stand between ruled lines, each with a heading: a file (``*** /proc/...``) or a command.
Kernel logs, nvidia-smi output and what else a reader knows are read; the rest is counted.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.nvidia_sections import MAX_SECTION, MAX_SECTIONS, Section, observe_sections
from bigiron.model import Node, Note, Observation

LIMIT = 256 * 1024 * 1024
"""Bytes of the report once unpacked: real ones are a few megabytes."""

_START = "Start of NVIDIA bug report log file"
_RULE = re.compile(r"^_{20,}\s*$")
_LS = re.compile(r"^\*\*\* ls: ")
_UNAME = re.compile(r"^uname:\s+Linux\s+(?P<host>[A-Za-z0-9][\w.-]{0,252})\s")
_DATE = re.compile(
    r"^Date:\s+\w{3}\s+(?P<month>\w{3})\s+(?P<day>\d{1,2})\s+(?P<clock>\d{1,2}:\d{2}:\d{2})"
    r"(?:\s+(?P<half>[AP]M))?(?:\s+[\w+-]+)?\s+(?P<year>\d{4})\s*$"
)
_GZIP = b"\x1f\x8b"


class _Reader:
    def sniff(self, head: Head) -> float:
        if head.data.startswith(_GZIP):
            return 0.99 if _START.encode() in _unpacked_head(head.data) else 0.0
        return 0.99 if _START in head.text else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        text, whole = _text(document)
        if _START not in text:
            raise ParseError(document.name, 1, "no NVIDIA bug report in it")
        host = next((m["host"] for line in text.splitlines()[:60] if (m := _UNAME.match(line))), "")
        document = replace(document, now=_made(text) or document.now)
        if host and not document.node:
            document = replace(document, node=host)
            yield Node(host)
        yield from observe_sections(document, _sections(text))
        if not whole:
            yield Note(document.name, "report cut short, used as far as it goes")


def _made(text: str) -> datetime | None:
    """When the report was made, by its own Date line, taken as UTC: its logs' years hang on it."""
    found = next((m for line in text.splitlines()[:60] if (m := _DATE.match(line))), None)
    if found is None:
        return None
    hours = "%I:%M:%S %p" if found["half"] else "%H:%M:%S"
    told = f"{found['year']} {found['month']} {found['day']} {found['clock']}"
    told += f" {found['half']}" if found["half"] else ""
    try:
        return datetime.strptime(told, f"%Y %b %d {hours}").replace(tzinfo=UTC)
    except ValueError:
        return None


def _unpacked_head(data: bytes) -> bytes:
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, 16_384)
    except zlib.error:
        return b""


def _text(document: Document) -> tuple[str, bool]:
    """The report's text, unpacked within LIMIT, and whether that is all of it."""
    data = document.bytes(LIMIT + 1)
    whole = len(data) <= LIMIT
    if data.startswith(_GZIP):
        data, whole = _unpack(data)
    return data[:LIMIT].decode("utf-8", "replace").replace("\0", ""), whole


def _unpack(data: bytes) -> tuple[bytes, bool]:
    """The script appends gzip members one after the other; the last may be cut off."""
    parts: list[bytes] = []
    size = 0
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as file:
            while size <= LIMIT and (part := file.read1(1 << 20)):
                parts.append(part)
                size += len(part)
    except (EOFError, OSError, zlib.error):
        return b"".join(parts), False
    return b"".join(parts), size <= LIMIT


def _sections(text: str) -> Iterator[Section]:
    count = 0
    begin, size = 1, 0
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if _RULE.match(line):
            section = _section(begin, lines)
            if section is not None:
                yield section
                count += 1
            if count >= MAX_SECTIONS:
                return
            begin, lines, size = number + 1, [], 0
        elif size < MAX_SECTION:
            lines.append(line)
            size += len(line) + 1
    section = _section(begin, lines)
    if section is not None:
        yield section


def _section(begin: int, lines: list[str]) -> Section | None:
    """A part without its heading; None for one that holds nothing else."""
    at = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    if at == len(lines) or lines[at].startswith(_START):
        return None
    title = lines[at].strip().removeprefix("*** ")
    body = at + 1
    while body < len(lines) and (not lines[body].strip() or _LS.match(lines[body])):
        body += 1
    if body == len(lines):
        return None
    return Section(title[:80], begin + body, "\n".join(lines[body:]) + "\n")


@reader()
def nvidia_bug_report() -> _Reader:
    """nvidia-bug-report.log(.gz): kernel log, nvidia-smi and more of one machine."""
    return _Reader()
