"""golden.toml in a hub's folder: what `bigiron golden declare` keeps there."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from bigiron.config import Config, GoldenConfig, parse
from bigiron.detect import Declared, Exempt, Window
from bigiron.errors import ConfigError, Permanent
from bigiron.hub import declaring
from bigiron.hub.turn import Settings
from bigiron.nodesets import fold

FILE = "golden.toml"


def check(text: str, name: str) -> Config:
    """A golden file. Raises ConfigError where it is none or holds anything else."""
    config = parse(text, name)
    if msgspec.structs.replace(config, golden=(), golden_exception=()) != Config():
        raise ConfigError(name, "", "a golden file holds [[golden]] and [[golden_exception]] only")
    if not config.golden and not config.golden_exception:
        raise ConfigError(name, "", "nothing is declared: wanted [[golden]] tables")
    declaring.check(config, name)
    return config


def declare(folder: Path, text: str, name: str) -> Config:
    """Keep a golden file in a hub's folder, whole or not at all. Raises ConfigError, Permanent."""
    config = check(text, name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=folder, prefix=f".{FILE}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(draft).chmod(0o644)
            Path(draft).replace(folder / FILE)
        except OSError:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Permanent(f"{error.filename or folder}: {error.strerror}") from error
    return config


def declared_in(folder: Path) -> tuple[tuple[Declared, ...], tuple[Exempt, ...]]:
    """What a hub's folder declares; nothing where it has no golden file. Raises ConfigError."""
    path = folder / FILE
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return (), ()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), "", f"cannot be read: {error}") from error
    config = check(text, str(path))
    declared = tuple(map(declaring.declared, config.golden))
    return declared, declaring.exempted(config, str(path))


def with_golden(settings: Settings, folder: Path) -> Settings:
    """The settings with what a hub's folder declares. Raises ConfigError."""
    told, exempt = declared_in(folder)
    return msgspec.structs.replace(
        settings, declared=(*settings.declared, *told), exempt=(*settings.exempt, *exempt)
    )


def counted(golden: Sequence[GoldenConfig]) -> int:
    """How many facts some tables declare."""
    return sum(len(one.facts) for one in golden)


def ended(exempt: Sequence[Exempt], now: datetime) -> list[str]:
    """A sentence for each exception that has ended, each once."""
    return list(dict.fromkeys(text for one in exempt if (text := declaring.over(one, now))))


def strangers(config: Config, window: Window) -> Iterator[str]:
    """Sentences about tables and exceptions that fit nothing in a fleet: slips of the pen."""
    nodes = window.fleet.nodes
    skus = {node.sku for node in nodes.values()}
    roles = {node.role for node in nodes.values()}
    for number, golden in enumerate(config.golden):
        for what, value, there in (("SKU", golden.sku, skus), ("role", golden.role, roles)):
            if value and value not in there:
                yield f"golden[{number}]: no node of {what} {value} is known"
    for number, exempt in enumerate(declaring.exempted(config)):
        unknown = exempt.nodes - nodes.keys()
        if unknown:
            yield f"golden_exception[{number}]: not known: {fold(unknown)}"
