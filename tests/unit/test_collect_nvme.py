"""NVMe drives: dead, gone, worn out, stuck; and a tool that says so by its exit status."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hosts.make_health import smartctl
from tests.unit.collected import NAMES, captured, events, facts, golden, samples
from tests.unit.machine_copies import copied, put

from bigiron.collect.nvme import HEALTH_EVERY, nvme
from bigiron.errors import NoData
from bigiron.host import Host

DRIVE = "/sys/class/nvme/nvme1"
SMART = "bigiron/commands/smartctl -j -a /dev/nvme1"


@pytest.mark.parametrize("host", NAMES)
def test_what_it_says_of_captured_hosts(host: str) -> None:
    golden(nvme, "nvme", host)


def test_no_captured_host_has_a_fault_at_any_look() -> None:
    for host in map(captured, NAMES):
        assert [events(nvme(host)) for _ in range(3)] == [[], [], []]


def test_a_machine_without_drives_is_silent(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        list(nvme(Host(root=tmp_path)))


def test_a_drive_s_own_warning_is_told(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    put(host, SMART, smartctl("nvme1", warning=1, spare=4, passed=False))
    seen = list(nvme(host))
    assert sorted(events(seen)) == [("nvme.critical_warning", "nvme1"), ("nvme.spare_low", "nvme1")]
    assert samples(seen)["nvme1", "nvme_spare_ratio"] == pytest.approx(0.04)
    assert events(nvme(host)) == []


def test_the_health_log_is_asked_for_once_an_hour(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    list(nvme(host))
    put(host, SMART, smartctl("nvme1", warning=1))
    told = [events(nvme(host)) for _ in range(HEALTH_EVERY)]
    assert told == [[]] * (HEALTH_EVERY - 1) + [[("nvme.critical_warning", "nvme1")]]


def test_what_smartctl_says_with_an_exit_status_is_read(tmp_path: Path) -> None:
    tool = tmp_path / "smartctl"
    said = smartctl("nvme9", warning=4, passed=False)
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\nexit 8\n")
    tool.chmod(0o755)
    from bigiron.collect.nvme import _health

    assert events(_health(Host(path=f"{tmp_path}:/bin:/usr/bin"), "nvme9")) == [
        ("nvme.critical_warning", "nvme9")
    ]


def test_a_dead_drive_is_told_and_not_asked(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    put(host, f"{DRIVE}/state", "dead")
    seen = list(nvme(host))
    assert events(seen) == [("nvme.reset_failed", "nvme1")]
    assert samples(seen)["nvme1", "nvme_up"] == 0.0
    assert ("nvme1", "nvme_temp_celsius") not in samples(seen)
    assert ("nvme1", "nvme_spare_ratio") not in samples(seen)


def test_a_drive_that_restarts_is_told_if_it_lasts(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    put(host, f"{DRIVE}/state", "resetting")
    assert events(nvme(host)) == []
    assert events(nvme(host)) == [("nvme.reset", "nvme1")]


def test_a_drive_that_goes_is_told_by_its_serial_number(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    list(nvme(host))
    shutil.rmtree(host.root / "sys/class/nvme/nvme1")
    assert events(nvme(host)) == [("nvme.removed", "nvme1")]


def test_a_drive_that_comes_back_under_another_name_is_not_gone(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    list(nvme(host))
    folder = host.root / "sys/class/nvme"
    (folder / "nvme1").rename(folder / "nvme17")
    assert events(nvme(host)) == []


def test_a_drive_without_a_sensor_or_a_tool_is_told_as_far_as_it_goes(tmp_path: Path) -> None:
    host = copied("t4x4", tmp_path)
    for sensor in host.root.glob("sys/class/nvme/nvme*/hwmon*"):
        shutil.rmtree(sensor)
    seen = list(nvme(host))
    assert {metric for _, metric in samples(seen)} <= {"nvme_up"}
    assert facts(seen)


@given(st.one_of(st.text(max_size=300), st.just('{"smartctl": []}'), st.just('{"Devices": 1}')))
def test_whatever_a_tool_says_there_is_an_answer(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    host = _one(tmp_path_factory)
    put(host, SMART, text)
    put(host, f"{DRIVE}/hwmon4/temp1_input", text[:40])
    host.handles.clear()
    assert list(nvme(host))


_MADE: list[Host] = []


def _one(factory: pytest.TempPathFactory) -> Host:
    if not _MADE:
        _MADE.append(copied("h100x8", factory.mktemp("nvme")))
    return _MADE[0]
