"""Tables: laid out and coloured for a person, plain aligned columns for a pipe."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from bigiron.cli.layout import lay_out
from bigiron.model import Action, When

if TYPE_CHECKING:
    from rich.console import Console

PIPE_COLUMNS = 160


def console() -> "Console":
    """Standard output for a person; a pipe gets wide lines instead of the terminal's width."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    return Console(highlight=False, width=width)


def show(headers: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
    """Print rows of cells; ``styles`` has one rich style a row. A pipe gets one line a row."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _for_a_person(headers, rows, styles)
        return
    widths = [max(len(line[i]) for line in (headers, *rows)) for i in range(len(headers))]
    for line in (headers, *rows):
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _for_a_person(
    headers: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str]
) -> None:
    """The cells in the row's style, the text of the last column plain unless the row is dim."""
    from rich.console import Console
    from rich.text import Text

    out = Console(highlight=False)
    for number, lines in enumerate(lay_out(headers, rows, out.width)):
        style = "dim" if number == 0 else styles[number - 1] if styles else ""
        for cells, text in lines:
            line = Text.assemble((cells, style), (text, "dim" if style == "dim" else ""))
            out.print(line, soft_wrap=True)


def printable(text: str) -> str:
    """``text`` on one line and without control characters: a log may hold anything, and none of
    it may reach the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\t\r\n" else "\ufffd" for c in text)


def at(time: datetime | None) -> str:
    """``2026-03-04 05:06:07``, in UTC; "-" where none is known."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if time is not None else "-"


def asked(action: Action | None) -> str:
    """``reboot (shadow)``, ``drain at job_end (held)``; "-" for none."""
    if action is None:
        return "-"
    soon = "" if action.when in (When.NOW, When.NEVER) else f" at {action.when}"
    return f"{action.kind}{soon} ({'held' if action.held else action.mode})"
