"""Which nodes straggle more than chance and their jobs' own patterns explain."""

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.chance.multiplicity import cauchy, cutoff
from bigiron.detect.straggler.state import SUSPECTED, TOLD, State, Tracks

Floats = NDArray[np.float64]

FALSE_SHARE = 0.12
"""Of the budget of all statistical detectors: 0.06 of the usual 0.5 false suspects per 1,000
node-days."""

PROGRAMS = 2.0
"""So many different programs must speak against a node before it is blamed: what one has from its
start may be the program's own."""

CHANGED_HOURS = 12.0
"""Or it begins in the middle of a job and has lasted so long since."""

TELL = 10.0
"""What is this many times more probable than a suspect is told, without blame."""

STAYS_BELOW_P = 0.02
"""A suspect stays one until its sums are as improbable as this again."""


def chances(tracks: Tracks) -> tuple[Floats, Floats]:
    """p-values of both sums (n, 2 patterns): all, and NaN where they may not blame."""
    every = np.hstack((tracks.level_chance, tracks.change_chance)).astype(np.float64)
    confirmed = tracks.programs >= PROGRAMS
    lasted = tracks.change_hours >= CHANGED_HOURS
    return every, np.where(np.hstack((confirmed, lasted)), every, np.nan)


def decide(after: State, q: float) -> None:
    """Open and close what the patterns say; ``after`` is written to."""
    tracks = after.tracks
    every, blaming = chances(tracks)
    of_row = cauchy(every)[:, None]
    after.cut = cut = cutoff(of_row[:, 0], q)
    with np.errstate(invalid="ignore"):
        suspected = _either((of_row <= cut) & (blaming <= cut))
        told = _either((of_row <= TELL * cut) & (every <= TELL * cut))
        stays = _either(every <= STAYS_BELOW_P)
    old = tracks.opened
    level = np.where(suspected | (stays & (old == SUSPECTED)), SUSPECTED, 0)
    level = np.where((level == 0) & (told | (stays & (old == TOLD))), TOLD, level)
    tracks.opened = level.astype(np.uint8)


def _either(of: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of both sums of each pattern (n, patterns)."""
    half = of.shape[1] // 2
    return np.asarray(of[:, :half] | of[:, half:])
