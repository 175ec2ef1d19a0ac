"""`bigiron sim`: a simulated fleet, for trying things on."""

from datetime import datetime
from pathlib import Path

import click

from bigiron.errors import Permanent
from bigiron.sim.record import record


@click.group()
def sim() -> None:
    """Simulate a fleet."""


@sim.command("record")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to make.")
@click.option("--nodes", default=32, show_default=True, type=click.IntRange(4, 20_000))
@click.option("--hours", default=24.0, show_default=True, type=click.FloatRange(1, 8760))
@click.option("--step", "step_s", default=60, show_default=True, type=click.IntRange(1, 3600))
@click.option("--seed", default=1, show_default=True, help="The same seed, the same recording.")
@click.option("--start", default="2026-01-01T00:00:00+00:00", show_default=True)
def record_command(out: Path, nodes: int, hours: float, step_s: int, seed: int, start: str) -> None:
    """Write a recording of a simulated fleet with faults, benign happenings and their truth."""
    try:
        at = datetime.fromisoformat(start)
    except ValueError as error:
        raise click.BadParameter("a time with an offset, as 2026-01-01T00:00:00+00:00") from error
    if at.tzinfo is None:
        raise click.BadParameter("the start needs an offset, as 2026-01-01T00:00:00+00:00")
    try:
        count = record(out, nodes=nodes, hours=hours, step_s=step_s, seed=seed, start=at)
    except OSError as error:
        raise Permanent(f"{out}: {error.strerror}") from error
    click.echo(f"{out}: {count:,} samples of {nodes} nodes. Next: bigiron replay {out} --out OUT")
