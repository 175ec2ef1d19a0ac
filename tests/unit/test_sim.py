"""The simulated fleet in real time: physics that make sense, pages that parse."""

import urllib.error
import urllib.request

import numpy as np
import pytest

from bigiron.sim.live.episodes import Episode
from bigiron.sim.live.fleet import inventory
from bigiron.sim.live.server import Exporters
from bigiron.sim.live.world import World

START_S = 1_767_225_600.0


def _world(*episodes: Episode, nodes: int = 16, seed: int = 5) -> World:
    return World.make(nodes, seed, START_S, episodes, job_s=100_000.0)


def _run(world: World, seconds: float) -> None:
    end = world.now_s + seconds
    while world.now_s < end:
        world.step(5.0)


def test_one_seed_one_world() -> None:
    first, second = _world(), _world()
    _run(first, 120)
    _run(second, 120)
    assert np.array_equal(first.state.temp, second.state.temp)
    assert first.page(3, "dcgm") == second.page(3, "dcgm")
    assert not np.array_equal(first.state.temp, _world(seed=6).state.temp)


def test_busy_gpus_are_hot_and_idle_ones_are_not() -> None:
    world = _world()
    ended = world.jobs.running.pop()
    world.jobs.out.add(ended.nodes[0])
    _run(world, 600)
    busy = np.repeat(world.state.load[:, None] > 0, 8, axis=1)
    assert busy.any()
    assert (~busy).any()
    assert world.state.temp[busy].min() > world.state.temp[~busy].max()
    assert 45 < world.state.temp[busy].mean() < 75


def test_a_blocked_heat_sink_shows_only_under_load() -> None:
    world = _world()
    node = next(n for job in world.jobs.running for n in job.nodes)
    world.episodes = [Episode("thermal_degradation", node, 0.0, 2)]
    _run(world, 900)
    others = np.delete(world.state.temp[node], 2)
    assert world.state.temp[node, 2] > others.max() + 8


def test_a_gpu_off_the_bus_leaves_the_page_and_the_log_says_why() -> None:
    world = _world(Episode("gpu_off_bus", 1, 10.0, 4))
    before = world.page(1, "dcgm") or ""
    assert world.fleet.uuids[1][4] in before
    _run(world, 30)
    after = world.page(1, "dcgm") or ""
    assert world.fleet.uuids[1][4] not in after
    assert world.fleet.uuids[1][3] in after
    said = [line for line in world.take_log() if "Xid" in line]
    assert [line.split()[1] for line in said] == [world.fleet.names[1]] * 2
    assert "): 79," in said[0]


def test_a_lost_node_takes_its_job_down_and_the_job_is_queued_again() -> None:
    world = _world()
    job = max(world.jobs.running, key=lambda j: len(j.nodes))
    world.episodes = [Episode("node_crash", job.nodes[0], 0.0)]
    _run(world, 10)
    assert any(row.startswith(f"{job.id}|") and "|NODE_FAIL|" in row for row in world.jobs.rows)
    again = [j for j in [*world.jobs.running, *world.jobs.queue] if j.id == job.id]
    assert [j.restarts for j in again] == [1]
    assert world.page(job.nodes[0], "node") is None


def test_the_pages_are_served_and_a_dead_exporter_answers_503() -> None:
    world = _world(Episode("exporter_death", 2, 5.0))
    with Exporters(world) as exporters:
        base = f"http://127.0.0.1:{exporters.port}"
        with urllib.request.urlopen(f"{base}/n003/dcgm", timeout=5) as answer:
            assert answer.read().decode() == world.page(2, "dcgm")
        with exporters.lock:
            _run(world, 10)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{base}/n003/dcgm", timeout=5)
        with urllib.request.urlopen(f"{base}/n003/node", timeout=5) as answer:
            assert b"node_boot_time_seconds" in answer.read()
        assert len(exporters.urls()) == 32


def test_every_part_has_its_own_identity() -> None:
    fleet = inventory(64, 1)
    uuids = {u for of_node in fleet.uuids for u in of_node}
    assert len(uuids) == 512
    assert len({(d.node, d.bus) for d in fleet.devices()}) == 1024
    assert len({n.rack for n in fleet.nodes}) == 8
