"""`bigiron close`: a person's word that a finding is over."""

import os
import pwd
from datetime import UTC, datetime
from pathlib import Path

import click

from bigiron.cli.place import known, named, place, print_json, query_options
from bigiron.errors import NoData
from bigiron.hub.lock import holder
from bigiron.model import Closing
from bigiron.store.closings import ask, wait_applied
from bigiron.store.reading import FindingRow, Reading

WAIT_S = 5.0
"""A hub turns every half second; one that is slow is not waited for."""
MOST = 100_000


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--because", required=True, help="What was done, or why it is nothing.")
@click.option("--node", "nodes", multiple=True, metavar="NODES", help="All findings of these.")
@click.option("--fault", default="", help="With --node: only this fault and those below it.")
@query_options
def close(
    ids: tuple[str, ...],
    because: str,
    nodes: tuple[str, ...],
    fault: str,
    as_json: bool,
    folder: Path | None,
    config_file: Path | None,
) -> int:
    """Say that findings are over, and why: a part was changed, a suspicion was wrong.

    ID is a finding's, such as F000017 (`bigiron findings`). The hub closes it in its next turn,
    under your name; without a hub that runs, when one starts. What is seen to be wrong after
    your word is a new finding; what was seen before opens none again.
    """
    if not because.strip():
        raise click.BadParameter("say what was done", param_hint="--because")
    if not ids and not nodes:
        raise click.UsageError("name findings (F000017), or nodes with --node")
    if fault and not nodes:
        raise click.UsageError("--fault goes with --node")
    where = place(folder, config_file)
    with Reading(where) as reading:
        chosen = {row.id: row for row in _by_id(reading, ids)}
        if nodes:
            chosen |= {row.id: row for row in _by_node(reading, nodes, fault)}
    now, who = datetime.now(UTC), user()
    asked = [Closing(now, row.id, who, because.strip()) for row in chosen.values()]
    numbers = ask(where, asked)
    hub = holder(where) is not None
    done = hub and wait_applied(where, numbers, WAIT_S)
    if as_json:
        print_json(asked)
        return 0
    for row in chosen.values():
        finding = row.finding
        click.echo(
            f"{'closed' if done else 'asked for'}: {row.id} {finding.fault} on {finding.subject}"
        )
    if not done:
        click.echo(
            "The hub does so in its next turn." if hub else "No hub runs; it is done when one does."
        )
    return 0


def user() -> str:
    """Who says so: the user of this process; who became root by sudo is named."""
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = f"user {number}"
    before = os.environ.get("SUDO_USER", "")
    return f"{before} as {name}" if number == 0 and before.isprintable() and before else name


def _by_id(reading: Reading, ids: tuple[str, ...]) -> list[FindingRow]:
    """The open findings with these ids. Raises NoData for any that is not."""
    if not ids:
        return []
    open_ = {row.id: row for row in reading.findings(limit=MOST)}
    wrong = [id_ for id_ in ids if id_ not in open_]
    if wrong:
        raise NoData(f"{', '.join(wrong)}: no open finding in {reading.path}; nothing was closed")
    return [open_[id_] for id_ in ids]


def _by_node(reading: Reading, nodes: tuple[str, ...], fault: str) -> list[FindingRow]:
    """The open findings about these nodes or their devices. Raises NoData where there is none."""
    names = known(reading, named(nodes))
    found = [
        row
        for row in reading.findings(nodes=names, limit=MOST)
        if not row.finding.subject.by and _is(row.finding.fault, fault)
    ]
    if not found:
        of = f" of {fault}" if fault else ""
        raise NoData(f"{' '.join(nodes)}: no open finding{of} in {reading.path}")
    return found


def _is(code: str, general: str) -> bool:
    return not general or code == general or code.startswith(f"{general}.")
