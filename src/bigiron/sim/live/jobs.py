"""A Slurm-like stream of jobs: most small and short, most GPU time in few large ones."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from bigiron.nodesets import fold

HEADER = (
    "JobIDRaw|JobName|User|Account|Partition|State|ExitCode|Submit|Start|End|"
    "ElapsedRaw|NNodes|NodeList|AllocTRES|Restarts"
)
SIZES = (1, 1, 1, 2, 4, 8, 16)
USERS = 12


@dataclass(slots=True)
class Running:
    """A job at work. Times in epoch seconds."""

    id: int
    user: str
    nodes: tuple[int, ...]
    submit_s: float
    start_s: float
    ends_s: float
    load: float
    restarts: int = 0


@dataclass(slots=True)
class Scheduler:
    """Places jobs on idle nodes, requeues those that lose a node; ``rows`` are sacct's."""

    names: tuple[str, ...]
    rng: np.random.Generator
    mean_s: float
    """Mean run time of a job, seconds."""
    running: list[Running] = field(default_factory=list)
    queue: list[Running] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    out: set[int] = field(default_factory=set)
    """Nodes that take no work: down, or drained by an operator."""
    _next: int = 4_100_001

    def step(self, now_s: float) -> None:
        """Ends what is over, then fills idle nodes up to about nine in ten."""
        for job in [job for job in self.running if job.ends_s <= now_s]:
            self._end(job, now_s, "COMPLETED", "0:0")
        busy = {n for job in self.running for n in job.nodes}
        idle = [n for n in range(len(self.names)) if n not in busy and n not in self.out]
        room = len(self.names) * 0.9 - len(busy)
        while room > 0 and idle:
            job = self.queue.pop(0) if self.queue else self._new(now_s)
            want = min(len(job.nodes) or 1, len(idle))
            job.nodes = tuple(idle[:want])
            del idle[:want]
            room -= want
            job.start_s = now_s
            job.ends_s = now_s + float(self.rng.exponential(self.mean_s)) + 30
            self.running.append(job)

    def lose(self, node: int, now_s: float) -> list[Running]:
        """A node is lost: its jobs end as NODE_FAIL and are queued again."""
        self.out.add(node)
        hit = [job for job in self.running if node in job.nodes]
        for job in hit:
            self._end(job, now_s, "NODE_FAIL", "0:0")
            again = Running(job.id, job.user, job.nodes, now_s, now_s, now_s, job.load)
            again.restarts = job.restarts + 1
            self.queue.append(again)
        return hit

    def fail(self, job: Running, now_s: float) -> None:
        """The user's own program fails."""
        self._end(job, now_s, "FAILED", "1:0")

    def _new(self, now_s: float) -> Running:
        size = int(self.rng.choice(SIZES))
        job = Running(
            id=self._next,
            user=f"u{self.rng.integers(USERS):03d}",
            nodes=tuple(range(size)),
            submit_s=now_s,
            start_s=now_s,
            ends_s=now_s,
            load=float(self.rng.uniform(0.75, 0.97)),
        )
        self._next += 1
        return job

    def _end(self, job: Running, now_s: float, state: str, code: str) -> None:
        self.running.remove(job)
        nodes = fold(self.names[n] for n in job.nodes)
        gpus = 8 * len(job.nodes)
        times = "|".join(_iso(t) for t in (job.submit_s, job.start_s, now_s))
        self.rows.append(
            f"{job.id}|train|{job.user}|ml|train|{state}|{code}|{times}|"
            f"{int(now_s - job.start_s)}|{len(job.nodes)}|{nodes}|"
            f"gres/gpu={gpus},node={len(job.nodes)}|{job.restarts}"
        )


def _iso(epoch_s: float) -> str:
    return datetime.fromtimestamp(int(epoch_s), UTC).isoformat()
