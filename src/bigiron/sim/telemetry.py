"""A history's telemetry: physics step by step, seen through exporters that are not perfect."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.sim.cluster import Run
from bigiron.sim.effects import InForce, Mods
from bigiron.sim.history import History
from bigiron.sim.meters import Meters
from bigiron.sim.noise import Floats
from bigiron.sim.plant import Ints, Natures, Plant, Seen
from bigiron.sim.site import GPUS
from bigiron.sim.streams import stream
from bigiron.sim.tape import BLANK, Tape, Track

CHUNK_VALUES = 300_000
"""Values of one metric worked out before they go to disk."""
MISSED = (0.001, 0.01)
"""Share of scrapes that fail for no reason anyone will learn: every exporter has its own."""
BLANKS = 2e-5
"""Share of GPU readings that DCGM answers with its blank value."""
SPREAD_MS, JITTER_MS = 2000, 40
"""Targets are scraped at phases of their own within this much before the step, and jitter."""

MS_NS = 1e7
TRACKS = (
    Track("DCGM_FI_DEV_GPU_TEMP", "dcgm", 1),
    Track("DCGM_FI_DEV_MEMORY_TEMP", "dcgm", 1),
    Track("DCGM_FI_DEV_POWER_USAGE", "dcgm", 0.1),
    Track("DCGM_FI_DEV_SM_CLOCK", "dcgm", 15),
    Track("DCGM_FI_DEV_GPU_UTIL", "dcgm", 1),
    Track("DCGM_FI_PROF_SM_ACTIVE", "dcgm", 0.001),
    Track("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "dcgm", 1),
    Track("DCGM_FI_DEV_POWER_VIOLATION", "dcgm", MS_NS),
    Track("DCGM_FI_DEV_THERMAL_VIOLATION", "dcgm", MS_NS),
    Track("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "dcgm", 1),
    Track("DCGM_FI_DEV_PCIE_LINK_GEN", "dcgm", 1),
    Track("DCGM_FI_DEV_PCIE_LINK_WIDTH", "dcgm", 1),
    Track("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "dcgm", 1),
    Track("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "dcgm", 1),
    Track("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "dcgm", 1),
    Track("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "dcgm", 1),
    Track("DCGM_FI_DEV_ROW_REMAP_FAILURE", "dcgm", 1),
    Track("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "dcgm", 1),
    Track("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "dcgm", 1),
    Track("DCGM_FI_DEV_XID_ERRORS", "dcgm", 1),
    Track("node_infiniband_symbol_error_total", "nic", 1),
    Track("node_infiniband_link_error_recovery_total", "nic", 1),
    Track("node_infiniband_link_downed_total", "nic", 1),
    Track("node_boot_time_seconds", "node", 1),
    Track("node_load1", "node", 0.01),
    Track("node_hwmon_temp_celsius", "node", 0.5),
    Track("node_hwmon_in_volts", "node", 0.001),
)
GLITCHING = ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_POWER_USAGE")
BLANKABLE = (*GLITCHING, "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_PROF_SM_ACTIVE")
SPIKE = 200.0
Values = dict[str, Floats]


@dataclass(slots=True, repr=False)
class Chunk:
    """Some steps' readings, (steps, nodes, devices) by metric, and what was scraped."""

    times_s: Floats
    values: Values
    seen: dict[str, NDArray[np.bool_]]


class Telemetry:
    """Works a history out, once, from its start to its end."""

    def __init__(
        self, history: History, runs: Sequence[Run], step_s: float, noisy: float = 1.0
    ) -> None:
        self._history, self._step_s = history, step_s
        seed, site = history.seed, history.site
        self._nodes = len(site.nodes)
        self._runs = sorted(runs, key=lambda r: r.start_s)
        self._plant = Plant(site, seed, step_s, noisy)
        self._meters = Meters(site, seed, step_s)
        self._force = InForce(history.effects, self._nodes)
        self._strokes = sorted(history.strokes, key=lambda s: s.at_s)
        self._place = np.tile(np.arange(GPUS), (self._nodes, 1))
        self._last: Values = {}
        self._scrapes, self._blanks = stream(seed, "scrapes"), stream(seed, "blanks")
        self._glitches = stream(seed, "glitches")
        phases = stream(seed, "phases")
        self._phase = {
            name: phases.integers(0, SPREAD_MS, self._nodes) for name in ("dcgm", "node")
        }
        self._missed = MISSED[0] * (MISSED[1] / MISSED[0]) ** phases.random((self._nodes, 2))
        self._jitter = stream(seed, "jitter")

    def write(self, tape: Tape) -> None:
        """Everything to the tape, chunk by chunk."""
        for chunk in self.chunks():
            tape.put(self._stamps(chunk.times_s), chunk.seen, chunk.values)

    def chunks(self) -> Iterator[Chunk]:
        """The recording's steps, so many at a time."""
        steps = int(self._history.span_s // self._step_s) + 1
        size = max(1, CHUNK_VALUES // (self._nodes * GPUS))
        for first in range(0, steps, size):
            yield self._chunk(np.arange(first, min(steps, first + size)) * self._step_s)

    def _stamps(self, times_s: Floats) -> dict[str, NDArray[np.int64]]:
        stamps = {}
        for name, phase in self._phase.items():
            jitter = self._jitter.normal(0, JITTER_MS, (len(times_s), self._nodes))
            early = np.clip(np.rint(phase + jitter), 0, self._step_s * 900).astype(np.int64)
            at = (times_s[:, None] * 1000).astype(np.int64) - early
            stamps[name] = np.maximum(at, 0)
        return stamps

    def _chunk(self, times_s: Floats) -> Chunk:
        run, work, natures = self._loads(times_s)
        values: dict[str, list[Floats]] = {track.metric: [] for track in TRACKS}
        seen: dict[str, list[NDArray[np.bool_]]] = {"dcgm": [], "nic": [], "node": []}
        for k, at_s in enumerate(times_s):
            mods = self._force.at(float(at_s))
            self._strike(float(at_s))
            shown = self._plant.step(float(at_s), run[k], work[k], natures, mods)
            self._meters.step(shown, mods)
            readings = self._read(shown)
            self._freeze(readings, mods)
            self._spoil(readings, mods)
            for metric, value in readings.items():
                values[metric].append(value)
            for source, mask in self._scraped(mods).items():
                seen[source].append(mask)
        return Chunk(
            times_s,
            {metric: np.stack(rows) for metric, rows in values.items()},
            {source: np.stack(rows) for source, rows in seen.items()},
        )

    def _loads(self, times_s: Floats) -> tuple[Ints, Floats, Natures]:
        """Which run each GPU works on at each step, its share of the work, and the runs."""
        first_s, last_s = float(times_s[0]), float(times_s[-1])
        self._runs = [r for r in self._runs if r.end_s is None or r.end_s > first_s]
        present = list(self._between(last_s))
        shape = (len(times_s), self._nodes, GPUS)
        run, work = np.full(shape, -1), np.ones(shape)
        for number, one in enumerate(present):
            low = int(np.searchsorted(times_s, one.start_s))
            high = len(times_s) if one.end_s is None else int(np.searchsorted(times_s, one.end_s))
            half = len(one.nodes) / 2
            for k, (node, mask) in enumerate(zip(one.nodes, one.masks, strict=True)):
                sockets = _sockets(mask)
                run[low:high, node, sockets] = number
                if one.request.nature.uneven and k >= half:
                    work[low:high, node, sockets] = 1 - one.request.nature.uneven
        natures = [r.request.nature for r in present]
        first = [r.nodes[0] * GPUS + _sockets(r.masks[0])[0] for r in present]
        return (
            run,
            work,
            Natures(
                np.array([n.active for n in natures] + [1.0]),
                np.array([n.draw for n in natures] + [0.0]),
                np.array([n.memory for n in natures] + [0.0]),
                np.array([n.dips for n in natures] + [0.0]),
                np.array([*first, 0]),
            ),
        )

    def _between(self, last_s: float) -> Iterator[Run]:
        for run in self._runs:
            if run.start_s > last_s:
                return
            yield run

    def _strike(self, at_s: float) -> None:
        """Does the strokes up to a time."""
        while self._strokes and self._strokes[0].at_s <= at_s:
            stroke = self._strokes.pop(0)
            if stroke.what == "place":
                self._place[stroke.node] = _order(int(stroke.value))
            else:
                self._meters.stroke(stroke)
                if stroke.what == "swap":
                    self._plant.swap(stroke.node, stroke.device, int(stroke.value))

    def _read(self, seen: Seen) -> Values:
        """What each exporter would answer, GPUs by their present index."""
        meter = self._meters.values
        by_socket = {
            "DCGM_FI_DEV_GPU_TEMP": seen.temp,
            "DCGM_FI_DEV_MEMORY_TEMP": seen.memory_temp,
            "DCGM_FI_DEV_POWER_USAGE": seen.power,
            "DCGM_FI_DEV_SM_CLOCK": seen.clock,
            "DCGM_FI_DEV_GPU_UTIL": 100 * seen.utilization,
            "DCGM_FI_PROF_SM_ACTIVE": seen.active,
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": seen.reasons * 1.0,
            "DCGM_FI_DEV_POWER_VIOLATION": meter["power_ms"] * 1e6,
            "DCGM_FI_DEV_THERMAL_VIOLATION": meter["thermal_ms"] * 1e6,
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": meter["pcie_replay"],
            "DCGM_FI_DEV_PCIE_LINK_GEN": meter["pcie_gen"],
            "DCGM_FI_DEV_PCIE_LINK_WIDTH": meter["pcie_width"],
            "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": meter["ecc_sbe"],
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": meter["ecc_dbe"],
            "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": meter["remap_cor"],
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": meter["remap_unc"],
            "DCGM_FI_DEV_ROW_REMAP_FAILURE": meter["remap_failure"],
            "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": meter["nvlink_crc"],
            "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": meter["nvlink_replay"],
            "DCGM_FI_DEV_XID_ERRORS": meter["xid"],
        }
        moved = {
            name: np.take_along_axis(value, self._place, axis=1)
            for name, value in by_socket.items()
        }
        return moved | {
            "node_infiniband_symbol_error_total": meter["ib_symbol"].copy(),
            "node_infiniband_link_error_recovery_total": meter["ib_recovery"].copy(),
            "node_infiniband_link_downed_total": meter["ib_downed"].copy(),
            "node_boot_time_seconds": np.floor(self._history.start + self._meters.boot)[:, None],
            "node_load1": seen.load1[:, None],
            "node_hwmon_temp_celsius": seen.inlet[:, None],
            "node_hwmon_in_volts": seen.volts[:, None],
        }

    def _by_index(self, mod: Floats) -> Floats:
        return np.take_along_axis(mod, self._place, axis=1)

    def _freeze(self, readings: Values, mods: Mods) -> None:
        """A hung driver's exporter goes on telling what it last knew."""
        if "frozen" in mods and self._last:
            frozen = self._by_index(mods["frozen"]) > 0
            for track in TRACKS:
                if track.source == "dcgm":
                    held = self._last[track.metric]
                    readings[track.metric] = np.where(frozen, held, readings[track.metric])
        self._last = dict(readings)

    def _spoil(self, readings: Values, mods: Mods) -> None:
        """Blanks now and then, and a broken sensor's zeros, spikes and blanks."""
        shape = (self._nodes, GPUS)
        for metric in BLANKABLE:
            for _ in range(self._blanks.poisson(BLANKS * self._nodes * GPUS)):
                where = tuple(int(self._blanks.integers(n)) for n in shape)
                readings[metric] = readings[metric].copy()
                readings[metric][where] = BLANK
        for kind, value in (("blank", BLANK), ("zero", 0.0), ("spike", SPIKE)):
            if f"glitch.{kind}" not in mods:
                continue
            share = self._by_index(mods[f"glitch.{kind}"])
            for metric in GLITCHING:
                hit = self._glitches.random(shape) < share
                readings[metric] = np.where(hit, value, readings[metric])

    def _scraped(self, mods: Mods) -> dict[str, NDArray[np.bool_]]:
        """Which readings were there to scrape, and were scraped."""
        missed = self._scrapes.random((self._nodes, 2)) < self._missed
        node = (mods.node("off.node") <= 0) & ~missed[:, 0]
        gpu = self._by_index(mods["off.gpu"]) <= 0
        dcgm = (mods["off.dcgm"] <= 0) & (mods["off.node"] <= 0)
        nic = mods["off.nic"] <= 0
        return {
            "dcgm": dcgm & gpu & ~missed[:, 1:],
            "nic": nic & node[:, None],
            "node": node[:, None].copy(),
        }


def _sockets(mask: int) -> list[int]:
    return [g for g in range(GPUS) if mask >> g & 1]


def _order(code: int) -> list[int]:
    """The sockets by index, from eight octal digits, the first index's lowest."""
    return [code >> 3 * k & 7 for k in range(GPUS)]
