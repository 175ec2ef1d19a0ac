"""`bigiron hub`: watch a fleet continuously, in shadow mode."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.text import Text

from bigiron import __version__
from bigiron.cli import EXIT_NOTHING, EXIT_USAGE
from bigiron.cli.place import configured, place, place_options
from bigiron.cli.status import status as show_status
from bigiron.cli.table import at, printable
from bigiron.config import (
    Config,
    KernelLogConfig,
    KubernetesConfig,
    PrometheusConfig,
    ScrapeConfig,
    SlurmConfig,
)
from bigiron.faults import use
from bigiron.hub.golden_file import ended, with_golden
from bigiron.hub.lock import Lock
from bigiron.hub.loop import Hub
from bigiron.hub.runner import Pace, run, utc_now
from bigiron.hub.settings import check, fault_files, memory_limits, settings
from bigiron.hub.sources import sources, watched
from bigiron.ingest import Source
from bigiron.model import Change, FindingChange
from bigiron.store.ledger import Ledger
from bigiron.store.samples import Samples
from bigiron.store.segments import Keep
from bigiron.words import SEVERITY_STYLE


@click.command()
@place_options
@click.option("--prometheus", multiple=True, metavar="URL", help="Ask this Prometheus.")
@click.option("--scrape", multiple=True, metavar="[NODE=]URL", help="Fetch this exporter page.")
@click.option("--kernel-log", multiple=True, metavar="PATH", help="Follow this log file.")
@click.option("--slurm", is_flag=True, help="Ask Slurm, with its own commands.")
@click.option("--kubernetes", is_flag=True, help="Ask Kubernetes, as kubectl would.")
@click.option("--once", is_flag=True, help="Ask every source once, judge, end.")
@click.option("--turns", type=click.IntRange(min=1), help="End after so many turns.")
@click.option("--status", is_flag=True, help="Show whether the hub works and keeps up, and end.")
@click.option("--json", "as_json", is_flag=True, help="With --status: as JSON.")
def hub(
    folder: Path | None,
    config_file: Path | None,
    prometheus: tuple[str, ...],
    scrape: tuple[str, ...],
    kernel_log: tuple[str, ...],
    slurm: bool,
    kubernetes: bool,
    once: bool,
    turns: int | None,
    status: bool,
    as_json: bool,
) -> int:
    """Watch a fleet continuously and write down what is found and what should be done.

    Shadow mode: nothing is carried out. Ask with `bigiron nodes`, `findings`, `why NODE` while it
    runs. SIGTERM and SIGINT end it cleanly; killed at any moment, it goes on where it was.

    Of a log that was never followed before, the last day is read first.
    """
    where = place(folder, config_file)
    if status:
        return show_status(where, as_json=as_json)
    config = _with(configured(config_file), prometheus, scrape, kernel_log)
    if slurm and config.slurm is None:
        config = msgspec.structs.replace(config, slurm=SlurmConfig())
    if kubernetes and config.kubernetes is None:
        config = msgspec.structs.replace(config, kubernetes=KubernetesConfig())
    if not watched(config):
        click.echo(
            "bigiron: nothing to watch: name --prometheus, --scrape, --kernel-log, --slurm or "
            "--kubernetes, or a --config that does",
            err=True,
        )
        return EXIT_USAGE
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Plain("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    use(fault_files(config, config_file))
    check(config, str(config_file or "configuration"))
    with_golden(settings(config), where)
    asked = sources(config, file=str(config_file or "configuration"))
    return _run(config, asked, where, Pace(config.hub.turn_s, turns, once))


class _Plain(logging.Formatter):
    """Lines without control characters: what went wrong may quote a server."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines as they may go to a terminal."""
        return "\n".join(map(printable, super().format(record).splitlines()))


def _with(
    config: Config, prometheus: tuple[str, ...], scrape: tuple[str, ...], logs: tuple[str, ...]
) -> Config:
    """The configuration and the sources named on the command line."""
    pages = (ScrapeConfig(targets=scrape),) if scrape else ()
    return msgspec.structs.replace(
        config,
        prometheus=(*config.prometheus, *(PrometheusConfig(url) for url in prometheus)),
        scrape=(*config.scrape, *pages),
        kernel_log=(*config.kernel_log, *(KernelLogConfig(path) for path in logs)),
    )


def _run(config: Config, asked: Sequence[Source], folder: Path, pace: Pace) -> int:
    """Until it is told to stop; EXIT_NOTHING if it was to ask once and nothing answered."""
    console = Console(highlight=False, soft_wrap=True)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Lock(folder), Ledger(folder) as ledger:
        limits, declared = memory_limits(config), with_golden(settings(config), folder)
        samples = _samples(config, folder)
        live = Hub(
            ledger,
            utc_now(),
            declared,
            limits,
            samples=samples,
            tell=lambda change: _tell(change, console),
        )
        console.print(
            f"bigiron hub {__version__}, pid {os.getpid()}, folder {folder}. Shadow mode: what "
            "should be done is written down, nothing is carried out."
        )
        console.print(f"Watches {', '.join(watched(config))}.")
        for text in ended(declared.exempt, utc_now()):
            console.print(f"Note: {printable(text)}.", markup=False)
        before = len(ledger.open_findings())
        stand = "1 finding stands" if before == 1 else f"{before} findings stand"
        console.print(f"{stand} from before.")
        run(live, asked, pace, stop)
    console.print("Stopped; everything is written.")
    if pace.once and all(pulse.said for pulse in live.pulses.values()):
        click.echo("bigiron: no source answered", err=True)
        return EXIT_NOTHING
    return 0


def _samples(config: Config, folder: Path) -> Samples | None:
    kept = config.samples
    if not kept.enabled:
        return None
    return Samples(folder / "samples", Keep(kept.flush_s, kept.keep_days, kept.keep_bytes))


def _tell(change: FindingChange, console: Console) -> None:
    """One line for a finding that opens or closes; an update is for `bigiron findings`."""
    if change.change is Change.UPDATE:
        return
    finding = change.finding
    line = Text(f"{at(change.time)} {change.change:<5} {change.id} ")
    line.append(f"{finding.severity:<8} ", style=SEVERITY_STYLE[finding.severity])
    line.append(f"{finding.subject} {finding.fault}: ", style="bold")
    line.append(printable(change.because))
    console.print(line)
