"""Which units' rates are more than chance explains, over the whole fleet."""

import numpy as np

from bigiron.detect.chance.multiplicity import cauchy
from bigiron.detect.rate.state import SUSPECTED, TOLD, State

TELL = 10.0
"""What is this many times more probable than a suspect is told, without blame."""

STAYS_BELOW_P = 0.02
"""A suspect stays one until it is as improbable as this again, or calm (``evidence.calm``)."""


def decide(after: State, q: float) -> None:
    """Open and close what each table's streams say; ``after`` is written to.

    The cut is that of one test among all units, the first step of Benjamini and Hochberg's rule:
    the budget is of false suspects, and must not grow with the true ones that stand.
    """
    combined = {
        kind: cauchy(table.tracks.chance.astype(np.float64)) for kind, table in after.tables.items()
    }
    after.cut = q / max(1, sum(p.size for p in combined.values()))
    for kind, table in after.tables.items():
        tracks = table.tracks
        of_unit, p = combined[kind][:, None], tracks.chance
        with np.errstate(invalid="ignore"):
            suspected = (of_unit <= after.cut) & (p <= after.cut)
            told = (of_unit <= TELL * after.cut) & (p <= TELL * after.cut)
            stays = (p <= STAYS_BELOW_P) & np.isfinite(tracks.since)
        old = tracks.opened
        level = np.where(suspected | (stays & (old == SUSPECTED)), SUSPECTED, 0)
        level = np.where((level == 0) & (told | (stays & (old == TOLD))), TOLD, level)
        tracks.opened = level.astype(np.uint8)


def unit_chance(after: State, kind: str, row: int) -> float:
    """The combined chance of one unit's streams."""
    return float(cauchy(after.tables[kind].tracks.chance[row : row + 1].astype(np.float64))[0])
