"""`bigiron timeline`: everything that happened to one node, in order."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import click

from bigiron.cli import EXIT_NOTHING
from bigiron.cli.place import place, print_json, query_options
from bigiron.cli.table import at, show
from bigiron.nodesets import fold
from bigiron.store.reading import Moment, Reading

HEADERS = ("TIME (UTC)", "WHAT", "DEVICE", "TEXT")
STYLE = {"action": "bold", "verdict": "cyan", "finding open": "red", "finding close": "green"}


@click.command()
@click.argument("node")
@click.option("--all", "every", is_flag=True, help="Every event and fact on a line of its own.")
@click.option("--limit", default=1000, show_default=True, help="At most so many, the newest.")
@query_options
def timeline(
    node: str,
    every: bool,
    limit: int,
    as_json: bool,
    folder: Path | None,
    config_file: Path | None,
) -> int:
    """Show a node's events, findings, verdicts, actions, states and facts in order of time.

    Events that repeat with nothing else in between, and facts that devices share, are told once.
    """
    with Reading(place(folder, config_file)) as reading:
        moments = reading.timeline(reading.named(node), limit=limit)
        path = reading.path
    if as_json:
        print_json(moments)
        return 0
    if not moments:
        click.echo(f"bigiron: {node}: nothing is known of it in {path}", err=True)
        return EXIT_NOTHING
    told = moments if every else list(_told_once(moments))
    lines = [(at(m.time), m.what, m.device or "-", m.text) for m in told]
    show(HEADERS, lines, [STYLE.get(m.what, "") for m in told])
    return 0


def _told_once(moments: Iterable[Moment]) -> Iterator[Moment]:
    """Stretches of events and of facts, each thing in them once."""
    for what, stretch in groupby(moments, key=lambda moment: moment.what):
        if what == "event":
            yield from _events(stretch)
        elif what == "fact":
            yield from _facts(stretch)
        else:
            yield from stretch


def _events(stretch: Iterable[Moment]) -> Iterator[Moment]:
    """One line for the events of one code on one device: the first, how often, until when."""
    alike: dict[tuple[str, str], list[Moment]] = {}
    for moment in stretch:
        code = moment.text.partition(":")[0]
        alike.setdefault((code, moment.device), []).append(moment)
    for first, *rest in alike.values():
        more = f"  ({len(rest)} more until {at(rest[-1].time)})" if rest else ""
        yield Moment(first.time, first.what, first.text + more, first.device)


def _facts(stretch: Iterable[Moment]) -> Iterator[Moment]:
    """One line for a fact that several devices show at one time."""
    alike: dict[tuple[str, str], list[Moment]] = {}
    for moment in stretch:
        alike.setdefault((at(moment.time), moment.text), []).append(moment)
    for same in alike.values():
        devices = fold(m.device for m in same) if all(m.device for m in same) else same[0].device
        yield Moment(same[0].time, same[0].what, same[0].text, devices)
