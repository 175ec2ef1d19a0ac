"""Reads a saved exporter page: dcgm-exporter, AMD's exporter, node_exporter and others.

Names and labels are resolved as ``openmetrics_series`` says.
"""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.ingest.openmetrics_line import NAME, parse_labels, parse_tail, split_line
from bigiron.ingest.openmetrics_page import PageParser
from bigiron.ingest.openmetrics_series import rule
from bigiron.model import Observation

_LIMIT = 256 * 1024 * 1024
_LOOKED_AT = 400
_COMMENT = re.compile(rb"#\s+(?:HELP|TYPE|UNIT)\s+\S+|#\s*EOF\s*$")

_INDENT = re.compile(rb"^[ \t]+", re.MULTILINE)


class OpenMetrics:
    """Prometheus text and OpenMetrics text, with or without comments and times."""

    def sniff(self, head: Head) -> float:
        """Whether nearly every line is a comment or a sample, and some name is catalogued."""
        lines = _flush(head.data).split(b"\n")
        if len(head.data) >= 65_536:
            lines.pop()  # cut off
        seen = [line for line in lines[:_LOOKED_AT] if line.strip()]
        comments = sum(_COMMENT.match(line) is not None for line in seen)
        others = sum(line.startswith(b"#") for line in seen) - comments
        names = [name for line in seen if (name := _sample(line))]
        if not names or comments + others + len(names) < 0.9 * len(seen):
            return 0.0
        if any(rule(name) is not None for name in set(names)):
            return 0.95
        return 0.8 if comments else 0.3

    def read(self, document: Document) -> Iterator[Observation]:
        """Devices, facts, samples and notes. Raises ParseError if no line is a sample."""
        page = PageParser(document.node).parse(_flush(document.bytes(_LIMIT)))
        if not page.counts.lines:
            line = page.counts.first_malformed
            raise ParseError(document.name, line, "no line is a sample of an exporter's page")
        yield from page.devices()
        yield from page.facts(document.now)
        yield from page.samples(document.now)
        yield from page.notes(document.name)


def _flush(data: bytes) -> bytes:
    """The page without a byte order mark and without what its lines are indented by."""
    data = data.lstrip(b"\xef\xbb\xbf")
    return _INDENT.sub(b"", data) if _INDENT.search(data) else data


def _sample(line: bytes) -> str:
    """The metric's name if the line is a whole sample, else ""."""
    split = None if line.startswith(b"#") else split_line(line)
    if split is None:
        return ""
    name, block, start = split
    labels = parse_labels(block)
    if labels is None or parse_tail(line[start:]) is None:
        return ""
    text = name.decode("ascii", "replace") or labels[0]
    return text if not name or NAME.fullmatch(name) else ""


@reader()
def openmetrics() -> Reader:
    """Exporter pages: Prometheus or OpenMetrics text."""
    return OpenMetrics()
