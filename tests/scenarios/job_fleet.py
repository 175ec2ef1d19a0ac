"""Nodes that run jobs shift after shift, and what their GPUs show while ranks wait for one another.

All ranks of a job take as long as its slowest. A rank computes, idles where its host is late, and
spins for the rest, which looks like work to a sensor of utilisation.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np

from bigiron.detect import Block, Fleet
from bigiron.detect.hygiene import NODE, Clean, Rows
from bigiron.detect.state import dec_hook, enc_hook
from bigiron.detect.straggler.fold import Straggler
from bigiron.detect.straggler.state import State
from bigiron.model import Finding, Job, NodeState, Severity

T0 = datetime(2026, 5, 4, tzinfo=UTC)
STEP = timedelta(minutes=30)
SPINS_ACTIVE, SPINS_DRAWING = 0.3, 0.4
"""What a waiting rank keeps busy and draws, as a share of one that computes."""


@dataclass(frozen=True, slots=True)
class Host:
    """How a node is at one time: ``late`` is how long its GPUs wait for it in a step, ``slow`` how
    much longer they compute, ``lighter`` how much less work they have; all as shares of a step."""

    late: float = 0.0
    slow: float = 0.0
    lighter: float = 0.0
    load: float = 0.0


WELL = Host()
Hosts = Callable[[float, str, Job], Host]
"""How a node is at an hour, in a job."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Who works together for some hours."""

    hours: float
    teams: Sequence[Sequence[str]]
    users: Sequence[str]


def shifts(
    nodes: Sequence[str], *, team: int = 4, hours: float = 8, seed: int = 1
) -> Iterator[Shift]:
    """Teams drawn anew at every shift, each of another user."""
    rng = random.Random(seed)
    while True:
        mixed = rng.sample(list(nodes), len(nodes))
        teams = [sorted(mixed[i : i + team]) for i in range(0, len(mixed), team)]
        yield Shift(hours, teams, [f"u{rng.randrange(40)}" for _ in teams])


class JobFleet:
    """``run`` advances half an hour at a time."""

    def __init__(
        self,
        nodes: int = 16,
        *,
        gpus: int = 4,
        noise: float = 0.004,
        seed: int = 3,
        work: Iterator[Shift] | None = None,
        tells_steps: bool = False,
    ) -> None:
        self.nodes = tuple(f"n{i:02d}" for i in range(nodes))
        self.gpus, self.noise, self.tells_steps = gpus, noise, tells_steps
        self.rng = np.random.default_rng(seed)
        self.work = work or shifts(self.nodes)
        self.hour = 0.0
        self.jobs: list[Job] = []
        self.until = 0.0
        self.states: dict[str, NodeState] = {}
        self.silent: set[str] = set()
        self.fold = Straggler()
        self.state = self.fold.start(Fleet())
        self.found: dict[str, Finding] = {}
        self.warned: dict[str, float] = {}
        self.told: set[str] = set()

    @property
    def now(self) -> datetime:
        """The present time."""
        return T0 + timedelta(hours=self.hour)

    def run(self, hours: float, hosts: Hosts | None = None) -> None:
        """So many hours pass."""
        end = self.hour + hours
        while self.hour < end - 1e-9:
            if self.hour >= self.until - 1e-9:
                self._next_shift()
            self.hour += STEP.total_seconds() / 3600
            self._step(hosts or (lambda _hour, _node, _job: WELL))

    def restart(self) -> None:
        """The state through JSON and back."""
        packed = msgspec.json.encode(self.state, enc_hook=enc_hook)
        self.state = msgspec.json.decode(packed, type=State, dec_hook=dec_hook)

    def _next_shift(self) -> None:
        shift = next(self.work)
        ended = [msgspec.structs.replace(j, end=j.end or self.now) for j in self.jobs]
        number = len(ended)
        self.jobs = ended + [
            Job(
                str(1000 + number + i),
                "RUNNING",
                user=user,
                start=self.now,
                nodes=tuple(team),
                gpus=len(team) * self.gpus,
            )
            for i, (team, user) in enumerate(zip(shift.teams, shift.users, strict=True))
        ]
        self.until = self.hour + shift.hours

    def _step(self, hosts: Hosts) -> None:
        block = self.block(hosts)
        self.state, found = self.fold.step(self.state, block)
        self.found = {f.subject.node: f for f in found if isinstance(f, Finding)}
        for node, finding in self.found.items():
            self.told.add(node)
            if finding.severity is not Severity.INFO:
                self.warned.setdefault(node, self.hour)

    def block(self, hosts: Hosts) -> Block:
        """What is told at this step."""
        used, active, power, compute = self._work(hosts)
        load = np.array([2.0] * len(self.nodes))
        for job in self.jobs:
            if job.end is None:
                for node in job.nodes:
                    at = self.nodes.index(node)
                    load[at] += 14 + hosts(self.hour, node, job).load
        gpu_node = np.repeat(np.arange(len(self.nodes), dtype=np.int32), self.gpus)
        values = {
            "gpu_utilization_ratio": self._noisy(used, gpu_node),
            "gpu_sm_active_ratio": self._noisy(active, gpu_node),
            "gpu_power_watts": self._noisy(power, gpu_node),
        }
        if self.tells_steps:
            values["gpu_step_compute_seconds"] = self._noisy(compute, gpu_node)
        rows = {
            "gpu": _rows("gpu", gpu_node, [self.nodes[i] for i in gpu_node], values),
            NODE: _rows(
                NODE,
                np.arange(len(self.nodes), dtype=np.int32),
                list(self.nodes),
                {"node_load1": load * (1 + self.rng.normal(0, 0.03, len(load)))},
            ),
        }
        clean = Clean(
            self.now.timestamp(),
            STEP.total_seconds(),
            self.nodes,
            rows,
            np.full(len(self.nodes), np.nan),
            {},
        )
        return Block(
            self.now,
            Fleet(),
            jobs=tuple(self.jobs),
            states=self.states,
            step_s=STEP.total_seconds(),
            clean=clean,
        )

    def _noisy(self, of_nodes: np.ndarray, node: np.ndarray) -> np.ndarray:
        value = of_nodes[node] * (1 + self.rng.normal(0, self.noise, len(node)))
        value[[self.nodes[i] in self.silent for i in node]] = np.nan
        return np.asarray(value)

    def _work(self, hosts: Hosts) -> tuple[np.ndarray, ...]:
        n = len(self.nodes)
        used, active, power, compute = (
            np.zeros(n),
            np.zeros(n),
            np.full(n, 90.0),
            np.full(n, np.nan),
        )
        for job in self.jobs:
            if job.end is not None:
                continue
            at = [self.nodes.index(node) for node in job.nodes]
            how = [hosts(self.hour, node, job) for node in job.nodes]
            own = np.array([(1 - h.lighter) * (1 + h.slow) for h in how])
            late = np.array([h.late for h in how])
            whole = float((own + late).max())
            waits = 1 - (own + late) / whole
            used[at] = 0.98 * (1 - late / whole)
            active[at] = 0.7 * (own / whole + SPINS_ACTIVE * waits)
            power[at] = 90 + 550 * (own / whole + SPINS_DRAWING * waits)
            compute[at] = 3.0 * own
        return used, np.maximum(active, 0.001), power, compute


def _rows(kind: str, node: np.ndarray, names: list[str], values: dict[str, np.ndarray]) -> Rows:
    n = len(node)
    device = [f"{kind}{i}" if kind != NODE else "" for i in range(n)]
    keys = tuple(zip(names, device, strict=True))
    no = np.zeros(n, np.bool_)
    return Rows(
        kind=kind,
        units=tuple(f"{a}/{b}" for a, b in keys),
        keys=keys,
        node=node,
        slot=np.zeros(n, np.int32),
        values=values,
        increments={},
        spans={},
        coverage={},
        present=np.ones(n, np.bool_),
        grace=no,
        frozen=no,
        moved=no,
    )
