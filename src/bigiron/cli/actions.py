"""`bigiron actions`: what was asked for, or held back."""

from pathlib import Path

import click

from bigiron.cli.place import known, named, place, print_json, query_options
from bigiron.cli.table import asked, at, show
from bigiron.model import Action
from bigiron.store.reading import Reading

HEADERS = ("TIME (UTC)", "NODE", "ACTION", "FINDINGS", "REASON")


@click.command()
@click.argument("names", nargs=-1, metavar="[NODES]...")
@click.option("--limit", default=1000, show_default=True, help="At most so many, the newest.")
@query_options
def actions(
    names: tuple[str, ...], limit: int, as_json: bool, folder: Path | None, config_file: Path | None
) -> int:
    """Show what was asked for, newest last: written down, not carried out (shadow mode).

    An action that a budget or the breaker does not allow is held, and says why. NODES are names
    or sets of them, such as gpu[001-016]; without any, those of all nodes.
    """
    with Reading(place(folder, config_file)) as reading:
        found = reading.actions(nodes=known(reading, named(names)), limit=limit)
    if as_json:
        print_json(found)
        return 0
    if not found:
        click.echo("no action", err=True)
        return 0
    show(HEADERS, [_line(action) for action in found], ["dim" if a.held else "" for a in found])
    return 0


def _line(action: Action) -> tuple[str, ...]:
    reason = f"{action.reason} [held: {action.held}]" if action.held else action.reason
    return at(action.time), action.node, asked(action), ",".join(action.findings), reason
