"""The golden config of a fleet: derived from what nearly all hold, shown, compared.

Works on what a hub's ledger knows, or on a recording's tables, at one moment.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from bigiron.detect import Window
from bigiron.detect.golden import golden as drifts
from bigiron.detect.golden.facts import ONLY_DECLARED, Relevant, proper, relevant
from bigiron.detect.golden.pools import NODE, Like, Pool, all_pools, consensus, declared
from bigiron.detect.golden.values import fits, said
from bigiron.errors import NoData
from bigiron.hub.memory import Memory
from bigiron.ingest.recording_tables import Tables
from bigiron.model import Batch, FactValue, Finding
from bigiron.store.reading import Reading

RECORDING = "recording.toml"
SHOWN = 5
"""So many values are told where there is no consensus."""


class Row(msgspec.Struct, frozen=True):
    """One fact of one kind of part: what it should be, who says so, how many hold it."""

    sku: str
    role: str
    kind: str
    model: str
    place: str
    fact: str
    should: str
    holds: str
    by: str
    effect: str
    weight: str


class Table(msgspec.Struct, frozen=True):
    """What one kind of part of one SKU and role is derived to be.

    ``held`` is by how many nodes, for each fact; ``undecided`` are the facts without a golden
    value, and why they have none.
    """

    sku: str
    role: str
    kind: str
    model: str
    facts: Mapping[str, FactValue]
    held: Mapping[str, str]
    undecided: Mapping[str, str]


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
    end = at or max(times)
    work = tuple(work for work in tables.maintenance() if work.start <= end)
    states = tuple(s for s in tables.states() if s.time is not None and s.time <= end)
    nodes, devices = tuple(tables.nodes()), tuple(tables.devices())
    first = Batch(min(times), folder.name, nodes=nodes, devices=devices, maintenance=work)
    return [first, Batch(max(times), folder.name, facts=tuple(facts), states=states)]


def tables(window: Window) -> list[Table]:
    """What nearly all hold, by SKU, role, kind and model of part."""
    pools: dict[Like, list[Pool]] = {}
    for pool in all_pools(window):
        if not pool.like.place:  # a fact of one place is compared there, and declared nowhere
            pools.setdefault(pool.like, []).append(pool)
    return [_table(like, of) for like, of in sorted(pools.items())]


def _table(like: Like, pools: Sequence[Pool]) -> Table:
    facts: dict[str, FactValue] = {}
    held: dict[str, str] = {}
    undecided: dict[str, str] = {}
    for pool in pools:
        value, count = consensus(pool), len(pool.nodes)
        if proper(pool.name) in ONLY_DECLARED:
            undecided[pool.name] = "it moves with load"
        elif value is not None:
            facts[pool.name] = pool.shown[value]
            held[pool.name] = f"{pool.agreeing(value)} of {count} nodes"
        else:
            undecided[pool.name] = _undecided(pool)
    return Table(like.sku, like.role, like.kind or NODE, like.model, facts, held, undecided)


def _undecided(pool: Pool) -> str:
    """Why there is no golden value, and what is held."""
    shown = sorted(pool.counts.items(), key=lambda one: (-one[1], str(one[0])))
    told = ", ".join(f"{_toml(pool.shown[v])} on {n}" for v, n in shown[:SHOWN])
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    why = "too few nodes to say" if len(pool.counts) == 1 else "no consensus"
    return f"{why}: {told}{more} of {len(pool.nodes)} nodes"


def derive(window: Window) -> str:
    """A golden file: what nearly all hold, with counts; where there is no consensus, a comment."""
    lines = [
        f"# Derived on {window.now:%Y-%m-%d %H:%M} UTC from what {len(window.fleet.nodes)} nodes "
        "hold.",
        "# A fact is golden if nearly surely more than nine in ten of its like hold it.",
        "# Read it, change it, then: bigiron golden declare FILE",
    ]
    for table in tables(window):
        lines += ["", "[[golden]]", f"sku = {_toml(table.sku)}", f"role = {_toml(table.role)}"]
        lines += [f"kind = {_toml(table.kind)}", f"model = {_toml(table.model)}"]
        lines += ["[golden.facts]", *_lines(table)]
    return "\n".join(lines) + "\n"


def _lines(table: Table) -> Iterator[str]:
    for name in sorted({*table.facts, *table.undecided}):
        if name in table.facts:
            yield f"{_key(name)} = {_toml(table.facts[name])}  # {table.held[name]}"
        else:
            yield f"# {_key(name)}: {table.undecided[name]}"


def _key(name: str) -> str:
    """A key of TOML: bare where it may be, else quoted: ``"env.NCCL_DEBUG"`` is one name."""
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _toml(name)


def _toml(value: FactValue) -> str:
    """A value in TOML; JSON's texts are TOML's, but for the one character that TOML escapes."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007F")


def rows(window: Window) -> list[Row]:
    """Every fact that matters: what it should be and by whose word; the heaviest first."""
    found: list[tuple[int, Row]] = []
    for pool in all_pools(window):
        matters = relevant(pool.name)
        if matters is not None:
            found.append((matters.weight.rank, _row(window, pool, matters)))
    found.sort(key=lambda one: (one[1].sku, one[1].role, one[1].kind, one[1].model, one[0]))
    return [row for _, row in found]


def _row(window: Window, pool: Pool, matters: Relevant) -> Row:
    allowed = declared(window, pool.held[0].key, pool.name)
    value, total = consensus(pool), len(pool.nodes)
    holds, by = f"{pool.agreeing(pool.usual)} of {total}", "derived"
    should = pool.said(value) if value is not None else ""
    if allowed is not None:
        should, by = " or ".join(said(pool.name, v) for v in allowed), "declared"
        wrong = {h.key[0] for h in pool.held if not fits(pool.name, h.fact.value, allowed)}
        holds = f"{total - len(wrong)} of {total}"
    elif proper(pool.name) in ONLY_DECLARED:
        should, by = "", "not compared"
    elif value is None:
        should, by = f"({pool.said(pool.usual)})", "no consensus"
    sku, role, kind, model, place = pool.like
    said_by = (pool.name, should, holds, by, matters.effect, matters.weight)
    return Row(sku, role, kind or NODE, model, place, *said_by)


def differences(window: Window) -> list[Finding]:
    """What differs now, the heaviest first, and the rollouts that go on."""
    found = [f for f in drifts(window) if isinstance(f, Finding)]
    return sorted(found, key=lambda f: (bool(f.subject.by), _weight(f), f.subject.key, f.fault))


def _weight(finding: Finding) -> int:
    """How heavy what differs is: 0 stops or corrupts jobs."""
    matters = relevant(finding.fault.split(".", 2)[-1])
    return matters.weight.rank if matters is not None else 9
