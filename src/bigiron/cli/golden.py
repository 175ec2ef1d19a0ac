"""`bigiron golden`: what nodes should be, and which differ."""

import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from bigiron.cli.place import configured, moment, place, place_options, print_json
from bigiron.cli.table import show
from bigiron.detect import Window
from bigiron.errors import ConfigError
from bigiron.hub import golden as of
from bigiron.hub.settings import settings
from bigiron.words import SEVERITY_STYLE

HEADERS = ("SKU", "ROLE", "PART", "FACT", "SHOULD BE", "HELD BY", "BY WHOSE WORD")


@click.group()
def golden() -> None:
    """What nodes should be: derive it, declare it, see who differs.

    Works on a hub's folder (--folder) or on a recording (--recording).
    """


def _options(command: click.decorators.FC) -> click.decorators.FC:
    recording = click.option(
        "--recording", type=click.Path(path_type=Path), help="A recording instead of a hub."
    )
    at = click.option("--at", metavar="TIME", help="As it was then (a recording only).")
    return place_options(recording(at(command)))


def _window(
    folder: Path | None, config_file: Path | None, recording: Path | None, at: str | None
) -> Window:
    """What is known, with what the configuration and the hub's folder declare."""
    where = recording if recording is not None else place(folder, config_file)
    window = of.known(where, moment(at, datetime.now(UTC)))
    told = settings(configured(config_file))
    declared, exempt = of.declared_in(where)
    return replace(window, declared=(*told.declared, *declared), exempt=(*told.exempt, *exempt))


@golden.command()
@_options
def derive(
    folder: Path | None, config_file: Path | None, recording: Path | None, at: str | None
) -> int:
    """Print a golden file: what nearly all hold, with counts.

    A fact on which there is no consensus is a comment, and so is one of too few nodes.
    """
    click.echo(of.derive(_window(folder, config_file, recording, at)), nl=False)
    return 0


@golden.command(name="show")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_options
def show_command(
    folder: Path | None,
    config_file: Path | None,
    recording: Path | None,
    at: str | None,
    as_json: bool,
) -> int:
    """Show every fact that matters: what it should be, and how many hold it."""
    rows = of.rows(_window(folder, config_file, recording, at))
    if as_json:
        print_json([row._asdict() for row in rows])
        return 0
    lines = [
        (row.sku, row.role, row.model or row.kind, row.fact, row.should, row.holds, row.by)
        for row in rows
    ]
    show(HEADERS, lines, ["dim" if row.by == "no consensus" else "" for row in rows])
    return 0


@golden.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_options
def diff(
    folder: Path | None,
    config_file: Path | None,
    recording: Path | None,
    at: str | None,
    as_json: bool,
) -> int:
    """Show who differs from what is declared or from nearly all others, and what that does.

    Exit code 0: nobody differs; 1: somebody does.
    """
    found = of.differences(_window(folder, config_file, recording, at))
    drift = [finding for finding in found if not finding.subject.by]
    if as_json:
        print_json(found)
        return 1 if drift else 0
    if not found:
        click.echo("nobody differs", err=True)
        return 0
    lines = [(str(f.subject), f.fault, "; ".join(f.because)) for f in found]
    show(("SUBJECT", "FAULT", "BECAUSE"), lines, [SEVERITY_STYLE[f.severity] for f in found])
    return 1 if drift else 0


@golden.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@place_options
def declare(file: Path, folder: Path | None, config_file: Path | None) -> int:
    """Declare FILE (- is standard input) to be the golden config of a hub's fleet.

    It is kept as golden.toml in the hub's folder, beside what bigiron.toml declares, and used
    from the hub's next start.
    """
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(file), "", f"cannot be read: {error}") from error
    where = place(folder, config_file)
    config = of.declare(where, text, str(file))
    count, tables = of.counted(config.golden), len(config.golden)
    click.echo(
        f"{where / of.FILE}: {count} facts in {tables} tables, "
        f"{len(config.golden_exception)} exceptions. A hub uses it from its next start."
    )
    return 0
