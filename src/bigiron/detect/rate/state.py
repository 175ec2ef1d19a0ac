"""What the fold remembers: a table a kind of part, and what the fleet shows of its counters."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect.chance import null
from bigiron.detect.rate import learn, model
from bigiron.detect.state import carried

Small = NDArray[np.float32]
Tiny = NDArray[np.float16]
Doubles = NDArray[np.float64]

DAYS = 8
"""Days held one by one: today, and the seven before it in which a change is looked for."""

TOLD, SUSPECTED = 1, 2


class Tracks(msgspec.Struct):
    """One row a unit, one column a stream (n, m).

    The hour that runs: ``steps`` looked at, of which in ``some`` there were errors and in ``odd``
    more than usual; ``errors`` in all, over ``hours`` of exposure. The days (n, m, DAYS), today
    first: ``counts`` (coalesced) and ``spans`` (hours of exposure). What is older: ``past``,
    ``past_h`` and ``past_days``. ``usual`` is errors an hour in the long run, ``own`` the
    coalesced ones (NaN until a day is over), ``said`` what a unit has taught of how days wander.

    A suspicion: ``height`` (how improbable, on the null's scale), its ``peak`` since it rose and
    the ``pace`` (counts an hour) then, ``window`` (days it is of), ``quiet`` (days over since the
    peak), ``fence`` (days back that a window may reach), ``chance`` (a p-value), ``since`` (epoch
    seconds), ``raw`` errors since then, ``opened`` (0 nothing, 1 told, 2 suspected).
    """

    steps: Small
    some: Small
    odd: Small
    errors: Small
    hours: Small
    counts: Tiny
    spans: Tiny
    past: Small
    past_h: Small
    past_days: Small
    usual: Small
    own: Small
    said: Small
    height: Small
    peak: Small
    pace: Small
    window: NDArray[np.uint8]
    fence: NDArray[np.uint8]
    quiet: NDArray[np.uint8]
    chance: Small
    since: Doubles
    raw: Small
    opened: NDArray[np.uint8]


HOUR = ("steps", "some", "odd", "errors", "hours")
EXCURSION = ("height", "peak", "pace", "window", "quiet", "raw", "opened")
FILL: dict[str, float] = {"own": np.nan, "chance": np.nan, "since": np.nan, "fence": DAYS}
TYPES: dict[str, type] = {
    "counts": np.float16,
    "spans": np.float16,
    "since": np.float64,
    "window": np.uint8,
    "fence": np.uint8,
    "quiet": np.uint8,
    "opened": np.uint8,
}


class Shared(msgspec.Struct):
    """What the fleet shows: by group of like units (g) and stream (m).

    ``levels`` (g, m, points) is the mixture of levels, ``wander`` (m, shapes) the log-likelihood
    of how days wander. ``null`` (m, bins) counts the heights of suspicions that ended, in
    ``days`` (m,) of units. ``idle`` (m, 2) are the errors seen without work, and those expected
    if work made no difference; ``most`` (m,) is the traffic of a busy link, in bytes a second.
    """

    levels: Doubles
    wander: Doubles
    null: Doubles
    days: Doubles
    idle: Doubles
    most: Doubles


class Table(msgspec.Struct):
    """The units of one kind, their streams' names, groups (n, m), tracks and what they share."""

    units: tuple[str, ...]
    streams: tuple[str, ...]
    group: NDArray[np.int32]
    tracks: Tracks
    shared: Shared


class Held(msgspec.Struct):
    """Units at an absolute limit: for how many steps in a row (n, limits), and which are told."""

    units: tuple[str, ...]
    steps: Small
    since: Doubles
    told: NDArray[np.bool_]


class State(msgspec.Struct):
    """Everything between two steps.

    ``groups`` name what like units are like in. ``held`` is of absolute limits by kind of part;
    ``remaps`` the times, epoch seconds, at which each GPU (by unit) lately replaced memory, and
    what each is worth (``absolute``).
    ``nodes`` and ``away`` (drained or down) tell who came back. ``cut`` is the p-value at which a
    unit was last called a suspect.
    """

    time_s: float = 0.0
    groups: tuple[str, ...] = ()
    tables: dict[str, Table] = {}
    held: dict[str, Held] = {}
    remaps: dict[str, tuple[tuple[float, float], ...]] = {}
    nodes: tuple[str, ...] = ()
    away: NDArray[np.bool_] = msgspec.field(default_factory=lambda: np.zeros(0, np.bool_))
    cut: float = 0.0


def new_table(units: tuple[str, ...], streams: tuple[str, ...], groups: int) -> Table:
    """A table without any past."""
    n, m = len(units), len(streams)
    arrays: dict[str, Any] = {}
    for name in Tracks.__struct_fields__:
        shape = (n, m, DAYS) if name in ("counts", "spans") else (n, m)
        arrays[name] = np.zeros(shape, TYPES.get(name, np.float32))
    for name, nothing in FILL.items():
        arrays[name].fill(nothing)
    shared = Shared(
        np.zeros((0, m, model.POINTS)),
        np.zeros((m, len(model.WANDERS))),
        np.zeros((m, null.BINS)),
        np.zeros(m),
        np.zeros((m, 2)),
        np.zeros(m),
    )
    table = Table(units, streams, np.zeros((n, m), np.int32), Tracks(**arrays), shared)
    table.shared = widened(shared, groups)
    return table


def with_streams(table: Table, streams: tuple[str, ...]) -> Table:
    """The table with streams after those it has, which nothing is known of."""
    groups = len(table.shared.levels)
    wide = new_table(table.units, streams, groups)
    held = len(table.streams)
    for name in Tracks.__struct_fields__:
        getattr(wide.tracks, name)[:, :held] = getattr(table.tracks, name)
    wide.shared.levels[:, :held] = table.shared.levels
    for name in ("wander", "null", "days", "idle", "most"):
        getattr(wide.shared, name)[:held] = getattr(table.shared, name)
    return wide


def widened(shared: Shared, groups: int) -> Shared:
    """What is shared, with room for so many groups."""
    held, m = shared.levels.shape[:2]
    if groups <= held:
        return shared
    fresh = np.broadcast_to(learn.unknown(), (groups - held, m, model.POINTS))
    return msgspec.structs.replace(shared, levels=np.concatenate([shared.levels, fresh]))


def copied(shared: Shared) -> Shared:
    """What is shared, of which everything may be written to."""
    return Shared(**{name: getattr(shared, name).copy() for name in Shared.__struct_fields__})


def for_a_step(tracks: Tracks, shared: Shared) -> tuple[Tracks, Shared]:
    """The same, of which only the hour that runs, and what it shows of work, may be written to."""
    hour = {name: getattr(tracks, name).copy() for name in HOUR}
    shown = {name: getattr(shared, name).copy() for name in ("idle", "most")}
    return msgspec.structs.replace(tracks, **hour), msgspec.structs.replace(shared, **shown)


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


def forget(tracks: Tracks, rows: NDArray[np.bool_]) -> None:
    """Units that are new in their place: nothing of the past holds."""
    for name in Tracks.__struct_fields__:
        getattr(tracks, name)[rows] = FILL.get(name, 0.0)


def returned(tracks: Tracks, rows: NDArray[np.bool_]) -> None:
    """Units whose node came back from a drain: the suspicion is dropped, with the days it was of.

    What is still wrong is seen again; what it was before all that still holds.
    """
    suspect = rows[:, None] & np.isfinite(tracks.since)
    for name in ("counts", "spans"):
        getattr(tracks, name)[suspect] = 0.0
    ended(tracks, suspect)
    for name in HOUR:
        getattr(tracks, name)[rows] = 0.0


def ended(tracks: Tracks, which: NDArray[np.bool_]) -> None:
    """Suspicions (n, m) that are over."""
    for name in EXCURSION:
        getattr(tracks, name)[which] = 0
    tracks.since[which] = np.nan
    tracks.chance[which] = 1.0
