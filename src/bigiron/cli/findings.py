"""`bigiron findings`: what stands against which device, node or group."""

from pathlib import Path

import click

from bigiron.cli.place import known, named, place, print_json, query_options
from bigiron.cli.table import at, show
from bigiron.nodesets import fold
from bigiron.store.reading import FindingRow, Reading
from bigiron.words import SEVERITY_STYLE

HEADERS = ("ID", "SEVERITY", "SUBJECT", "FAULT", "OPENED (UTC)", "CLOSED (UTC)", "BECAUSE")
CLOSED = HEADERS.index("CLOSED (UTC)")


@click.command()
@click.argument("names", nargs=-1, metavar="[NODES]...")
@click.option("--all", "closed", is_flag=True, help="The closed ones too.")
@click.option("--limit", default=1000, show_default=True, help="At most so many, newest first.")
@query_options
def findings(
    names: tuple[str, ...],
    closed: bool,
    limit: int,
    as_json: bool,
    folder: Path | None,
    config_file: Path | None,
) -> int:
    """Show the open findings, newest first.

    NODES are names or sets of them, such as gpu[001-016]; without any, those of all nodes.
    """
    with Reading(place(folder, config_file)) as reading:
        rows = reading.findings(closed=closed, nodes=known(reading, named(names)), limit=limit)
    if as_json:
        print_json(rows)
        return 0
    if not rows:
        click.echo("no finding" if closed else "no open finding", err=True)
        return 0
    lines = [HEADERS, *map(_line, rows)]
    if not closed:
        lines = [(*line[:CLOSED], *line[CLOSED + 1 :]) for line in lines]
    show(lines[0], lines[1:], [_style(row) for row in rows])
    return 0


def _line(row: FindingRow) -> tuple[str, ...]:
    finding = row.finding
    subject = str(finding.subject)
    if finding.subject.members:
        subject += f" ({fold(finding.subject.members)})"
    because = row.because if row.closed else "; ".join(finding.because[:1])
    return (
        row.id,
        finding.severity.value,
        subject,
        finding.fault,
        at(row.opened),
        at(row.closed),
        because,
    )


def _style(row: FindingRow) -> str:
    return "dim" if row.closed else SEVERITY_STYLE[row.finding.severity]
