"""What the fold remembers: a table a kind of part, and what the fleet shares."""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect.chance import null, robust
from bigiron.detect.deviation.streams import Stream
from bigiron.detect.state import carried

Small = NDArray[np.float32]
Doubles = NDArray[np.float64]


class Tracks(msgspec.Struct):
    """One row a unit, one column a stream (n, m).

    The hour that runs: ``total``, ``count``, ``plain_total`` and ``mixed`` (how many of its
    samples are from a node that several jobs share). The day that runs: ``day_total`` over
    ``day_weight`` hours. The own past: ``base`` with the ``blocks`` it was learned from,
    ``first`` (the frozen commissioning baseline, NaN before it is), ``anchor`` (about which a
    baseline learned anew must stay, NaN: anywhere), ``squares`` over ``freedom`` of the own
    spread, as shares of the pooled one. The sums: ``level`` over hours and ``day_level`` over
    days against the adapting baseline, ``first_level`` over days against the frozen one;
    ``peak`` and ``day_peak`` their highest since they left zero. What is told of them: ``since``
    (epoch seconds), ``shift`` over ``shifted`` blocks since then, ``calm`` blocks of recovery,
    ``chance`` and ``day_chance`` (p-values), ``plain`` (the last hour's mean of what an operator
    reads), ``opened`` (0 nothing, 1 told, 2 suspected).
    """

    total: Small
    count: Small
    plain_total: Small
    mixed: Small
    day_total: Small
    day_weight: Small
    base: Small
    blocks: Small
    first: Small
    anchor: Small
    squares: Small
    freedom: Small
    level: Small
    day_level: Small
    first_level: Small
    peak: Small
    day_peak: Small
    since: Doubles
    shift: Small
    shifted: Small
    calm: Small
    chance: Small
    day_chance: Small
    plain: Small
    opened: NDArray[np.uint8]


GPU, SHARED = "gpu", "gpu@node"
"""The tables of GPUs, and of what the GPUs of a node share."""

TOLD, SUSPECTED = 1, 2

HOUR = ("total", "count", "plain_total", "mixed")
DAY = ("day_total", "day_weight")
SUMS = ("level", "day_level", "first_level", "peak", "day_peak", "shift", "shifted", "calm")

FILL = dict.fromkeys(("first", "anchor", "since", "chance", "day_chance"), np.nan)
"""What a new unit holds; 0 where nothing is said."""


class Shared(msgspec.Struct):
    """What the fleet shows of a table's streams: by kind of part (g kinds) and stream.

    ``spreads`` (3 g, m, bins) counts the sizes of deviations of each kind: of hours on nodes with
    one job, of hours on nodes that several jobs share (their parts do different work, and differ
    for it), and of days. ``slopes`` (g, m, 2) sums products and squares of the covariate.
    ``null`` (2, m, bins) counts the heights of excursions that ended, of units not suspected, in
    ``days`` (2, m) at work: of the sum over hours, and of those over days.
    """

    spreads: Doubles
    slopes: Doubles
    null: Doubles
    days: Doubles


class Table(msgspec.Struct):
    """The units of one kind, the streams' names, their tracks and what they share."""

    units: tuple[str, ...]
    streams: tuple[str, ...]
    tracks: Tracks
    shared: Shared


class State(msgspec.Struct):
    """Everything between two steps.

    ``makes`` are the kinds of parts met (SKU and model), ``most_w`` the most that each draws.
    ``watts`` (GPUs) is smoothed power. ``nodes`` with ``versions`` (a checksum of what a node runs
    and holds) and ``away`` (drained or down) tell when to learn anew. ``cut`` is
    the p-value at which a part was last called a suspect.
    """

    time_s: float = 0.0
    makes: tuple[str, ...] = ()
    most_w: Doubles = msgspec.field(default_factory=lambda: np.zeros(0))
    watts: Doubles = msgspec.field(default_factory=lambda: np.zeros(0))
    nodes: tuple[str, ...] = ()
    versions: NDArray[np.int64] = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    away: NDArray[np.bool_] = msgspec.field(default_factory=lambda: np.zeros(0, np.bool_))
    tables: dict[str, Table] = {}
    cut: float = 0.0


def new_table(units: tuple[str, ...], streams: tuple[Stream, ...], makes: int) -> Table:
    """A table without any past."""
    n, m = len(units), len(streams)
    arrays: dict[str, Any] = {
        name: np.full((n, m), FILL.get(name, 0.0), _type(name)) for name in Tracks.__struct_fields__
    }
    shared = Shared(
        np.zeros((3 * makes, m, robust.BINS)),
        np.zeros((makes, m, 2)),
        np.zeros((2, m, null.BINS)),
        np.zeros((2, m)),
    )
    return Table(units, tuple(s.name for s in streams), Tracks(**arrays), shared)


def _type(name: str) -> type:
    return {"since": np.float64, "opened": np.uint8}.get(name, np.float32)


def moved(tracks: Tracks, index: NDArray[np.intp] | None) -> Tracks:
    """Tracks whose rows follow ``detect.state.follow``'s index; a copy to write to in any case."""
    return Tracks(
        **{
            name: getattr(tracks, name).copy()
            if index is None
            else carried(getattr(tracks, name), index, FILL.get(name, 0.0))
            for name in Tracks.__struct_fields__
        }
    )


def widened(shared: Shared, makes: int) -> Shared:
    """What is shared, a copy to write to, with room for so many kinds of parts."""
    added = makes - shared.slopes.shape[0]
    return Shared(
        np.pad(shared.spreads, ((0, 3 * added), (0, 0), (0, 0))),
        np.pad(shared.slopes, ((0, added), (0, 0), (0, 0))),
        shared.null.copy(),
        shared.days.copy(),
    )


def forget(tracks: Tracks, rows: NDArray[np.bool_]) -> None:
    """Units that are new in their place: nothing of the past holds."""
    for name in Tracks.__struct_fields__:
        getattr(tracks, name)[rows] = FILL.get(name, 0.0)


RELEARN_BLOCKS = 4.0
"""What a baseline counts for after a change that should not alter the part itself."""


def relearn(tracks: Tracks, rows: NDArray[np.bool_]) -> None:
    """Units that run other versions: their baselines, the frozen one too, follow soon.

    They may not go far (``Stream.shift``), so that a fault is not learned with the new firmware;
    what was accumulated stays.
    """
    known = rows[:, None] & (tracks.blocks > 0)
    first = np.where(np.isfinite(tracks.first), tracks.first, tracks.base)
    fresh = known & ~np.isfinite(tracks.anchor)
    tracks.anchor = np.where(fresh, first, tracks.anchor)
    tracks.blocks = np.where(known, np.minimum(tracks.blocks, RELEARN_BLOCKS), tracks.blocks)
    tracks.first = np.where(known, np.float32(np.nan), tracks.first)


REPAIRED_BLOCKS = 24.0
"""What a baseline counts for after a repair: it follows what is only a little different."""


def repaired(tracks: Tracks, rows: NDArray[np.bool_]) -> None:
    """Units whose node came back from a drain: what was accumulated is dropped.

    What is still wrong accumulates again. A part that was exchanged is another unit, with no
    past; of the others the baselines follow faster and the frozen one is taken anew.
    """
    known = rows[:, None] & (tracks.blocks > 0)
    tracks.blocks = np.where(known, np.minimum(tracks.blocks, REPAIRED_BLOCKS), tracks.blocks)
    tracks.first = np.where(known, np.float32(np.nan), tracks.first)
    for name in (*HOUR, *DAY, *SUMS):
        getattr(tracks, name)[rows] = 0.0
    tracks.opened[rows] = 0
    for name in ("since", "chance", "day_chance"):
        getattr(tracks, name)[rows] = np.nan


def chance(tracks: Tracks) -> Doubles:
    """One p-value a track (n, m) of its two sums, NaN where there is none."""
    least = np.fmin(tracks.chance, tracks.day_chance).astype(np.float64)
    return np.asarray(np.minimum(2 * least, 1.0))


@dataclass(frozen=True, slots=True)
class Limits:
    """The streams' numbers as arrays (m,)."""

    bad: Doubles
    floor: Doubles
    drift: Doubles
    shift: Doubles
    least: Doubles
    slope: Doubles


def limits(streams: tuple[Stream, ...]) -> Limits:
    """The streams' numbers, one array each."""
    return Limits(
        *(
            np.array([getattr(s, name) for s in streams])
            for name in ("bad", "floor", "drift", "shift", "least_spread", "slope")
        )
    )
