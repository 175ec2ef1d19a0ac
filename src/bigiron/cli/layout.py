"""Where the cells of a table go on a terminal of a given width.

The last column holds free text. It stands beside the others if enough room is left for it, else
on lines of its own beneath its row: a sentence in a column of eleven letters is not read.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from textwrap import TextWrapper
from typing import NamedTuple

GAP = 2
TEXT_MIN = 44
"""Columns below which the last column goes beneath its row."""
CELL_MAX = 30
"""A last column up to this wide is no free text: it stays a column, and all are made narrower."""
CELL_MIN = 12
"""No column is made narrower than this."""
NOTHING = "-"
BREAKS = re.compile(r"(\s+)|(?<=,)")
"""Blanks, and behind commas: a folded set of nodes breaks between names."""


class Line(NamedTuple):
    """One line of a row: what stands in the columns, then the free text, beside or alone."""

    cells: str
    text: str = ""


class _Wrapper(TextWrapper):
    """Breaks at blanks and after commas."""

    wordsep_simple_re = BREAKS


def lay_out(
    headers: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Iterator[list[Line]]:
    """The lines of the header and of each row, none wider than ``width`` columns."""
    table = [headers, *rows]
    natural = [max(len(row[i]) for row in table) for i in range(len(headers))]
    before = sum(natural[:-1]) + GAP * (len(headers) - 1)
    room = width - before
    beside = natural[-1] <= room or room >= TEXT_MIN
    if not beside and natural[-1] <= CELL_MAX:
        yield from _as_cells(table, _narrowed(table, len(headers), width))
        return
    widths = natural[:-1] if beside else _narrowed(table, len(headers) - 1, width)
    for number, row in enumerate(table):
        cells = _cells(row[:-1], widths)
        if beside:
            yield _beside(cells, wrapped(row[-1], room), sum(widths) + GAP * len(widths))
        else:
            yield [Line(cell.rstrip()) for cell in cells] + _beneath(row[-1], width, number)


def _as_cells(table: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[list[Line]]:
    for row in table:
        yield [Line(cell.rstrip()) for cell in _cells(row, widths)]


def wrapped(text: str, width: int, first: int = 0) -> list[str]:
    """``text`` in lines of at most ``width``, the first shorter by ``first``; always one line."""
    wrapper = _Wrapper(max(width, 1), initial_indent=" " * first, break_on_hyphens=False)
    lines = wrapper.wrap(text) or [""]
    lines[0] = lines[0][first:]
    return lines


def _narrowed(table: Sequence[Sequence[str]], columns: int, width: int) -> list[int]:
    """Widths of the first ``columns``, the widest made narrower until all fit or none can be.

    A name is cut in two only where nothing else helps.
    """
    widths = [max(len(row[i]) for row in table) for i in range(columns)]
    whole = [max(map(len, _parts(row[i] for row in table))) for i in range(columns)]
    for least in (whole, [0] * columns):
        while sum(widths) + GAP * (columns - 1) > width:
            can = [i for i in range(columns) if widths[i] > max(CELL_MIN, least[i])]
            if not can:
                break
            widths[max(can, key=lambda i: widths[i])] -= 1
    return widths


def _parts(cells: Iterable[str]) -> Iterator[str]:
    for cell in cells:
        yield from (part for part in BREAKS.split(cell) if part)
    yield ""


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    columns = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    return [
        (" " * GAP).join(part.ljust(width) for part, width in zip(parts, widths, strict=True))
        for parts in zip_longest(*columns, fillvalue="")
    ]


def _beside(cells: Sequence[str], text: Sequence[str], indent: int) -> list[Line]:
    return [
        Line(f"{cell:<{indent}}" if part else cell.rstrip(), part)
        for cell, part in zip_longest(cells, text, fillvalue="")
    ]


def _beneath(text: str, width: int, number: int) -> list[Line]:
    """The text indented; a header's, and one that says nothing, takes no line."""
    if number == 0 or text in ("", NOTHING):
        return []
    return [Line("  ", part) for part in wrapped(text, width - 2)]
