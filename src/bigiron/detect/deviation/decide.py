"""Which parts deviate more than chance explains, over the whole fleet."""

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.chance.multiplicity import cauchy, cutoff
from bigiron.detect.deviation.state import SHARED, SUSPECTED, TOLD, State, Table, chance
from bigiron.detect.deviation.streams import GPU_STREAMS, NODE_STREAMS, Stream

Floats = NDArray[np.float64]

TELL = 10.0
"""What is this many times more probable than a suspect is told, without blame."""

STAYS_BELOW_P = 0.02
"""A suspect stays one until its sum is as improbable as this again."""

BY_NAME = {s.name: s for s in (*GPU_STREAMS, *NODE_STREAMS)}


def fault_of(stream: Stream, kind: str) -> str:
    """What a deviating stream means in a table; "" if it only bears witness."""
    return stream.node_fault if kind == SHARED else stream.fault


def decide(after: State, q: float) -> None:
    """Open and close what each table's streams say; ``after`` is written to.

    What stands already makes no room for more: a fleet with twenty faults may not raise twenty
    times the false ones.
    """
    chances = {kind: _claiming(kind, table) for kind, table in after.tables.items()}
    combined = {kind: cauchy(p, _weights(after.tables[kind])) for kind, p in chances.items()}
    new = [np.where(_stands(after.tables[kind]), np.nan, p) for kind, p in combined.items()]
    every = np.concatenate([*new, np.zeros(0)])
    after.cut = cutoff(every, q)
    for kind, table in after.tables.items():
        of_row, p = combined[kind][:, None], chances[kind]
        with np.errstate(invalid="ignore"):
            suspected = (of_row <= after.cut) & (p <= after.cut)
            told = (of_row <= TELL * after.cut) & (p <= TELL * after.cut)
            stays = p <= STAYS_BELOW_P
        old = table.tracks.opened
        level = np.where(suspected | (stays & (old == SUSPECTED)), SUSPECTED, 0)
        level = np.where((level == 0) & (told | (stays & (old == TOLD))), TOLD, level)
        table.tracks.opened = level.astype(np.uint8)


def _claiming(kind: str, table: Table) -> Floats:
    """The chances of the streams that may claim something, NaN of the others."""
    claims = np.array([bool(fault_of(BY_NAME[name], kind)) for name in table.streams])
    return np.where(claims, chance(table.tracks), np.nan)


def _stands(table: Table) -> NDArray[np.bool_]:
    return np.asarray((table.tracks.opened == SUSPECTED).any(axis=1))


def _weights(table: Table) -> Floats:
    return np.array([BY_NAME[name].weight for name in table.streams])


def row_chance(kind: str, table: Table, row: int) -> float:
    """The combined chance of one row."""
    return float(cauchy(_claiming(kind, table)[row : row + 1], _weights(table))[0])
