"""The tables sinfo and squeue print: delimited, left-aligned or right-aligned columns."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_DATE = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d")
_SPACED = frozenset({"REASON", "NAME", "COMMENT", "USER", "FEATURES", "ACTIVE_FEATURES"})
"""Columns whose values may hold blanks or be empty."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row's values by column name; a name that occurs twice keeps its first value."""

    line: int
    values: dict[str, str]

    def get(self, *names: str) -> str:
        """The first of these columns that is there and not empty."""
        for name in names:
            value = self.values.get(name, "")
            if value:
                return value
        return ""


def header_of(text: str, known: frozenset[str]) -> tuple[int, str] | None:
    """The line number and text of the header: the first line, or the second under a date."""
    for number, line in enumerate(text.splitlines()[:3], 1):
        if not line.strip() or _DATE.match(line):
            continue
        names = {name.strip().rstrip("*") for name in re.split(r"[|;,\s]+", line)}
        return (number, line) if len(names & known) >= 2 else None
    return None


def rows(lines: Sequence[str], header_line: int) -> Iterator[Row]:
    """Each row under the header; one that does not fit it has no values."""
    header = lines[header_line - 1]
    delimiter = next((mark for mark in ("|", "\t", ";") if mark in header), "")
    if not delimiter and header.count(",") >= 2 and " " not in header.strip():
        delimiter = ","
    cut = _delimited(header, delimiter) if delimiter else _columns(header)
    for number, line in enumerate(lines[header_line:], header_line + 1):
        if not line.strip() or _DATE.match(line) or line == header:
            continue
        values = cut(line)
        yield Row(number, values or {})


class _Delimited:
    def __init__(self, names: list[str], delimiter: str) -> None:
        self._names = names
        self._delimiter = delimiter

    def __call__(self, line: str) -> dict[str, str] | None:
        parts = [part.strip() for part in line.rstrip(self._delimiter).split(self._delimiter)]
        if len(parts) > len(self._names):
            return None
        return _named(self._names, parts)


class _Sliced:
    def __init__(self, names: list[str], bounds: list[tuple[int, int]]) -> None:
        self._names = names
        self._bounds = bounds

    def __call__(self, line: str) -> dict[str, str] | None:
        return _named(self._names, [line[start:end].strip() for start, end in self._bounds])


class _Split:
    def __init__(self, names: list[str]) -> None:
        self._names = names

    def __call__(self, line: str) -> dict[str, str] | None:
        parts = line.split(None, len(self._names) - 1)
        return _named(self._names, parts) if len(parts) >= len(self._names) - 1 else None


def _named(names: list[str], parts: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, part in zip(names, parts, strict=False):
        values.setdefault(name, part)
    return values


def _delimited(header: str, delimiter: str) -> _Delimited:
    return _Delimited([name.strip() for name in header.split(delimiter)], delimiter)


def _columns(header: str) -> "_Sliced | _Split":
    """How to cut lines under a header of blanks.

    squeue aligns to the right, so columns end where their names end. ``-O`` and ``-R`` align to
    the left, so columns begin where their names begin. sinfo's other forms mix both, but only
    their last column may hold blanks.
    """
    found = list(re.finditer(r"\S+", header))
    names = [match[0] for match in found]
    if header[0] == " ":
        ends = [match.end() for match in found[:-1]]
        bounds = list(zip([0, *ends], [*ends, 1 << 20], strict=True))
        return _Sliced(names, bounds)
    if _SPACED & set(names[:-1]):
        starts = [match.start() for match in found]
        return _Sliced(names, list(zip(starts, [*starts[1:], 1 << 20], strict=True)))
    return _Split(names)
