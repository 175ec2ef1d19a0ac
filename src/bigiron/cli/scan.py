"""`bigiron scan`: one look at a live fleet, reading only."""

from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bigiron import faults
from bigiron.cli import EXIT_USAGE
from bigiron.cli.place import moment
from bigiron.cli.table import console, printable
from bigiron.config import Config, KubernetesConfig, PrometheusConfig, ScrapeConfig, SlurmConfig
from bigiron.config import load as load_config
from bigiron.errors import Permanent
from bigiron.hub.scan import Row, Scan
from bigiron.hub.scan import scan as run
from bigiron.hub.settings import check, fault_files, settings
from bigiron.hub.sources import sources
from bigiron.model import Health
from bigiron.nodesets import fold
from bigiron.words import HEALTH_STYLE, advice, chance


@click.command()
@click.option("--prometheus", multiple=True, metavar="URL", help="Ask this Prometheus.")
@click.option("--scrape", multiple=True, metavar="[NODE=]URL", help="Fetch this exporter page.")
@click.option("--kernel-log", multiple=True, metavar="PATH", help="Read this log, folder, archive.")
@click.option("--slurm", is_flag=True, help="Ask Slurm, with scontrol, squeue and sacct.")
@click.option("--kubernetes", is_flag=True, help="Ask Kubernetes, as kubectl would.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="bigiron.toml.")
@click.option(
    "--since", default="24h", show_default=True, help="Leave out older log lines: 2h, 3d."
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole scan as JSON.")
@click.option("--html", "html", type=click.Path(path_type=Path), help="Write an HTML page as well.")
@click.option("--all", "show_all", is_flag=True, help="Show healthy nodes, one a line.")
def scan(
    prometheus: tuple[str, ...],
    scrape: tuple[str, ...],
    kernel_log: tuple[str, ...],
    slurm: bool,
    kubernetes: bool,
    file: Path | None,
    since: str,
    as_json: bool,
    html: Path | None,
    show_all: bool,
) -> int:
    """One look at a live fleet, reading only: which nodes are in trouble, why, what to do.

    Any mix of sources. Nothing is installed, changed or kept. A source that fails is named, and
    the rest is judged without it. "Fails in 24 h" is how likely a job on the node fails of it,
    with weights that were fitted to simulated fleets (docs/studies/hazard.md).

    Exit code: 0 healthy, 1 warning, 2 critical, 3 nothing reached, 4 wrong usage.
    """
    config = load_config(file) if file else Config()
    faults.use(fault_files(config, file))
    logs = (*kernel_log, *(log.path for log in config.kernel_log))
    config = _with(config, prometheus, scrape, slurm, kubernetes)
    check(config, str(file or "configuration"))
    asked = sources(config, history_s=86_400.0, file=str(file or "configuration"))
    if not asked and not logs:
        click.echo(
            "bigiron: nothing to ask: name --prometheus, --scrape, --kernel-log, --slurm or "
            "--kubernetes",
            err=True,
        )
        return EXIT_USAGE
    now = datetime.now(UTC)
    result = run(asked, logs, now, settings(config), since=moment(since, now))
    if html is not None:
        _write(result, html)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(result), indent=2).decode())
    else:
        show(result, console(), show_all=show_all)
    return result.exit_code


def _with(
    config: Config,
    prometheus: tuple[str, ...],
    scrape: tuple[str, ...],
    slurm: bool,
    kubernetes: bool,
) -> Config:
    """The configuration and the sources named on the command line; logs are read, not followed."""
    pages = (ScrapeConfig(targets=scrape),) if scrape else ()
    return msgspec.structs.replace(
        config,
        prometheus=(*config.prometheus, *(PrometheusConfig(url) for url in prometheus)),
        scrape=(*config.scrape, *pages),
        kernel_log=(),
        slurm=config.slurm or (SlurmConfig() if slurm else None),
        kubernetes=config.kubernetes or (KubernetesConfig() if kubernetes else None),
    )


def _write(result: Scan, path: Path) -> None:
    from bigiron.hub.html import page  # Jinja2 only where a page is wanted

    try:
        path.write_text(page(result), "utf-8")
    except OSError as error:
        raise Permanent(f"{path}: cannot be written: {error.strerror}") from error


def show(result: Scan, out: Console, *, show_all: bool = False) -> None:
    """Print a scan for a person."""
    for finding in result.groups:
        out.print(f"[bold]{_told(' '.join(finding.because))}[/]")
    rows = [r for r in result.rows if show_all or r.health is not Health.HEALTHY]
    if rows:
        out.print(_table(rows))
    healthy = [r.node for r in result.rows if r.health is Health.HEALTHY]
    if healthy and not show_all:
        out.print(f"[green]{len(healthy)} healthy[/]  {_told(fold(healthy))}")
    for one in result.asked:
        said = (
            f"[red]{_told(one.problem)}[/]"
            if one.problem
            else f"{one.observations:,} observations in {one.seconds:.2f} s"
        )
        out.print(f"[dim]{_told(one.name)}:[/] {said}")
    for note in result.notes:
        times = f" ({note.count:,} times)" if note.count > 1 else ""
        out.print(f"[dim]note: {_told(note.source)}: {_told(note.what)}{times}[/]")


def _table(rows: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("node", no_wrap=True)
    table.add_column("health", no_wrap=True)
    table.add_column("fails in 24 h", justify="right", no_wrap=True)
    table.add_column("why", ratio=3)
    table.add_column("do", ratio=2)
    scheduled = any(row.state for row in rows)
    if scheduled:
        table.add_column("scheduler", no_wrap=True)
    for row in rows:
        cells = (
            f"[bold]{_told(row.node)}[/]",
            f"[{HEALTH_STYLE[row.health]}]{row.health}[/]",
            chance(row.p_fail_24h),
            _told(row.reason) + _more(row),
            _todo(row),
            f"[dim]{_told(row.state)}[/]",
        )
        table.add_row(*(cells if scheduled else cells[:-1]))
    return table


def _more(row: Row) -> str:
    return f" [dim]and {len(row.findings) - 1} more[/]" if len(row.findings) > 1 else ""


def _todo(row: Row) -> str:
    if row.health is Health.HEALTHY:
        return ""
    held = f" [dim](held: {_told(row.held)})[/]" if row.held else ""
    return advice(row.action, row.when) + held


def _told(text: str) -> str:
    """A text from outside: no markup and no control character in it counts."""
    return escape(printable(text))
