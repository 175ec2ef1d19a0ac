"""One line of exposition text: the Prometheus text format and OpenMetrics.

``name{label="value",...} value [timestamp] [# exemplar]``, or with a quoted name among the labels
(``{"my.metric",label="value"} 1``). Sources: prometheus.io/docs/instrumenting/exposition_formats,
the OpenMetrics specification 1.0 (RFC draft) and Prometheus's UTF-8 names proposal.
"""

import math
import re

NAME = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SERIES = re.compile(
    rb"[ \t]*(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)?+[ \t]*+"
    rb'(?P<block>\{(?:[^"}]|"(?:[^"\\]|\\.)*+")*+\})?+'
)
_LABEL = re.compile(
    r'\s*(?:(?P<key>[a-zA-Z_][a-zA-Z0-9_.:]*|"(?:[^"\\]|\\.)*+")\s*(?P<eq>=)\s*)?+'
    r'"(?P<value>(?:[^"\\]|\\.)*+)"\s*(?:,|$)'
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MILLISECONDS = 1e11
"""A timestamp this large counts milliseconds: as seconds it would lie in the year 5138."""


def split_line(line: bytes) -> tuple[bytes, bytes, int] | None:
    """Name, label block (b"" if none) and where the value begins; None if it is not a sample.

    The name is empty where it stands, quoted, in the block.
    """
    if b"#" not in line:
        opened = line.find(b"{")
        if opened < 0:
            return _bare(line)
        close = line.rfind(b"}")
        if close < opened:
            return None
        tail = line[close + 1 :].lstrip(b" \t")
        return line[:opened], line[opened : close + 1], len(line) - len(tail)
    match = _SERIES.match(line)
    if match is None or (match["name"] is None and match["block"] is None):
        return None
    tail = line[match.end() :].lstrip(b" \t")
    return match["name"] or b"", match["block"] or b"", len(line) - len(tail)


def _bare(line: bytes) -> tuple[bytes, bytes, int] | None:
    parts = line.split(None, 1)
    if len(parts) != 2 or b"}" in line:
        return None
    return parts[0], b"", len(line) - len(parts[1])


def parse_labels(block: bytes) -> tuple[str, dict[str, str]] | None:
    """The quoted name (or "") and labels of ``{...}``; None if it is malformed."""
    text = block[1:-1].decode("utf-8", "replace")
    labels: dict[str, str] = {}
    name = ""
    position, end = 0, len(text)
    while position < end:
        match = _LABEL.match(text, position)
        if match is None:
            return None if text[position:].strip() else (name, labels)
        value = match["value"]
        if "\\" in value:
            value = _unescape(value)
        if match["eq"]:
            key = match["key"]
            labels[_unescape(key[1:-1]) if key.startswith('"') else key] = value
        elif name:
            return None
        else:
            name = value
        position = match.end()
    return name, labels


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text)


def parse_tail(tail: bytes) -> tuple[float, float] | None:
    """Value and time (seconds since 1970, NaN if not given) of what follows the labels.

    None if it is malformed. An exemplar is left out.
    """
    parts = tail.split(b"#", 1)[0].split()
    if not 1 <= len(parts) <= 2:
        return None
    value = parse_value(parts[0])
    if value is None:
        return None
    if len(parts) == 1:
        return value, math.nan
    time = parse_value(parts[1])
    if time is None or not math.isfinite(time) or abs(time) >= _MILLISECONDS * 1e4:
        return None
    return value, time / 1000.0 if abs(time) >= _MILLISECONDS else time


def parse_value(text: bytes) -> float | None:
    """A number as Go's ParseFloat reads it: decimal, hexadecimal, NaN, Inf; None if it is none."""
    if b"_" in text:
        return None
    try:
        if b"x" in text or b"X" in text:
            return float.fromhex(text.decode("ascii", "replace"))
        return float(text)
    except (ValueError, OverflowError):
        return None
