"""A hall of like nodes at work, step by step, seen by hygiene and one fold and nothing else."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigiron.detect import FALSE_PER_NODE_DAY, Block, Column, Fleet, Key, StatefulDetector
from bigiron.detect.hygiene.clean import clean
from bigiron.detect.hygiene.state import State as Hygiene
from bigiron.model import Device, Fact, Finding, Job, Node, NodeState, Recovery, Severity

Floats = NDArray[np.float64]

START = datetime(2026, 3, 2, tzinfo=UTC)
STEP = timedelta(minutes=20)
STEPS_A_DAY = 72
GPUS = 8


class Hall:
    """``nodes`` of eight GPUs, all in one job unless told otherwise.

    What is wrong is written into the arrays: ``heat`` (nodes, 8) multiplies thermal resistance,
    ``clock`` the clock; ``warmth`` (nodes,) is added to the inlet. Draws are from one seed.
    """

    def __init__(
        self, fold: StatefulDetector[Any], nodes: int = 12, seed: int = 5, sku: str = "box8"
    ) -> None:
        self.fold = fold
        self.random = np.random.default_rng(seed)
        self.names = tuple(f"h{i:02d}" for i in range(nodes))
        self.keys: tuple[Key, ...] = tuple((n, f"gpu{i}") for n in self.names for i in range(GPUS))
        self.own: tuple[Key, ...] = tuple((n, "") for n in self.names)
        self.fleet = Fleet(
            {name: Node(name, sku=sku) for name in self.names},
            {key: Device(*key, "gpu", f"GPU-{key[0]}-{key[1]}", model="M") for key in self.keys},
            {key: f"gpu-{key[0]}-{key[1]}" for key in self.keys},
        )
        self.now = START
        self.jobs: tuple[Job, ...] = (Job("1", "RUNNING", "u", start=START, nodes=self.names),)
        self.states: dict[str, NodeState] = {}
        self.false_per_node_day = FALSE_PER_NODE_DAY
        self.facts: dict[Key, dict[str, Fact]] = {}
        shape = (nodes, GPUS)
        self.resistance = 0.06 * (1 + 0.03 * self.random.standard_normal(shape))
        self.heat, self.clock = np.ones(shape), np.ones(shape)
        self.warmth, self.load = np.zeros(nodes), np.full(nodes, 0.85)
        self.wander = np.zeros(shape)
        self.hygiene: Any = Hygiene()
        self.state: Any = fold.start(self.fleet)
        self.found: list[Finding | Recovery] = []
        self.blamed: dict[tuple[str, str, str], datetime] = {}

    def columns(self) -> Mapping[str, Column]:
        """This step's readings."""
        shape = self.wander.shape
        self.wander = 0.8 * self.wander + 0.3 * self.random.standard_normal(shape)
        power = 700 * self.load[:, None] * (1 + 0.01 * self.random.standard_normal(shape))
        inlet = 24 + self.warmth + 0.2 * self.random.standard_normal(len(self.names))
        temp = inlet[:, None] + self.resistance * self.heat * power + self.wander
        clock = 1.98e9 * self.clock * (1 - 0.004 * np.abs(self.random.standard_normal(shape)))
        of_gpus = {
            "gpu_power_watts": power,
            "gpu_temp_celsius": np.rint(temp),
            "gpu_sm_clock_hertz": clock,
            "gpu_utilization_ratio": np.full(shape, 0.99),
            "gpu_sm_active_ratio": np.full(shape, 0.8) + 0.01 * self.random.standard_normal(shape),
            "gpu_clock_event_reasons": np.zeros(shape),
        }
        told = {name: Column(self.keys, value.ravel()) for name, value in of_gpus.items()}
        return {**told, "node_inlet_temp_celsius": Column(self.own, inlet)}

    def step(self) -> None:
        """Twenty minutes."""
        self.now += STEP
        block = Block(
            self.now,
            self.fleet,
            jobs=self.jobs,
            step_s=STEP.total_seconds(),
            false_per_node_day=self.false_per_node_day,
            columns=self.columns(),
            facts=self.facts,
            states=self.states,
        )
        self.hygiene, cleaned = clean(self.hygiene, block)
        self.state, self.found = self.fold.step(self.state, replace(block, clean=cleaned))
        for one in self.found:
            if isinstance(one, Finding) and one.severity is not Severity.INFO:
                key = (one.subject.node, one.subject.device, one.fault)
                self.blamed.setdefault(key, self.now)

    def run(self, days: float, until: Callable[[], bool] = lambda: False) -> None:
        """So many days of steps, or until something is so."""
        for _ in range(round(days * STEPS_A_DAY)):
            self.step()
            if until():
                return

    def suspects(self) -> list[Finding]:
        """What is blamed at the last step."""
        return [
            one
            for one in self.found
            if isinstance(one, Finding) and one.severity is not Severity.INFO
        ]
