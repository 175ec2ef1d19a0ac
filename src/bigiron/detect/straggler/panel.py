"""What is compared, and its values for every node at one step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.hygiene import NODE, Clean, Rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GPU = "gpu"


@dataclass(frozen=True, slots=True)
class Stream:
    """A number of a node that equal ranks share: a share of time, or a logarithm.

    ``least`` is the smallest spread that is believed, in the unit of the values.
    """

    name: str
    metric: str
    least: float
    log: bool = True


STREAMS = (
    Stream("used", "gpu_utilization_ratio", 0.004, log=False),
    Stream("active", "gpu_sm_active_ratio", 0.005),
    Stream("power", "gpu_power_watts", 0.01),
    Stream("compute", "gpu_step_compute_seconds", 0.01),
    Stream("load", "node_load1", 0.05),
)
"""Least spreads: utilisation is told in whole per cent; NVIDIA gives board power to ±5 W, which is
1 % of a GPU at work (nvidia-smi's manual); compute times of equal ranks differ by about 1 % (public
traces, docs/studies/stragglers.md)."""

USED, ACTIVE, POWER, COMPUTE, LOAD = range(5)

LEAST = np.array([one.least for one in STREAMS])


@dataclass(frozen=True, slots=True)
class Sign:
    """A stream and the direction that speaks against a node; ``floor`` is the least that matters.

    One per cent: less is not worth a test of the node. In power and load other things differ too.
    """

    stream: int
    bad: float
    floor: float


SIGNS = (
    Sign(USED, -1.0, 0.01),
    Sign(ACTIVE, -1.0, 0.01),
    Sign(POWER, -1.0, 0.015),
    Sign(ACTIVE, 1.0, 0.01),
    Sign(POWER, 1.0, 0.015),
    Sign(COMPUTE, 1.0, 0.02),
    Sign(LOAD, 1.0, 0.2),
)
OF = np.array([sign.stream for sign in SIGNS])
BAD = np.array([sign.bad for sign in SIGNS])
FLOOR = np.array([sign.floor for sign in SIGNS])
LOADED = len(SIGNS) - 1


@dataclass(frozen=True, slots=True)
class Pattern:
    """Signs that together mean a straggler; all of them must show. ``others`` are how many other
    nodes a job must have for it: with few, stages of unequal work look the same."""

    name: str
    signs: tuple[int, ...]
    others: int


PATTERNS = (
    Pattern("idle", (0,), 1),
    Pattern("less", (1, 2), 3),
    Pattern("more", (3, 4), 3),
    Pattern("slow", (5,), 3),
)
"""GPUs idle, which no waiting rank's do; they do less, and draw less, than those that spin; they
do more and draw more than those that wait for them; their ranks compute for longer."""

OTHERS = np.ones(len(SIGNS), np.int64)
for _pattern in PATTERNS:
    OTHERS[list(_pattern.signs)] = _pattern.others

FEWEST_TRIMMED = 4
"""From so many GPUs on a node's highest and lowest are left out: one part is not the host."""


def values(clean: Clean) -> Floats:
    """Each node's value of each stream (nodes, streams), NaN where it is not told."""
    found = np.full((len(clean.nodes), len(STREAMS)), np.nan)
    gpus = clean.rows.get(GPU)
    if gpus is not None:
        believed = gpus.present & ~gpus.grace & ~gpus.frozen
        for at, one in enumerate(STREAMS):
            told = gpus.values.get(one.metric)
            if told is not None and at != LOAD:
                of_gpus = np.where(believed, told, np.nan)
                found[:, at] = _of_nodes(of_gpus, gpus, len(clean.nodes))
    nodes = clean.rows.get(NODE)
    if nodes is not None and (load := nodes.values.get(STREAMS[LOAD].metric)) is not None:
        found[nodes.node, LOAD] = 1.0 + np.where(nodes.grace | nodes.frozen, np.nan, load)
    return found


def scaled(plain: Floats) -> Floats:
    """Values as they are compared: logarithms where shares of themselves matter."""
    log = np.array([one.log for one in STREAMS])
    with np.errstate(divide="ignore", invalid="ignore"):
        logged = np.log(np.where(plain > 0, plain, np.nan))
    return np.where(log, logged, plain)


def _of_nodes(told: Floats, rows: Rows, count: int) -> Floats:
    """The mean of a node's GPUs without the highest and the lowest; NaN with under half of them."""
    usable = np.isfinite(told)
    node = rows.node[usable]
    value = told[usable]
    size = np.bincount(node, minlength=count)
    total = np.bincount(node, weights=value, minlength=count).astype(np.float64)
    high, low = np.full(count, -np.inf), np.full(count, np.inf)
    np.maximum.at(high, node, value)
    np.minimum.at(low, node, value)
    trim = size >= FEWEST_TRIMMED
    total[trim] -= high[trim] + low[trim]
    enough = (size > 0) & (2 * size >= np.bincount(rows.node, minlength=count))
    left = np.maximum(np.where(trim, size - 2, size), 1)
    return np.asarray(np.where(enough, total / left, np.nan))
