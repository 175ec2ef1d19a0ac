"""`bigiron agent`: what runs on a node."""

import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from bigiron.agent.look import Seeing, every_name, look
from bigiron.cli import EXIT_CRITICAL, EXIT_WARNING
from bigiron.cli.table import printable, show
from bigiron.faults import catalogue
from bigiron.host import Host
from bigiron.model import Event, Sample, Severity
from bigiron.signals import show as in_words

FORMATS = ("table", "json", "openmetrics")


@click.command()
@click.option("--once", is_flag=True, help="Look once, print what is seen, end.")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default="/",
    show_default=True,
    help="The machine's root, or a captured machine's folder.",
)
@click.option("--collector", "only", multiple=True, metavar="NAME", help="Only this; repeatable.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--list", "list_all", is_flag=True, help="List the collectors, and stop.")
def agent(*, once: bool, root: Path, only: tuple[str, ...], form: str, list_all: bool) -> int:
    """See what this node's hardware and configuration say. Reading only, no hub needed.

    Absent hardware is silent; a collector that fails or hangs is told, and stops no other. This
    version looks once (--once); it does not run by itself yet.

    Exit code: 0 nothing of note, 1 a collector failed or a warning was seen, 2 something critical.
    """
    known = every_name()
    if list_all:
        click.echo("\n".join(known))
        return 0
    if not once:
        raise click.UsageError("this version looks once: bigiron agent --once")
    if unknown := sorted({*only} - {*known}):
        raise click.BadParameter(f"no collector {', '.join(unknown)}: see --list")
    host = Host(name=socket.gethostname().partition(".")[0], root=root)
    seeings = look(host, datetime.now(UTC), only)
    {"table": _table, "json": _json, "openmetrics": _openmetrics}[form](seeings)
    return _exit_code(seeings)


def _exit_code(seeings: Sequence[Seeing]) -> int:
    worst = {_severity(event) for seeing in seeings for event in seeing.batch.events}
    if worst & {Severity.CRITICAL, Severity.FATAL}:
        return EXIT_CRITICAL
    failed = any(seeing.problem for seeing in seeings)
    return EXIT_WARNING if failed or Severity.WARNING in worst else 0


def _severity(event: Event) -> Severity:
    fault = catalogue().get(event.code)
    return Severity.INFO if fault is None else fault.severity


def _json(seeings: Sequence[Seeing]) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(seeings), indent=2).decode())


def _table(seeings: Sequence[Seeing]) -> None:
    show(
        ("collector", "took", "samples", "facts", "events", ""),
        [
            (
                seeing.name,
                f"{seeing.took_s:.3f} s",
                str(len(seeing.batch.samples)),
                str(len(seeing.batch.facts)),
                str(len(seeing.batch.events)),
                seeing.problem or ("not there" if seeing.absent else ""),
            )
            for seeing in seeings
        ],
    )
    for title, rows in (
        (("metric", "value", "of"), list(_sample_rows(seeings))),
        (("fact", "value", "of"), list(_fact_rows(seeings))),
        (("severity", "code", "device", "what"), list(_event_rows(seeings))),
        (("said by", "left out", "times"), list(_note_rows(seeings))),
    ):
        if rows:
            click.echo()
            show(title, rows)


def _sample_rows(seeings: Sequence[Seeing]) -> Iterator[tuple[str, str, str]]:
    """One row for alike devices with one value: eight GPUs of one width are one line."""
    rows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for seeing in seeings:
        for sample in seeing.batch.samples:
            value = in_words(sample.metric, sample.value)
            rows[sample.metric, value].append(sample.device or "node")
    for (metric, value), devices in rows.items():
        yield metric, value, " ".join(devices)


def _fact_rows(seeings: Sequence[Seeing]) -> Iterator[tuple[str, str, str]]:
    rows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for seeing in seeings:
        for fact in seeing.batch.facts:
            rows[fact.name, str(fact.value)].append(fact.device or "node")
    for (name, value), devices in rows.items():
        yield name, value, " ".join(devices)


def _event_rows(seeings: Sequence[Seeing]) -> Iterator[tuple[str, str, str, str]]:
    for seeing in seeings:
        for event in seeing.batch.events:
            yield _severity(event), event.code, event.device or "node", event.text


def _note_rows(seeings: Sequence[Seeing]) -> Iterator[tuple[str, str, str]]:
    for seeing in seeings:
        for note in seeing.batch.notes:
            yield seeing.name, f"{note.source}: {note.what}", str(note.count)


def _openmetrics(seeings: Sequence[Seeing]) -> None:
    """Samples by family, and how each collector did."""
    families: dict[str, list[Sample]] = defaultdict(list)
    for seeing in seeings:
        for sample in seeing.batch.samples:
            families[sample.metric].append(sample)
    for metric, samples in families.items():
        kind = "counter" if metric.endswith("_total") else "gauge"
        click.echo(f"# TYPE {metric.removesuffix('_total')} {kind}")
        for sample in samples:
            labels = f'{{device="{_label(sample.device)}"}}' if sample.device else ""
            click.echo(f"{metric}{labels} {sample.value:g}")
    click.echo("# TYPE collector_success gauge")
    for seeing in seeings:
        click.echo(f'collector_success{{collector="{seeing.name}"}} {int(not seeing.problem)}')
    click.echo("# TYPE collector_duration_seconds gauge")
    for seeing in seeings:
        click.echo(f'collector_duration_seconds{{collector="{seeing.name}"}} {seeing.took_s:g}')
    click.echo("# EOF")


def _label(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')
