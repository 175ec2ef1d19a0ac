"""How surely a document is a kernel or system log."""

import re
from datetime import UTC, datetime

from bigiron.ingest import Head, log_json
from bigiron.ingest.log_events import Dumps, Knowledge, boot_mark
from bigiron.ingest.log_lines import LogLine, Prefixes
from bigiron.ingest.xid_line import XidLine

LINES = 200
NOW = datetime(9999, 1, 1, tzinfo=UTC)
"""Any year will do to recognise a stamp without one."""
_OPEN = ("{", "}", "[", "(", ";", "},", "],", ",")
"""What lines of programs and configurations end in."""

_TEMPLATE = re.compile(r"\.\*|\\[dwsS]|%(?:l*[udxsp]|0\d+l*x)")
"""Regular expressions and format strings: a list of what to look for is no log."""

_SURE = frozenset({"kmsg", "dmesg", "ctime", "dmesg-x", "dmesg-iso", "fabric", "journal-json"})
_LIKELY = frozenset({"bsd", "iso", "rfc5424", "container", "container-json", "kernel"})


def score(head: Head, knowledge: Knowledge) -> float:
    """0.95 for lines only a kernel log has, 0.6 for bare messages that mean a fault, else 0.

    Half of the lines must have a prefix: one stamped line in another tool's output does not
    make it a log. JSON lines count only if they are log records.
    """
    lines = [line for line in head.text.replace("\0", "").splitlines()[:LINES] if line.strip()]
    if len(head.data) > 1024 and len(lines) > 1:
        lines = lines[:-1]  # the head may end inside it
    if not lines:
        return 0.0
    prefixes = Prefixes(NOW)
    rates = [_rate(line, prefixes, knowledge) for line in lines]
    told = [rate for rate in rates if rate is not None]
    prefixed = [rate for rate in told if rate > 0]
    if prefixed and 2 * len(prefixed) >= len(told):
        return sum(prefixed) / len(prefixed)
    if lines[0].lstrip()[:1] in ("{", "<") or lines[0].strip() == "[" or _structured(lines):
        return 0.0
    return 0.6 if any(_means(line, prefixes, knowledge) for line in lines) else 0.0


def _structured(lines: list[str]) -> bool:
    """Whether it is a program or a configuration: those quote messages, as rules to look for."""
    marks = sum(
        line.lstrip().startswith(('"', "{", "}", "]", "//", "- ")) or line.rstrip().endswith(_OPEN)
        for line in lines
    )
    return len(lines) > 5 and 3 * marks > len(lines)


def _rate(line: str, prefixes: Prefixes, knowledge: Knowledge) -> float | None:
    """How log-like one line is; None if it says nothing either way."""
    if line.startswith("{"):
        parsed = log_json.parse(line, prefixes)
        return _form(parsed, knowledge) if parsed is not None else 0.0
    if line.startswith((" ", "\t")):
        return None  # a continued message
    parsed = prefixes.parse(line)
    if Dumps().header(parsed.message) or boot_mark(parsed.message):
        return 0.95
    return _form(parsed, knowledge)


def _form(parsed: LogLine, knowledge: Knowledge) -> float:
    if parsed.form in _SURE or parsed.program == "kernel":
        return 0.95
    if parsed.form in _LIKELY and (parsed.program or parsed.form.startswith("container")):
        return 0.8
    if parsed.form in _LIKELY and knowledge.patterns.match(parsed.message):
        return 0.8
    return 0.0


def _means(line: str, prefixes: Prefixes, knowledge: Knowledge) -> bool:
    if "NVRM: " in line:
        return True
    if _TEMPLATE.search(line):
        return False
    if "Xid" in line and isinstance(knowledge.xids.parse(line), XidLine):
        return True
    return knowledge.patterns.match(prefixes.parse(line).message) is not None
