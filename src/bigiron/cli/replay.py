"""`bigiron replay`: a recording through the same turn as life."""

from datetime import datetime
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bigiron import faults
from bigiron.cli.table import printable
from bigiron.config import load
from bigiron.hub.replay import How
from bigiron.hub.replay import replay as run
from bigiron.hub.settings import check, fault_files, settings
from bigiron.hub.tally import Summary
from bigiron.ingest.recording import Recording


@click.command()
@click.argument("recording", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder for what it writes."
)
@click.option(
    "--config", "file", type=click.Path(path_type=Path), help="bigiron.toml; else the defaults."
)
@click.option(
    "--processes",
    type=click.IntRange(0, 2),
    default=0,
    help="1, 2, or 0 for as many as help; what is written is the same.",
)
@click.option("--until", metavar="TIME", help="Stop after this time (RFC 3339).")
@click.option(
    "--snapshot", type=click.Path(path_type=Path), help="Where it stops: a file to go on from."
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    help="A file to go on from, best in the same --out.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def replay(
    recording: Path,
    out: Path,
    file: Path | None,
    processes: int,
    until: str | None,
    snapshot: Path | None,
    resume: Path | None,
    as_json: bool,
) -> int:
    """Run the whole pipeline over a recorded fleet's history.

    RECORDING is a folder as docs/formats.md describes it. Writes findings.jsonl, verdicts.jsonl,
    actions.jsonl and summary.json; the same recording, configuration and version give the same
    lines.
    """
    told = Console(stderr=True, highlight=False)
    with told.status("replaying") as status:

        def progress(time: datetime) -> None:
            status.update(f"replaying {time:%Y-%m-%d %H:%M}")

        config, own = None, tuple[Path, ...]()
        if file is not None:
            loaded = load(file)
            check(loaded, str(file))
            config, own = settings(loaded), tuple(fault_files(loaded, file))
        if own:
            faults.use(own)
        how = How(processes, _moment(until), snapshot, resume, own)
        summary = run(Recording(recording), out, config, progress, how)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(summary), indent=2).decode())
    else:
        show(summary, out, Console(highlight=False))
    return 0


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        wanted = f"{text!r}: an RFC 3339 time with an offset is wanted"
        raise click.BadParameter(wanted, param_hint="--until")
    return time


def show(summary: Summary, out: Path, console: Console) -> None:
    """Print what a replay did."""
    console.print(
        f"[bold]{escape(summary.recording)}[/]  {summary.nodes} nodes, "
        f"{summary.node_days:.1f} node-days, {summary.samples:,} samples, "
        f"{summary.events:,} events in {summary.wall_s:.1f} s ({summary.peak_mib:.0f} MiB)"
    )
    table = Table("detector", "findings per 1,000 node-days", box=None)
    for name, rate in summary.findings_per_1000_node_days.items():
        table.add_row(name, f"{rate:.1f}")
    console.print(table)
    console.print(
        f"{summary.findings} findings, {summary.findings_open} open at the end; "
        f"{summary.actions} actions, {summary.actions_held} held. Shadow mode: nothing was done."
    )
    for note in summary.notes:
        times = f" ({note.count:,} times)" if note.count > 1 else ""
        told = escape(printable(f"{note.source}: {note.what}{times}"))
        console.print(f"[dim]note: {told}[/]", soft_wrap=True)
    console.print(f"Written to {escape(str(out))}.", soft_wrap=True)
