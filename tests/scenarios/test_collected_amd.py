"""What AMD's GPUs say of themselves, up to a finding: the same detectors as for others' words."""

import pytest
from tests.scenarios.stage import Stage
from tests.scenarios.test_collected_links import tells
from tests.unit.amdsmi_machine import CORE, Machine

from bigiron.collect.amdsmi import amdsmi, amdsmi_facts
from bigiron.collect.amdsmi_library import Status
from bigiron.host import Host
from bigiron.model import Health

FACTS = 10
"""Looks between two looks at what a GPU is."""


@pytest.fixture
def stage() -> Stage:
    return Stage(step_s=30.0)


def advance(machine: Machine, **held: float) -> None:
    """Half a minute by the drivers' clocks, of which limits held some share on GPU 2."""
    for index, gpu in enumerate(machine.gpus):
        told = gpu[CORE]
        told["system_clock_counter"] += 30 * 10**9
        told["temperature_hotspot"] = 60 + (told["system_clock_counter"] // 10**9 // 7 + index) % 5
        if isinstance(told["accumulation_counter"], int):
            told["accumulation_counter"] += 30_000
            told["ppt_residency_acc"] += 9_000
            for cause, share in held.items() if index == 2 else ():
                told[f"{cause}_residency_acc"] += int(30_000 * share)


def looks(stage: Stage, machine: Machine, times: int, **held: float) -> None:
    host: Host = machine.host
    for turn in range(times):
        advance(machine, **held)
        tells(stage, "a1", amdsmi(host))
        if turn % FACTS == 0:
            tells(stage, "a1", amdsmi_facts(host))
        stage.run(0.5)


@pytest.mark.parametrize("name", ["mi300xx8", "mi250x8"])
def test_a_healthy_host_raises_nothing(stage: Stage, name: str) -> None:
    machine = Machine(name)
    looks(stage, machine, 60)
    corrected = ["cper.corrected a1/gpu5"] if name == "mi300xx8" else []
    assert list(stage.open) == corrected, "for information: a record of an error that is mended"
    assert stage.health("a1") is Health.HEALTHY


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.NOT_FOUND, "amdgpu.lost"),
        (Status.TIMEOUT, "amdgpu.not_answering"),
        (Status.AMDGPU_RESTART_ERR, "amdgpu.reset_failed"),
    ],
)
def test_a_gpu_that_does_not_answer_is_a_finding(stage: Stage, status: Status, code: str) -> None:
    machine = Machine("mi300xx8")
    looks(stage, machine, 4)
    machine.gpus[2]["*"] = {"error": status}
    looks(stage, machine, 3)
    assert f"{code} a1/gpu2" in stage.open
    assert stage.health("a1") is Health.UNHEALTHY


def test_an_xgmi_link_that_goes_down_is_a_finding(stage: Stage) -> None:
    machine = Machine("mi300xx8")
    looks(stage, machine, 4)
    machine.gpus[2]["amdsmi_get_gpu_xgmi_link_status"]["status"][7] = "D"
    looks(stage, machine, 3)
    assert any(key.endswith(" a1/gpu2") for key in stage.open)
    assert stage.health("a1") is not Health.HEALTHY


def test_errors_that_could_not_be_corrected_are_a_finding(stage: Stage) -> None:
    machine = Machine("mi300xx8")
    looks(stage, machine, FACTS + 1)
    machine.gpus[2]["amdsmi_get_gpu_ecc_count(AmdSmiGpuBlock.UMC)"]["uncorrectable_count"] = 1
    looks(stage, machine, FACTS)
    assert "amdgpu.ras_uncorrectable a1/gpu2" in stage.open
    assert stage.health("a1") is Health.UNHEALTHY


def test_a_gpu_held_back_by_heat_is_a_finding(stage: Stage) -> None:
    machine = Machine("mi300xx8")
    looks(stage, machine, 4)
    looks(stage, machine, 14, vr_thm=0.9)
    assert "clock.hw_thermal a1/gpu2" in stage.open
