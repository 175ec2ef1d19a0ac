"""A recording of the simulated fleet in the form of formats.md section 2, with its truth."""

import csv
import json
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bigiron.sim.episodes import NIC_KINDS, NODE_KINDS, Episode
from bigiron.sim.fleet import GPUS, VBIOS, bus
from bigiron.sim.jobs import HEADER
from bigiron.sim.pages import exported
from bigiron.sim.physics import Floats
from bigiron.sim.world import World

FAULTS = (
    *("gpu_off_bus", "hbm_uncorrectable", "hbm_remap", "pcie_downtrain", "gsp_timeout"),
    *("node_crash", "driver_hang", "thermal_degradation", "slow_clock", "config_drift"),
)
BENIGN = ("app_xid", "single_flap", "exporter_death")


def record(out: Path, *, nodes: int, hours: float, step_s: int, seed: int, start: datetime) -> int:
    """Writes a recording into ``out`` (made new) and returns the number of samples.

    About one fault in 40 nodes and as many benign happenings, at random times of the middle.
    Raises FileExistsError if ``out`` exists.
    """
    (out / "samples").mkdir(parents=True)
    (out / "logs").mkdir()
    span_s = hours * 3600
    episodes = _episodes(nodes, span_s, np.random.default_rng([seed, 9]))
    world = World.make(nodes, seed, start.timestamp(), episodes, job_s=5400.0)
    times: list[datetime] = []
    kept: dict[str, list[Floats]] = defaultdict(list)
    states: list[tuple[datetime, int, str]] = []
    last = [""] * nodes
    with (out / "logs" / "kernel.log").open("w", encoding="utf-8") as log:
        for at_s in np.arange(step_s, span_s + 1, step_s):
            world.step(float(step_s))
            now = datetime.fromtimestamp(world.start_s + at_s, UTC)
            times.append(now)
            log.writelines(f"{line}\n" for line in world.take_log())
            _keep(world, kept)
            for n, word in enumerate(_words(world)):
                if word != last[n]:
                    states.append((now, n, word))
                    last[n] = word
    count = _samples(out, world, times, kept)
    _tables(out, world, states)
    _facts(out, world, start)
    _truth(out, world, episodes)
    (out / "recording.toml").write_text(
        f'name = "{out.name}"\nstart = "{start.isoformat()}"\nend = "{times[-1].isoformat()}"\n'
        f"step_s = {step_s}\n"
        f'description = "{nodes} simulated nodes, {hours:g} hours, seed {seed}."\n',
        "utf-8",
    )
    return count


def _episodes(nodes: int, span_s: float, rng: np.random.Generator) -> list[Episode]:
    """Faults and benign happenings, each on a node of its own."""
    order = list(rng.permutation(nodes))
    wanted = [(kind, False) for kind in FAULTS] * (1 + nodes // 400)
    wanted += [(kind, True) for kind in BENIGN]
    made = []
    for kind, benign in wanted[: max(1, nodes // 4)]:
        onset = float(rng.uniform(0.2, 0.7) * span_s)
        made.append(Episode(kind, int(order.pop()), onset, int(rng.integers(GPUS)), benign))
    return made


def _keep(world: World, kept: dict[str, list[Floats]]) -> None:
    state = world.state
    dcgm = state.present & state.exporter[:, None] & state.up[:, None]
    for name, _, _, values in exported(state):
        kept[name].append(np.where(dcgm, values, np.nan))
    up = state.up
    of_node = {"node_boot_time_seconds": state.boot, "node_load1": state.load * 96 + 1}
    for name, values in of_node.items():
        kept[name].append(np.where(up, values, np.nan)[:, None])
    for name, key in (
        ("node_infiniband_link_downed_total", "ib_downed"),
        ("node_infiniband_symbol_error_total", "ib_symbol"),
    ):
        kept[name].append(np.where(up[:, None], state.counters[key], np.nan))


def _words(world: World) -> list[str]:
    busy = {n for job in world.jobs.running for n in job.nodes}
    return [
        "down" if not world.state.up[n] else "alloc" if n in busy else "idle"
        for n in range(world.state.nodes)
    ]


def _samples(out: Path, world: World, times: list[datetime], kept: dict[str, list[Floats]]) -> int:
    count = 0
    names = np.array(world.fleet.names)
    for metric, rows in kept.items():
        values = np.stack(rows)  # time, node, device
        prefix = "nic" if "infiniband" in metric else "gpu"
        devices = np.array(
            [""] if values.shape[2] == 1 else [f"{prefix}{g}" for g in range(values.shape[2])]
        )
        t, n, d = np.nonzero(~np.isnan(values))
        frame = pl.DataFrame(
            {
                "time": pl.Series(times).cast(pl.Datetime("ms", "UTC")).gather(t),
                "node": names[n],
                "device": devices[d],
                "value": values[t, n, d],
            }
        )
        frame.write_parquet(out / "samples" / f"{metric}.parquet")
        count += len(frame)
    return count


def _tables(out: Path, world: World, states: list[tuple[datetime, int, str]]) -> None:
    columns = ["node", "sku", "role", "rack", "leaf", "pdu", "cooling", "ring", "partition", "site"]
    nodes = [[n.name, *(getattr(n, c) for c in columns[1:])] for n in world.fleet.nodes]
    _csv(out / "nodes.csv", columns, nodes)
    devices = [
        [d.node, d.name, d.kind, d.id, d.bus, d.model, d.vendor] for d in world.fleet.devices()
    ]
    _csv(out / "devices.csv", ["node", "device", "kind", "id", "bus", "model", "vendor"], devices)
    named = [[time.isoformat(), world.fleet.names[n], word, ""] for time, n, word in states]
    _csv(out / "nodestate.csv", ["time", "node", "state", "reason"], named)
    _csv(out / "maintenance.csv", ["start", "end", "nodes", "kind"], [])
    rows = [HEADER, *world.jobs.rows]
    (out / "jobs.psv").write_text("\n".join(rows) + "\n", "utf-8")


def _csv(path: Path, header: list[str], rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _facts(out: Path, world: World, start: datetime) -> None:
    """Every fact when first seen, and the ones that changed at their episode."""
    lines: list[tuple[datetime, dict[str, Any]]] = []
    drifts = {e.node: at_s for e, at_s in world.begun if e.kind == "config_drift"}
    for n, name in enumerate(world.fleet.names):
        first = {"driver_version": "570.172.08", "kernel": "6.8.0-60-generic", "gpu_count": GPUS}
        lines.append((start, {"node": name, "device": "", "facts": first}))
        for g in range(GPUS):
            facts = {
                "uuid": world.fleet.uuids[n][g],
                "bus": bus(g),
                "serial": world.fleet.serials[n][g],
                "vbios_version": VBIOS,
                "power_limit_w": 700,
            }
            lines.append((start, {"node": name, "device": f"gpu{g}", "facts": facts}))
        if n in drifts:
            later = {"driver_version": world.state.drivers[n]}
            at = datetime.fromtimestamp(drifts[n], UTC)
            lines.append((at, {"node": name, "device": "", "facts": later}))
    lines.sort(key=lambda line: line[0])
    with (out / "facts.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(
            json.dumps({"time": time.isoformat(), **rest}) + "\n" for time, rest in lines
        )


def _truth(out: Path, world: World, episodes: list[Episode]) -> None:
    with (out / "truth.jsonl").open("w", encoding="utf-8") as file:
        for number, episode in enumerate(sorted(episodes, key=lambda e: e.onset_s), 1):
            onset = datetime.fromtimestamp(world.start_s + episode.onset_s, UTC)
            name = world.fleet.names[episode.node]
            device = f"{'nic' if episode.kind in NIC_KINDS else 'gpu'}{episode.gpu}"
            subject = {"kind": "device", "node": name, "device": device}
            if episode.kind in NODE_KINDS:
                subject = {"kind": "node", "node": name}
            truth = {
                "episode": f"e{number}",
                "class": episode.kind,
                "label": "benign" if episode.benign else "fault",
                "subject": subject,
                "onset": onset.isoformat(),
                "fails": None,
                "end": None,
                "effect": 0.0,
                "precursor": False,
            }
            file.write(json.dumps(truth) + "\n")
