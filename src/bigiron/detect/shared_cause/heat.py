"""A cooling loop: the air or coolant of all its nodes warms, that of the others does not.

Each node's inlet is compared with its own usual one, then groups with one another: a hot day
warms all of them. It does so slowly: what all groups share may not rise faster than weather can,
so that two loops that fail together do not pass for a hot day. Where no inlet is told there is
nothing to compare: GPU temperatures follow work.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.shared_cause.scan import CHANCE, SHARE, Hit, Levels, scan
from bigiron.detect.shared_cause.state import Flags, Floats, Heat

USUAL_S = 86_400.0
"""What is usual follows over a day."""

HOT_USUAL_S = 4 * 86_400.0
"""While a group is hot, much more slowly: else what lasts hours would become usual."""

STANDS_FOR_S = 3600.0
"""A sample after a gap teaches what an hour of samples would, however long the gap was."""

SMOOTH_S = 1200.0
HOURS_S = 3 * 3600.0
LOST_S = 2 * 3600.0
"""After a gap so long, what the air has been of late is not known, and nothing jumps."""

STALE_S = 1800.0
"""A node not seen for so long says nothing about its group now."""

JUMP_C = 3.0
"""No weather warms a room by so much within an hour or two; what does is its cooling, even where
another loop, or the day, warms at the same time (ASHRAE TC 9.9: 5 °C an hour for tape rooms)."""

WEATHER_C_PER_H = 2.0
"""A clear morning warms the air outside by about this much (10 to 15 °C between sunrise and
afternoon); what flows into the racks follows it more slowly."""

LEAST_C = 1.5
"""Less than this is the ordinary difference between aisles (ASHRAE allows 5 °C an hour)."""

SPREADS = 4.0
MARKED = 0.6
"""A node is warm from this share of the limit on; its group's median must pass the limit."""

LEARN = 0.01
LEAST_NODES = 4
"""Of fewer, one node's own heat may be what warms."""

YOUNG_STEPS = 6
"""So many steps before a node's usual temperature means something."""


class Warm(NamedTuple):
    """What a step shows: ``above`` (n,) is each node's rise less what all groups share, ``limit``
    what is too much, both in °C; ``judged`` (n,) whose rise is known. ``everywhere`` is how much
    all groups have risen. ``jump`` (n,) is by how much it is above its own mean of the last hours.
    """

    above: Floats
    jump: Floats
    limit: float
    judged: Flags
    everywhere: float


def follow_heat(heat: Heat, inlet: Floats, hot: Flags, now_s: float) -> Heat:
    """What is usual and what is above it after a step. ``hot`` (n,) are nodes of hot groups.

    By the time since each node was last seen: nothing is known of a gap.
    """
    told = np.isfinite(inlet)
    known = told & np.isfinite(heat.base)
    elapsed = np.where(known, now_s - heat.seen, 0.0)
    steps = heat.steps + told
    young = 1.0 / np.maximum(steps, 1.0)
    day = np.minimum(elapsed, STANDS_FOR_S) / np.where(hot, HOT_USUAL_S, USUAL_S)
    weight = np.maximum(day, np.where(hot, 0.0, young))
    shift = np.where(known, inlet - heat.base, 0.0)
    base = np.where(known, heat.base + weight * shift, np.where(told, inlet, heat.base))
    share = 1.0 - np.exp(-elapsed / SMOOTH_S)
    rise = np.where(known, heat.rise + share * (shift - heat.rise), heat.rise)
    recent = known & (elapsed < LOST_S)
    over = np.where(recent, inlet - heat.hours, 0.0)
    jump = np.where(told, np.where(recent, heat.jump + share * (over - heat.jump), 0.0), heat.jump)
    weight = np.maximum(1.0 - np.exp(-elapsed / HOURS_S), young)
    hours = np.where(recent, heat.hours + weight * over, np.where(told, inlet, heat.hours))
    seen = np.where(told, now_s, heat.seen)
    return Heat(*(base, rise, hours, jump, steps, seen), heat.spread, heat.shared, heat.shared_s)


def warm(heat: Heat, groups: NDArray[np.int64], hot: Flags, now_s: float) -> tuple[Heat, Warm]:
    """Who is warm. ``groups`` (n,) is each node's cooling loop or rack, -1 for none.

    What all share is what the cooler half of the groups has risen by that do not stand as hot.
    """
    known = (heat.steps >= YOUNG_STEPS) & np.isfinite(heat.base)
    judged = known & (now_s - heat.seen < STALE_S) & (groups >= 0)
    medians = _medians(heat.rise, groups, judged & ~hot)
    shared, spread = heat.shared, heat.spread
    if medians.size:
        cool = float(np.sort(medians)[(medians.size - 1) // 2])
        hours = (now_s - heat.shared_s) / 3600.0 if heat.shared_s else np.inf
        shared = min(cool, heat.shared + WEATHER_C_PER_H * hours)
    if medians.size > 1:
        apart = float(np.mean(np.minimum(np.abs(medians - shared), 2 * spread + 0.05)))
        spread += LEARN * (apart - spread)
    limit = max(LEAST_C, SPREADS * heat.spread)
    after = Heat(
        *(heat.base, heat.rise, heat.hours, heat.jump, heat.steps, heat.seen),
        *(spread, shared, now_s if medians.size else heat.shared_s),
    )
    return after, Warm(heat.rise - shared, heat.jump, limit, judged, shared)


def _medians(rise: Floats, groups: NDArray[np.int64], judged: Flags) -> Floats:
    """The median of each group of at least two nodes."""
    order = np.lexsort((rise[judged], groups[judged]))
    ordered = rise[judged][order]
    _, first, size = np.unique(groups[judged][order], return_index=True, return_counts=True)
    middle = (ordered[first + (size - 1) // 2] + ordered[first + size // 2]) / 2
    return np.asarray(middle[size >= 2])


def hot_groups(
    warmth: Warm, index: Mapping[str, int], groups: Mapping[str, frozenset[str]], factor: float
) -> dict[str, float]:
    """The groups whose median rise is above ``factor`` times the limit, and by how much in °C."""
    limit, found = factor * warmth.limit, dict[str, float]()
    for name, rows in _some(warmth.judged, warmth.above > limit, index, groups):
        if len(rows) >= 2:
            median = float(np.median(warmth.above[rows]))
            if median > limit:
                found[name] = median
    return found


def _some(
    judged: Flags, high: Flags, index: Mapping[str, int], groups: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, list[int]]]:
    """The groups that have any node that is ``high`` (n,), and the rows of those judged."""
    rows_high = judged & high
    if not rows_high.any():
        return
    for name, members in groups.items():
        rows = [index[m] for m in members if m in index]
        if rows and rows_high[rows].any():
            yield name, [row for row in rows if judged[row]]


def hits(warmth: Warm, index: Mapping[str, int], places: Levels) -> list[tuple[Hit, float]]:
    """The hot groups and by how much in °C; a group within a hot one is explained by it.

    A group must be hot as a whole, and hold more of the warm nodes than chance would put there.
    Where all groups are hot there is none to compare with: all warm faster than weather warms.
    """
    warm = {by: hot_groups(warmth, index, groups, 1.0) for by, groups in places.items()}
    if not any(warm.values()):
        return []
    judged = {name for name, row in index.items() if warmth.judged[row]}
    limit = MARKED * warmth.limit
    marked = {name for name in judged if warmth.above[index[name]] > limit}
    found = [
        (hit, warm[hit.by][hit.group])
        for hit in scan(marked, judged, places)
        if hit.group in warm[hit.by]
    ]
    by = next(iter(places), "")
    of = {name: group & judged for name, group in places.get(by, {}).items()}
    if not found and of and all(name in warm[by] for name, group in of.items() if group):
        for name, rise in warm[by].items():
            odd = of[name] & marked
            if len(odd) >= max(LEAST_NODES, SHARE * len(of[name])):
                hit = Hit(by, name, tuple(sorted(of[name])), tuple(sorted(odd)), CHANCE, 0.0)
                found.append((hit, rise))
    return found


def jumping_groups(
    warmth: Warm, index: Mapping[str, int], groups: Mapping[str, frozenset[str]]
) -> dict[str, float]:
    """The groups that nearly all warmed too fast for the weather, and by how much in °C."""
    found: dict[str, float] = {}
    for name, rows in _some(warmth.judged, warmth.jump > JUMP_C, index, groups):
        if len(rows) >= LEAST_NODES:
            least = float(np.quantile(warmth.jump[rows], 0.2))
            if least > JUMP_C:
                found[name] = float(np.median(warmth.jump[rows]))
    return found
