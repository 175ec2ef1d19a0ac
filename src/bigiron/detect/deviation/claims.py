"""From opened tracks to findings: who, what, by how much, against whom, since when."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import exp

import numpy as np

from bigiron.detect import Block, Key
from bigiron.detect.deviation.decide import (
    BY_NAME,
    fault_of,
    row_chance,
)
from bigiron.detect.deviation.sayings import Shown, saying, unit_of
from bigiron.detect.deviation.state import SHARED, SUSPECTED, State, Table, chance
from bigiron.detect.deviation.streams import Stream
from bigiron.detect.hygiene import Clean
from bigiron.model import (
    ActionKind,
    Blame,
    Evidence,
    Finding,
    Recovery,
    Severity,
    Subject,
    When,
)

NAME = "deviation"
MOST_STREAMS = 3
WITNESS_P = 0.01
"""A stream that claims nothing by itself is shown beside others if it is as odd as this."""

HOSTS = frozenset({"power_brake", "fan_failure"})
"""Faults that lie in the host, not in the part that shows them."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """A stream that carries a claim: its numbers and its chance."""

    stream: Stream
    shown: Shown
    chance: float
    suspected: bool
    since: datetime


def claims(after: State, clean: Clean, block: Block) -> list[Finding | Recovery]:
    """What deviates now, a finding a part and fault."""
    del block
    found: list[Finding | Recovery] = []
    for kind, table in after.tables.items():
        if kind == SHARED:
            keys: Sequence[Key] = [(name, "") for name in table.units]
        elif kind in clean.rows:
            keys = clean.rows[kind].keys
        else:
            continue
        for row in np.flatnonzero(table.tracks.opened.any(axis=1)):
            found += _of_row(after, kind, table, int(row), keys[int(row)])
    return found


def _of_row(after: State, kind: str, table: Table, row: int, key: Key) -> Iterator[Finding]:
    carriers = list(_carriers(after, kind, table, row))
    by_fault: dict[str, list[Carrier]] = {}
    for column, carrier in carriers:
        fault = fault_of(carrier.stream, kind)
        if fault and table.tracks.opened[row, column]:
            by_fault.setdefault(fault, []).append(carrier)
    witnesses = [c for _, c in carriers if not fault_of(c.stream, kind) and c.chance <= WITNESS_P]
    p = row_chance(kind, table, row)
    for fault, of_fault in by_fault.items():
        of_fault.sort(key=lambda c: (c.chance, c.stream.name))
        shown = [*of_fault, *witnesses][:MOST_STREAMS]
        yield _finding(after, kind, key, fault, shown, p)


def _finding(
    after: State, kind: str, key: Key, fault: str, carriers: Sequence[Carrier], p: float
) -> Finding:
    node, device = key
    whole = kind != "gpu"
    suspected = any(c.suspected for c in carriers)
    since = min(c.since for c in carriers)
    who = _who(kind, node, device)
    because = tuple(saying(who, c.stream, c.shown, since=c.since) for c in carriers)
    evidence = tuple(
        Evidence(
            "sample",
            text,
            c.since,
            metric=c.stream.metrics[0],
            value=c.shown.value,
            peer=c.shown.peer,
            past=c.shown.past,
            unit=unit_of(c.stream),
        )
        for c, text in zip(carriers, because, strict=True)
    )
    return Finding(
        NAME,
        fault,
        Severity.WARNING if suspected else Severity.INFO,
        Subject(node=node, device="" if whole else device),
        since,
        because,
        confidence=round(_confidence(p, after.cut), 3),
        blame=Blame.HOST if fault in HOSTS else Blame.DEVICE,
        action=ActionKind.CHECK if suspected else ActionKind.NONE,
        when=When.JOB_END if suspected else When.NEVER,
        evidence=evidence,
    )


def _confidence(p: float, cut: float) -> float:
    """A half at the cutoff, towards 1 the less chance explains it."""
    if not p <= 1 or cut <= 0:
        return 0.5
    return float(1 / (1 + (p / cut) ** 0.25))


def _carriers(after: State, kind: str, table: Table, row: int) -> Iterator[tuple[int, Carrier]]:
    tracks = table.tracks
    chances = chance(tracks)[row]
    for column, name in enumerate(table.streams):
        p, begun_s = float(chances[column]), int(tracks.begun_s[row, column])
        if not p <= 0.05 or not begun_s:
            continue
        shown = _shown(after, kind, table, row, column, BY_NAME[name])
        suspected = bool(tracks.opened[row, column] == SUSPECTED)
        began = datetime.fromtimestamp(begun_s, UTC)
        yield column, Carrier(BY_NAME[name], shown, p, suspected, began)


def _shown(after: State, kind: str, table: Table, row: int, column: int, stream: Stream) -> Shown:
    """The last hour's value, and what its peers and its own past would show at the same work."""
    tracks = table.tracks
    value = float(tracks.plain[row, column])
    shift = float(tracks.shift[row, column]) / max(float(tracks.shifted[row, column]), 1.0)
    first = float(tracks.first[row, column])
    usual = first if np.isfinite(first) else float(tracks.base[row, column])
    del kind
    if stream.log:
        past, peer = value * exp(-shift), value * exp(-shift - usual)
    else:
        past, peer = max(0.0, value - shift), max(0.0, value - shift - usual)
    most_w = float(after.most_w.max(initial=0.0))
    return Shown(value, peer, past, most_w)


def _who(kind: str, node: str, device: str) -> str:
    if kind == SHARED:
        return f"the GPUs of {node}"
    if kind == "gpu":
        number = device.removeprefix("gpu")
        return f"GPU {number} of {node}" if number.isdigit() else f"GPU {device} of {node}"
    return f"{node} {device}".strip()
