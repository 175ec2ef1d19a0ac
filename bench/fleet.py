"""One pass over a live fleet, and a recorded one: what judging costs.

    python bench/fleet.py [--gpus 102400] [--metrics 60] [--passes 28] [--recording FOLDER]

A pass is one step of a fleet whose samples have come side by side: hygiene, then every fold, on
one core; nothing is read from anywhere. The first meets every part for the first time; once an
hour blocks are closed. State is what hygiene and the folds remember, in arrays. The replay is of
a recording simulated here (32 nodes, 7 days, a sample each 5 minutes) unless one is given, on one
process and on two.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron import signals
from bigiron.detect import Block, Column, Fleet, Key, fold
from bigiron.detect.hygiene.clean import clean
from bigiron.detect.hygiene.state import State
from bigiron.model import Device, Job, Node

START = datetime(2026, 6, 1, tzinfo=UTC)
STEP_S = 300.0
GPUS_PER_NODE = 8

FIRST = (
    "gpu_temp_celsius",
    "gpu_memory_temp_celsius",
    "gpu_power_watts",
    "gpu_sm_clock_hertz",
    "gpu_utilization_ratio",
    "gpu_sm_active_ratio",
    "gpu_clock_event_reasons",
    "gpu_pcie_replays_total",
    "gpu_ecc_correctable_volatile_total",
    "gpu_nvlink_crc_flit_errors_total",
    "gpu_throttle_thermal_seconds_total",
    "gpu_xid_last",
)


def metrics(count: int) -> list[str]:
    """``count`` metrics of GPUs, those that are judged most first."""
    others = [name for name in signals.SIGNALS if name.startswith("gpu_") and name not in FIRST]
    return [*FIRST, *others][:count]


class Made:
    """A fleet at work: levels of its own for each GPU, noise, counters that now and then count."""

    def __init__(self, gpus: int, count: int) -> None:
        self._random = np.random.default_rng(1)
        self.keys: tuple[Key, ...] = tuple(
            (f"n{i // GPUS_PER_NODE:05d}", f"gpu{i % GPUS_PER_NODE}") for i in range(gpus)
        )
        nodes = tuple(dict.fromkeys(node for node, _ in self.keys))
        racks = {name: f"r{i // 16:04d}" for i, name in enumerate(nodes)}
        self.fleet = Fleet(
            {name: Node(name, sku="sku", rack=racks[name]) for name in nodes},
            {key: Device(*key, "gpu", f"GPU-{i}", model="M") for i, key in enumerate(self.keys)},
            {key: f"gpu-{i}" for i, key in enumerate(self.keys)},
        )
        size = 128
        self.jobs = tuple(
            Job(str(i), "RUNNING", "u", start=START, nodes=nodes[i : i + size])
            for i in range(0, len(nodes), size)
        )
        self.metrics = metrics(count)
        self._levels = {name: self._level(name, gpus) for name in self.metrics}

    def _level(self, name: str, gpus: int) -> NDArray[np.float64]:
        middle = {"celsius": 62.0, "watts": 520.0, "hertz": 1.7e9, "ratio": 0.8, "volts": 0.9}
        unit = signals.SIGNALS[name].unit
        level = middle.get(unit, 0.0)
        return level * (1 + 0.03 * self._random.standard_normal(gpus))

    def block(self, step: int) -> Block:
        """One step: nine in a thousand samples are lost."""
        columns = {}
        for name in self.metrics:
            level = self._levels[name]
            values = level
            if signals.SIGNALS[name].kind is signals.Kind.COUNTER:
                level += self._random.random(len(level)) < 0.001
                values = level.copy()
            elif level.any():
                values = level * (1 + 0.01 * self._random.standard_normal(len(level)))
            if signals.SIGNALS[name].unit == "ratio":
                values = np.clip(values, 0, 1)
            lost = self._random.random(len(level)) < 0.009
            columns[name] = Column(self.keys, np.where(lost, np.nan, values))
        at = START + step * timedelta(seconds=STEP_S)
        return Block(at, self.fleet, jobs=self.jobs, step_s=STEP_S, columns=columns)


def size_of(state: Any) -> int:
    """The bytes of the arrays in a state, each once."""
    seen: dict[int, int] = {}
    waiting = [state]
    while waiting:
        one = waiting.pop()
        if isinstance(one, np.ndarray):
            seen[id(one)] = one.nbytes
        elif isinstance(one, msgspec.Struct):
            waiting += [getattr(one, name) for name in one.__struct_fields__]
        elif isinstance(one, dict):
            waiting += list(one.values())
        elif isinstance(one, tuple | list) and one and not isinstance(one[0], str):
            waiting += list(one[:1000])
    return sum(seen.values())


def passes(gpus: int, count: int, steps: int) -> None:
    """Print what each step costs, and what is remembered after the last."""
    made = Made(gpus, count)
    folds = {plugin.name: plugin.run() for plugin in fold}
    states: dict[str, Any] = {name: one.start(made.fleet) for name, one in folds.items()}
    hygiene = State()
    print(f"{gpus:,} GPUs x {len(made.metrics)} metrics, {len(made.jobs)} jobs")
    print(f"{'pass':>6}{'hygiene':>9}", *(f"{name:>13}" for name in folds), f"{'all':>8}  seconds")
    whole = []
    for step in range(steps):
        block = made.block(step)
        spent = [time.process_time()]
        hygiene, told = clean(hygiene, block)
        block = replace(block, clean=told)
        spent.append(time.process_time())
        for name, one in folds.items():
            states[name], _ = one.step(states[name], block)
            spent.append(time.process_time())
        each = [b - a for a, b in pairwise(spent)]
        whole.append(spent[-1] - spent[0])
        print(f"{step:>6}{each[0]:>9.3f}", *(f"{s:>13.3f}" for s in each[1:]), f"{whole[-1]:>8.3f}")
    every = {"hygiene": hygiene, **states}
    held = {name: size_of(state) / 1e6 for name, state in every.items()}
    usual, most = statistics.median(whole[1:]), max(whole[1:])
    print(f"a pass takes {usual:.2f} s, {most:.2f} s at most, {whole[0]:.2f} s the first time")
    print(f"state {sum(held.values()):,.0f} MB:", end=" ")
    print(", ".join(f"{name} {mb:.0f}" for name, mb in held.items()))


def replays(folder: Path) -> None:
    """Print how fast a recording is replayed."""
    with tempfile.TemporaryDirectory() as out:
        for processes in (1, 2):
            words = ["replay", str(folder), "--out", out, "--processes", str(processes), "--json"]
            done = json.loads(bigiron(*words))
            print(
                f"replay of {done['nodes']} nodes, {done['node_days']:.0f} node-days, on "
                f"{processes}: {done['wall_s']:.1f} s, "
                f"{1000 * done['wall_s'] / done['turns']:.1f} ms a step, "
                f"{done['samples'] / done['wall_s'] / 1e6:.2f} M samples/s, "
                f"{done['peak_mib']:.0f} MiB"
            )


def bigiron(*words: str) -> str:
    """What a command of ours prints."""
    command = [sys.executable, "-m", "bigiron", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Both."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--gpus", type=int, default=102_400)
    arguments.add_argument("--metrics", type=int, default=60)
    arguments.add_argument("--passes", type=int, default=28)
    arguments.add_argument("--recording", type=Path)
    given = arguments.parse_args()
    # Replays first: a process inherits its parent's peak of memory.
    if given.recording is not None:
        replays(given.recording)
    else:
        with tempfile.TemporaryDirectory() as folder:
            size = ("--nodes", "32", "--days", "7")
            bigiron("sim", "record", "null", "--out", f"{folder}/recording", *size)
            replays(Path(folder) / "recording")
    passes(given.gpus, given.metrics, given.passes)


if __name__ == "__main__":
    main()
