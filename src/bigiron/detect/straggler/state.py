"""What the fold remembers of each node, and what the fleet shares."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect.chance import null, robust
from bigiron.detect.state import carried
from bigiron.detect.straggler.panel import PATTERNS, SIGNS, STREAMS

Small = NDArray[np.float32]
Doubles = NDArray[np.float64]
Whole = NDArray[np.int64]

TOLD, SUSPECTED = 1, 2


class Tracks(msgspec.Struct):
    """One row a node (n,), (n, streams), (n, signs) or (n, patterns).

    The hour that runs in the job ``key``: ``total`` and ``count`` of the differences from the
    job's nodes, ``plain`` of the values. The job so far: ``hours`` of each stream, ``first``, the
    mean difference of its first hours. The stretch that runs: ``part_hours``, ``part`` and
    ``part_count`` of differences, ``against`` over ``against_count`` hours of signs, and in how
    many of them the node stood ``apart``. The own past: ``base`` from ``parts`` stretches.

    The sums by pattern: ``level`` over stretches and jobs, ``change`` within the job, with their
    highest (``level_peak``, ``change_peak``), since when they are above zero (``level_since``,
    ``change_since``, epoch seconds) and their p-values; ``change_hours`` since then. ``program``
    is the last job that spoke against the node, ``spent`` what that program has added,
    ``counted`` the last that was counted among ``programs``. What is shown: ``recent`` and
    ``recent_plain``, means of the last hours. ``calm`` hours of recovery; ``opened`` 0 nothing,
    1 told, 2 suspected.
    """

    key: Whole
    total: Small
    count: Small
    plain: Small
    hours: Small
    first: Small
    part_hours: Small
    part: Small
    part_count: Small
    against: Small
    against_count: Small
    apart: Small
    base: Small
    parts: Small
    level: Small
    level_peak: Small
    level_since: Doubles
    level_chance: Small
    change: Small
    change_peak: Small
    change_since: Doubles
    change_chance: Small
    change_hours: Small
    program: Whole
    counted: Whole
    programs: Small
    spent: Small
    recent: Small
    recent_plain: Small
    calm: Small
    opened: NDArray[np.uint8]


_SIZES: Mapping[str, int] = {
    **dict.fromkeys(("key", "part_hours"), 0),
    **dict.fromkeys(("against", "against_count", "apart"), len(SIGNS)),
    **dict.fromkeys(
        (
            *("level", "level_peak", "level_since", "level_chance", "change", "change_peak"),
            *("change_since", "change_chance", "change_hours", "program", "counted", "programs"),
            *("spent", "calm", "opened"),
        ),
        len(PATTERNS),
    ),
}
"""How many columns each has; those not named have one a stream."""

_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("key", "program", "counted"), np.int64),
    **dict.fromkeys(("level_since", "change_since"), np.float64),
    "opened": np.uint8,
}
_FILL: Mapping[str, float] = dict.fromkeys(
    ("level_since", "change_since", "level_chance", "change_chance", "recent", "recent_plain"),
    np.nan,
)

CHANGE = ("change", "change_peak", "change_since", "change_chance", "change_hours")
HOUR = ("total", "count", "plain")
JOB = (*HOUR, "hours", "first", *CHANGE)
PART = ("part_hours", "part", "part_count", "against", "against_count", "apart")
PROGRAMS = ("level_since", "program", "counted", "programs", "spent")
LEVEL = ("level", "level_peak", "level_chance", *PROGRAMS)


class Shared(msgspec.Struct):
    """What the fleet shows. ``spreads`` (2, streams, bins) counts the sizes of differences: of
    stretches from the own past, of hours from the job's first ones. ``null`` (2, patterns, bins)
    counts the heights of excursions that ended, of nodes not suspected, in ``days`` (2, patterns)
    at work: over jobs, and within one.
    """

    spreads: Doubles
    null: Doubles
    days: Doubles


def _shared() -> Shared:
    m = len(PATTERNS)
    return Shared(
        np.zeros((2, len(STREAMS), robust.BINS)),
        np.zeros((2, m, null.BINS)),
        np.zeros((2, m)),
    )


class State(msgspec.Struct):
    """Everything between two steps; ``away`` (nodes,) are drained or down; ``cut`` is the p-value
    at which a node was last suspected."""

    time_s: float = 0.0
    nodes: tuple[str, ...] = ()
    away: NDArray[np.bool_] = msgspec.field(default_factory=lambda: np.zeros(0, np.bool_))
    tracks: Tracks = msgspec.field(default_factory=lambda: new_tracks(0))
    shared: Shared = msgspec.field(default_factory=_shared)
    cut: float = 0.0


def new_tracks(n: int) -> Tracks:
    """Nodes without any past."""
    arrays: dict[str, Any] = {}
    for name in Tracks.__struct_fields__:
        columns = _SIZES.get(name, len(STREAMS))
        shape = (n, columns) if columns else (n,)
        arrays[name] = np.full(shape, _FILL.get(name, 0), _TYPES.get(name, np.float32))
    return Tracks(**arrays)


def moved(tracks: Tracks, index: NDArray[np.intp] | None) -> Tracks:
    """Tracks whose rows follow ``detect.state.follow``'s index; a copy in any case."""
    return Tracks(
        **{
            name: getattr(tracks, name).copy()
            if index is None
            else carried(getattr(tracks, name), index, _FILL.get(name, 0))
            for name in Tracks.__struct_fields__
        }
    )


def copied(shared: Shared) -> Shared:
    """A copy to write to."""
    return Shared(shared.spreads.copy(), shared.null.copy(), shared.days.copy())


def clear(tracks: Tracks, names: tuple[str, ...], rows: NDArray[Any]) -> None:
    """Set some of the fields back for rows (n,), or rows and patterns (n, patterns)."""
    for name in names:
        getattr(tracks, name)[rows] = _FILL.get(name, 0)


REPAIRED_PARTS = 4.0
"""What a past counts for after the node was out of service: it is soon outgrown."""


def returned(tracks: Tracks, rows: NDArray[np.bool_]) -> None:
    """Nodes that came back from a drain: what was held against them is dropped."""
    for names in (LEVEL, CHANGE, PART, ("calm", "opened")):
        clear(tracks, names, rows)
    tracks.parts[rows] = np.minimum(tracks.parts[rows], REPAIRED_PARTS)
