"""Tables: framed and coloured for a person, plain aligned columns for a pipe."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

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
    if sys.stdout.isatty():
        _framed(headers, rows, styles)
        return
    widths = [max(len(line[i]) for line in (headers, *rows)) for i in range(len(headers))]
    for line in (headers, *rows):
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _framed(headers: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, header in enumerate(headers):
        table.add_column(header, overflow="fold", no_wrap=index == 0 and len(headers) > 2)
    for index, row in enumerate(rows):
        style = styles[index] if styles else ""
        table.add_row(*(Text(cell) for cell in row), style=style)
    Console(highlight=False).print(table)


def at(time: datetime | None) -> str:
    """``2026-03-04 05:06:07``, in UTC; "-" where none is known."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if time is not None else "-"


def asked(action: Action | None) -> str:
    """``drain_now (shadow)``, ``drain at job_end (held)``; "-" for none."""
    if action is None:
        return "-"
    soon = "" if action.when in (When.NOW, When.NEVER) else f" at {action.when}"
    return f"{action.kind}{soon} ({'held' if action.held else action.mode})"
