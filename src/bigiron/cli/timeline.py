"""`bigiron timeline`: everything that happened to one node, in order."""

from pathlib import Path

import click

from bigiron.cli import EXIT_NOTHING
from bigiron.cli.place import place, print_json, query_options
from bigiron.cli.table import at, show
from bigiron.store.reading import Reading

HEADERS = ("TIME (UTC)", "WHAT", "DEVICE", "TEXT")
STYLE = {"action": "bold", "verdict": "cyan", "finding open": "red", "finding close": "green"}


@click.command()
@click.argument("node")
@click.option("--limit", default=1000, show_default=True, help="At most so many, the newest.")
@query_options
def timeline(
    node: str, limit: int, as_json: bool, folder: Path | None, config_file: Path | None
) -> int:
    """Show a node's events, findings, verdicts, actions, states and facts in order of time."""
    with Reading(place(folder, config_file)) as reading:
        moments = reading.timeline(node, limit=limit)
        path = reading.path
    if as_json:
        print_json(moments)
        return 0
    if not moments:
        click.echo(f"bigiron: {node}: nothing is known of it in {path}", err=True)
        return EXIT_NOTHING
    lines = [(at(m.time), m.what, m.device or "-", m.text) for m in moments]
    show(HEADERS, lines, [STYLE.get(m.what, "") for m in moments])
    return 0
