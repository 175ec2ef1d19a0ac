"""From steps to hours to days: what counts as an error, and over how much work.

Errors come in bursts, so a step counts once however many it had, and an hour at most four times
(methods.md 3.3: coalesced within seconds, then capped). Where errors are an everyday thing, only a
step with clearly more than usual counts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.rate.state import DAYS, HOUR, Shared, Tracks

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
At = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rows and columns of some tracks (t,)."""


class Stretch(NamedTuple):
    """Errors counted, hours of exposure, and days with any, of some tracks (t,)."""

    errors: Floats
    hours: Floats
    days: Floats


MOST_AN_HOUR = 4.0
"""A burst that goes on for an hour says no more than four errors apart."""

EVERYDAY = 0.3
"""Errors a step from which one error is nothing: three and more steps out of ten have some."""

ODD_SIGMAS = 3.0
"""What is odd where errors are everyday: more than the usual by so many Poisson deviations."""

USUAL_UP_H, USUAL_DOWN_H = 72.0, 720.0
"""How soon the usual number follows upwards and downwards, in hours of exposure. Slowly down: that
errors become rare again must not make the few that come look many."""

HALF_LIFE_DAYS = 30.0
"""What is older counts for half after so many days (methods.md 3.3)."""

IDLE_PRIOR, IDLE_SHARE = 20.0, 0.5
"""An hour without work counts for half an hour, until the fleet has shown what it counts for; that
is believed as if so many errors had been seen."""

IDLE_BELOW = 0.3

LEARN_ABOVE_P = 0.02
"""While a suspicion is this improbable nothing becomes usual."""

A_DAY_H = 0.5
"""A day with less exposure (hours) than this is none."""

SHARED_COUNTS = 0.1
"""What many like units of one place show together counts for a tenth in their past, so that what
lasts for weeks becomes usual, and what lasts for hours does not."""


def idle_worth(shared: Shared) -> Floats:
    """What an hour without work counts for (m,), 0.05 to 1 hours."""
    seen, expected = shared.idle[:, 0], shared.idle[:, 1]
    share = (seen + IDLE_PRIOR * IDLE_SHARE) / (expected + IDLE_PRIOR)
    return np.clip(share, 0.05, 1.0)


def add(tracks: Tracks, shared: Shared, errors: Floats, hours: Floats, activity: Floats) -> None:
    """One step joins the hour that runs: ``errors`` (n, m), NaN where not told, in ``hours``.

    ``activity`` (n, m), 0 to 1, is how much of the work that could be done was.
    """
    usable = np.isfinite(errors)
    told = np.where(usable, errors, 0.0)
    wall = np.where(usable, hours, 0.0)
    worth = idle_worth(shared)
    exposure = wall * (worth + (1 - worth) * activity)
    expected = tracks.usual * exposure
    limit = np.where(expected < EVERYDAY, 0.0, expected + ODD_SIGMAS * np.sqrt(expected))
    some = told > 0
    tracks.steps += usable
    tracks.some += some
    tracks.odd += told > limit
    tracks.errors += told.astype(np.float32)
    tracks.hours += exposure.astype(np.float32)
    idle = usable & (activity < IDLE_BELOW) & np.isfinite(tracks.own)
    shared.idle[:, 0] += (idle & (told > limit)).sum(axis=0)
    shared.idle[:, 1] += np.where(idle, wall * tracks.own, 0.0).sum(axis=0)


def take_hour(tracks: Tracks, together: Flags) -> tuple[Flags, Floats]:
    """The hour joins its day; ``together`` (n, m) is what many of a place showed at once.

    Gives what errors counted (n, m) and how many there were in all.
    """
    counted = np.minimum(tracks.odd, MOST_AN_HOUR)
    shared_past = np.where(together, SHARED_COUNTS, 0.0).astype(np.float32)
    tracks.past += shared_past * counted
    tracks.past_h += shared_past * tracks.hours
    tracks.counts[:, :, 0] += np.where(together, 0.0, counted).astype(np.float16)
    tracks.spans[:, :, 0] += np.where(together, 0.0, tracks.hours).astype(np.float16)
    _learn_usual(tracks)
    errors = tracks.errors.astype(np.float64)
    for name in HOUR:
        setattr(tracks, name, np.zeros_like(getattr(tracks, name)))
    return (counted > 0) & ~together, errors


def _learn_usual(tracks: Tracks) -> None:
    """Errors an hour in the long run. A few steps with many are bursts, and count as one each."""
    hours = np.maximum(tracks.hours, 1e-3)
    everyday = tracks.some >= EVERYDAY * tracks.steps
    shown = np.where(everyday, tracks.errors, tracks.some) / hours
    young = tracks.hours / np.maximum(known_hours(tracks), 1e-3)
    usual_h = np.where(shown > tracks.usual, USUAL_UP_H, USUAL_DOWN_H)
    share = np.clip(np.maximum(1 - 0.5 ** (hours / usual_h), young), 0.0, 1.0)
    learns = (tracks.hours > 0) & ~(tracks.chance < LEARN_ABOVE_P)
    moved = tracks.usual + share * (shown - tracks.usual)
    tracks.usual = np.where(learns, moved, tracks.usual).astype(np.float32)


def known_hours(tracks: Tracks) -> Floats:
    """All the exposure there has been (n, m)."""
    held = tracks.spans.sum(axis=2, dtype=np.float64)
    return np.asarray(held + tracks.past_h)


def next_day(tracks: Tracks) -> None:
    """Today is over: the oldest day held joins the past, which fades."""
    fade = np.float32(0.5 ** (1 / HALF_LIFE_DAYS))
    oldest = tracks.spans[:, :, DAYS - 1].astype(np.float32)
    tracks.past = fade * tracks.past + tracks.counts[:, :, DAYS - 1].astype(np.float32)
    tracks.past_h = fade * tracks.past_h + oldest
    tracks.past_days = fade * tracks.past_days + (oldest > A_DAY_H)
    for name in ("counts", "spans"):
        held = np.roll(getattr(tracks, name), 1, axis=2)
        held[:, :, 0] = 0.0
        setattr(tracks, name, held)
    tracks.fence = np.minimum(tracks.fence.astype(np.int64) + 1, DAYS).astype(np.uint8)


def window(tracks: Tracks, at: At, days: NDArray[np.int64]) -> tuple[Stretch, Stretch]:
    """The last ``days`` (t,) of some tracks, and what was before them."""
    counts, spans = tracks.counts[at].astype(np.float64), tracks.spans[at].astype(np.float64)
    inside = np.arange(DAYS) < days[:, None]
    real = spans > A_DAY_H
    inner = [np.asarray((one * inside).sum(axis=1), np.float64) for one in (counts, spans, real)]
    now = Stretch(*inner)
    before = [(one * ~inside).sum(axis=1) for one in (counts, spans, real)]
    old = (tracks.past[at], tracks.past_h[at], tracks.past_days[at])
    return now, Stretch(*(one + of_old for one, of_old in zip(before, old, strict=True)))
