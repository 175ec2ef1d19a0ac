"""What hygiene remembers from step to step."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Key
from bigiron.detect.hygiene.layout import Part

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Track(msgspec.Struct, frozen=True):
    """One metric of the rows of a kind (n,).

    ``value`` is the last usable one (counters in double precision, the rest in single, which is
    enough to see whether it repeats), ``age_s`` how long ago it was told (counters only; else
    empty), ``held`` how often it has repeated without a break (gauges only; else empty), ``recent``
    the last 12 steps as bits, the newest lowest. ``steps`` is how many steps there were, at most
    12; ``moves`` the usual share of readings that differ from the one before.
    """

    value: NDArray[np.floating]
    age_s: NDArray[np.float32]
    held: NDArray[np.uint8]
    recent: NDArray[np.uint16]
    steps: int = 0
    moves: float = 0.0
    settled: int = 0
    """How many steps ``moves`` was learned from."""


class Kind(msgspec.Struct, frozen=True):
    """The rows of one kind (n,): who they are, and what is remembered of each.

    ``silent_s`` is how long nothing at all was told of a unit, ``grace_s`` how much longer what
    it tells is not to be taken at its word, ``still`` for how many steps all its readings have
    repeated.
    """

    units: tuple[str, ...]
    parts: tuple[Part, ...]
    silent_s: NDArray[np.float32]
    grace_s: NDArray[np.float32]
    still: NDArray[np.uint8]
    tracks: dict[str, Track]


class Pending(msgspec.Struct, frozen=True):
    """What came of a metric since the last step, where turns are shorter than steps."""

    keys: tuple[Key, ...]
    values: Floats


class State(msgspec.Struct, frozen=True):
    """All of it. ``time_s`` is the last step's, epoch seconds; ``booted_s`` (nodes,) is NaN where
    no boot time was told; ``rebooted`` are nodes whose log told of a boot since the last step.
    """

    time_s: float = 0.0
    nodes: tuple[str, ...] = ()
    booted_s: Floats = msgspec.field(default_factory=lambda: np.empty(0))
    kinds: dict[str, Kind] = {}
    pending: dict[str, Pending] = {}
    rebooted: tuple[str, ...] = ()
