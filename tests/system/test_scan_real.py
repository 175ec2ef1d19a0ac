"""One look at 64 nodes through a real server: exactly the faulty ones, for the right reasons."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.system.need import need

from bigiron.sim.live.episodes import Episode
from bigiron.sim.live.prometheus import Prometheus
from bigiron.sim.live.server import Exporters
from bigiron.sim.live.world import World

NODES = 64
SCRAPE_S = 5
HAPPENS = {
    Episode("gpu_off_bus", 3, 1.0, 2): ("gpu.missing", "gpu2"),
    Episode("hbm_remap", 11, 1.0, 5): ("gpu.row_remap_failure", "gpu5"),
    Episode("pcie_downtrain", 21, 1.0, 7): ("gpu.pcie_width", "gpu7"),
    Episode("hbm_uncorrectable", 33, 1.0, 0): ("gpu.ecc_uncorrectable", "gpu0"),
    Episode("config_drift", 47, 1.0): ("config.drift.driver_version", ""),
    Episode("node_crash", 58, 1.0): ("node.missing", ""),
}
BENIGN = (Episode("app_xid", 5, 1.0), Episode("exporter_death", 40, 1.0))


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize("program", ["prometheus", "victoria-metrics"])
def test_a_scan_names_exactly_the_faulty_nodes_within_five_seconds(
    tmp_path: Path, program: str
) -> None:
    need(program)
    world = World.make(NODES, 17, time.time(), [*HAPPENS, *BENIGN], job_s=100_000.0)
    with (
        Exporters(world) as exporters,
        Prometheus(tmp_path, exporters.port, world.fleet.names, SCRAPE_S, program) as server,
    ):
        _live(world, exporters, seconds=55.0)
        began = time.monotonic()
        answer = _scan(server.url)
        took_s = time.monotonic() - began
    flagged = {
        row["node"]: {(f["fault"], f["subject"].get("device", "")) for f in row["findings"]}
        for row in answer["rows"]
        if row["health"] in ("degraded", "unhealthy") or "node.missing" in str(row["findings"])
    }
    names = world.fleet.names
    assert set(flagged) == {names[episode.node] for episode in HAPPENS}
    for episode, reason in HAPPENS.items():
        assert reason in flagged[names[episode.node]]
    assert len(answer["rows"]) == NODES
    assert answer["exit_code"] == 2
    assert took_s <= 5.0


def _live(world: World, exporters: Exporters, seconds: float) -> None:
    """Lets the fleet live for a while, in real time, so that its server has scraped it."""
    end = time.time() + seconds
    while (now := time.time()) < end:
        with exporters.lock:
            world.step(now - world.now_s)
        time.sleep(0.5)


def _scan(url: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bigiron", "scan", "--prometheus", url, "--json"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr.decode()
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
