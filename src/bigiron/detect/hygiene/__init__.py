"""Hygiene: what a fold may believe of a block, before anything is judged.

``Clean`` is one step of the whole fleet with every kind of part in a table of its own: one row a
unit, all metrics of the kind aligned to the same rows. Rows follow the *unit* (GPU UUID, serial),
not the index: after a re-enumeration a unit keeps its row and only its ``key`` changes; a part
that was swapped in gets a row of its own. NaN is "missing", which is never zero and never
healthy. The modules beside this one import numpy and are loaded only where folds run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bigiron.detect import Key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NODE = "node"
"""The kind of the rows that are about nodes themselves."""

MIN_COVERAGE = 0.5
"""A stretch of time with fewer of its samples than this share says nothing (methods.md 2)."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The parts of one kind (``gpu``, ``nic``, ``node`` ...) at one step; n rows, one a unit.

    ``units`` is the identity of each row and ``keys`` where the unit is now; both are the same
    object while nothing changed. New units are put at the end; a fold carries its state over a
    change with ``detect.state``'s ``follow`` and ``carried``. A unit that left keeps its row,
    all NaN.

    ``node`` (n,) is each row's node as an index into ``Clean.nodes`` and into the rows of kind
    ``node``. ``slot`` (n,) is the number of the place where the part sits, from its device's name
    when it was first seen at its bus address, so that a moved index is not a moved part; -1 if it
    has none.

    ``values`` (n,) are gauges, states and masks as told, without impossible and stale ones.
    ``increments`` (n,) are counters: by how much each grew since its last sample, over ``spans``
    seconds; NaN where that cannot be known (no sample, first sample, reset, boot, frozen).
    ``present`` (n,) says whether anything at all was told of the unit at this step, ``grace`` (n,)
    that its node booted or it came back so recently that levels and growth of volatile things
    mean nothing, ``frozen`` (n,) that all its readings repeat while those of its like move,
    ``moved`` (n,) that the unit is new, swapped in or at another place since the step before: a
    baseline of its own past starts again.
    """

    kind: str
    units: tuple[str, ...]
    keys: tuple[Key, ...]
    node: "NDArray[np.int32]"
    slot: "NDArray[np.int32]"
    values: "Mapping[str, NDArray[np.float64]]"
    increments: "Mapping[str, NDArray[np.float64]]"
    spans: "Mapping[str, NDArray[np.float64]]"
    coverage: "Mapping[str, NDArray[np.float64]]"
    """Of each metric, the share of the last 12 steps that had a usable sample, 0..1."""
    present: "NDArray[np.bool_]"
    grace: "NDArray[np.bool_]"
    frozen: "NDArray[np.bool_]"
    moved: "NDArray[np.bool_]"


@dataclass(frozen=True, slots=True)
class Clean:
    """One cleaned step: the rows of each kind, the names of the nodes, and when each booted.

    ``time_s`` is epoch seconds. ``booted_s`` (nodes,) is the boot time told, NaN if none.
    ``dropped`` counts the values left out, by metric and reason ("impossible", "stale").
    """

    time_s: float
    step_s: float
    nodes: tuple[str, ...]
    rows: Mapping[str, Rows]
    booted_s: "NDArray[np.float64]"
    dropped: Mapping[tuple[str, str], int]
