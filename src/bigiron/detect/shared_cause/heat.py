"""A cooling loop: the air or coolant of all its nodes warms, that of the others does not.

Each node's inlet is compared with its own usual one, then groups with one another: a hot day
warms all of them. Where no inlet is told there is nothing to compare: GPU temperatures follow
work.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.shared_cause.state import Flags, Floats, Heat

USUAL_S = 86_400.0
"""What is usual follows over a day."""

HOT_USUAL_S = 4 * 86_400.0
"""While a group is hot, much more slowly: else what lasts hours would become usual."""

SMOOTH_S = 1200.0
HOURS_S = 3 * 3600.0
JUMP_C = 3.0
"""No weather warms a room by so much within an hour or two; what does is its cooling, even where
another loop, or the day, warms at the same time (ASHRAE TC 9.9: 5 °C an hour for tape rooms)."""

LEAST_C = 1.5
"""Less than this is the ordinary difference between aisles (ASHRAE allows 5 °C an hour)."""

SPREADS = 4.0
LEARN = 0.01
LEAST_NODES = 4
"""Of fewer, one node's own heat may be what warms."""

YOUNG_STEPS = 6
"""So many steps before a node's usual temperature means something."""


class Warm(NamedTuple):
    """What a step shows: ``above`` (n,) is each node's rise less that of the coolest half of the
    groups, ``limit`` what is too much, both in °C; ``judged`` (n,) whose rise is known.
    ``everywhere`` is how much all groups have risen. ``jump`` (n,) is by how much it is above its
    own mean of the last hours.
    """

    above: Floats
    jump: Floats
    limit: float
    judged: Flags
    everywhere: float


def follow_heat(heat: Heat, inlet: Floats, hot: Flags, step_s: float) -> Heat:
    """What is usual and what is above it after a step. ``hot`` (n,) are nodes of hot groups."""
    told = np.isfinite(inlet)
    steps = heat.steps + told
    day = step_s / np.where(hot, HOT_USUAL_S, USUAL_S)
    weight = np.maximum(day, np.where(hot, 0.0, 1.0 / np.maximum(steps, 1.0)))
    known = np.isfinite(heat.base)
    shift = np.where(told & known, inlet - heat.base, 0.0)
    base = np.where(known, heat.base + np.minimum(weight, 1.0) * shift, inlet)
    share = 1.0 - np.exp(-step_s / SMOOTH_S)
    rise = np.where(told & known, heat.rise + share * (shift - heat.rise), heat.rise)
    over = np.where(told & known, inlet - heat.hours, 0.0)
    jump = np.where(told & known, heat.jump + share * (over - heat.jump), heat.jump)
    weight = np.maximum(step_s / HOURS_S, 1.0 / np.maximum(steps, 1.0))
    hours = np.where(known, heat.hours + np.minimum(weight, 1.0) * over, inlet)
    return Heat(base, rise, hours, jump, steps, heat.spread)


def warm(heat: Heat, groups: NDArray[np.int64]) -> tuple[Heat, Warm]:
    """Who is warm. ``groups`` (n,) is each node's cooling loop or rack, -1 for none."""
    judged = (heat.steps >= YOUNG_STEPS) & np.isfinite(heat.base) & (groups >= 0)
    medians = _medians(heat.rise, groups, judged)
    if medians.size < 2:
        nothing = np.zeros(len(groups))
        everywhere = float(medians[0]) if medians.size else 0.0
        return heat, Warm(nothing, heat.jump, LEAST_C, judged, everywhere)
    ordered = np.sort(medians)
    reference = float(ordered[(ordered.size - 1) // 2])
    limit = max(LEAST_C, SPREADS * heat.spread)
    apart = float(np.mean(np.minimum(np.abs(medians - reference), 2 * heat.spread + 0.05)))
    spread = heat.spread + LEARN * (apart - heat.spread)
    after = Heat(heat.base, heat.rise, heat.hours, heat.jump, heat.steps, spread)
    return after, Warm(heat.rise - reference, heat.jump, limit, judged, reference)


def _medians(rise: Floats, groups: NDArray[np.int64], judged: Flags) -> Floats:
    found = []
    for group in np.unique(groups[judged]):
        members = rise[judged & (groups == group)]
        if members.size >= 2:
            found.append(float(np.median(members)))
    return np.array(found)


def hot_groups(
    warmth: Warm, index: Mapping[str, int], groups: Mapping[str, frozenset[str]], factor: float
) -> dict[str, float]:
    """The groups whose median rise is above ``factor`` times the limit, and by how much in °C."""
    found: dict[str, float] = {}
    for name, members in groups.items():
        rows = [index[m] for m in members if m in index and warmth.judged[index[m]]]
        if len(rows) >= 2:
            median = float(np.median(warmth.above[rows]))
            if median > factor * warmth.limit:
                found[name] = median
    return found


def jumping_groups(
    warmth: Warm, index: Mapping[str, int], groups: Mapping[str, frozenset[str]]
) -> dict[str, float]:
    """The groups that nearly all warmed too fast for the weather, and by how much in °C."""
    found: dict[str, float] = {}
    for name, members in groups.items():
        rows = [index[m] for m in members if m in index and warmth.judged[index[m]]]
        if len(rows) >= LEAST_NODES:
            least = float(np.quantile(warmth.jump[rows], 0.2))
            if least > JUMP_C:
                found[name] = float(np.median(warmth.jump[rows]))
    return found
