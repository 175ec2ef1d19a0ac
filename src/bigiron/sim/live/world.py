"""The simulated world: machines, jobs, happenings and what they write to the kernel log."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from bigiron.sim.live.episodes import Episode, begin, each
from bigiron.sim.live.fleet import Inventory, inventory
from bigiron.sim.live.jobs import Scheduler
from bigiron.sim.live.pages import dcgm_page, node_page
from bigiron.sim.live.physics import State

STEP_S = 5.0
NOISE = (
    'audit: type=1400 audit({t:.3f}:{k}): apparmor="ALLOWED" operation="open" profile="snap"',
    "nvidia-nvswitch{s}: open (major=510)",
    "mlx5_core 0000:19:00.0: Port module event: module 0, Cable plugged",
    "EXT4-fs (nvme0n1p2): re-mounted. Quota mode: none.",
    "clocksource: Long readout interval, skipping watchdog check: cs_nsec: {k} wd_nsec: {k}",
    "perf: interrupt took too long (2511 > 2500), lowering kernel.perf_event_max_sample_rate",
)
NOISE_PER_NODE_HOUR = 6.0


@dataclass(slots=True)
class World:
    """Advances by calls to ``step``; its clock is given, so a seed replays everything."""

    start_s: float
    fleet: Inventory
    state: State
    jobs: Scheduler
    episodes: Sequence[Episode]
    rng: np.random.Generator
    log: list[str] = field(default_factory=list)
    """Kernel log lines not yet taken, in order of time."""
    begun: list[tuple[Episode, float]] = field(default_factory=list)
    now_s: float = 0.0
    _serial: int = 0

    @classmethod
    def make(
        cls, nodes: int, seed: int, start_s: float, episodes: Sequence[Episode], job_s: float
    ) -> "World":
        """A fleet at work for an hour already, so that it is warm when the story begins."""
        fleet = inventory(nodes, seed)
        state = State(nodes, np.random.default_rng([seed, 2]))
        state.boot[:] = start_s - 86_400 * 3
        jobs = Scheduler(fleet.names, np.random.default_rng([seed, 3]), job_s)
        world = cls(start_s, fleet, state, jobs, (), np.random.default_rng([seed, 4]))
        world.now_s = start_s - 600
        while world.now_s < start_s:
            world.step(10.0)
        world.episodes = sorted(episodes, key=lambda e: e.onset_s)
        world.log.clear()
        return world

    def step(self, dt_s: float) -> None:
        """Advances by ``dt_s`` seconds: jobs, then physics, then what happens."""
        self.now_s += dt_s
        self.jobs.step(self.now_s)
        self.state.load[:] = 0
        for job in self.jobs.running:
            self.state.load[list(job.nodes)] = job.load
        self._noise(dt_s)
        for episode in [e for e in self.episodes if e.onset_s <= self.now_s - self.start_s]:
            self._begin(episode)
        for episode, at_s in self.begun:
            for message in each(episode, self.state, self.now_s - at_s):
                self._say(episode.node, message)
        self.state.step(self.now_s, dt_s)

    def take_log(self) -> list[str]:
        """The kernel log lines since the last call."""
        lines, self.log = self.log, []
        return lines

    def page(self, node: int, which: str) -> str | None:
        """An exporter's page, ``dcgm`` or ``node``; None if nothing answers there."""
        if not self.state.up[node]:
            return None
        if which == "node":
            return node_page(self.fleet, self.state, node, self.now_s)
        return dcgm_page(self.fleet, self.state, node) if self.state.exporter[node] else None

    def _begin(self, episode: Episode) -> None:
        self.episodes = [e for e in self.episodes if e is not episode]
        self.begun.append((episode, self.now_s))
        for message in begin(episode, self.fleet, self.state):
            self._say(episode.node, message)
        if episode.kind in ("node_crash", "gpu_off_bus", "hbm_uncorrectable"):
            self.jobs.lose(episode.node, self.now_s)
        if episode.kind == "app_xid":
            for job in [j for j in self.jobs.running if episode.node in j.nodes]:
                self.jobs.fail(job, self.now_s)

    def _noise(self, dt_s: float) -> None:
        count = self.rng.poisson(NOISE_PER_NODE_HOUR * self.state.nodes * dt_s / 3600)
        for _ in range(count):
            text = NOISE[self.rng.integers(len(NOISE))]
            k, s = int(self.rng.integers(10**9)), int(self.rng.integers(4))
            self._say(int(self.rng.integers(self.state.nodes)), text.format(t=self.now_s, k=k, s=s))

    def _say(self, node: int, message: str) -> None:
        self._serial = (self._serial + 1) % 1_000_000  # microseconds keep the lines in order
        time = datetime.fromtimestamp(int(self.now_s), UTC).replace(microsecond=self._serial)
        self.log.append(f"{time.isoformat()} {self.fleet.nodes[node].name} kernel: {message}")
