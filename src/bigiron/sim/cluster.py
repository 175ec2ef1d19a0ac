"""The scheduler of a recorded fleet: a queue, nodes to place on, jobs that end or are lost."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from bigiron.sim import kernel
from bigiron.sim.history import History
from bigiron.sim.site import GPUS
from bigiron.sim.streams import stream
from bigiron.sim.workload import Request

FULL = (1 << GPUS) - 1
LOOK_AHEAD = 40
"""How far down the queue a job may be taken that fits before one that does not."""
PATIENCE_S = 2 * 3600.0
QUEUE = 300
"""Users submit nothing into a queue longer than this."""


@dataclass(slots=True)
class Run:
    """A job on its nodes; ``masks`` are the GPU sockets it holds on each.

    ``done_s`` is the work that earlier runs of the same job saved in checkpoints.
    """

    id: int
    request: Request
    submit_s: float
    restarts: int = 0
    done_s: float = 0.0
    nodes: tuple[int, ...] = ()
    masks: tuple[int, ...] = ()
    start_s: float = 0.0
    end_s: float | None = None
    state: str = "RUNNING"
    exit_code: str = "0:0"


@dataclass(slots=True, repr=False)
class Cluster:
    """``runs`` holds every run of every job, in order of start."""

    history: History
    runs: list[Run] = field(default_factory=list)
    here: list[list[Run]] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    closed: dict[int, str] = field(default_factory=dict)
    hazards: dict[int, tuple[float, Callable[[int, float], None]]] = field(default_factory=dict)
    """By node: the rate per second at which runs there are lost, and what loses them."""
    idle: dict[str, set[int]] = field(default_factory=dict)
    partial: dict[str, set[int]] = field(default_factory=dict)
    queues: dict[str, deque[Run]] = field(default_factory=dict)
    _waiting: dict[int, list[Callable[[float], None]]] = field(default_factory=dict)
    _streams: dict[str, np.random.Generator] = field(default_factory=dict)
    _next: int = 4_000_001

    @classmethod
    def make(cls, history: History, requests: Iterable[Request]) -> "Cluster":
        """An idle cluster to which the requests will be submitted in their time."""
        made = cls(history)
        for n, node in enumerate(history.site.nodes):
            made.here.append([])
            made.free.append(FULL)
            made.idle.setdefault(node.partition, set()).add(n)
            made.partial.setdefault(node.partition, set())
            made.queues.setdefault(node.partition, deque())
            history.state(n, 0.0, "idle")
        for concern in ("placement", "losses", "programs"):
            made._streams[concern] = stream(history.seed, concern)
        for request in requests:
            history.at(request.at_s, partial(made._submitted, request))
        return made

    def submit(self, request: Request, at_s: float, *, first: bool = False) -> int:
        """A user's job and its number; 0 if the queue is too long for anyone's patience.

        ``first``: it goes to the head of the queue.
        """
        queue, number = self.queues[request.partition], self._next
        if len(queue) >= QUEUE and not first:
            return 0
        self._next += 1
        queue.insert(0 if first else len(queue), Run(number, request, at_s))
        self._fill(request.partition, at_s)
        return number

    def _submitted(self, request: Request, at_s: float) -> None:
        self.submit(request, at_s)

    def close(self, node: int, at_s: float, word: str, reason: str) -> None:
        """No new work for a node; the scheduler's ``word`` is drain, down or maint."""
        partition = self._partition(node)
        self.idle[partition].discard(node)
        self.partial[partition].discard(node)
        self.closed[node] = word
        self.history.state(node, at_s, word, reason)

    def open(self, node: int, at_s: float) -> None:
        """A node is given work again."""
        if self.closed.pop(node, None) is None:
            return
        self.history.state(node, at_s, "resume")
        self.history.state(node, at_s, "alloc" if self.here[node] else "idle")
        self._file(node)
        self._fill(self._partition(node), at_s)

    def when_empty(self, node: int, at_s: float, action: Callable[[float], None]) -> None:
        """Does something once the last job on a node has ended."""
        if self.here[node]:
            self._waiting.setdefault(node, []).append(action)
        else:
            action(at_s)

    def empty(self, node: int, at_s: float, action: Callable[[float], None]) -> None:
        """Like ``when_empty``, but the operator waits only so long: then jobs are requeued."""
        self.when_empty(node, at_s, action)
        if self.here[node]:
            self.history.at(at_s + PATIENCE_S, partial(self._evict, node))

    def _evict(self, node: int, at_s: float) -> None:
        if node in self.closed:
            self.lose(node, at_s, "REQUEUED", "0:0")

    def lose(
        self, node: int, at_s: float, state: str, code: str, *, mask: int = FULL, again: bool = True
    ) -> list[Run]:
        """Ends the runs on a node's GPUs (all of them by default); queues them again."""
        hit = [run for run in self.here[node] if run.masks[run.nodes.index(node)] & mask]
        for run in hit:
            self.end(run, at_s, state, code)
            if again:
                self._requeue(run, at_s)
        return hit

    def end(self, run: Run, at_s: float, state: str, code: str) -> None:
        """A run ends; its nodes are free for others."""
        if run.end_s is not None:
            return
        run.end_s, run.state, run.exit_code = at_s, state, code
        for node, mask in zip(run.nodes, run.masks, strict=True):
            self.here[node].remove(run)
            self.free[node] |= mask
            if not self.here[node]:
                if node not in self.closed:
                    self.history.state(node, at_s, "idle")
                for action in self._waiting.pop(node, []):
                    action(at_s)
            self._file(node)
        self._fill(run.request.partition, at_s)

    def _requeue(self, run: Run, at_s: float) -> None:
        ran = at_s - run.start_s
        saved = ran // 1800 * 1800 if run.request.length_s > 3600 else 0.0
        again = Run(run.id, run.request, at_s, run.restarts + 1, run.done_s + saved)
        self.queues[run.request.partition].appendleft(again)

    def _partition(self, node: int) -> str:
        return self.history.site.nodes[node].partition

    def _file(self, node: int) -> None:
        """Files an open node by what is free on it."""
        partition = self._partition(node)
        idle, partial = self.idle[partition], self.partial[partition]
        idle.discard(node)
        partial.discard(node)
        if node in self.closed:
            return
        if self.free[node] == FULL:
            idle.add(node)
        elif self.free[node]:
            partial.add(node)

    def _fill(self, partition: str, at_s: float) -> None:
        queue = self.queues[partition]
        k = 0
        while k < min(len(queue), LOOK_AHEAD):
            if not self.idle[partition] and not self.partial[partition]:
                return
            run = queue[k]
            nodes = self._fit(partition, run.request)
            if nodes:
                del queue[k]
                self._start(run, nodes, at_s)
            else:
                k += 1

    def _fit(self, partition: str, request: Request) -> tuple[int, ...]:
        rng, idle = self._streams["placement"], self.idle[partition]
        if request.nodes == 0:
            for node in sorted(self.partial[partition]):
                if self.free[node].bit_count() >= request.gpus:
                    return (node,)
        wanted = max(1, request.nodes)
        if len(idle) < wanted:
            return ()
        order = sorted(idle)
        first = int(rng.integers(len(order)))
        return tuple(sorted((order + order)[first : first + wanted]))

    def _start(self, run: Run, nodes: tuple[int, ...], at_s: float) -> None:
        request = run.request
        masks = []
        for node in nodes:
            mask = FULL if request.nodes else _lowest(self.free[node], request.gpus)
            masks.append(mask)
            self.free[node] &= ~mask
            if not self.here[node]:
                self.history.state(node, at_s, "alloc")
            self.here[node].append(run)
            self._file(node)
        run.nodes, run.masks, run.start_s = nodes, tuple(masks), at_s
        self.runs.append(run)
        left = max(60.0, request.length_s - run.done_s)
        self.history.at(at_s + left, lambda t: self._finish(run, t))
        for node in nodes:
            self._expose(run, node, at_s)

    def endanger(
        self, node: int, at_s: float, per_s: float, lose: Callable[[int, float], None]
    ) -> None:
        """From now on runs on a node are lost at a rate, those there already too."""
        self.hazards[node] = (per_s, lose)
        for run in self.here[node]:
            self._expose(run, node, at_s)

    def _expose(self, run: Run, node: int, at_s: float) -> None:
        if node in self.hazards:
            per_s, lose = self.hazards[node]
            lost_s = at_s + float(self._streams["losses"].exponential(1 / per_s))
            self.history.at(lost_s, partial(self._hazard, run, node, lose))

    def _hazard(self, run: Run, node: int, lose: Callable[[int, float], None], at_s: float) -> None:
        if run.end_s is None:
            lose(node, at_s)

    def _finish(self, run: Run, at_s: float) -> None:
        if run.end_s is not None:
            return
        if run.request.xid:
            self._program_faults(run, at_s)
        self.end(run, at_s, run.request.state, run.request.exit_code)

    def _program_faults(self, run: Run, at_s: float) -> None:
        """The user's own error, as the driver tells it, on one of the job's GPUs."""
        rng = self._streams["programs"]
        which = int(rng.integers(len(run.nodes)))
        node, mask = run.nodes[which], run.masks[which]
        socket = int(rng.choice([g for g in range(GPUS) if mask >> g & 1]))
        lines, code = kernel.application(self.history.site, node, socket, rng)
        self.history.tell(node, at_s - 2.0, lines)
        self.history.stroke("xid", node, at_s - 1.0, code, socket)


def _lowest(free: int, count: int) -> int:
    """The ``count`` lowest bits of ``free``."""
    mask = 0
    for _ in range(count):
        bit = free & -free
        mask |= bit
        free &= ~bit
    return mask
