"""`bigiron sim`: a simulated fleet, for trying things on."""

from datetime import datetime
from pathlib import Path

import click

from bigiron.errors import Permanent
from bigiron.sim.record import RATE, record
from bigiron.sim.scenarios import SCENARIOS

LAST_YEAR = 9000
"""A recording is 400 days long at most, and years end with 9999."""


@click.group()
def sim() -> None:
    """Simulate a fleet."""


@sim.command("record")
@click.argument("scenario", type=click.Choice(tuple(SCENARIOS)), default="mixed")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to make.")
@click.option("--nodes", default=32, show_default=True, type=click.IntRange(4, 20_000))
@click.option("--days", default=None, type=click.FloatRange(0.04, 400), help="Length. [default: 7]")
@click.option("--hours", default=None, type=click.FloatRange(1, 8760), help="Length, in hours.")
@click.option("--step", "step_s", default=300, show_default=True, type=click.IntRange(1, 3600))
@click.option("--seed", default=1, show_default=True, help="The same seed, the same recording.")
@click.option(
    "--rate",
    default=RATE,
    show_default=True,
    type=click.FloatRange(0, 1000),
    help="Failures per 1,000 node-days (mixed, lemons).",
)
@click.option(
    "--noise",
    "noisy",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0, 10),
    help="Times the usual noise; sizes in standard deviations go with it.",
)
@click.option("--start", default="2026-01-05T00:00:00+00:00", show_default=True)
def record_command(
    scenario: str,
    out: Path,
    nodes: int,
    days: float | None,
    hours: float | None,
    step_s: int,
    seed: int,
    rate: float,
    noisy: float,
    start: str,
) -> None:
    """Write a recording of a simulated fleet with what happens in SCENARIO, and its truth.

    \b
    null      every benign class, no fault
    gradual   every gradual fault class at known sizes
    failstop  every class that breaks at once
    config    drift from the golden config
    shared    cooling loop, leaf switch, power distribution
    lemons    nodes that fail jobs with no telemetry
    mixed     a fleet's life at published failure rates
    """
    if days is not None and hours is not None:
        raise click.UsageError("--days or --hours, not both")
    length = days if days is not None else hours / 24 if hours is not None else 7.0
    try:
        at = datetime.fromisoformat(start)
    except ValueError as error:
        raise click.BadParameter("a time with an offset, as 2026-01-05T00:00:00+00:00") from error
    if at.tzinfo is None:
        raise click.BadParameter("the start needs an offset, as 2026-01-05T00:00:00+00:00")
    if not 1970 <= at.year < LAST_YEAR:
        raise click.BadParameter(f"the start lies between 1970 and {LAST_YEAR}")
    size = {"nodes": nodes, "step_s": step_s, "seed": seed}
    try:
        count = record(out, scenario, days=length, start=at, rate=rate, noisy=noisy, **size)
    except OSError as error:
        raise Permanent(f"{out}: {error.strerror}") from error
    click.echo(f"{out}: {count:,} samples of {nodes} nodes. Next: bigiron replay {out} --out OUT")
