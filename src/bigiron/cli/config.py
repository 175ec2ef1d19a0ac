"""`bigiron config`: the example file, and a check of one's own."""

from pathlib import Path

import click

from bigiron.config import example, load
from bigiron.faults import catalogue
from bigiron.hub.settings import check
from bigiron.hub.sources import sources, watched


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
    check(settings, str(file))
    sources(settings, file=str(file))
    click.echo(f"{file}: good. Watches {', '.join(watched(settings)) or 'nothing yet'}.")
