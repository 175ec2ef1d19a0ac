"""What a node's own files say, up to a finding: the same detectors as for others' words."""

from collections.abc import Iterable

import msgspec
import pytest
from tests.scenarios.stage import Stage
from tests.unit.collected import captured, sick

from bigiron.collect import Seen
from bigiron.collect.infiniband import infiniband
from bigiron.collect.inventory import inventory
from bigiron.collect.pcie import pcie
from bigiron.host import Host
from bigiron.model import Batch, Device, Event, Fact, Health, Sample

LOOK_MIN = 0.5
MLX3 = "/sys/class/infiniband/mlx5_3/ports/1"


def tells(stage: Stage, node: str, seen: Iterable[Seen]) -> None:
    """A look's observations, as an agent on this node sends them."""
    devices, events, facts = [], [], []
    for one in seen:
        match one:
            case Sample():
                stage.said[node, one.device, one.metric] = one.value
            case Device():
                devices.append(msgspec.structs.replace(one, node=node))
            case Event():
                events.append(msgspec.structs.replace(one, node=node, time=stage.now))
            case Fact():
                facts.append(msgspec.structs.replace(one, node=node, time=stage.now))
    stage.memory.take(
        Batch(stage.now, devices=tuple(devices), events=tuple(events), facts=tuple(facts))
    )


def looks(stage: Stage, host: Host, times: int = 1, minutes: float = LOOK_MIN) -> None:
    for _ in range(times):
        tells(stage, "a1", [*pcie(host), *infiniband(host)])
        stage.run(minutes)


@pytest.fixture
def stage() -> Stage:
    return Stage(step_s=30.0)


@pytest.mark.parametrize("name", ["h100x8", "mi300xx8", "t4x4"])
def test_a_healthy_host_raises_nothing(stage: Stage, name: str) -> None:
    host = captured(name)
    tells(stage, "a1", inventory(host))
    looks(stage, host, 6)
    full = ["ib.counter_full a1/mlx5_5"] if name == "h100x8" else []
    assert list(stage.open) == full, "what a counter can no longer tell is told, and no more"
    assert stage.health("a1") is Health.HEALTHY


def test_a_narrowed_switch_uplink_is_a_finding_at_the_first_look(stage: Stage) -> None:
    host = sick("h100x8")
    looks(stage, host, 2)
    host.put("/sys/bus/pci/devices/0000:98:00.0/current_link_width", 8)
    looks(stage, host)
    assert "pcie.link_downgraded a1/0000:98:00.0" in stage.open
    assert stage.health("a1") is not Health.HEALTHY


def test_a_port_that_goes_down_is_a_finding_at_once_by_its_samples(stage: Stage) -> None:
    host = sick("gb200x4")
    looks(stage, host, 4)
    host.put(f"{MLX3}/state", "1: DOWN")
    host.put(f"{MLX3}/phys_state", "2: Polling")
    looks(stage, host)
    assert list(stage.open) == ["nic.down a1/mlx5_3"]
    looks(stage, host, 4)
    assert list(stage.open) == ["nic.down a1/mlx5_3"], "the event is no second finding"


def test_a_link_that_flaps_is_a_finding() -> None:
    host, stage = sick("gb200x4"), Stage(step_s=600.0)
    looks(stage, host, 2, 10)
    for downs in (1, 2, 3):
        assert stage.open == {}
        host.put(f"{MLX3}/counters/link_downed", downs)
        looks(stage, host, 1, 20)
    assert list(stage.open) == ["ib.flap a1/mlx5_3"]


def test_a_governor_that_one_node_of_a_kind_has_is_drift() -> None:
    nodes = [f"a{number}" for number in range(12)]
    stage = Stage(nodes, step_s=600.0)
    odd = sick("cpu-only")
    for policy in range(4):
        at = f"/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_governor"
        odd.put(at, "powersave")
    for node in nodes:
        tells(stage, node, inventory(odd if node == "a7" else captured("cpu-only")))
    stage.run(60)
    assert list(stage.open) == ["config.drift.cpu_governor a7"]
