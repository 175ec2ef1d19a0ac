"""From raised rates to findings: who, how many errors, against whom, since when."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from bigiron.detect import Key
from bigiron.detect.hygiene import Clean, Rows
from bigiron.detect.rate import NAME, absolute, tally
from bigiron.detect.rate.decide import unit_chance
from bigiron.detect.rate.state import SUSPECTED, State, Table
from bigiron.detect.rate.streams import BY_NAME, GPU
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

LIMIT_CONFIDENCE, REMAP_CONFIDENCE = 0.9, 0.8


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is held against a device."""

    key: Key
    fault: str
    because: str
    evidence: Evidence
    suspected: bool
    confidence: float


def claims(after: State, clean: Clean) -> list[Finding | Recovery]:
    """What is raised now, a finding a device and fault."""
    held: dict[tuple[Key, str], list[Part]] = {}
    for part in _parts(after, clean):
        held.setdefault((part.key, part.fault), []).append(part)
    return [_finding(key, fault, parts) for (key, fault), parts in held.items()]


def _parts(after: State, clean: Clean) -> Iterator[Part]:
    for kind, rows in clean.rows.items():
        if kind in after.tables:
            yield from _raised(after, kind, rows)
        if kind in after.held:
            yield from _limits(after, kind, rows)
    if GPU in clean.rows:
        yield from _remaps(after, clean.rows[GPU])


def _finding(key: Key, fault: str, parts: list[Part]) -> Finding:
    parts.sort(key=lambda part: (not part.suspected, -part.confidence, part.because))
    suspected = parts[0].suspected
    times = [part.evidence.time for part in parts if part.evidence.time is not None]
    return Finding(
        NAME,
        fault,
        Severity.WARNING if suspected else Severity.INFO,
        Subject(node=key[0], device=key[1]),
        min(times),
        tuple(part.because for part in parts),
        confidence=round(max(part.confidence for part in parts), 3),
        blame=Blame.DEVICE,
        action=ActionKind.CHECK if suspected else ActionKind.NONE,
        when=When.JOB_END if suspected else When.NEVER,
        evidence=tuple(part.evidence for part in parts),
    )


def _raised(after: State, kind: str, rows: Rows) -> Iterator[Part]:
    table = after.tables[kind]
    for row, column in np.argwhere(table.tracks.opened > 0).tolist():
        yield _rate(after, kind, table, rows, row, column)


def _rate(after: State, kind: str, table: Table, rows: Rows, row: int, column: int) -> Part:
    tracks, stream = table.tracks, BY_NAME[kind, table.streams[column]]
    days = max(1, int(tracks.window[row, column]))
    here = np.array([row]), np.array([column])
    now, past = tally.window(tracks, here, np.array([days]))
    errors, hours = float(now.errors[0]), float(now.hours[0])
    own = float(past.errors[0]) / max(float(past.hours[0]), 1.0) * hours
    peer = _peers(table, row, column, days) * hours
    began = datetime.fromtimestamp(float(tracks.since[row, column]), UTC)
    text = (
        f"{who(kind, rows.keys[row])}: {stream.what} at {errors:.0f} times in its last "
        f"{hours:.0f} busy hours ({float(tracks.raw[row, column]):.0f} in all); its peers have "
        f"{_few(peer)} in as many, its own past {_few(own)}, since {began:%Y-%m-%d %H:%M}."
    )
    shown = Evidence(
        "sample",
        text,
        began,
        metric=next(m for m in stream.metrics if m in rows.increments),
        value=errors,
        peer=peer,
        past=own,
        unit="count",
    )
    suspected = bool(tracks.opened[row, column] == SUSPECTED)
    confidence = _confidence(unit_chance(after, kind, row), after.cut)
    return Part(rows.keys[row], stream.fault, text, shown, suspected, confidence)


def _peers(table: Table, row: int, column: int, days: int) -> float:
    """Errors an hour of the others of its group in the same days."""
    tracks = table.tracks
    like = table.group[:, column] == table.group[row, column]
    like[row] = False
    count = tracks.counts[like, column, :days].sum(dtype=np.float64)
    hours = tracks.spans[like, column, :days].sum(dtype=np.float64)
    return float(count / max(hours, 1.0))


def _few(count: float) -> str:
    return f"{count:.0f}" if count >= 10 else f"{count:.1f}" if count >= 0.05 else "none"


def _confidence(p: float, cut: float) -> float:
    """A half at the cutoff, towards 1 the less chance explains it."""
    if not p <= 1 or cut <= 0:
        return 0.5
    return float(1 / (1 + (p / cut) ** 0.25))


def _limits(after: State, kind: str, rows: Rows) -> Iterator[Part]:
    held = after.held[kind]
    for row, column in np.argwhere(held.told).tolist():
        limit = absolute.LIMITS[kind][column]
        began = datetime.fromtimestamp(float(held.since[row, column]), UTC)
        most = f"more than {limit.most:.0f} " if np.isfinite(limit.most) else "more "
        text = (
            f"{who(kind, rows.keys[row])}: {most}{limit.what}"
            f"{'' if np.isfinite(limit.most) else ' than its link may have'}, look after look "
            f"since {began:%Y-%m-%d %H:%M} ({limit.source})."
        )
        shown = Evidence("sample", text, began, metric=limit.metric, unit="count")
        yield Part(rows.keys[row], limit.fault, text, shown, True, LIMIT_CONFIDENCE)


def _remaps(after: State, rows: Rows) -> Iterator[Part]:
    often = {unit: times for unit, times in after.remaps.items() if absolute.too_often(times)}
    if not often:
        return
    where = {unit: row for row, unit in enumerate(rows.units)}
    for unit, times in often.items():
        row = where.get(unit)
        if row is None:
            continue
        began = datetime.fromtimestamp(times[0][0], UTC)
        text = (
            f"{who(GPU, rows.keys[row])}: it has replaced bad memory at {len(times)} times in a "
            f"week, since {began:%Y-%m-%d %H:%M}; its spares run out."
        )
        told = (m for m in (*absolute.REMAPPED, *absolute.REMAPPED_EARLY) if m in rows.increments)
        shown = Evidence(
            "sample", text, began, metric=next(told), value=float(len(times)), unit="count"
        )
        yield Part(rows.keys[row], "hbm_remap", text, shown, True, REMAP_CONFIDENCE)


def who(kind: str, key: Key) -> str:
    """A part as an operator calls it."""
    node, device = key
    number = device.removeprefix("gpu")
    if kind == GPU:
        return f"GPU {number if number.isdigit() else device} of {node}"
    return f"Port {device} of {node}"
