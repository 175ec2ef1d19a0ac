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
    gpus = clean.rows.get(GPU)
    parts = np.bincount(gpus.node, minlength=n) if gpus is not None else np.zeros(n, np.int64)
    job, key = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    held, begun = np.zeros(n, np.int64), np.zeros(n, bool)
    number = 0
    for one in block.jobs:
        if one.end is not None or one.start is None or one.start > block.time:
            continue
        at = [where[name] for name in one.nodes if name in where]
        held[at] += 1
        if len(at) < 2 or 0 < one.gpus < parts[at].sum():
            continue
        job[at], key[at] = number, key_of(one)
        begun[at] = (block.time - one.start).total_seconds() >= START_S
        number += 1
    alone = held == 1
    return Placed(np.where(alone, job, -1), np.where(alone, key, 0), begun & alone)


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
