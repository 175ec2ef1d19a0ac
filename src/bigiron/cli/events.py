"""`bigiron events`: what the logs and exporters said happened."""

from datetime import UTC, datetime
from pathlib import Path

import click

from bigiron.cli.place import known, moment, named, place, print_json, query_options
from bigiron.cli.table import at, show
from bigiron.model import Event
from bigiron.store.reading import Reading

HEADERS = ("TIME (UTC)", "NODE", "DEVICE", "CODE", "COUNT", "TEXT AND SOURCE")


@click.command()
@click.argument("names", nargs=-1, metavar="[NODES]...")
@click.option("--since", help="Only later ones: 15m, 2h, 3d or a time (UTC).")
@click.option("--code", default="", help="Only this code and those below it, such as xid.")
@click.option("--limit", default=1000, show_default=True, help="At most so many, the newest.")
@query_options
def events(
    names: tuple[str, ...],
    since: str | None,
    code: str,
    limit: int,
    as_json: bool,
    folder: Path | None,
    config_file: Path | None,
) -> int:
    """Show events, newest last: what logs and exporters said, with file and line.

    NODES are names or sets of them, such as gpu[001-016]; without any, those of all nodes.
    """
    after = moment(since, datetime.now(UTC))
    with Reading(place(folder, config_file)) as reading:
        wanted = known(reading, named(names))
        found = reading.events(nodes=wanted, since=after, code=code, limit=limit)
    if as_json:
        print_json(found)
        return 0
    if not found:
        click.echo("no event", err=True)
        return 0
    show(HEADERS, [_line(event) for event in found])
    return 0


def _line(event: Event) -> tuple[str, ...]:
    line = f":{event.line}" if event.line else ""
    return (
        at(event.time),
        event.node or "-",
        event.device or "-",
        event.code,
        str(event.count),
        f"{event.text}  [{event.source}{line}]",
    )
