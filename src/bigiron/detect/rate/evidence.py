"""From days to a suspicion: how improbable a unit's last days are, and when that is over.

Two tests must both find the rate raised. Against the own past: given all errors of a unit, those
of the last days are binomial if nothing changed (exact, conditional). Against its like: so many
errors in so many hours are rare among them. How improbable it is in all is then the chance that a
unit of the fleet with such a past has such days (``model.surprise``), looked at over the last day,
two, four and seven. How often healthy units rise so high is learned from the suspicions that end,
those included that were called suspects.
"""

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.chance import null
from bigiron.detect.rate import learn, model, tally
from bigiron.detect.rate.state import DAYS, Shared, Tracks, ended
from bigiron.detect.rate.tally import At, Flags, Floats

Ints = NDArray[np.int64]

WINDOWS = (1, 2, 4, 7)
"""Days that are looked at together. A day is a day of the clock; the first is the one that runs."""

LEAST_PAST_H, LEAST_PAST_DAYS = 8.0, 1.0
"""Hours of exposure and days before the window, without which there is no own past."""

LEAST_COUNT = 3.0
"""Fewer errors than this, apart from one another, are no rate."""

TIMES = 2.0
"""How many times its own past a rate must be: less is not worth a look at the part."""

OWN_P, LIKE_P = 0.01, 0.05
"""What each test by itself must find, of the own past and of its like."""

LOW = 1.6
"""Below this height (-ln p; p = 0.2) there is no suspicion."""

USUAL_A_DAY = 0.02
"""How many suspicions a healthy unit has a day until the fleet has shown it: one in 50 days."""

LOOKS = 3.0
"""Looks a day that tell something new: four windows, of which the longer ones share most days."""

HIGHEST = 16.0
"""A suspicion that ended counts as no higher than this (one in ten million): that there was one is
what it teaches, and it may have been a fault that someone mended."""

CALM_P, CALM_SHARE = 0.01, 0.5
"""A suspicion is over when half its pace is refuted at this level by the days since."""

OWN_PRIOR_H = 8.0


def look(tracks: Tracks, shared: Shared, group: NDArray[np.int32], at: At) -> Floats:
    """The heights (t,) of some tracks now; the window and pace of those that are higher."""
    best = np.zeros(at[0].size)
    width = np.zeros(at[0].size, np.int64)
    pace = np.zeros(at[0].size)
    fence = tracks.fence[at].astype(np.int64)
    tried = np.zeros(at[0].size, np.int64)
    for days in WINDOWS:
        reach = np.minimum(days, fence)
        now, past = tally.window(tracks, at, reach)
        worth = (reach > tried) & _raised(now, past)
        tried = np.maximum(tried, reach)
        if not worth.any():
            continue
        which = np.flatnonzero(worth)
        height = _height(
            shared, group, (at[0][which], at[1][which]), _of(now, which), _of(past, which)
        )
        higher = which[height > best[which]]
        best[which] = np.maximum(best[which], height)
        width[higher] = reach[higher]
        pace[higher] = now.errors[higher] / now.hours[higher]
    up = best > tracks.peak[at]
    tracks.window[at] = np.where(best > 0, width, 0)
    tracks.pace[at] = np.where(up, pace, tracks.pace[at])
    tracks.quiet[at] = np.where(up, 0, tracks.quiet[at])
    return best


def _of(stretch: tally.Stretch, which: NDArray[np.intp]) -> tally.Stretch:
    return tally.Stretch(*(one[which] for one in stretch))


def _raised(now: tally.Stretch, past: tally.Stretch) -> Flags:
    """What is worth testing at all."""
    known = (past.hours >= LEAST_PAST_H) & (past.days >= LEAST_PAST_DAYS) & (now.hours > 0)
    usual = (past.errors + 0.5) / np.maximum(past.hours, LEAST_PAST_H)
    faster = now.errors > TIMES * usual * now.hours
    return np.asarray(known & faster & (now.errors >= LEAST_COUNT))


def _height(
    shared: Shared,
    group: NDArray[np.int32],
    at: At,
    now: tally.Stretch,
    past: tally.Stretch,
) -> Floats:
    own = model.binomial_tail(
        now.errors, now.errors + past.errors, now.hours / (now.hours + past.hours)
    )
    levels = shared.levels[group[at], at[1]]
    wanders = learn.probable(shared.wander)[at[1]]
    p, like = model.surprise(
        levels, wanders, (past.errors, past.hours, past.days), (now.errors, now.hours, now.days)
    )
    height = -np.log(np.maximum(p, 1e-300))
    return np.where((own <= OWN_P) & (like <= LIKE_P), height, 0.0)


def rise(
    tracks: Tracks, shared: Shared, group: NDArray[np.int32], which: Flags, now_s: float
) -> None:
    """Look at tracks (n, m) anew: suspicions that begin, go on or end."""
    found = np.nonzero(which)
    at: At = (found[0], found[1])
    if not at[0].size:
        return
    height = look(tracks, shared, group, at)
    above = height >= LOW
    before = np.isfinite(tracks.since[at])
    tracks.height[at] = np.where(above, height, 0.0)
    tracks.peak[at] = np.where(above, np.maximum(tracks.peak[at], height), tracks.peak[at])
    begun = _began(tracks, at, now_s)
    tracks.since[at] = np.where(above & ~before, begun, tracks.since[at])
    over = before & ~above
    _end(tracks, shared, (at[0][over], at[1][over]))


def _began(tracks: Tracks, at: At, now_s: float) -> Floats:
    """When the first errors of the window were: the beginning of their day, or the last hour."""
    counts = tracks.counts[at].astype(np.float64)
    days = np.arange(counts.shape[1])
    held = (counts > 0) & (days < tracks.window[at][:, None])
    first = np.where(held, days, 0).max(axis=1)
    midnight = now_s - now_s % 86_400.0
    return np.asarray(np.minimum(midnight - 86_400.0 * first, now_s - 3600.0))


def _end(tracks: Tracks, shared: Shared, at: At) -> None:
    """Suspicions that are over teach how high healthy units rise."""
    if not at[0].size:
        return
    heights = np.full((at[0].size, shared.days.size), np.nan)
    heights[np.arange(at[0].size), at[1]] = np.minimum(tracks.peak[at], HIGHEST)
    shared.null += null.counted(heights)
    which = np.zeros(tracks.peak.shape, bool)
    which[at] = True
    ended(tracks, which)


def chances(tracks: Tracks, shared: Shared) -> None:
    """The chance (n, m) that a healthy unit rises as high within a day, where there is a past.

    The fleet may show that the model is too sure of itself, and never that it is too modest.
    """
    height = np.where(np.isfinite(tracks.own), tracks.height, np.nan).astype(np.float64)
    shown = null.p_values(shared.null, shared.days, height, USUAL_A_DAY)
    said = np.minimum(LOOKS * np.exp(-height), 1.0)
    tracks.chance = np.maximum(shown, said).astype(np.float32)


def calm(tracks: Tracks, shared: Shared) -> None:
    """End the suspicions that the days since their peak refute; when a day has just begun."""
    found = np.nonzero(tracks.peak > 0)
    at: At = (found[0], found[1])
    if not at[0].size:
        return
    tracks.quiet[at] = np.minimum(tracks.quiet[at] + 1, DAYS - 1)
    quiet = tracks.quiet[at].astype(np.int64)
    whole = np.ones(quiet.size, np.int64)
    reach = np.zeros(quiet.size, np.int64)
    for days in range(1, DAYS - 1):
        lately, _ = tally.window(tracks, at, whole + days)
        expected = CALM_SHARE * tracks.pace[at] * lately.hours
        few = 1 - model.tail(lately.errors + 1, expected)
        refuted = (days < quiet) & (few <= CALM_P) & (expected > 0)
        reach = np.where(refuted & (reach == 0), days, reach)
    over = reach > 0
    where = at[0][over], at[1][over]
    _end(tracks, shared, where)
    tracks.fence[where] = reach[over] + 1


def close_day(tracks: Tracks, shared: Shared, group: NDArray[np.int32], now_s: float) -> None:
    """A day is over: what it says of the fleet, then of each suspicion."""
    _learn(tracks, shared, group)
    tally.next_day(tracks)
    _own_rates(tracks, group)
    calm(tracks, shared)
    rise(tracks, shared, group, np.isfinite(tracks.since), now_s)


def _learn(tracks: Tracks, shared: Shared, group: NDArray[np.int32]) -> None:
    """Levels and wandering, stream by stream, from the day before it is counted as past."""
    fade = 0.5 ** (1 / tally.HALF_LIFE_DAYS)
    for name in ("wander", "null", "days", "idle"):
        getattr(shared, name)[...] *= fade
    tracks.said *= np.float32(fade)
    n, m = tracks.past.shape
    rows = np.arange(n)
    for column in range(m):
        at = rows, np.full(n, column)
        today, past = tally.window(tracks, at, np.ones(n, np.int64))
        well = today.hours > A_WORKING_DAY_H
        shared.days[column] += np.count_nonzero(well & (past.days >= LEAST_PAST_DAYS))
        known = well & (past.days >= LEAST_PAST_DAYS) & (past.hours >= LEAST_PAST_H)
        of = group[:, column].astype(np.int64)
        if known.any():
            numbers = (*past, today.errors, today.hours, tracks.said[:, column])
            cells = learn.together(
                of[known], tuple(np.asarray(one, np.float64)[known] for one in numbers)
            )
            better, said = learn.wandering(cells, shared.levels[:, column])
            shared.wander[column] += better
            tracks.said[known, column] += said
        # What a suspicion is of is left out, and only what was before it counts.
        width = np.where(tracks.height[:, column] > 0, tracks.window[:, column], 0)
        _, whole = tally.window(tracks, at, width.astype(np.int64))
        some = whole.hours > A_WORKING_DAY_H
        if some.any():
            cells = learn.together(of[some], tuple(one[some] for one in whole))
            wanders = learn.probable(shared.wander)[column]
            shared.levels[:, column] = learn.levels(cells, len(shared.levels), wanders)


A_WORKING_DAY_H = 2.0
"""Hours of exposure without which a day teaches nothing."""


def _own_rates(tracks: Tracks, group: NDArray[np.int32]) -> None:
    """Each unit's own rate in the long run, drawn towards that of its like."""
    hours = tally.known_hours(tracks)
    count = tracks.counts.sum(axis=2, dtype=np.float64) + tracks.past
    for column in range(group.shape[1]):
        of, size = group[:, column], int(group[:, column].max(initial=0)) + 1
        total = np.bincount(of, weights=count[:, column], minlength=size)
        spent = np.bincount(of, weights=hours[:, column], minlength=size)
        mean = (total / np.maximum(spent, 1.0))[of]
        known = hours[:, column] > 0
        own = (count[:, column] + OWN_PRIOR_H * mean) / (hours[:, column] + OWN_PRIOR_H)
        tracks.own[:, column] = np.where(known, own, np.nan)
