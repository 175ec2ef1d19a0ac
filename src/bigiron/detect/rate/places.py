"""Errors that many like units of one place show at once: the place's, and no unit's own.

A leaf switch that errs raises the symbol errors on the ports of all its nodes; heat or a new driver
raises others. An hour in which a rack, a leaf, a loop or the whole fleet has far more units with
errors than their own rates would give is passed over for all of them.
"""

import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Fleet
from bigiron.detect.rate import model
from bigiron.detect.rate.state import Tracks

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

LEVELS = ("leaf", "rack", "cooling", "pdu", "site")

FEWEST_NODES = 3
NODES_SHARE = 0.5
"""At least three nodes and half of a place's must show errors: one node's trouble is its own."""

TIMES, CHANCE = 2.0, 1e-5
"""So improbable must it be that so many units have errors, even at twice their usual rates."""


def places(fleet: Fleet, nodes: tuple[str, ...]) -> list[Ints]:
    """For each level the number of each node's place, -1 where it is not known; last the fleet."""
    found = []
    for level in LEVELS:
        known: dict[str, int] = {}
        of_node = np.full(len(nodes), -1, np.int64)
        for i, name in enumerate(nodes):
            node = fleet.nodes.get(name)
            where = getattr(node, level) if node is not None else ""
            if where:
                of_node[i] = known.setdefault(where, len(known))
        if known:
            found.append(of_node)
    found.append(np.zeros(len(nodes), np.int64))
    return found


def together(tracks: Tracks, node: NDArray[np.int32], of_nodes: list[Ints]) -> Flags:
    """Which units' (n, m) hour is their place's. ``node`` (n,) is each unit's node."""
    found = np.zeros(tracks.hours.shape, bool)
    for column in range(len(found[0]) if len(found) else 0):
        own = tracks.own[:, column].astype(np.float64)
        known = np.isfinite(own) & (tracks.steps[:, column] > 0)
        hit = known & (tracks.odd[:, column] > 0)
        if np.count_nonzero(hit) < FEWEST_NODES:
            continue
        expected = np.where(known, -np.expm1(-np.nan_to_num(own) * tracks.hours[:, column]), 0.0)
        for place in of_nodes:
            bad = _bad(place, node, hit, known, expected)
            found[:, column] |= bad[place[node]] & (place[node] >= 0)
    return found


def _bad(place: Ints, node: NDArray[np.int32], hit: Flags, known: Flags, expected: Floats) -> Flags:
    """Which places show it; the last entry is for nodes of no place."""
    count = int(place.max(initial=-1)) + 2
    nodes = place.size
    hits = np.bincount(node[hit], minlength=nodes)
    seen = np.bincount(node[known], minlength=nodes) > 0
    some = hits > 0
    size = _of(place, seen, count)
    showing = _of(place, some, count)
    units = _of(place, hits, count)
    most = np.zeros(count)
    np.maximum.at(most, place, hits)
    foreseen = _of(place, np.bincount(node, weights=expected, minlength=nodes), count)
    enough = (showing >= FEWEST_NODES) & (showing >= NODES_SHARE * size)
    bad = enough & (model.tail(units - most, TIMES * foreseen) <= CHANCE)
    bad[-1] = False
    return np.asarray(bad)


def _of(place: Ints, values: Floats | Ints | Flags, count: int) -> Floats:
    """Sums by place (count,)."""
    summed = np.bincount(place % count, weights=values, minlength=count)
    return np.asarray(summed, np.float64)
