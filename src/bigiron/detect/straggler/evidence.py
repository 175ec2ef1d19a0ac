"""From a step's differences to evidence: hours, stretches of a job, sums over jobs.

Two sums a pattern. ``level`` adds what each stretch of some hours at work shows against the node's
own past, and one program may add only so much: what a job has from its start may be the job's.
``change`` adds hour by hour what the node shows now against its first hours in the same job: what
begins in the middle of a job is not the job's. Both ask that the node be worse than its peers *and*
than its own past, and stand apart from the others of its job.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.chance import null, robust
from bigiron.detect.straggler.among import Among, among
from bigiron.detect.straggler.jobs import Programs
from bigiron.detect.straggler.panel import BAD, FLOOR, LEAST, OF, OTHERS, PATTERNS
from bigiron.detect.straggler.state import (
    CHANGE,
    HOUR,
    JOB,
    LEVEL,
    PART,
    PROGRAMS,
    SUSPECTED,
    Shared,
    Tracks,
    clear,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

HOUR_S = 3600.0
PART_HOURS = 4.0
"""Hours of a stretch: long enough that checkpoints and evaluations average out, short enough that
most jobs hold one."""

FIRST_HOURS = 4.0
"""A job's first hours are what its later ones are compared with."""

LEARN = 4.0
"""Stretches before a node has a past; MEMORY is how many it remembers (160 hours at work)."""
MEMORY = 40.0

ALLOWANCE, CHANGE_ALLOWANCE = 1.0, 1.5
"""Half the shift looked for, in standard deviations; within a job also what the mean of so few
first hours may be off by (two of its standard errors)."""

CLIP, CHANGE_CLIP, LEAST_STEP = 5.0, 3.0, -3.0
"""A stretch or an hour counts at most so much: a burst is not a trend."""

MOST_OF_PROGRAM = 8.0
"""What one program may add: less than what any sum needs to be believed."""

SPEAKS = 3.0
"""A program that has added so much speaks against the node."""

HIGHEST = 40.0
HALF = 0.5
"""Of a shift: the nearest others must be at least so far behind. Of the hours: in so many."""

LEARN_ABOVE_P, USUAL_P = 0.02, 0.05
"""A sum this improbable (or a program that speaks against the node) teaches the past nothing, and
does not tell how far healthy ones spread."""

STEP = 3.0
"""A stretch moves the past by at most so many standard deviations' worth."""

CALM_HOURS = 12.0
"""So many hours in a row that show nothing: it is over, whatever the sums say."""

SHOWN = 0.25
"""The weight of the newest hour in what is told."""

USUAL_A_DAY = (0.3, 0.5)
"""Excursions of a healthy node's sums in a day at work, until a fleet has shown it."""

UNIT = (1.0, 1.7)
"""The unit of the sums' heights: within a job hours follow one another, and excursions of healthy
nodes rise further."""

HALF_LIFE_S = 14 * 86_400.0
LEVELS, CHANGES = 0, 1


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour that ended, of some rows: ``own`` (k, streams) is each node's difference from the
    others of its job, ``against`` (k, signs) what speaks against it, beyond its own past (NaN with
    too few others), ``apart`` (k, signs) whether no other shows the same."""

    rows: Ints
    own: Floats
    against: Floats
    apart: Flags


def close_hour(tracks: Tracks, shared: Shared, rows: Ints, least: float, now_s: float) -> None:
    """End the hour of these rows, as far as at least ``least`` samples came."""
    hour = _hour(tracks, rows, least)
    spread = spreads(shared)
    _in_job(tracks, shared, hour, spread[CHANGES], now_s)
    finite, told = np.isfinite(hour.own), np.isfinite(hour.against)
    tracks.part[rows] += np.where(finite, hour.own, 0.0).astype(np.float32)
    tracks.part_count[rows] += finite
    tracks.against[rows] += np.where(told, hour.against, 0.0).astype(np.float32)
    tracks.against_count[rows] += told
    tracks.apart[rows] += told & hour.apart
    tracks.part_hours[rows] += finite.any(axis=1)
    _calm(tracks, hour, spread[LEVELS])
    clear(tracks, HOUR, rows)


def _hour(tracks: Tracks, rows: Ints, least: float) -> Hour:
    """What the hour shows; what is told of these rows is brought up to date."""
    count = tracks.count[rows]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(count >= least, tracks.total[rows] / count, np.nan).astype(np.float64)
        plain = np.where(count >= least, tracks.plain[rows] / count, np.nan)
    _, group = np.unique(tracks.key[rows], return_inverse=True)
    peers = among(mean, group.astype(np.int64))
    scale = np.sqrt(1 + 1.57 / (np.maximum(peers.others, 1) + 0.57))
    plainly = mean - peers.median
    own = plainly / scale
    past = np.maximum(BAD * tracks.base[rows][:, OF], 0.0)
    against = BAD * own[:, OF] - past
    apart = _nearest(mean, peers) / scale[:, OF] - past >= HALF * against
    against = np.asarray(against)
    against[peers.others[:, OF] < OTHERS] = np.nan
    _show(tracks, rows, plainly, plain)
    return Hour(rows, own, against, apart)


def _show(tracks: Tracks, rows: Ints, own: Floats, plain: Floats) -> None:
    """The last hours' means, of what lasts."""
    lasts = np.any((tracks.level[rows] > 0) | (tracks.change[rows] > 0), axis=1, keepdims=True)
    for of, new in ((tracks.recent, own), (tracks.recent_plain, plain)):
        before = of[rows]
        smooth = np.where(lasts & np.isfinite(before), before + SHOWN * (new - before), new)
        of[rows] = np.where(np.isfinite(smooth), smooth, before).astype(np.float32)


def _nearest(mean: Floats, peers: Among) -> Floats:
    """How far behind the next ones are, by sign (k, signs)."""
    return np.asarray(
        np.where(BAD > 0, mean[:, OF] - peers.high[:, OF], peers.low[:, OF] - mean[:, OF])
    )


def spreads(shared: Shared) -> Floats:
    """The pooled spreads (2, streams): of stretches about the own past, of hours within a job."""
    pooled = robust.spread(shared.spreads)
    return np.asarray(np.fmax(np.where(np.isfinite(pooled), pooled, 2 * LEAST), LEAST))


def _joined(z: Floats, apart: Flags) -> Floats:
    """The least of each pattern's signs (k, patterns), NaN if one is not told; NaN, too, where
    others show the same as its first, the clearest: it cannot be said then whose it is."""
    found = np.empty((len(z), len(PATTERNS)))
    for at, pattern in enumerate(PATTERNS):
        signs = list(pattern.signs)
        least = z[:, signs].min(axis=1)
        found[:, at] = np.where(apart[:, signs[0]] | (least <= 0), least, np.nan)
    return found


def _in_job(tracks: Tracks, shared: Shared, hour: Hour, spread: Floats, now_s: float) -> None:
    """The job's first hours are learned; of later ones what is new is added up."""
    rows, new = hour.rows, np.isfinite(hour.own)
    hours, first = tracks.hours[rows], tracks.first[rows].astype(np.float64)
    learning = new & (hours < FIRST_HOURS)
    first = np.where(learning, first + (hour.own - first) / (hours + 1), first)
    later = new & (hours >= FIRST_HOURS)
    size = np.where(later, hour.own - first, np.nan)
    begun = BAD * size[:, OF] / np.sqrt(1 + 1 / FIRST_HOURS)
    z = np.minimum(begun, hour.against) / spread[OF]
    allowed = np.maximum(CHANGE_ALLOWANCE, FLOOR / spread[OF])
    step = np.clip(_joined(z - allowed, hour.apart), -CHANGE_CLIP, CHANGE_CLIP)
    told = np.isfinite(step)
    before = tracks.change[rows]
    level = np.where(told, np.clip(before + step, 0.0, HIGHEST), before)
    tracks.change[rows] = level.astype(np.float32)
    grows = told & (level > 0)
    start = np.where(grows & (before <= 0), now_s - HOUR_S, tracks.change_since[rows])
    tracks.change_since[rows] = np.where(told & (level <= 0), np.nan, start)
    passed = tracks.change_hours[rows] + grows
    tracks.change_hours[rows] = np.where(told & (level <= 0), 0.0, passed)
    well = _unsuspected(tracks, rows)
    _chance(tracks, shared, CHANGES, rows, told, well, 1 / 24)
    count(shared, CHANGES, np.where(later, size, np.nan), well & ~_improbable(tracks, rows))
    tracks.first[rows] = first.astype(np.float32)
    tracks.hours[rows] = hours + new


def close_part(
    tracks: Tracks, shared: Shared, rows: Ints, programs: Programs, now_s: float
) -> None:
    """End the stretch of these rows: against the own past, and into it."""
    n = tracks.part_count[rows].astype(np.float64)
    spread = spreads(shared)
    with np.errstate(invalid="ignore", divide="ignore"):
        own = np.where(n > 0, tracks.part[rows] / n, np.nan)
        hours = tracks.against_count[rows]
        against = np.where(hours > 0, tracks.against[rows] / hours, np.nan)
        known = np.maximum(tracks.parts[rows], 1.0)
        error = np.sqrt(spread[LEVELS] ** 2 * (1 + 1 / known) + spread[CHANGES] ** 2 / n)
    learned = tracks.parts[rows] >= LEARN
    allowed = np.maximum(ALLOWANCE, FLOOR / error[:, OF])
    z = np.where(learned[:, OF], against / error[:, OF] - allowed, np.nan)
    apart = tracks.apart[rows] > HALF * hours
    step = np.clip(_joined(z, apart), LEAST_STEP, CLIP)
    length_s = tracks.part_hours[rows][:, None] * HOUR_S
    _add(tracks, rows, step, programs, (now_s - length_s).astype(np.float64))
    told = np.isfinite(step)
    well = _unsuspected(tracks, rows)
    _chance(tracks, shared, LEVELS, rows, told, well, tracks.part_hours[rows] / 24)
    usual = well & ~_improbable(tracks, rows)
    base = tracks.base[rows].astype(np.float64)
    count(shared, LEVELS, np.where(learned, own - base, np.nan), usual)
    _learn(tracks, rows, own, spread[LEVELS])
    clear(tracks, PART, rows)


def _add(tracks: Tracks, rows: Ints, step: Floats, programs: Programs, begun_s: Floats) -> None:
    """Add what a stretch shows to the sums over jobs."""
    up = step > 0
    for at, pattern in np.argwhere(up):
        row = rows[at]
        key, before = int(tracks.key[row]), int(tracks.program[row, pattern])
        if key != before:
            if not (before and programs.same(before, key)):
                tracks.spent[row, pattern] = 0.0
            elif tracks.counted[row, pattern] == before:
                tracks.counted[row, pattern] = key
            tracks.program[row, pattern] = key
    spent, before_level = tracks.spent[rows], tracks.level[rows]
    added = np.where(up, np.minimum(step, MOST_OF_PROGRAM - spent), step)
    added = np.where(np.isfinite(added), added, 0.0)
    spent = np.maximum(spent + added, 0.0)
    level = np.clip(before_level + added, 0.0, HIGHEST)
    speaks = up & (spent >= SPEAKS) & (tracks.counted[rows] != tracks.program[rows])
    tracks.programs[rows] += speaks
    tracks.counted[rows] = np.where(speaks, tracks.program[rows], tracks.counted[rows])
    tracks.spent[rows], tracks.level[rows] = spent.astype(np.float32), level.astype(np.float32)
    begun = (level > 0) & (before_level <= 0)
    tracks.level_since[rows] = np.where(begun, begun_s, tracks.level_since[rows])
    over = np.isfinite(step) & (level <= 0)
    whole = np.zeros(tracks.level.shape, bool)
    whole[rows] = over
    clear(tracks, PROGRAMS, whole)


def _chance(
    tracks: Tracks,
    shared: Shared,
    of: int,
    rows: Ints,
    told: Flags,
    well: Flags,
    days: Floats | float,
) -> None:
    """Count the excursions of a sum that ended, and how improbable those are that go on."""
    name = ("level", "change")[of]
    level = getattr(tracks, name)[rows].astype(np.float64)
    peaks, chances = getattr(tracks, f"{name}_peak"), getattr(tracks, f"{name}_chance")
    peak = np.where(told, np.maximum(peaks[rows], level), peaks[rows])
    over = told & (level <= 0)
    counted = over & well[:, None] & (peak > 0)
    shared.null[of] += null.counted(np.where(counted, peak / UNIT[of], np.nan))
    spent = np.broadcast_to(np.asarray(days), (len(rows),))[:, None]
    shared.days[of] += np.where(told & well[:, None], spent, 0.0).sum(axis=0)
    heights = np.where(told, level / UNIT[of], np.nan)
    p = null.p_values(shared.null[of], shared.days[of], heights, USUAL_A_DAY[of])
    peaks[rows] = np.where(over, 0.0, peak).astype(np.float32)
    chances[rows] = np.where(told, p, chances[rows]).astype(np.float32)


def _unsuspected(tracks: Tracks, rows: Ints) -> Flags:
    return np.asarray(np.all(tracks.opened[rows] < SUSPECTED, axis=1))


def _improbable(tracks: Tracks, rows: Ints, p: float = USUAL_P) -> Flags:
    """Rows that something is held against."""
    least = np.fmin(tracks.level_chance[rows], tracks.change_chance[rows])
    return np.asarray((least < p).any(axis=1))


def count(shared: Shared, of: int, size: Floats, well: Flags) -> None:
    """Count the sizes (k, streams) of healthy differences."""
    m, bins = shared.spreads.shape[1:]
    usable = np.isfinite(size) & well[:, None]
    cell = np.arange(m) * bins + robust.spread_bin(np.where(usable, size, 1.0))
    counted = np.bincount(cell[usable], minlength=m * bins)
    shared.spreads[of] += counted.reshape(m, bins)


def _learn(tracks: Tracks, rows: Ints, own: Floats, spread: Floats) -> None:
    """The own past; nothing is learned from what is odd, and little from one stretch."""
    base, parts = tracks.base[rows].astype(np.float64), tracks.parts[rows]
    held = _improbable(tracks, rows, LEARN_ABOVE_P) | (tracks.opened[rows] > 0).any(axis=1)
    held |= (tracks.level[rows] >= SPEAKS).any(axis=1)
    learns = np.isfinite(own) & ((parts < LEARN) | ~held[:, None])
    step = np.clip(own - base, -STEP * spread, STEP * spread)
    share = 1 / np.minimum(parts + 1, MEMORY)
    tracks.base[rows] = np.where(learns, base + share * step, base).astype(np.float32)
    tracks.parts[rows] = np.where(learns, parts + 1, parts).astype(np.float32)


def end_job(tracks: Tracks, shared: Shared, rows: Ints, key: Ints) -> None:
    """These rows have another job from now on, or none (``key`` 0).

    What was found within the old job follows the node; else its excursions end with it.
    """
    found = tracks.opened[rows] == SUSPECTED
    change, chance = tracks.change[rows], tracks.change_chance[rows]
    tracks.level[rows] = np.where(found, np.maximum(tracks.level[rows], change), tracks.level[rows])
    least = np.fmin(tracks.level_chance[rows], chance)
    tracks.level_chance[rows] = np.where(found, least, tracks.level_chance[rows])
    since = np.fmin(tracks.level_since[rows], tracks.change_since[rows])
    tracks.level_since[rows] = np.where(found, since, tracks.level_since[rows])
    peak = tracks.change_peak[rows]
    height = np.where(~found & (peak > 0), peak / UNIT[CHANGES], np.nan)
    shared.null[CHANGES] += null.counted(height)
    clear(tracks, JOB, rows)
    tracks.key[rows] = key


def _calm(tracks: Tracks, hour: Hour, spread: Floats) -> None:
    """What has shown nothing for long is over."""
    rows = hour.rows
    allowed = np.maximum(ALLOWANCE, FLOOR / spread[OF])
    step = _joined(hour.against / spread[OF] - allowed, hour.apart)
    told = np.isfinite(step)
    calm = np.where(told & (step <= 0), tracks.calm[rows] + 1, tracks.calm[rows])
    tracks.calm[rows] = np.where(told & (step > 0), 0.0, calm).astype(np.float32)
    over = np.zeros(tracks.calm.shape, bool)
    over[rows] = (tracks.calm[rows] >= CALM_HOURS) & (tracks.opened[rows] > 0)
    clear(tracks, (*LEVEL, *CHANGE, "calm"), over)


def fade(shared: Shared, seconds: float) -> None:
    """What the fleet showed counts for less as time goes by: half after 14 days."""
    keep = 0.5 ** (seconds / HALF_LIFE_S)
    for name in ("spreads", "null", "days"):
        getattr(shared, name)[...] *= keep
