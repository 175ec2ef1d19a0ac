"""The golden config of a fleet: derived from what nearly all hold, declared, shown, compared.

Works on what a hub's ledger knows, or on a recording's tables, at one moment.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from bigiron.config import Config, GoldenConfig, parse
from bigiron.detect import Declared, Exempt, Window
from bigiron.detect.golden import golden as drifts
from bigiron.detect.golden.facts import label, relevant
from bigiron.detect.golden.pools import NODE, Pool, all_pools, consensus, declared
from bigiron.errors import ConfigError, NoData, Permanent
from bigiron.hub.memory import Memory
from bigiron.hub.settings import declared as declares
from bigiron.hub.settings import exempted
from bigiron.hub.turn import Settings
from bigiron.ingest.recording_tables import Tables
from bigiron.model import Batch, FactValue, Finding
from bigiron.store.reading import Reading

FILE = "golden.toml"
"""In a hub's folder: what was declared with `bigiron golden declare`."""

RECORDING = "recording.toml"


class Row(NamedTuple):
    """One fact of one kind of part: what it should be, who says so, how many hold it."""

    sku: str
    role: str
    kind: str
    model: str
    fact: str
    should: str
    holds: str
    by: str
    effect: str


def known(folder: Path, at: datetime | None = None) -> Window:
    """What is known of a fleet's configuration at a time (None: the newest).

    ``folder`` is a hub's or a recording. Raises NoData where it is neither.
    """
    if (folder / RECORDING).is_file():
        batches = _recorded(folder, at)
    else:
        with Reading(folder) as reading:
            batches = [reading.configuration()]
    memory = Memory()
    for batch in batches:
        memory.take(batch)
    window = memory.window(at or batches[-1].time)
    if not window.facts:
        raise NoData(f"{folder}: no facts are known")
    return window


def _recorded(folder: Path, at: datetime | None) -> list[Batch]:
    tables = Tables(folder, folder.name)
    facts = [f for f in tables.facts() if at is None or f.time is None or f.time <= at]
    times = [f.time for f in facts if f.time is not None]
    if not times:
        raise NoData(f"{folder}: no facts are known" + (f" at {at.isoformat()}" if at else ""))
    work = tuple(tables.maintenance())
    nodes, devices = tuple(tables.nodes()), tuple(tables.devices())
    first = Batch(min(times), folder.name, nodes=nodes, devices=devices, maintenance=work)
    return [first, Batch(max(times), folder.name, facts=tuple(facts))]


def derive(window: Window) -> str:
    """A golden file: what nearly all hold, with counts; where there is no consensus, a comment."""
    lines = [
        f"# Derived on {window.now:%Y-%m-%d %H:%M} UTC from what {len(window.fleet.nodes)} nodes "
        "hold.",
        "# A fact is golden if nearly surely more than nine in ten of its like hold it.",
        "# Read it, change it, then: bigiron golden declare FILE",
    ]
    tables: dict[tuple[str, ...], list[Pool]] = {}
    for pool in all_pools(window):
        tables.setdefault(pool.like[:4], []).append(pool)
    for (sku, role, kind, model), pools in sorted(tables.items()):
        lines += ["", "[[golden]]", f"sku = {_toml(sku)}", f"role = {_toml(role)}"]
        lines += [f"kind = {_toml(kind or NODE)}", f"model = {_toml(model)}", "[golden.facts]"]
        lines += [line for pool in pools for line in _line(pool)]
    return "\n".join(lines) + "\n"


def _line(pool: Pool) -> Iterator[str]:
    count = len(pool.nodes)
    value = consensus(pool)
    if pool.like.place:
        return  # a fact of one place is compared at each place, and declared nowhere
    if value is not None:
        agreeing = sum(values == {value} for values in pool.nodes.values())
        yield f"{pool.name} = {_toml(value)}  # {agreeing} of {count} nodes"
        return
    shown = sorted(pool.counts.items(), key=lambda one: (-one[1], str(one[0])))[:5]
    told = ", ".join(f"{_toml(v)} on {n}" for v, n in shown)
    why = "too few nodes to say" if len(pool.counts) == 1 else "no consensus"
    yield f"# {pool.name}: {why}: {told} of {count} nodes"


def _toml(value: FactValue) -> str:
    """A value in TOML; JSON's strings are TOML's."""
    return msgspec.json.encode(value).decode()


def rows(window: Window) -> list[Row]:
    """Every fact that matters: what it should be and by whose word."""
    found = []
    for pool in all_pools(window):
        allowed = declared(window, pool.held[0].key, pool.name)
        value = consensus(pool)
        usual = pool.usual
        holds = f"{pool.counts[usual]} of {len(pool.nodes)}"
        if allowed is not None:
            should, by = " or ".join(map(str, allowed)), "declared"
            held = sum(any(str(v) == str(a) for a in allowed for v in vs) for vs in _sets(pool))
            holds = f"{held} of {len(pool.nodes)}"
        elif value is not None:
            should, by = str(value), "derived"
        else:
            should, by = f"({usual})", "no consensus"
        known_as = relevant(pool.name)
        effect = known_as.effect if known_as is not None else label(pool.name)
        found.append(Row(*pool.like[:4], pool.name, should, holds, by, effect))
    return found


def _sets(pool: Pool) -> Sequence[frozenset[FactValue]]:
    return list(pool.nodes.values())


def differences(window: Window) -> list[Finding]:
    """What differs now, and the rollouts that go on."""
    found = [f for f in drifts(window) if isinstance(f, Finding)]
    return sorted(found, key=lambda f: (bool(f.subject.by), f.subject.key, f.fault))


def check(text: str, name: str) -> Config:
    """A golden file. Raises ConfigError where it is none or holds anything else."""
    config = parse(text, name)
    if msgspec.structs.replace(config, golden=(), golden_exception=()) != Config():
        raise ConfigError(name, "", "a golden file holds [[golden]] and [[golden_exception]] only")
    if not config.golden and not config.golden_exception:
        raise ConfigError(name, "", "nothing is declared: wanted [[golden]] tables")
    exempted(config)
    return config


def declare(folder: Path, text: str, name: str) -> Config:
    """Keep a golden file in a hub's folder, whole or not at all. Raises ConfigError, Permanent."""
    config = check(text, name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=folder, prefix=f".{FILE}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(folder / FILE)
    except OSError as error:
        raise Permanent(f"{error.filename or folder}: {error.strerror}") from error
    return config


def declared_in(folder: Path) -> tuple[tuple[Declared, ...], tuple[Exempt, ...]]:
    """What a hub's folder declares; nothing where it has no golden file. Raises ConfigError."""
    path = folder / FILE
    if not path.exists():
        return (), ()
    try:
        config = check(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), "", f"cannot be read: {error}") from error
    return tuple(map(declares, config.golden)), exempted(config)


def with_golden(settings: Settings, folder: Path) -> Settings:
    """The settings with what a hub's folder declares. Raises ConfigError."""
    told, exempt = declared_in(folder)
    return msgspec.structs.replace(
        settings, declared=(*settings.declared, *told), exempt=(*settings.exempt, *exempt)
    )


def counted(golden: Sequence[GoldenConfig]) -> int:
    """How many facts some tables declare."""
    return sum(len(one.facts) for one in golden)
