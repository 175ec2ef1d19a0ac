"""Which job each node works on, and whether two jobs are one program on about the same nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from bigiron.detect import Block
from bigiron.detect.hygiene import Clean
from bigiron.detect.straggler.panel import GPU
from bigiron.model import Job

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

START_S = 900.0
"""A job's first minutes load data and compile; ranks differ (most jobs that fail do so in their
first ten minutes: Aegis, NSDI 2025)."""

SHARED = 0.5
"""Jobs of one user that share this much of the smaller one's nodes count as one: the same program
puts the same stage on the same node again."""


@dataclass(frozen=True, slots=True)
class Placed:
    """By node (n,): ``job`` numbers the jobs with several whole nodes, -1 is none; ``key`` names
    the job for as long as it runs, 0 is none; ``begun`` says it is past its start."""

    job: Ints
    key: Ints
    begun: Flags


def placed(block: Block, clean: Clean) -> Placed:
    """Where jobs run now. A node that several jobs share, or a job with parts of nodes, is none's:
    its GPUs that idle may be nobody's."""
    n = len(clean.nodes)
    where = {name: i for i, name in enumerate(clean.nodes)}
    running = [j for j in block.jobs if j.end is None and j.start and j.start <= block.time]
    members = [[where[name] for name in job.nodes if name in where] for job in running]
    node = np.array([i for of_job in members for i in of_job], np.int64)
    size = np.array([len(of_job) for of_job in members], np.int64)
    job = np.repeat(np.arange(len(running)), size)
    gpus = clean.rows.get(GPU)
    parts = np.bincount(gpus.node, minlength=n) if gpus is not None else np.zeros(n, np.int64)
    able = np.bincount(job, weights=parts[node], minlength=len(running))
    asked = np.array([one.gpus for one in running], np.int64)
    whole = (size >= 2) & ((asked <= 0) | (asked >= able))
    alone = np.bincount(node, minlength=n)[node] == 1
    begun = np.array([_runs_s(one, block) >= START_S for one in running], bool)
    key = np.array([key_of(one) for one in running], np.int64)
    told = alone & whole[job]
    node, job = node[told], job[told]
    found = Placed(np.full(n, -1, np.int64), np.zeros(n, np.int64), np.zeros(n, bool))
    found.job[node], found.key[node], found.begun[node] = job, key[job], begun[job]
    return found


def _runs_s(job: Job, block: Block) -> float:
    return (block.time - job.start).total_seconds() if job.start is not None else 0.0


def key_of(job: Job) -> int:
    """A number for one attempt of a job; never 0."""
    start = job.start.timestamp() if job.start is not None else 0.0
    return crc32(f"{job.id} {start:.0f}".encode()) + 1


@dataclass(slots=True)
class Programs:
    """Tells whether two jobs are the same program on about the same nodes."""

    jobs: Iterable[Job]
    _known: Mapping[int, Job] | None = field(default=None)

    def find(self, key: int) -> Job | None:
        """The job with a key, where it is still remembered."""
        if self._known is None:
            self._known = {key_of(job): job for job in self.jobs}
        return self._known.get(key)

    def same(self, one: int, other: int) -> bool:
        """Whether they are; jobs too long ago to be remembered are others."""
        if one == other:
            return True
        first, second = self.find(one), self.find(other)
        if first is None or second is None or first.user != second.user:
            return False
        common = len(set(first.nodes) & set(second.nodes))
        return common >= SHARED * min(len(first.nodes), len(second.nodes))
