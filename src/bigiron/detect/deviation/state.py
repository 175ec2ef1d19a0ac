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
    samples are from a node that several jobs share). The block that runs: ``day_total`` over
    ``day_weight`` hours. The baseline that adapts: ``base`` with the ``blocks`` (hours) it was
    learned from, ``squares`` over ``freedom`` of the own spread, as shares of the pooled one.
    The past that is scanned: the last ``ringed`` blocks in ``ring`` (n, m, RING), newest first,
    and the mean ``past`` of ``known`` blocks before them; for how many blocks something is held
    against the track (``run``); ``first`` (the frozen commissioning
    baseline, NaN before it is). ``level`` is the sum over hours, ``day_level`` the height of the
    scan; ``peak`` and ``day_peak`` their highest since they left zero. What is told of them:
    ``begun_s`` (epoch seconds, 0 nothing), ``shift`` over ``shifted`` hours since then, ``calm``
    hours of recovery, ``chance`` and ``day_chance`` (p-values), ``plain`` (the last hour's mean of
    what an operator reads), ``opened`` (0 nothing, 1 told, 2 suspected).
    """

    total: Small
    count: NDArray[np.uint16]
    plain_total: Small
    mixed: NDArray[np.uint16]
    day_total: Small
    day_weight: Small
    base: Small
    blocks: Small
    ring: Small
    ringed: NDArray[np.uint8]
    past: Small
    known: Small
    run: NDArray[np.uint8]
    first: Small
    squares: Small
    freedom: Small
    level: Small
    day_level: Small
    peak: Small
    day_peak: Small
    begun_s: NDArray[np.uint32]
    shift: Small
    shifted: NDArray[np.uint16]
    calm: NDArray[np.uint16]
    chance: Small
    day_chance: Small
    plain: Small
    opened: NDArray[np.uint8]


RING = 14
"""Blocks that are kept one by one: three days and a half at work."""

NAMES = Tracks.__struct_fields__

GPU, SHARED = "gpu", "gpu@node"
"""The tables of GPUs, and of what the GPUs of a node share."""

TOLD, SUSPECTED = 1, 2

HOUR = ("total", "count", "plain_total", "mixed")
DAY = ("day_total", "day_weight")
SUMS = ("level", "day_level", "peak", "day_peak", "shift", "shifted", "calm")
PAST = ("ringed", "past", "known", "run")

FILL = dict.fromkeys(("first", "chance", "day_chance"), np.nan)
"""What a new unit holds; 0 where nothing is said."""

TYPES: dict[str, type] = {
    **dict.fromkeys(("opened", "ringed", "run"), np.uint8),
    **dict.fromkeys(("count", "mixed", "shifted", "calm"), np.uint16),
    "begun_s": np.uint32,
}
"""What is no single: a hundred thousand GPUs have a million tracks. Hours fit for seven years."""


CASES = 9
"""Kinds of deviations whose spreads are pooled: see ``Shared``."""


class Shared(msgspec.Struct):
    """What the fleet shows of a table's streams: by kind of part (g kinds) and stream.

    ``spreads`` (CASES g, m, bins) counts the sizes of deviations of each kind: of hours on nodes
    with one job, of hours on nodes that several jobs share (their parts do different work, and
    differ for it), of blocks, and of each comparison of the scan. ``slopes`` (g, m, 2) sums
    products and squares of the covariate. ``null`` (2, m, bins) counts the heights of excursions
    that ended in ``days`` (2, m) at work: of the sum over hours, and of the scan.
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

    ``makes`` are the kinds of parts met (SKU and model), ``most_w`` the most that each draws,
    ``make`` each row's by kind of table.
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
    make: dict[str, NDArray[np.int64]] = {}
    tables: dict[str, Table] = {}
    cut: float = 0.0


def new_table(units: tuple[str, ...], streams: tuple[Stream, ...], makes: int) -> Table:
    """A table without any past."""
    n, m = len(units), len(streams)
    arrays: dict[str, Any] = {
        name: np.zeros(_shape(name, n, m), TYPES.get(name, np.float32)) for name in NAMES
    }
    for name, nothing in FILL.items():
        arrays[name].fill(nothing)
    shared = Shared(
        np.zeros((CASES * makes, m, robust.BINS)),
        np.zeros((makes, m, 2)),
        np.zeros((2, m, null.BINS)),
        np.zeros((2, m)),
    )
    return Table(units, tuple(s.name for s in streams), Tracks(**arrays), shared)


def _shape(name: str, n: int, m: int) -> tuple[int, ...]:
    return (n, m, RING) if name == "ring" else (n, m)


def moved(tracks: Tracks, index: NDArray[np.intp]) -> Tracks:
    """Tracks whose rows follow ``detect.state.follow``'s index; a copy to write to."""
    return Tracks(
        **{name: carried(getattr(tracks, name), index, FILL.get(name, 0.0)) for name in NAMES}
    )


def for_a_step(tracks: Tracks) -> Tracks:
    """Tracks of which only the hour that runs may be written to; all else is the old one's."""
    return msgspec.structs.replace(tracks, **{name: getattr(tracks, name).copy() for name in HOUR})


def for_all(tracks: Tracks) -> Tracks:
    """Tracks of which everything may be written to."""
    return Tracks(**{name: getattr(tracks, name).copy() for name in NAMES})


SHARED_BY_STREAM = ("spreads", "slopes", "null", "days")
"""The second axis of each is the stream."""


def taken(table: Table, columns: NDArray[np.intp]) -> Table:
    """Some streams of a table, copies of their tracks and of what is shared."""
    tracks = Tracks(**{name: getattr(table.tracks, name)[:, columns] for name in NAMES})
    shared = Shared(**{name: getattr(table.shared, name)[:, columns] for name in SHARED_BY_STREAM})
    return Table(table.units, tuple(table.streams[c] for c in columns), tracks, shared)


def put_back(table: Table, columns: NDArray[np.intp], some: Table) -> None:
    """What became of the streams taken: into the table, whose arrays are exchanged for new ones."""
    for name in NAMES:
        whole = getattr(table.tracks, name).copy()
        whole[:, columns] = getattr(some.tracks, name)
        setattr(table.tracks, name, whole)
    for name in SHARED_BY_STREAM:
        getattr(table.shared, name)[:, columns] = getattr(some.shared, name)


def faded(shared: Shared, keep: float, makes: int) -> Shared:
    """What is shared, ``keep`` of it, to write to, with room for so many kinds of parts."""
    added = makes - shared.slopes.shape[0]
    kept = {name: keep * getattr(shared, name) for name in SHARED_BY_STREAM}
    if added:
        kept["spreads"] = np.pad(kept["spreads"], ((0, CASES * added), (0, 0), (0, 0)))
        kept["slopes"] = np.pad(kept["slopes"], ((0, added), (0, 0), (0, 0)))
    return Shared(**kept)


def forget(tracks: Tracks, rows: NDArray[np.bool_]) -> None:
    """Units that are new in their place: nothing of the past holds."""
    for name in NAMES:
        getattr(tracks, name)[rows] = FILL.get(name, 0.0)


RELEARN_BLOCKS = 4.0
"""Hours that a baseline counts for after a change that alters how a part runs."""


def relearn(tracks: Tracks, rows: NDArray[np.bool_]) -> None:
    """Units that run other versions: what they were like is no measure of what they are.

    What is held against a part already stays, with the past it is held against.
    """
    known = rows[:, None] & (tracks.blocks > 0) & (tracks.opened == 0)
    tracks.blocks = np.where(known, np.minimum(tracks.blocks, RELEARN_BLOCKS), tracks.blocks)
    _drop(tracks, known)


def _drop(tracks: Tracks, which: NDArray[np.bool_]) -> None:
    """The scanned past and what was accumulated."""
    for name in (*HOUR, *DAY, *SUMS, *PAST, "begun_s"):
        getattr(tracks, name)[which] = 0
    for name in FILL:
        getattr(tracks, name)[which] = np.nan


REPAIRED_BLOCKS = 24.0
"""What a baseline counts for after a repair: it follows what is only a little different."""

REPAIRED_KNOWN = 4.0
"""Blocks that the scanned past then counts for."""


def repaired(tracks: Tracks, rows: NDArray[np.bool_]) -> None:
    """Units whose node came back from a drain: what was accumulated is dropped.

    What is still wrong accumulates again. A part that was exchanged is another unit, with no
    past; of the others the baselines follow faster and the frozen one is taken anew.
    """
    known = rows[:, None] & (tracks.blocks > 0)
    tracks.blocks = np.where(known, np.minimum(tracks.blocks, REPAIRED_BLOCKS), tracks.blocks)
    _drop(tracks, np.broadcast_to(rows[:, None], known.shape))
    tracks.past = np.where(known, tracks.base, tracks.past)
    tracks.known = np.where(known, np.float32(REPAIRED_KNOWN), tracks.known)
    tracks.opened[rows] = 0


SCAN_SHARE = 0.8
"""The sum over hours finds what is large, at almost any price; what is small needs the scan."""


def chance(tracks: Tracks) -> Doubles:
    """One p-value a track (n, m), NaN where there is none: of the two looks, whose shares of what
    may be chance are ``SCAN_SHARE`` and the rest."""
    of_hours = tracks.chance.astype(np.float64) / (1 - SCAN_SHARE)
    of_scan = tracks.day_chance.astype(np.float64) / SCAN_SHARE
    return np.asarray(np.minimum(np.fmin(of_hours, of_scan), 1.0))


@dataclass(frozen=True, slots=True)
class Limits:
    """The streams' numbers as arrays (m,)."""

    bad: Doubles
    floor: Doubles
    drift: Doubles
    least: Doubles
    slope: Doubles


def limits(streams: tuple[Stream, ...]) -> Limits:
    """The streams' numbers, one array each."""
    return Limits(
        *(
            np.array([getattr(s, name) for s in streams])
            for name in ("bad", "floor", "drift", "least_spread", "slope")
        )
    )
