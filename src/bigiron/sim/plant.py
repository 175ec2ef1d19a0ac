"""The physics of a recorded fleet, one step at a time.

Jobs load GPUs, and all ranks of a job wait for its slowest; load draws power, up to a cap that
costs clock; power and inlet air make temperature through a thermal resistance and with inertia;
heat and power trouble cost clock again. All arrays are (nodes, 8) unless said otherwise.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.sim import noise
from bigiron.sim.effects import Mods
from bigiron.sim.noise import Floats, Wander
from bigiron.sim.site import GPUS, Site
from bigiron.sim.streams import stream

Ints = NDArray[np.int64]

TAU_S = 75.0
"""Time constant of heat sink and die."""
POWER_EXPONENT = 2.4
"""Dynamic power goes with clock times voltage squared; voltage follows the clock in part."""
SPEED_EXPONENT = 0.85
"""Speed follows the clock less than fully: some of the time is the memory's."""
WAIT_POWER, WAIT_ACTIVE = 0.35, 0.25
"""What a rank that spins in a collective draws and keeps busy, as a share of computing."""
PREHEAT_C = 3.0
"""How much warmer the air is at the rear sockets of a node at full power."""
DAY_S = 86_400.0
RAIL_V, DROOP_V = 12.15, 0.06


@dataclass(slots=True, repr=False)
class Natures:
    """The jobs' natures as arrays by run, the last entry for "no job"."""

    active: Floats
    draw: Floats
    memory: Floats
    dips: Floats
    first: Ints
    """Flat index of each run's first GPU: whose noise the whole job shares."""


@dataclass(slots=True, repr=False)
class Seen:
    """What sensors would read at one step, before anything spoils the reading."""

    power: Floats
    temp: Floats
    memory_temp: Floats
    clock: Floats
    active: Floats
    utilization: Floats
    reasons: Ints
    capped: Floats
    """Share of the step spent under the power cap."""
    hot: Floats
    """Share of the step spent in thermal slowdown."""
    busy: NDArray[np.bool_]
    inlet: Floats
    """(nodes,)"""
    volts: Floats
    """(nodes,)"""
    load1: Floats
    """(nodes,)"""


class Plant:
    """Every machine's temper, and its state at the present step."""

    def __init__(self, site: Site, seed: int, step_s: float, noisy: float = 1.0) -> None:
        self._site, self._step_s, self._noisy = site, step_s, noisy
        count = len(site.nodes)
        shape = (count, GPUS)
        self._flat = np.arange(count * GPUS)
        skus = site.skus
        self.idle_w = _per_gpu([s.idle_w for s in skus])
        self.limit_w = _per_gpu([s.limit_w for s in skus])
        self.clock_mhz = _per_gpu([s.clock_mhz for s in skus])
        self.idle_mhz = _per_gpu([s.idle_clock_mhz for s in skus])
        self.slowdown_c = _per_gpu([s.slowdown_c for s in skus])
        rng = stream(seed, "tempers")
        base = _per_gpu([s.resistance for s in skus])
        self.resistance = base * (1 + rng.normal(0, 0.03, shape))
        self.draw = 1 + rng.normal(0, 0.02, shape)
        self.speed = 1 + rng.normal(0, 0.003, shape)
        self.idle_w = self.idle_w * (1 + rng.normal(0, 0.04, shape))
        self.memory_off = rng.normal(4, 1.2, shape)
        self._preheat = np.linspace(0, PREHEAT_C, GPUS)[rng.permutation(GPUS)]
        racks = _codes([n.rack for n in site.nodes])
        self._loops = _codes([n.cooling for n in site.nodes])
        self._inlet = 22.0 + rng.normal(0, 0.6, racks.max() + 1)[racks] + rng.normal(0, 0.3, count)
        self._volts = RAIL_V + rng.normal(0, 0.03, count)
        self._droop = DROOP_V * (1 + rng.normal(0, 0.15, count))
        self._wanders(seed, shape)
        self.temp = self._inlet[:, None] + self.resistance * self.idle_w

    def _wanders(self, seed: int, shape: tuple[int, int]) -> None:
        def wander(name: str, kind: noise.Noise, form: tuple[int, ...]) -> Wander:
            return Wander(stream(seed, "noise", name), form, kind.times(self._noisy), self._step_s)

        nodes = (shape[0],)
        self._noise = {
            "temp": wander("temp", noise.GPU_TEMP, shape),
            "drift": wander("drift", noise.THERMAL_DRIFT, shape),
            "memory": wander("memory", noise.MEMORY_TEMP, shape),
            "draw": wander("draw", noise.DRAW, shape),
            "clock": wander("clock", noise.CLOCK, shape),
            "rank": wander("rank", noise.RANK, shape),
            "activity": wander("activity", noise.ACTIVITY, shape),
            "rail": wander("rail", noise.RAIL, nodes),
            "inlet": wander("inlet", noise.INLET, nodes),
            "host": wander("host", noise.HOST, nodes),
            "loop": wander("loop", noise.LOOP, (int(self._loops.max()) + 1,)),
        }
        self._dice = stream(seed, "dice")

    def swap(self, node: int, socket: int, seed: int) -> None:
        """Another part in the socket, with a temper of its own."""
        rng = np.random.default_rng(seed)
        base = self._site.skus[node].resistance
        self.resistance[node, socket] = base * (1 + rng.normal(0, 0.03))
        self.draw[node, socket] = 1 + rng.normal(0, 0.02)
        self.speed[node, socket] = 1 + rng.normal(0, 0.003)
        self.memory_off[node, socket] = rng.normal(4, 1.2)

    def step(self, at_s: float, run: Ints, work: Floats, natures: Natures, mods: Mods) -> Seen:
        """One step on: ``run`` is each GPU's run (-1: none), ``work`` its share of the work."""
        wander = {name: process.step() for name, process in self._noise.items()}
        dice, brake_dice = self._dice.random(run.shape), self._dice.random((len(run),))
        busy = run >= 0
        active = self._activity(run, busy, natures, wander["activity"], dice, mods)
        limit = self.limit_w * (1 - mods["limit"])
        demand = natures.draw[run] * active / np.maximum(natures.active[run], 1e-9)
        demand = np.asarray(demand * self.draw * (1 + wander["draw"]) * (1 + mods["draw"]))
        dynamic = demand * (self.limit_w - self.idle_w)
        room = limit - self.idle_w
        cap = np.minimum(1.0, room / np.maximum(dynamic, 1e-9)) ** (1 / POWER_EXPONENT)
        heat = np.clip(1 - 0.03 * (self.temp - self.slowdown_c), 0.3, 1.0)
        braked = brake_dice[:, None] < mods["brake"]
        ratio = np.minimum(cap, heat) * np.where(braked, 0.5, 1.0)
        ratio = np.minimum(ratio, 1 - mods["clock"])
        ratio = ratio - np.abs(wander["clock"]) / self.clock_mhz
        compute, waiting, gap = self._ranks(run, busy, ratio, work, wander["rank"], mods)
        share = compute + WAIT_POWER * waiting
        power = self.idle_w * (1 + 2 * wander["draw"]) + np.where(
            busy, dynamic * ratio**POWER_EXPONENT * share, 0.0
        )
        inlet = self._air(at_s, wander, mods)
        self._warm(power, inlet, wander, mods)
        memory = 0.04 * power * natures.memory[run] * (1 + mods["memory_resistance"])
        return Seen(
            power=power,
            temp=self.temp,
            memory_temp=self.temp + self.memory_off + memory + wander["memory"],
            clock=np.where(busy, self.clock_mhz * ratio, self.idle_mhz),
            active=np.where(busy, active * (compute + WAIT_ACTIVE * waiting), 0.0),
            utilization=np.where(busy, np.minimum(0.99, 1.6 * active) * (1 - gap), 0.0),
            reasons=_reasons(busy, cap, heat, braked & busy),
            capped=np.where(busy, np.clip(3 * (1 - cap), 0, 1), 0.0),
            hot=np.where(busy, np.clip(5 * (1 - heat), 0, 1), 0.0),
            busy=busy,
            inlet=inlet,
            volts=self._rail(power, wander["rail"], mods),
            load1=self._load1(busy, wander["host"], mods),
        )

    def _activity(
        self,
        run: Ints,
        busy: NDArray[np.bool_],
        natures: Natures,
        wander: Floats,
        dice: Floats,
        mods: Mods,
    ) -> Floats:
        """SM activity each rank would show if none had to wait."""
        first = natures.first[run]
        active = natures.active[run] * (1 + wander.reshape(-1)[first])
        dipping = dice.reshape(-1)[first] < natures.dips[run]
        active = np.where(dipping, 0.15 * active, active)
        if "stall" in mods:
            stalled = np.zeros(len(natures.active))
            np.maximum.at(stalled, run, mods["stall"])
            active = active * (1 - 0.97 * np.minimum(1, stalled[run]))
        return np.where(busy, np.clip(active, 0, 1), 0.0)

    def _ranks(
        self,
        run: Ints,
        busy: NDArray[np.bool_],
        ratio: Floats,
        work: Floats,
        wander: Floats,
        mods: Mods,
    ) -> tuple[Floats, Floats, Floats]:
        """Shares of a step each rank computes, waits for others, and waits for its own host.

        ``gap`` is time a rank's GPU idles for its host, ``net`` time its messages take longer, both
        in units of the healthy step; the other ranks wait for either.
        """
        speed = self.speed * np.maximum(ratio, 0.05) ** SPEED_EXPONENT
        own = work * (1 + wander) / speed
        gap = mods["gap"]
        slowest = np.zeros(int(run.max()) + 2)
        np.maximum.at(slowest, run, own + gap + mods["net"])
        whole = slowest[run]
        compute, idle = own / whole, gap / whole
        return compute, np.where(busy, 1 - compute - idle, 0.0), np.where(busy, idle, 0.0)

    def _air(self, at_s: float, wander: dict[str, Floats], mods: Mods) -> Floats:
        """Inlet air of each node: hall, rack, day, week, weather, and what happens to it."""
        day = 1.2 * np.sin(2 * np.pi * (at_s / DAY_S - 0.38))
        week = 0.4 * np.sin(2 * np.pi * at_s / (7 * DAY_S))
        air = self._inlet + day + week + wander["loop"][self._loops] + wander["inlet"]
        return np.asarray(air + mods.node("inlet"))

    def _warm(self, power: Floats, inlet: Floats, wander: dict[str, Floats], mods: Mods) -> None:
        node_share = power.mean(axis=1) / self.limit_w[:, 0]
        resistance = self.resistance * (1 + mods["resistance"])
        resistance = resistance * (1 + mods["airflow"])
        air = inlet[:, None] + self._preheat * node_share[:, None] * (1 + mods["airflow"])
        target = air + resistance * power + wander["temp"] + wander["drift"]
        target = target + mods["offset"]
        share = 1 - np.exp(-self._step_s / TAU_S)
        self.temp = self.temp + share * (target - self.temp)

    def _rail(self, power: Floats, wander: Floats, mods: Mods) -> Floats:
        load = power.mean(axis=1) / self.limit_w[:, 0]
        sag = mods.node("sag") * (0.3 + 0.7 * load)
        return np.asarray(self._volts - self._droop * load - sag + wander)

    def _load1(self, busy: NDArray[np.bool_], wander: Floats, mods: Mods) -> Floats:
        work = busy.sum(axis=1) * 2.0 * (1 + wander)
        return np.asarray(np.maximum(0.05, 0.8 + work + mods.node("load1") + 0.3 * wander))


def _reasons(busy: NDArray[np.bool_], cap: Floats, heat: Floats, braked: NDArray[np.bool_]) -> Ints:
    """The clock event reasons' bits: idle, power cap, thermal slowdown (software), power brake."""
    bits = np.where(busy, 0, 0x1).astype(np.int64)
    bits += 0x4 * (busy & (cap < 0.999))
    bits += 0x20 * (busy & (heat < 1))
    return bits + 0x88 * braked


def _per_gpu(values: list[float]) -> Floats:
    return np.repeat(np.array(values, float)[:, None], GPUS, axis=1)


def _codes(names: list[str]) -> Ints:
    """Each name's number among the different ones."""
    return np.unique(names, return_inverse=True)[1].astype(np.int64)
