"""`bigiron inspect`: what is wrong with the machines these files come from."""

import os
import sys
from typing import BinaryIO, cast

import click

from bigiron.cli import EXIT_NOTHING, EXIT_USAGE
from bigiron.cli.report import show
from bigiron.hub.documents import Documents
from bigiron.hub.inspect import inspect as run
from bigiron.hub.recognise import formats


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
@click.option("--all", "show_all", is_flag=True, help="Show healthy hosts and every evidence line.")
@click.option("--formats", "list_formats", is_flag=True, help="List what is recognised, and stop.")
def inspect(paths: tuple[str, ...], as_json: bool, show_all: bool, list_formats: bool) -> int:
    """Say what is wrong in log files, tool outputs or a bundle.

    PATH is a file, a folder, an archive (tar, zip, gz, bz2, xz, nested) or - for standard input.
    Each file is recognised by its content, whatever its name: kernel logs, nvidia-smi, dcgmi,
    nvidia-bug-report, exporter pages, amd-smi, rocm-smi, RVS, nccl-tests, sacct, scontrol,
    kubectl and more (--formats). Files that lie together are taken as one host's unless they say
    otherwise.

    Exit code: 0 healthy, 1 warning, 2 critical, 3 nothing recognised, 4 wrong usage: nothing at
    PATH.
    """
    if list_formats:
        _list(as_json=as_json)
        return 0
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    report = run(list(paths), Documents(stdin=lambda: cast(BinaryIO, sys.stdin.buffer)))
    if as_json:
        _json(report)
    else:
        show(report, show_all=show_all)
    if report.exit_code == EXIT_NOTHING and (absent := _absent(paths)):
        click.echo(f"bigiron: {', '.join(absent)}: no such file or directory", err=True)
        return EXIT_USAGE
    return report.exit_code


def _absent(paths: tuple[str, ...]) -> list[str]:
    """What was named and is not there."""
    return [path for path in paths if path != "-" and not os.path.lexists(path)]


def _list(*, as_json: bool) -> None:
    if as_json:
        _json([{"name": name, "what": what} for name, what in formats()])
        return
    every = formats()
    width = max(len(name) for name, _ in every)
    for name, what in every:
        click.echo(f"{name:<{width}}  {what}")


def _json(value: object) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
