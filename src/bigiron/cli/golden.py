"""`bigiron golden`: what nodes should be, and which differ."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from bigiron.cli.place import configured, moment, place, place_options, print_json
from bigiron.cli.table import at as stamp
from bigiron.cli.table import printable, show
from bigiron.detect import Exempt, Window
from bigiron.errors import ConfigError, NoData, Permanent
from bigiron.hub import golden as of
from bigiron.hub import golden_file as kept
from bigiron.hub.settings import check, settings
from bigiron.nodesets import fold
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
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    return place_options(recording(at(as_json(command))))


def _window(
    folder: Path | None, config_file: Path | None, recording: Path | None, at: str | None
) -> Window:
    """What is known, with what the configuration and the hub's folder declare."""
    if at is not None and recording is None:
        raise click.UsageError("--at: of a hub only the newest is known; it needs --recording")
    where = recording if recording is not None else place(folder, config_file)
    window = of.known(where, moment(at, datetime.now(UTC)))
    config = configured(config_file)
    check(config, str(config_file or "configuration"))
    told = kept.with_golden(settings(config), where)
    return replace(window, declared=told.declared, exempt=told.exempt)


@golden.command()
@_options
def derive(
    folder: Path | None,
    config_file: Path | None,
    recording: Path | None,
    at: str | None,
    as_json: bool,
) -> int:
    """Print a golden file: what nearly all hold, with counts.

    A fact on which there is no consensus is a comment, and so is one of too few nodes.
    """
    window = _window(folder, config_file, recording, at)
    if as_json:
        print_json(of.tables(window))
    else:
        click.echo(of.derive(window), nl=False)
    return 0


@golden.command(name="show")
@_options
def show_command(
    folder: Path | None,
    config_file: Path | None,
    recording: Path | None,
    at: str | None,
    as_json: bool,
) -> int:
    """Show every fact that matters: what it should be, how many hold it, what is excepted."""
    window = _window(folder, config_file, recording, at)
    rows = of.rows(window)
    if as_json:
        excepted = [_exempt_json(one, window.now) for one in window.exempt]
        print_json({"facts": rows, "exceptions": excepted})
        return 0
    lines = [
        (row.sku, row.role, _part(row), row.fact, row.should, row.holds, row.by) for row in rows
    ]
    show(HEADERS, lines, ["dim" if row.by == "no consensus" else "" for row in rows])
    if window.exempt:
        click.echo()
        _exceptions(window.exempt, window.now)
    return 0


def _part(row: of.Row) -> str:
    """``Model M``, ``gpu``, ``gpu at 0000:1b:00.0``."""
    return f"{row.model or row.kind}{f' at {row.place}' if row.place else ''}"


def _exceptions(exempt: Sequence[Exempt], now: datetime) -> None:
    headers = ("EXCEPTED", "FACT", "MAY BE", "UNTIL", "WHY")
    lines = [
        (
            fold(one.nodes),
            one.fact,
            " or ".join(map(str, one.values)) or "anything",
            stamp(one.until) + ("" if now < one.until else " (over)"),
            one.why,
        )
        for one in exempt
    ]
    show(headers, lines, ["" if now < one.until else "dim" for one in exempt])


def _exempt_json(one: Exempt, now: datetime) -> dict[str, object]:
    return {
        "nodes": fold(one.nodes),
        "fact": one.fact,
        "values": one.values,
        "until": one.until,
        "why": one.why,
        "over": now >= one.until,
    }


@golden.command()
@_options
def diff(
    folder: Path | None,
    config_file: Path | None,
    recording: Path | None,
    at: str | None,
    as_json: bool,
) -> int:
    """Show who differs from what is declared or from nearly all others, and what that does.

    What stops jobs is told before what slows them. Rollouts and what they left behind are told,
    and blame nobody.

    Exit code 0: nobody differs; 1: somebody does.
    """
    window = _window(folder, config_file, recording, at)
    found = of.differences(window)
    drift = [f for f in found if not f.subject.by and f.severity.rank > 0]
    for text in kept.ended(window.exempt, window.now):
        click.echo(f"note: {printable(text)}", err=True)
    if as_json:
        print_json(found)
        return 1 if drift else 0
    if not drift:
        click.echo("nobody differs", err=True)
    if found:
        lines = [(str(f.subject), f.fault, "; ".join(f.because)) for f in found]
        show(("SUBJECT", "FAULT", "BECAUSE"), lines, [SEVERITY_STYLE[f.severity] for f in found])
    return 1 if drift else 0


@golden.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@place_options
def declare(file: Path, folder: Path | None, config_file: Path | None, as_json: bool) -> int:
    """Declare FILE (- is standard input) to be the golden config of a hub's fleet.

    It is kept as golden.toml in the hub's folder, beside what bigiron.toml declares, and used
    from the hub's next start. `bigiron golden diff` shows at once who differs from it.

    An exception says of which nodes, which fact, until when and why.
    """
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(file), "", f"cannot be read: {error}") from error
    where = place(folder, config_file)
    config = kept.declare(where, text, str(file))
    notes = kept.ended(kept.declared_in(where)[1], datetime.now(UTC))
    try:
        notes += kept.strangers(config, of.known(where))
    except NoData:
        notes.append("the hub has seen nothing yet: whom it fits is not known")
    except Permanent as error:
        notes.append(f"whom it fits is not known: {error}")
    count, tables = kept.counted(config.golden), len(config.golden)
    if as_json:
        told = {"file": str(where / kept.FILE), "facts": count, "tables": tables, "notes": notes}
        print_json({**told, "exceptions": len(config.golden_exception)})
        return 0
    for note in notes:
        click.echo(f"note: {printable(note)}", err=True)
    click.echo(
        f"{where / kept.FILE}: {count} facts in {tables} tables, "
        f"{len(config.golden_exception)} exceptions. A hub uses it from its next start."
    )
    return 0
