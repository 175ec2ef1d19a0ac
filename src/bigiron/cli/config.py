"""`bigiron config`: the example file, and a check of one's own."""

from collections.abc import Iterable
from pathlib import Path

import click

from bigiron.config import example, load
from bigiron.detect import detector, fold
from bigiron.errors import ConfigError
from bigiron.faults import catalogue


@click.group()
def config() -> None:
    """Show an example configuration, or check one."""


@config.command("example")
def example_command() -> None:
    """Print a bigiron.toml with every setting, its meaning and its default."""
    click.echo(example(), nl=False)


@config.command("check")
@click.argument("file", type=click.Path(path_type=Path))
def check_command(file: Path) -> None:
    """Read FILE and the files it names; exit 4 with file, key and what was wanted if wrong."""
    settings = load(file)
    folder = file.parent
    catalogue().with_overrides([folder / name for name in settings.faults])
    _check_detectors(file, settings.detectors)
    watched = [
        *(f"Prometheus {p.url}" for p in settings.prometheus),
        *(f"exporter page {url}" for s in settings.scrape for url in s.targets),
        *(f"kernel log {log.path}" for log in settings.kernel_log),
        *(["Slurm"] if settings.slurm else []),
        *(["Kubernetes"] if settings.kubernetes else []),
    ]
    click.echo(f"{file}: good. Watches {', '.join(watched) or 'nothing yet'}.")


def _check_detectors(file: Path, named: Iterable[str]) -> None:
    """Raises ConfigError for a switch of a detector that is not there: it would do nothing."""
    switches = set(named)
    if not switches:
        return
    known = sorted({*(d.name for d in detector), *(f.name for f in fold)})
    for name in sorted(switches.difference(known)):
        wanted = f"no such detector; there are {', '.join(known)}"
        raise ConfigError(str(file), f"detectors.{name}", wanted)
