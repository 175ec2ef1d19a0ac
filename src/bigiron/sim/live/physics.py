"""What the machines do: load drives power, power and inlet drive temperature, errors accrue.

All arrays are (nodes, gpus) or (nodes,). Magnitudes are those of an air-cooled 8 × H100 node:
70 W idle, 700 W limit, a thermal resistance near 0.055 K/W, memory a few degrees above the core.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigiron.sim.live.fleet import DRIVER, GPUS

Floats = NDArray[np.float64]
IDLE_W, LIMIT_W = 70.0, 700.0
CLOCK_MHZ, IDLE_CLOCK_MHZ = 1980.0, 345.0
SLOWDOWN_C = 87.0
TAU_S = 45.0
"""Time constant of the heat sink, seconds."""


@dataclass(slots=True)
class State:
    """The fleet at one moment. Counters only grow, except over a reboot."""

    nodes: int
    rng: np.random.Generator
    drivers: list[str] = field(init=False)
    boot: Floats = field(init=False)
    load: Floats = field(init=False)
    inlet: Floats = field(init=False)
    resistance: Floats = field(init=False)
    draw: Floats = field(init=False)
    noise: Floats = field(init=False)
    power: Floats = field(init=False)
    temp: Floats = field(init=False)
    memory_temp: Floats = field(init=False)
    clock: Floats = field(init=False)
    slow: Floats = field(init=False)
    reasons: NDArray[np.int64] = field(init=False)
    width: NDArray[np.int64] = field(init=False)
    present: NDArray[np.bool_] = field(init=False)
    frozen: NDArray[np.bool_] = field(init=False)
    up: NDArray[np.bool_] = field(init=False)
    exporter: NDArray[np.bool_] = field(init=False)
    counters: dict[str, Floats] = field(init=False)
    states: dict[str, Floats] = field(init=False)

    def __post_init__(self) -> None:
        shape, rng = (self.nodes, GPUS), self.rng
        self.drivers = [DRIVER] * self.nodes
        self.boot = np.zeros(self.nodes)
        self.load = np.zeros(self.nodes)
        rack = np.repeat(rng.normal(0, 0.6, (self.nodes + 7) // 8), 8)[: self.nodes]
        self.inlet = 24.0 + rack + rng.normal(0, 0.3, self.nodes)
        slot = np.linspace(0.0, 0.004, GPUS)  # the rear slots breathe warmer air
        self.resistance = 0.055 + slot + rng.normal(0, 0.0012, shape)
        self.draw = rng.normal(1.0, 0.015, shape)
        self.noise = np.zeros(shape)
        self.power = np.full(shape, IDLE_W)
        self.temp = self.inlet[:, None] + self.resistance * self.power
        self.memory_temp = self.temp + 5
        self.clock = np.full(shape, IDLE_CLOCK_MHZ)
        self.slow = np.zeros(shape)
        self.reasons = np.ones(shape, np.int64)
        self.width = np.full(shape, 16, np.int64)
        self.present = np.ones(shape, bool)
        self.frozen = np.zeros(self.nodes, bool)
        self.up = np.ones(self.nodes, bool)
        self.exporter = np.ones(self.nodes, bool)
        start = {"pcie_replay": 60.0, "ecc_sbe": 2.0, "energy_mj": 1e12}
        names = (
            *("pcie_replay", "ecc_sbe", "ecc_dbe", "nvlink_crc", "nvlink_replay", "energy_mj"),
            *("thermal_ns", "power_ns", "ib_downed", "ib_symbol", "ib_recovery", "remap_unc"),
            "remap_cor",
        )
        self.counters = {n: np.floor(rng.random(shape) * start.get(n, 0.0)) for n in names}
        self.states = {n: np.zeros(shape) for n in ("remap_pending", "remap_failure", "xid")}

    def step(self, now_s: float, dt_s: float) -> None:
        """Advances by ``dt_s`` seconds to epoch second ``now_s``."""
        live = ~self.frozen
        shape = self.power.shape
        self.noise = 0.9 * self.noise + self.rng.standard_t(4, shape) * 0.006
        load = np.clip(self.load[:, None] * (1 + self.noise), 0, 1)
        self.slow = np.where(self.temp > SLOWDOWN_C, np.minimum(self.slow + 0.02, 0.4), self.slow)
        effort = load * (1 - 0.7 * self.slow)
        power = (IDLE_W + effort * (LIMIT_W * 0.94 - IDLE_W)) * self.draw
        diurnal = 0.8 * np.sin(2 * np.pi * (now_s % 86_400) / 86_400)
        target = self.inlet[:, None] + diurnal + self.resistance * power
        share = 1 - np.exp(-dt_s / TAU_S)
        busy = load > 0.05
        new: dict[str, Any] = {
            "power": power,
            "temp": self.temp + share * (target - self.temp),
            "clock": np.where(busy, CLOCK_MHZ * (1 - self.slow), IDLE_CLOCK_MHZ),
        }
        for name, value in new.items():
            setattr(self, name, np.where(live[:, None], value, getattr(self, name)))
        self.memory_temp = self.temp + 4 + 0.012 * self.power
        hot = self.temp > SLOWDOWN_C
        self.reasons = np.where(busy, 0, 1).astype(np.int64) | np.where(hot, 0x48, 0)
        self._count(dt_s, busy, hot)

    def _count(self, dt_s: float, busy: NDArray[np.bool_], hot: NDArray[np.bool_]) -> None:
        hours, shape = dt_s / 3600, self.power.shape
        per_hour = {"pcie_replay": 0.05, "ecc_sbe": 0.004, "nvlink_crc": 0.01, "ib_symbol": 0.02}
        for name, rate in per_hour.items():
            self.counters[name] += self.rng.poisson(rate * hours, shape) * busy
        self.counters["energy_mj"] += self.power * dt_s * 1000
        self.counters["thermal_ns"] += hot * dt_s * 1e9

    def reboot(self, node: int, now_s: float) -> None:
        """Volatile counters start anew; what was wrong with the link or a clock is trained away."""
        self.boot[node] = now_s
        for name in ("pcie_replay", "ecc_sbe", "ecc_dbe", "nvlink_crc", "nvlink_replay"):
            self.counters[name][node] = 0
        self.states["xid"][node] = 0
        self.up[node], self.frozen[node] = True, False
