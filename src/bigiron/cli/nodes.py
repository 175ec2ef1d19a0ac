"""`bigiron nodes`: how every node stands, those that stand alike in one line."""

from collections.abc import Iterable
from pathlib import Path

import click

from bigiron.cli import EXIT_NOTHING
from bigiron.cli.place import known, named, place, print_json, query_options
from bigiron.cli.table import asked, show
from bigiron.model import Health
from bigiron.nodesets import fold
from bigiron.store.reading import NodeRow, Reading
from bigiron.words import HEALTH_STYLE, chance

HEADERS = ("NODES", "COUNT", "HEALTH", "P_FAIL_24H", "ACTION", "REASON")


@click.command()
@click.argument("names", nargs=-1, metavar="[NODES]...")
@click.option("--all", "every", is_flag=True, help="One line a node.")
@query_options
def nodes(
    names: tuple[str, ...],
    every: bool,
    as_json: bool,
    folder: Path | None,
    config_file: Path | None,
) -> int:
    """Show how nodes stand, worst first: health, chance to fail, what to do and why.

    NODES are names or sets of them, such as gpu[001-016]; without any, all are shown. Nodes that
    stand alike share a line. P_FAIL_24H is how likely a job on the node fails of it within a day;
    what its weights were fitted to is told in docs/studies/hazard.md.
    """
    with Reading(place(folder, config_file)) as reading:
        rows = reading.nodes(known(reading, named(names)))
        faults = {f.id: f.finding.fault for f in reading.findings(limit=100_000)}
        path = reading.path
    if as_json:
        print_json(rows)
        return 0
    if not rows:
        click.echo(f"bigiron: {path}: no node yet", err=True)
        return EXIT_NOTHING
    groups = [[row] for row in rows] if every else _folded(rows, faults)
    groups.sort(key=_urgency)
    lines = [_line(group, faults) for group in groups]
    show(HEADERS, lines, [HEALTH_STYLE[_health(group[0])] for group in groups])
    return 0


def _folded(rows: Iterable[NodeRow], faults: dict[str, str]) -> list[list[NodeRow]]:
    groups: dict[tuple[str, str, str], list[NodeRow]] = {}
    for row in rows:
        groups.setdefault((_health(row), _reason(row, faults), asked(row.action)), []).append(row)
    return list(groups.values())


def _line(group: list[NodeRow], faults: dict[str, str]) -> tuple[str, ...]:
    """One line for nodes that stand alike; a single one tells its reason in full."""
    first = group[0]
    reason = _reason(first, faults)
    if len(group) == 1 and first.verdict is not None and first.verdict.because:
        reason = first.verdict.because
    return (
        fold(row.node.name for row in group),
        str(len(group)),
        _health(first).value,
        chance(_worst(group)),
        asked(first.action),
        reason or "-",
    )


def _health(row: NodeRow) -> Health:
    return row.verdict.health if row.verdict else Health.UNKNOWN


def _worst(group: list[NodeRow]) -> float:
    return max((row.verdict.p_fail_24h for row in group if row.verdict), default=0.0)


def _reason(row: NodeRow, faults: dict[str, str]) -> str:
    """The faults a verdict rests on: alike for nodes that have the same, whatever the device."""
    if row.verdict is None:
        return "not judged yet"
    return ", ".join(sorted({faults[id_] for id_ in row.verdict.findings if id_ in faults}))


def _urgency(group: list[NodeRow]) -> tuple[int, float, str]:
    return -_health(group[0]).rank, -_worst(group), group[0].node.name
