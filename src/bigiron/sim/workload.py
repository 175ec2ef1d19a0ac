"""What users ask for: sizes, lengths, intensities and how their jobs end.

Sizes follow the shape published for Meta's research clusters (arXiv 2410.21680): most jobs fit
one server and take little of the time, few large ones take most of it. Outcomes too: 60 %
complete, a quarter fail of their users' doing, one in ten is cancelled.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bigiron.sim.streams import stream

SIZES = (
    *((1, 0, 0.34), (2, 0, 0.11), (4, 0, 0.11), (8, 1, 0.22), (8, 2, 0.09), (8, 4, 0.07)),
    *((8, 8, 0.04), (8, 16, 0.014), (8, 32, 0.006)),
)
"""(GPUs on a node, whole nodes or 0, share of the jobs)."""
USERS = 24
USE = 1 / np.arange(1, USERS + 1) ** 0.8
USE /= USE.sum()
"""How much of the jobs each user submits."""
BROKEN_USER = "u005"
"""Whose program faults wherever it runs, in a recording with the class app_xid."""
OUTCOMES = (
    ("COMPLETED", "0:0", 0.62),
    ("FAILED", "1:0", 0.15),
    ("FAILED", "2:0", 0.03),
    ("FAILED", "127:0", 0.02),
    ("FAILED", "134:0", 0.025),
    ("FAILED", "139:0", 0.025),
    ("CANCELLED by 1000", "0:15", 0.1),
    ("TIMEOUT", "0:0", 0.012),
    ("OUT_OF_MEMORY", "0:125", 0.008),
    ("PREEMPTED", "0:0", 0.01),
)
DAY_S = 86_400.0
ASKED = 1.15
"""What is asked for, times what the fleet could do: since many jobs end early, 77 to 87 % of it
are in use (Meta: 83 and 85 %)."""


@dataclass(frozen=True, slots=True)
class Nature:
    """How a job loads its GPUs. Shares are of a GPU's whole.

    ``draw`` is the share of the dynamic power it would take at full clock (above 1 it meets the
    power cap); ``dips`` the share of time in checkpoints and evaluation; ``uneven`` how much less
    the second half of its ranks have to do; ``memory`` how much of its power goes to HBM.
    """

    active: float
    draw: float
    memory: float
    dips: float
    uneven: float = 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """A job as submitted. ``ending`` is how it would end if nothing broke, after ``length_s``."""

    at_s: float
    partition: str
    user: str
    gpus: int
    nodes: int
    length_s: float
    state: str
    exit_code: str
    nature: Nature
    xid: bool = False
    """The user's own program faults the GPU at its end."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Who submits what. ``capacity`` is (partition, nodes) pairs."""

    capacity: tuple[tuple[str, int], ...]
    span_s: float
    seed: int
    broken_user: bool = False

    def requests(self) -> Iterator[Request]:
        """Jobs of each partition in order of submission, a first wave at the start."""
        for partition, nodes in self.capacity:
            yield from self._of(partition, nodes)

    def _of(self, partition: str, nodes: int) -> Iterator[Request]:
        rng = stream(self.seed, "jobs", partition)
        usable = [s for s in SIZES if s[1] <= max(1, nodes // 4)]
        shares = np.array([s[2] for s in usable])
        shares /= shares.sum()
        hours = sum(
            share * g * max(1, n) * _mean_hours(n)
            for share, (g, n, _) in zip(shares, usable, strict=True)
        )
        per_s = ASKED * nodes * 8 / hours / 3600
        at_s = 0.0
        wave = int(per_s * hours / 8 * 3600)
        while at_s < self.span_s:
            gpus, whole, _ = usable[int(rng.choice(len(usable), p=shares))]
            yield self._one(rng, at_s, partition, gpus, whole)
            wave -= 1
            if wave < 0:
                daily = 1 + 0.25 * np.sin(2 * np.pi * (at_s / DAY_S - 0.35))
                at_s += float(rng.exponential(1 / (per_s * daily)))

    def _one(
        self, rng: np.random.Generator, at_s: float, partition: str, gpus: int, whole: int
    ) -> Request:
        length_s = _mean_hours(whole) * 3600 * float(np.exp(1.1 * rng.standard_normal() - 0.605))
        length_s = min(max(length_s, 60.0), 4 * DAY_S)
        pick = int(rng.choice(len(OUTCOMES), p=[share for *_, share in OUTCOMES]))
        state, code, _ = OUTCOMES[pick]
        early = float(rng.beta(0.6, 2.5)) if state.startswith("FAILED") else float(rng.uniform())
        user = f"u{int(rng.choice(USERS, p=USE)):03d}"
        nature = _nature(rng, whole)
        xid = state == "FAILED" and code in ("1:0", "134:0") and rng.uniform() < 0.04
        fault, faulty = rng.uniform(), self.broken_user and user == BROKEN_USER
        if faulty and fault < 0.35:
            state, code, xid, early = "FAILED", "134:0", True, 0.1 + 0.5 * early
        if state != "COMPLETED":
            length_s = max(45.0, length_s * early)
        return Request(at_s, partition, user, gpus, whole, length_s, state, code, nature, bool(xid))


def _mean_hours(whole_nodes: int) -> float:
    """Mean length of a job by the nodes it takes: large ones are long."""
    if whole_nodes <= 1:
        return 1.5 + 1.5 * whole_nodes
    return float(4.0 * (1 + whole_nodes) ** 0.45)


def _nature(rng: np.random.Generator, whole: int) -> Nature:
    """Training at scale is steady and hot; small jobs are anything."""
    if whole >= 2:
        active = float(rng.uniform(0.62, 0.92))
        draw = float(np.clip(active * rng.normal(1.08, 0.09), 0.5, 1.25))
        return Nature(active, draw, float(rng.uniform(0.2, 0.35)), float(rng.uniform(0.01, 0.06)))
    active = float(rng.beta(2.2, 1.8))
    draw = float(np.clip(active * rng.normal(0.95, 0.15), 0.04, 1.2))
    dips = float(rng.uniform(0.02, 0.3))
    return Nature(active, draw, float(rng.uniform(0.1, 0.4)), dips)
