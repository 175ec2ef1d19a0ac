"""What NVML says of captured GPUs meets the detectors: healthy ones rest, sick ones are found."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from tests.unit.nvml_trees import NVIDIA, answers, asked, fields, sick, told

from bigiron.collect.nvml import nvml, nvml_facts
from bigiron.host import Host
from bigiron.hub.inspect import claims
from bigiron.hub.memory import Limits, Memory
from bigiron.model import Batch, Device, Event, Fact, Finding, Note, Sample

T0 = datetime(2026, 5, 4, 8, 0, tzinfo=UTC)


def found(host: Host, minutes: int = 20) -> list[Finding]:
    """What the detectors claim after so many looks, one a minute."""
    memory = Memory(Limits())
    now = T0
    for minute in range(minutes):
        now = T0 + timedelta(minutes=minute)
        seen = [*nvml(host), *nvml_facts(host)]
        mine = [msgspec.structs.replace(o, node="n1") for o in seen if not isinstance(o, Note)]
        dated = [o if isinstance(o, Device) else msgspec.structs.replace(o, time=now) for o in mine]
        memory.take(
            Batch(
                now,
                devices=tuple(o for o in dated if isinstance(o, Device)),
                samples=tuple(_lives(o, minute) for o in dated if isinstance(o, Sample)),
                events=tuple(o for o in dated if isinstance(o, Event)),
                facts=tuple(o for o in dated if isinstance(o, Fact)),
            )
        )
    notes: list[Note] = []
    claimed = list(claims(memory.window(now, fresh_s=180.0, sustain_s=300.0), notes))
    assert notes == []
    return claimed


def _lives(sample: Sample, minute: int) -> Sample:
    """A capture stands still, a machine does not: values that never move are a fault."""
    if sample.metric not in ("gpu_power_watts", "gpu_temp_celsius", "gpu_energy_joules_total"):
        return sample
    return msgspec.structs.replace(sample, value=sample.value + minute % 3)


def faults(host: Host) -> set[tuple[str, str]]:
    return {(one.fault, one.subject.device) for one in found(host)}


@pytest.mark.parametrize("name", NVIDIA)
def test_a_healthy_host_is_left_alone(name: str, tmp_path: Path) -> None:
    assert faults(sick(name, tmp_path)) == set()


def test_a_row_that_waits_to_be_remapped_is_found(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path, fields(3, {"144": 1}))
    assert faults(host) == {("gpu.row_remap_pending", "gpu3")}


def test_an_uncorrectable_error_is_found(tmp_path: Path) -> None:
    host = sick("a100x8", tmp_path, fields(3, {"4": 1, "12": 1}))
    assert faults(host) == {("gpu.ecc_uncorrectable", "gpu3")}


def test_a_power_brake_is_found(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path, answers(3, CurrentClocksEventReasons=0x88))
    assert faults(host) == {("clock.hw_power_brake", "gpu3")}


def test_a_link_that_is_down_is_found_once(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path, fields(3, {"165": [1] * 5 + [0] + [1] * 12}))
    assert faults(host) == {("gpu.nvlink_inactive", "gpu3")}


def test_a_route_that_is_unhealthy_is_found(tmp_path: Path) -> None:
    now = told("gb200x4")["every"]["nvmlDeviceGetGpuFabricInfoV(3)"]
    changed = {**now, "healthMask": 0x19A, "healthSummary": 2}
    host = sick("gb200x4", tmp_path, asked(1, "nvmlDeviceGetGpuFabricInfoV(3)", changed))
    assert faults(host) == {("gpu.fabric_unhealthy", "gpu1")}


def test_a_fabric_that_is_configured_wrong_is_found_once(tmp_path: Path) -> None:
    now = told("gb200x4")["every"]["nvmlDeviceGetGpuFabricInfoV(3)"]
    changed = {**now, "healthMask": 0x599}  # insufficient NVLinks, bandwidth and a route too
    host = sick("gb200x4", tmp_path, asked(1, "nvmlDeviceGetGpuFabricInfoV(3)", changed))
    assert faults(host) == {("gpu.fabric_unhealthy", "gpu1")}


def test_a_lost_gpu_is_found(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path, asked(3, "nvmlDeviceGetHandleByIndex", {"error": 15}))
    assert faults(host) == {("nvrm.gpu_lost", "gpu3")}


def test_a_recovery_that_the_driver_asks_for_is_found(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path, fields(3, {"230": 1}))
    assert faults(host) == {("gpu.recovery_needed", "gpu3")}
