"""NVML's errors: which are faults of a GPU, of the node, and which are values there are not."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.collected import events, facts, samples
from tests.unit.nvml_trees import again, answers, asked, bus, fields, holding, machine, sick

from bigiron.collect import Seen
from bigiron.collect.nvml import Watched, nvml, nvml_facts
from bigiron.collect.nvml_library import LOUD, Code
from bigiron.errors import NoData, Permanent
from bigiron.faults import catalogue
from bigiron.host import Host
from bigiron.model import Event, Note

GPU3, ADDRESS3 = "gpu3", "0000:3d:00.0"


def error(code: int) -> dict[str, int]:
    return {"error": code}


def look(host: Host) -> list[Seen]:
    return list(nvml(host))


def lost(code: int = Code.GPU_IS_LOST) -> Any:
    return asked(3, "nvmlDeviceGetHandleByIndex", error(code))


def test_every_fault_it_tells_is_catalogued() -> None:
    told = {*LOUD.values(), "nvrm.not_loaded", "gpu.missing", "gpu.fabric_unhealthy"}
    assert {code for code in told if catalogue().get(code) is None} == set()


def test_a_gpu_lost_while_it_is_asked_is_told_and_others_go_on(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path, lambda t: t["gpus"][3].update({"*": error(15)}))
    again(host, lambda t: t["gpus"][3].pop("nvmlDeviceGetPowerUsage"))
    seen = look(host)
    (event,) = [one for one in seen if isinstance(one, Event)]
    assert (event.code, event.device) == ("nvrm.gpu_lost", GPU3)
    assert event.attrs["pci"] == ADDRESS3
    assert event.attrs["uuid"].startswith("GPU-")
    assert {d for d, m in samples(seen) if m == "gpu_power_watts"} == {
        f"gpu{n}" for n in range(8) if n != 3
    }


def test_a_lost_gpu_is_looked_for_anew_every_ten_minutes(tmp_path: Path) -> None:
    now = [0.0]
    host = sick("h100x8", tmp_path, lost())
    host.handles["nvml:watched"] = Watched(lambda: now[0])
    assert events(look(host)) == [("nvrm.gpu_lost", GPU3)]
    library = host.handles["nvml"]
    now[0] = 570.0
    look(host)
    assert host.handles["nvml"] is library
    now[0] = 600.0
    look(host)
    assert "nvml" not in host.handles
    again(host, lambda t: t["gpus"][3].pop("nvmlDeviceGetHandleByIndex"))
    seen = look(host)
    assert events(seen) == []
    assert (GPU3, "gpu_temp_celsius") in samples(seen)


def test_a_driver_that_went_away_is_opened_anew_at_once(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path, lambda t: t["gpus"][3].update({"*": error(1)}))
    look(host)
    assert "nvml" not in host.handles


def test_a_lost_gpu_is_told_once_an_hour_not_at_every_look(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path, lost())
    assert [len(events(look(host))) for _ in range(3)] == [1, 0, 0]


def test_a_gpu_that_never_answered_sits_where_no_other_does(tmp_path: Path) -> None:
    host = machine("h100x8", tmp_path, lost())
    (event,) = [one for one in look(host) if isinstance(one, Event)]
    assert event.attrs == {"nvml": "GPU_IS_LOST", "pci": ADDRESS3}
    assert events(nvml_facts(host)) == []  # it is listed: lost, not missing


def test_a_gpu_that_was_seen_before_keeps_its_name_when_lost(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path)
    look(host)
    again(host, lost())
    (event,) = [one for one in look(host) if isinstance(one, Event)]
    assert event.attrs["pci"] == ADDRESS3
    assert event.attrs["uuid"].startswith("GPU-")


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (Code.RESET_REQUIRED, "gpu.recovery_needed"),
        (Code.TIMEOUT, "nvrm.no_answer"),
        (Code.UNKNOWN, "nvrm.no_answer"),
        (Code.INSUFFICIENT_POWER, "nvrm.external_power"),
        (Code.IRQ_ISSUE, "nvrm.no_answer"),
    ],
)
def test_what_no_healthy_gpu_answers_is_loud(code: Code, fault: str, tmp_path: Path) -> None:
    changed = asked(3, "nvmlDeviceGetTemperature(0)", error(code))
    assert events(look(sick("h100x8", tmp_path / "a", changed))) == [(fault, GPU3)]
    assert events(look(sick("h100x8", tmp_path / "b", lost(code)))) == [(fault, GPU3)]


def test_an_unknown_error_in_one_odd_place_is_a_note(tmp_path: Path) -> None:
    host = sick(
        "h100x8",
        tmp_path,
        answers(3, RowRemapperHistogram=error(999)),
        fields(3, {"169": error(999), "174": error(999), "177": error(999), "94": error(999)}),
    )
    seen = look(host)
    assert events(seen) == []
    assert [(n.what, n.count) for n in seen if isinstance(n, Note)] == [("answered UNKNOWN", 5)]


def test_three_functions_without_an_answer_are_a_gpu_that_does_not_answer(tmp_path: Path) -> None:
    host = sick(
        "h100x8",
        tmp_path,
        answers(3, RowRemapperHistogram=error(999), UtilizationRates=error(999)),
        asked(3, "nvmlDeviceGetClockInfo(1)", error(999)),
    )
    assert events(look(host)) == [("nvrm.no_answer", GPU3)]


@pytest.mark.parametrize("code", [2, 3, 6, 13, 21, 25, 26])
def test_what_a_gpu_has_not_is_silent(code: int, tmp_path: Path) -> None:
    def refused(t: dict[str, Any]) -> None:
        for gpu in t["gpus"]:
            gpu["nvmlDeviceGetPowerUsage"] = gpu["nvmlDeviceGetPcieThroughput(0)"] = error(code)

    seen = look(sick("h100x8", tmp_path, refused))
    assert not [one for one in seen if isinstance(one, Event | Note)]
    assert ("gpu0", "gpu_power_watts") not in samples(seen)


def test_what_is_not_permitted_is_counted_once(tmp_path: Path) -> None:
    def refused(t: dict[str, Any]) -> None:
        for gpu in t["gpus"]:
            gpu["nvmlDeviceGetComputeRunningProcesses_v3"] = error(4)

    host = sick("h100x8", tmp_path, refused)
    first = [(n.what, n.count) for n in look(host) if isinstance(n, Note)]
    assert first == [("answered NO_PERMISSION", 8)]
    assert [n for n in look(host) if isinstance(n, Note)] == []


def test_a_driver_that_was_updated_under_a_running_library(tmp_path: Path) -> None:
    host = holding(tmp_path, '{"system": {"nvmlInit": {"error": 18}}}')
    with pytest.raises(NoData):
        look(host)
    bus(host, "0000:3d:00.0")
    assert events(look(host)) == [("nvrm.version_mismatch", "")]
    with pytest.raises(NoData):
        list(nvml_facts(host))  # one tells it


@pytest.mark.parametrize("code", [Code.DRIVER_NOT_LOADED, Code.LIBRARY_NOT_FOUND])
def test_no_driver_is_loud_only_where_there_is_a_gpu(code: Code, tmp_path: Path) -> None:
    host = holding(tmp_path, json.dumps({"system": {"nvmlInit": error(code)}}))
    with pytest.raises(NoData):
        look(host)
    bus(host, "0000:01:00.0", "vfio-pci")  # kept for a guest
    bus(host, "0000:02:00.0", "", "0x040300")  # a GPU's sound
    with pytest.raises(NoData):
        look(host)
    bus(host, "0000:3d:00.0", "")
    (event,) = look(host)
    assert isinstance(event, Event)
    assert event.code == "nvrm.not_loaded"
    assert "1 NVIDIA GPU on the PCI bus" in event.text
    assert look(host) == []  # told already


def test_a_loaded_driver_without_its_library_is_the_agents_trouble(tmp_path: Path) -> None:
    host = holding(tmp_path, '{"system": {"nvmlInit": {"error": 12}}}')
    bus(host, "0000:3d:00.0")
    with pytest.raises(Permanent, match=r"libnvidia-ml\.so\.1"):
        look(host)


def test_a_driver_that_may_not_be_opened_is_the_agents_trouble(tmp_path: Path) -> None:
    host = holding(tmp_path, '{"system": {"nvmlInit": {"error": 4}}}')
    bus(host, "0000:3d:00.0")
    with pytest.raises(Permanent, match="no permission"):
        look(host)


def test_a_gpu_on_the_bus_that_the_driver_does_not_list(tmp_path: Path) -> None:
    host = machine("h100x8", tmp_path, lambda t: t["gpus"].pop(3))
    seen = list(nvml_facts(host))
    assert events(seen) == [("gpu.missing", ADDRESS3)]
    assert facts(seen)["", "gpu_count"] == 7
    assert events(nvml_facts(host)) == []  # told already


def test_no_gpu_listed_of_many_on_the_bus(tmp_path: Path) -> None:
    host = machine("h100x8", tmp_path, lambda t: t["gpus"].clear())
    assert look(host) == []
    assert len(events(nvml_facts(host))) == 8


def test_a_gpu_that_was_excluded_on_purpose_is_not_missing(tmp_path: Path) -> None:
    def excluded(t: dict[str, Any]) -> None:
        t["gpus"].pop(3)
        t["system"]["nvmlGetExcludedDeviceCount"] = 1
        info = {"pciInfo": {"busId": "00000000:3D:00.0"}, "uuid": "GPU-1"}
        t["system"]["nvmlGetExcludedDeviceInfoByIndex(0)"] = info

    assert events(nvml_facts(machine("h100x8", tmp_path, excluded))) == []


def test_a_gpu_outside_the_agents_container_is_not_missing(tmp_path: Path) -> None:
    host = machine("h100x8", tmp_path, lambda t: t["gpus"].pop(3))
    information = host.root / f"proc/driver/nvidia/gpus/{ADDRESS3}/information"
    information.parent.mkdir(parents=True)
    information.write_text("Model: \t\t NVIDIA H100\nDevice Minor: \t 3\n")
    (host.root / "dev").mkdir(exist_ok=True)
    seen = list(nvml_facts(host))
    assert events(seen) == []
    assert [n.what for n in seen if isinstance(n, Note)] == [
        f"{ADDRESS3}: its device file is not visible here"
    ]
    (host.root / "dev/nvidia3").touch()
    assert events(nvml_facts(host)) == [("gpu.missing", ADDRESS3)]


def test_a_virtual_function_for_guests_is_not_missing(tmp_path: Path) -> None:
    host = machine("h100x8", tmp_path)
    bus(host, "0000:3d:00.4", "")
    (host.root / "sys/bus/pci/devices/0000:3d:00.4/physfn").symlink_to("../0000:3d:00.0")
    assert events(nvml_facts(host)) == []


def test_a_damaged_inforom_is_told(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path, asked(3, "nvmlDeviceValidateInforom", error(14)))
    seen = list(nvml_facts(host))
    assert events(seen) == [("nvrm.inforom_corrupt", GPU3)]
    assert facts(seen)[GPU3, "inforom_checksum"] == "Invalid"
    assert (GPU3, "inforom_checksum") not in facts(nvml_facts(host))  # read once an hour
