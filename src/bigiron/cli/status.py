"""What `bigiron hub --status` says: whether the hub works, how it keeps up, how its sources do."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click

from bigiron.cli.layout import NOTHING
from bigiron.cli.place import print_json
from bigiron.cli.table import at, printable, show
from bigiron.hub.lock import holder
from bigiron.store.reading import Reading
from bigiron.store.turn import Meter

NOTES_SHOWN = 20
MIB = 2**20
SOURCES = ("SOURCE", "POLLS", "ERRORS", "LAST ANSWER", "PROBLEM")


class Said(NamedTuple):
    """The meters of one writing: the hub's own by name, and each source's by name."""

    time: datetime
    own: dict[str, Meter]
    sources: dict[str, dict[str, Meter]]


def status(folder: Path, *, as_json: bool) -> int:
    """Print it. Raises NoData where no hub ever worked."""
    with Reading(folder) as reading:
        meters, notes = reading.meters(), reading.notes(NOTES_SHOWN)
    pid = holder(folder)
    if as_json:
        print_json(
            {
                "pid": pid,
                "meters": [{"time": time, **_fields(meter)} for meter, time in meters],
                "notes": [{"source": s, "what": w, "count": c} for s, w, c in notes],
            }
        )
        return 0
    click.echo(
        f"{folder}: {'no hub works here' if pid is None else f'a hub works here, pid {pid}'}"
    )
    if meters:
        _show(_said(meters))
    if notes:
        click.echo()
        lines = [(source, f"{count:,}", what) for source, what, count in notes]
        show(("READ, NOT USED", "COUNT", "WHAT"), lines)
    return 0


def _fields(meter: Meter) -> dict[str, str | float]:
    return {"name": meter.name, "of": meter.label, "value": meter.value, "said": meter.said}


def _said(meters: Sequence[tuple[Meter, datetime]]) -> Said:
    own = {meter.name: meter for meter, _ in meters if not meter.label}
    sources: dict[str, dict[str, Meter]] = {}
    for meter, _ in meters:
        if meter.label:
            sources.setdefault(meter.label, {})[meter.name] = meter
    return Said(max(time for _, time in meters), own, sources)


def _show(said: Said) -> None:
    value = {name: meter.value for name, meter in said.own.items()}
    ago_s = (datetime.now(UTC) - said.time).total_seconds()
    click.echo(f"last word       {at(said.time)} UTC, {ago_s:,.0f} s ago")
    click.echo(
        f"turns           {value.get('hub_turns_total', 0):,.0f}, "
        f"{value.get('hub_failed_turns_total', 0):,.0f} failed; "
        f"half took less than {1000 * value.get('hub_turn_seconds_p50', 0):,.0f} ms, "
        f"99 % less than {1000 * value.get('hub_turn_seconds_p99', 0):,.0f} ms"
    )
    click.echo(
        f"writing         99 % took less than {1000 * value.get('hub_commit_seconds_p99', 0):,.0f} "
        f"ms, {value.get('hub_failed_commits_total', 0):,.0f} failed"
    )
    click.echo(f"memory          {value.get('hub_resident_bytes', 0) / MIB:,.0f} MiB")
    problem = said.own["hub_pid"].said if "hub_pid" in said.own else ""
    if problem:
        click.secho(f"problem         {printable(problem)}", fg="red")
    if said.sources:
        click.echo()
        show(SOURCES, [_source(name, of, ago_s) for name, of in sorted(said.sources.items())])


def _source(name: str, of: dict[str, Meter], ago_s: float) -> tuple[str, ...]:
    polls, errors, lag = (
        of.get(f"source_{what}") for what in ("polls_total", "errors_total", "lag_seconds")
    )
    if polls is None or errors is None or lag is None:
        return name, NOTHING, NOTHING, NOTHING, NOTHING
    never = errors.value >= polls.value
    return (
        name,
        f"{polls.value:,.0f}",
        f"{errors.value:,.0f}",
        "never" if never else f"{lag.value + ago_s:,.0f} s ago",
        lag.said or NOTHING,
    )
