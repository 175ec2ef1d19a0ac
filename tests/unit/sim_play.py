"""Plays given episodes on a small simulated site and hands out what came of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigiron.sim.book import Book
from bigiron.sim.cluster import Cluster
from bigiron.sim.faults_lasting import golden
from bigiron.sim.history import History
from bigiron.sim.record import unfold
from bigiron.sim.scene import Plan
from bigiron.sim.site import site
from bigiron.sim.telemetry import Telemetry
from bigiron.sim.workload import Nature, Request

START_S = 1_767_571_200.0
HOUR_S = 3600.0
STEP_S = 300.0
SEED, NODES = 26, 8
NODE, PEER = 1, 0
"""Where the first of the jobs runs, all day."""


def jobs(days: float) -> Iterator[Request]:
    """A job on two nodes for all the day and after it, then one-node jobs, whole and in parts."""
    steady = Nature(active=0.8, draw=0.9, memory=0.3, dips=0.03)
    yield _job(0.0, "u001", 2, 8, 2 * days * 24, steady)
    for k in range(int(days * 40)):
        nature = Nature(
            active=0.3 + 0.05 * (k % 10), draw=0.5 + 0.05 * (k % 9), memory=0.3, dips=0.1
        )
        whole = k % 3 != 2
        yield _job(k * 1800.0, f"u{k % 7:03d}", int(whole), 8 if whole else 2, 1 + k % 5, nature)


def _job(at_s: float, user: str, nodes: int, gpus: int, hours: float, nature: Nature) -> Request:
    length_s = hours * HOUR_S
    return Request(at_s, "train", user, gpus, nodes, length_s, "COMPLETED", "0:0", nature)


@dataclass(frozen=True, repr=False)
class Played:
    """A history with its jobs and its readings as (steps, nodes, devices)."""

    history: History
    cluster: Cluster
    values: dict[str, NDArray[Any]]
    seen: dict[str, NDArray[np.bool_]]


def play(*plans: Plan, days: float = 1.0, rate: float = 6.5) -> Played:
    """The site's day, with these episodes in it."""
    place = site(NODES, SEED, third_vendor=False)
    history = History(place, SEED, START_S, days * 86_400)
    golden(history)
    book = Book(place, SEED, history.span_s, rate)
    book.plans.extend(plans)
    cluster = unfold(history, book, STEP_S, requests=list(jobs(days)))
    chunks = list(Telemetry(history, cluster.runs, STEP_S).chunks())
    return Played(
        history,
        cluster,
        {m: np.concatenate([c.values[m] for c in chunks]) for m in chunks[0].values},
        {s: np.concatenate([c.seen[s] for c in chunks]) for s in chunks[0].seen},
    )


def changed(
    one: Played, other: Played, hours: tuple[float, float]
) -> dict[str, tuple[Sequence[int], int]]:
    """What differs between two plays in a span: by metric or ``seen.SOURCE`` the nodes, and how
    many readings.
    """
    span = slice(*(int(h * HOUR_S / STEP_S) for h in hours))
    found: dict[str, tuple[Sequence[int], int]] = {}
    pairs = [(m, one.values[m], other.values[m]) for m in one.values]
    pairs += [(f"seen.{s}", one.seen[s], other.seen[s]) for s in one.seen]
    for name, a, b in pairs:
        differs = a[span] != b[span]
        if differs.any():
            nodes = [int(n) for n in np.flatnonzero(differs.any(axis=(0, 2)))]
            found[name] = (nodes, int(differs.sum()))
    return found
