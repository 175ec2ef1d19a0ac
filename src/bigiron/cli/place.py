"""Which ledger a command reads: its options, the node names it takes, the times it takes."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from bigiron.config import Config, load
from bigiron.errors import NoData, ParseError
from bigiron.nodesets import fold, unfold

if TYPE_CHECKING:
    from bigiron.store.reading import Reading

F = TypeVar("F", bound=Callable[..., Any])

NAMED = 100
"""So many names may be other names of nodes; a longer set is written by the ledger's own."""

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def place_options(command: F) -> F:
    """``--folder`` and ``--config``."""
    folder = click.option(
        "--folder",
        type=click.Path(path_type=Path),
        help="The hub's folder; the configuration's otherwise.",
    )
    config = click.option(
        "--config",
        "config_file",
        type=click.Path(path_type=Path),
        envvar="BIGIRON_CONFIG",
        help="bigiron.toml.",
    )
    return folder(config(command))


def query_options(command: F) -> F:
    """``--folder``, ``--config`` and ``--json``."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    return place_options(as_json(command))


def configured(config_file: Path | None) -> Config:
    """The configuration of a file, or all defaults. Raises ConfigError."""
    return load(config_file) if config_file is not None else Config()


def place(folder: Path | None, config_file: Path | None) -> Path:
    """The hub's folder. Raises ConfigError."""
    return folder if folder is not None else Path(configured(config_file).hub.folder)


def named(patterns: tuple[str, ...]) -> list[str]:
    """The node names of ``gpu[001-016] gpu020``. Raises click's usage error."""
    try:
        return [name for pattern in patterns for name in unfold(pattern)]
    except ParseError as error:
        raise click.BadParameter(str(error), param_hint="NODES") from error


def known(reading: "Reading", names: list[str]) -> list[str]:
    """The nodes that go by these names. Raises NoData where the ledger holds nothing of one:
    silence about a node that was mistyped must not read as good news."""
    if names:
        names = list(map(reading.named, names)) if len(names) <= NAMED else names
        missing = set(names) - {row.node.name for row in reading.nodes(names)}
        if missing:
            raise NoData(f"{fold(missing)}: no such node in {reading.path}")
    return names


def moment(text: str | None, now: datetime) -> datetime | None:
    """``2h``, ``3d`` or an ISO time (UTC without offset). Raises click's usage error."""
    if text is None:
        return None
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return _before(now, float(ago[1]) * _SECONDS[ago[2]])
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError as error:
        wanted = f"{text!r}: wanted 90s, 15m, 2h, 3d, 1w or a time such as 2026-03-04T05:06"
        raise click.BadParameter(wanted, param_hint="--since") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _before(now: datetime, seconds: float) -> datetime:
    """So long ago; longer than there are years to count is the beginning of time."""
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def print_json(value: object) -> None:
    """Print JSON for programs: indented, times in RFC 3339."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
