"""AMD GPUs by AMD SMI: what captured hosts say, and how each fault is told."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.unit.amdsmi_machine import CORE, Machine
from tests.unit.collected import (
    NAMES,
    captured,
    events,
    facts,
    golden,
    lines,
    samples,
    sick,
)

from bigiron.collect import Seen, amdsmi_throttle
from bigiron.collect.amdsmi import GIVES, amdsmi, amdsmi_facts
from bigiron.collect.amdsmi_bus import DEVICES
from bigiron.collect.amdsmi_gpu import LOOKS
from bigiron.collect.amdsmi_library import Status
from bigiron.errors import NoData, Permanent
from bigiron.faults import catalogue
from bigiron.host import Host
from bigiron.model import Event, Note, Sample
from bigiron.signals import SIGNALS

AMD = ("mi250x8", "mi300xx8")
GPU3 = "0000:5b:00.0"


def look(host: Host) -> list[Seen]:
    return list(amdsmi(host))


def looks(host: Host, count: int = LOOKS) -> list[Seen]:
    """The last of some looks."""
    return [look(host) for _ in range(count)][-1]


def without_library(host: Host) -> Host:
    host.handles["amdsmi"] = None
    return host


@pytest.mark.parametrize("name", AMD)
def test_what_it_says_of_captured_hosts(name: str) -> None:
    golden(amdsmi, "amdsmi", name)
    golden(amdsmi_facts, "amdsmi_facts", name)


@pytest.mark.parametrize("name", AMD)
def test_what_plain_files_say_of_captured_hosts(name: str) -> None:
    golden(lambda host: amdsmi(without_library(host)), "amdsmi_plain", name)
    golden(lambda host: amdsmi_facts(without_library(host)), "amdsmi_facts_plain", name)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in AMD])
def test_a_host_without_amd_gpus_is_silent(name: str) -> None:
    for collector in (amdsmi, amdsmi_facts):
        with pytest.raises(NoData):
            list(collector(captured(name)))


@pytest.mark.parametrize("name", AMD)
def test_no_captured_host_has_a_fault_at_any_look(name: str) -> None:
    for host in (captured(name), without_library(captured(name))):
        told = [event for _ in range(3) for event in events([*look(host), *amdsmi_facts(host)])]
        assert told in ([], [("cper.corrected", "gpu5")])


@pytest.mark.parametrize("name", AMD)
def test_all_is_read_through_the_host(name: str, tmp_path: Path) -> None:
    root = shutil.copytree(captured(name).root, tmp_path / name, symlinks=True)
    host = Host(root=root)
    assert lines(look(host)) == lines(look(captured(name)))
    with pytest.raises(NoData):
        look(Host(root=tmp_path / "nowhere"))


@pytest.mark.parametrize("name", AMD)
def test_every_metric_is_catalogued_and_announced(name: str) -> None:
    for host in (captured(name), without_library(captured(name))):
        told = {metric for _, metric in samples([*look(host), *amdsmi_facts(host)])}
        assert told <= GIVES <= SIGNALS.keys()


def test_library_and_plain_files_agree_on_a_gpu() -> None:
    library, plain = captured("mi300xx8"), without_library(captured("mi300xx8"))
    for collector in (amdsmi, amdsmi_facts):
        one, other = samples(collector(library)), samples(collector(plain))
        both = one.keys() & other.keys()
        assert len(both) > 60
        for key in both:
            assert one[key] == pytest.approx(other[key], rel=0.03), key


def test_what_an_exporter_tells_is_not_told_again() -> None:
    host = captured("mi300xx8")
    host.handles["scraped"] = frozenset({"gpu_temp_celsius", "gpu_ras_umc_correctable_total"})
    told = {metric for _, metric in samples([*look(host), *amdsmi_facts(host)])}
    assert "gpu_power_watts" in told
    assert not told & host.handles["scraped"]
    host.handles["scraped"] = GIVES
    assert samples([*look(host), *amdsmi_facts(host)]) == {}


def test_what_a_gpu_does_not_have_is_silent_and_asked_for_once() -> None:
    machine = Machine("mi250x8")
    look(machine.host)
    assert ("amdsmi_get_gpu_xgmi_link_status", (0,)) in machine.asked
    machine.asked.clear()
    told = look(machine.host)
    assert ("amdsmi_get_gpu_xgmi_link_status", (0,)) not in machine.asked
    assert not [one for one in told if isinstance(one, Note)]


def test_what_may_not_be_read_is_a_note_and_no_fault() -> None:
    machine = Machine("mi300xx8")
    key = "amdsmi_get_gpu_cper_entries(7, 65536, 0)"
    machine.all_say(key, {"error": Status.NO_PERM})
    machine.all_say("amdsmi_get_gpu_vram_usage", {"error": Status.DRM_ERROR})
    told = [look(machine.host) for _ in range(3)]
    assert [events(one) for one in told] == [[], [], []]
    assert [one.what for one in told[0] if isinstance(one, Note)] == [
        "amdsmi_get_gpu_cper_entries: NO_PERM",
        "amdsmi_get_gpu_vram_usage: DRM_ERROR",
    ]
    assert ("gpu0", "gpu_temp_celsius") in samples(told[2])


@pytest.mark.parametrize("status", [Status.TIMEOUT, Status.BUSY, Status.IO, Status.API_FAILED])
def test_a_gpu_that_does_not_answer_is_told_at_the_second_look(status: Status) -> None:
    machine = Machine("mi300xx8")
    look(machine.host)
    machine.gpus[2]["*"] = {"error": status}
    first, second, third = (look(machine.host) for _ in range(3))
    assert events(first) == events(third) == []
    assert events(second) == [("amdgpu.not_answering", "gpu2")]
    assert not {device for device, _ in samples(second)} & {"gpu2:"}
    assert ("gpu2", "gpu_temp_celsius") not in samples(second)
    assert ("gpu3", "gpu_temp_celsius") in samples(second)


def test_a_gpu_that_answers_one_function_too_late_does_not_answer() -> None:
    machine = Machine("mi300xx8")
    machine.gpus[2]["amdsmi_get_gpu_vram_usage"] = {"error": Status.TIMEOUT}
    look(machine.host)
    machine.asked.clear()
    assert events(look(machine.host)) == [("amdgpu.not_answering", "gpu2")]
    late = [function for function, arguments in machine.asked if arguments[:1] == (2,)]
    assert late == [CORE, "amdsmi_get_gpu_vram_usage"]


def test_what_is_too_late_only_in_the_facts_is_told_by_them() -> None:
    machine = Machine("mi300xx8")
    machine.gpus[2]["amdsmi_get_gpu_bad_page_info"] = {"error": Status.TIMEOUT}
    assert events(looks(machine.host)) == events(amdsmi_facts(machine.host)) == []
    assert events(amdsmi_facts(machine.host)) == [("amdgpu.not_answering", "gpu2")]
    machine.gpus[2]["*"] = {"error": Status.TIMEOUT}
    assert events(amdsmi_facts(machine.host)) == []


def test_a_reset_of_one_look_is_no_fault() -> None:
    machine = Machine("mi300xx8")
    for busy in (True, False, True, False):
        machine.gpus[2].pop("*", None)
        if busy:
            machine.gpus[2]["*"] = {"error": Status.BUSY}
        assert ("amdgpu.not_answering", "gpu2") not in events(look(machine.host))


def test_a_gpu_that_the_driver_no_longer_finds_is_lost() -> None:
    machine = Machine("mi300xx8")
    look(machine.host)
    machine.gpus[3]["*"] = {"error": Status.NOT_FOUND}
    assert events(looks(machine.host)) == [("amdgpu.lost", "gpu3")]


def test_a_gpu_gone_from_the_bus_is_lost_whatever_the_library_says() -> None:
    host = sick("mi300xx8")
    machine = Machine("mi300xx8", host)
    look(machine.host)
    host.remove(f"{DEVICES}/{GPU3}")
    told = looks(machine.host)
    assert events(told) == [("amdgpu.lost", "gpu3")]
    assert ("gpu3", "gpu_temp_celsius") not in samples(told)


def test_a_gpu_no_longer_listed_by_a_library_opened_anew_is_lost() -> None:
    machine = Machine("mi300xx8")
    look(machine.host)
    again = Machine("mi300xx8", machine.host)
    del again.gpus[3]
    told = looks(again.host)
    assert events(told) == [("amdgpu.lost", GPU3)]
    assert samples(told)["gpu3", "gpu_temp_celsius"] == 69  # the next one has its place now
    back = Machine("mi300xx8", machine.host)
    assert events(looks(back.host)) == []


def test_a_library_that_lists_nothing_any_more_is_told_and_opened_anew() -> None:
    machine = Machine("mi300xx8")
    look(machine.host)
    none = Machine("mi300xx8", machine.host)
    none.gpus.clear()
    assert samples(look(machine.host))["gpu0", "gpu_power_watts"] == 712  # by plain files
    assert none.closed == 1
    again = Machine("mi300xx8", machine.host)
    again.gpus.clear()
    assert events(look(machine.host)) == [("amdgpu.not_answering", "")]
    assert events(look(machine.host)) == []
    assert ("gpu7", "gpu_xgmi_links_up") in samples(look(machine.host))


def test_a_gpu_that_gets_its_driver_back_is_listed_again() -> None:
    host = sick("mi300xx8")
    machine = Machine("mi300xx8", host)
    host.remove(f"{DEVICES}/{GPU3}/driver")
    del machine.gpus[3]
    assert ("gpu7", "gpu_temp_celsius") not in samples(look(host))
    host.changed.clear()
    assert ("gpu7", "gpu_temp_celsius") in samples(look(host))
    assert machine.closed == 1


def test_a_driver_that_does_not_restart_is_a_failed_reset() -> None:
    machine = Machine("mi300xx8")
    machine.gpus[1]["amdsmi_get_gpu_vram_usage"] = {"error": Status.AMDGPU_RESTART_ERR}
    assert events(looks(machine.host)) == [("amdgpu.reset_failed", "gpu1")]


def test_after_a_reload_of_the_driver_the_library_is_opened_anew() -> None:
    machine = Machine("mi300xx8")
    machine.all_say("*", {"error": Status.NOT_INIT})
    with pytest.raises(Permanent):
        look(machine.host)
    assert machine.closed == 1
    assert ("gpu0", "gpu_temp_celsius") in samples(look(machine.host))


def test_all_gpus_out_of_time_are_each_told() -> None:
    machine = Machine("mi300xx8")
    machine.all_say("*", {"error": Status.TIMEOUT})
    told = events(looks(machine.host))
    assert told == [("amdgpu.not_answering", f"gpu{index}") for index in range(8)]


def test_metrics_that_this_user_may_not_read_are_no_gpus_fault() -> None:
    machine = Machine("mi300xx8")
    machine.all_say(CORE, {"error": Status.NO_PERM})
    for _ in range(3):
        told: list[Seen] = []
        with pytest.raises(Permanent, match="NO_PERM"):
            told.extend(amdsmi(machine.host))
        assert events(told) == []


@pytest.mark.parametrize(
    ("status", "code"), [(Status.TIMEOUT, "amdgpu.not_answering"), (Status.INIT_ERROR, "")]
)
def test_a_library_that_does_not_start_leaves_the_plain_files(status: Status, code: str) -> None:
    host = sick("mi300xx8")
    host.put("/bigiron/amdsmi.json", json.dumps({"system": {"amdsmi_init": {"error": status}}}))
    told: list[Seen] = []
    for _ in range(LOOKS):
        told.clear()
        with nullcontext() if code else pytest.raises(Permanent, match="INIT_ERROR"):
            told.extend(amdsmi(host))
    assert events(told) == ([(code, "")] if code else [])
    assert samples(told)["gpu0", "gpu_power_watts"] == 712


def buses(host: Host) -> list[str]:
    listed = json.loads((host.root / "bigiron/amdsmi.json").read_text())["gpus"]
    return [gpu["amdsmi_get_gpu_device_bdf"] for gpu in listed]


def test_gpus_without_a_loaded_driver_are_told_once_for_the_node() -> None:
    host = sick("mi250x8")
    for bus in buses(host):
        host.remove(f"{DEVICES}/{bus}/driver")
    host.remove("/sys/module/amdgpu")
    assert events(look(host)) == []
    told = look(host)
    assert events(told) == [("amdgpu.driver_missing", "")]
    assert "8 AMD GPUs on the PCI bus" in lines(told)[0]
    assert events(list(amdsmi_facts(host))) == []


def test_a_gpu_that_the_driver_did_not_take_is_told_by_its_address() -> None:
    host = sick("mi300xx8")
    host.remove(f"{DEVICES}/{GPU3}/driver")
    machine = Machine("mi300xx8", host)
    del machine.gpus[3]
    assert events(looks(host)) == [("amdgpu.init_failed", GPU3)]


def test_a_host_without_the_library_says_so_among_its_facts() -> None:
    host = without_library(captured("mi250x8"))
    assert [one.what for one in amdsmi_facts(host) if isinstance(one, Note)] == [
        "AMD SMI is not installed: the driver's plain files are read"
    ]
    assert not [one for one in look(host) if isinstance(one, Note)]


def test_gpus_kept_for_guests_are_silent(tmp_path: Path) -> None:
    host = Host(root=shutil.copytree(captured("mi250x8").root, tmp_path / "x", symlinks=True))
    (host.root / "sys/bus/pci/drivers/amdgpu").rename(host.root / "sys/bus/pci/drivers/vfio-pci")
    for bus in buses(host):
        at = (host.root / f"{DEVICES}/{bus}".lstrip("/")).resolve() / "driver"
        at.unlink()
        at.symlink_to(host.root / "sys/bus/pci/drivers/vfio-pci")
    with pytest.raises(NoData):
        look(host)


def test_an_xgmi_link_down_is_told_and_counted() -> None:
    machine = Machine("mi300xx8")
    machine.gpus[4]["amdsmi_get_gpu_xgmi_link_status"]["status"][1] = "D"
    told = look(machine.host)
    assert events([one for one in told if isinstance(one, Event)])[-1:] == [
        ("amdgpu.xgmi_error", "gpu4")
    ]
    assert samples(told)["gpu4", "gpu_xgmi_links_down"] == 1
    assert samples(told)["gpu4", "gpu_xgmi_links_up"] == 6


def test_a_gpu_that_never_had_a_link_has_none_down() -> None:
    machine = Machine("mi300xx8")
    machine.gpus[4]["amdsmi_get_gpu_xgmi_link_status"]["status"] = ["D"] * 8
    told = look(machine.host)
    assert ("amdgpu.xgmi_error", "gpu4") not in events(told)
    assert ("gpu4", "gpu_xgmi_links_down") not in samples(told)


def test_a_gpu_that_loses_all_its_links_says_so() -> None:
    machine = Machine("mi300xx8")
    look(machine.host)
    machine.gpus[4]["amdsmi_get_gpu_xgmi_link_status"]["status"] = ["D"] * 8
    assert samples(look(machine.host))["gpu4", "gpu_xgmi_links_down"] == 8


@pytest.mark.parametrize("status", [Status.NOT_SUPPORTED, Status.UNEXPECTED_SIZE])
def test_metrics_newer_than_the_library_are_read_from_plain_files(status: Status) -> None:
    machine = Machine("mi300xx8")
    machine.all_say(CORE, {"error": status})
    told = looks(machine.host)
    assert events(told) == []
    assert samples(told)["gpu4", "gpu_power_watts"] == 724
    assert samples(told)["gpu4", "gpu_xgmi_links_up"] == 7


def advance(machine: Machine, seconds: float, **held: float) -> None:
    """The driver's clock and counters of GPU 0 after some time, a round each millisecond."""
    told = machine.gpus[0][CORE]
    told["system_clock_counter"] += int(seconds * 1e9)
    told["accumulation_counter"] += int(seconds * 1000)
    for cause, share in held.items():
        told[f"{cause}_residency_acc"] += int(seconds * 1000 * share)


def test_throttling_becomes_seconds_by_the_drivers_clock() -> None:
    machine = Machine("mi300xx8")
    look(machine.host)
    advance(machine, 30, ppt=0.5, hbm_thm=0.1)
    told = samples(look(machine.host))
    assert told["gpu0", "gpu_throttle_power_seconds_total"] == pytest.approx(15)
    assert told["gpu0", "gpu_throttle_memory_thermal_seconds_total"] == pytest.approx(3)
    assert told["gpu0", "gpu_throttle_hw_thermal_seconds_total"] == 0
    machine.metric(0, accumulation_counter=5, ppt_residency_acc=0)  # the firmware began anew
    told = samples(look(machine.host))
    assert told["gpu0", "gpu_throttle_power_seconds_total"] == pytest.approx(15)


def test_sustained_heat_is_told_and_the_power_limit_is_not() -> None:
    machine = Machine("mi300xx8")
    look(machine.host)
    heard: list[tuple[str, str]] = []
    for _ in range(11):
        advance(machine, 30, ppt=1.0, socket_thm=0.8)
        heard += events(look(machine.host))
    assert heard == [("clock.hw_thermal", "gpu0")]


def test_heat_that_comes_and_goes_is_not_told() -> None:
    machine = Machine("mi300xx8")
    look(machine.host)
    heard: list[tuple[str, str]] = []
    for turn in range(30):
        advance(machine, 30, vr_thm=float(turn % 4 == 0))
        heard += events(look(machine.host))
    assert heard == []
    assert amdsmi_throttle.SUSTAINED == 0.5


def test_an_mi250_held_by_a_limit_says_so() -> None:
    machine = Machine("mi250x8")
    machine.metric(6, throttle_status=True)
    assert events(look(machine.host)) == [("amdgpu.throttled", "gpu6")]


def test_bad_pages_and_their_threshold() -> None:
    machine = Machine("mi300xx8")
    page = {"value": 0, "page_address": 4096, "page_size": 4096}
    gpu = machine.gpus[1]
    gpu["amdsmi_get_gpu_bad_page_info"] = [{**page, "status": 0}] * 580 + [{**page, "status": 1}]
    told = list(amdsmi_facts(machine.host))
    assert sorted(events(told)) == [
        ("amdgpu.bad_page", "gpu1"),
        ("amdgpu.bad_page_threshold", "gpu1"),
    ]
    assert samples(told)["gpu1", "gpu_bad_pages_retired"] == 580
    assert samples(told)["gpu1", "gpu_bad_pages_pending"] == 1


def test_a_damaged_record_of_bad_pages_is_told() -> None:
    machine = Machine("mi300xx8")
    machine.gpus[1]["amdsmi_get_gpu_bad_page_info"] = {"error": Status.CORRUPTED_EEPROM}
    told = list(amdsmi_facts(machine.host))
    assert events(told) == [("amdgpu.eeprom_corrupt", "gpu1")]
    assert ("gpu1", "gpu_bad_pages_retired") not in samples(told)


def test_plain_files_tell_errors_pages_and_thresholds() -> None:
    host = sick("mi300xx8")
    without_library(host)
    host.put(f"{DEVICES}/{GPU3}/ras/umc_err_count", "ue: 2\nce: 17\nde: 1")
    marks = "\n".join(f"0x{n:08x} : 0x00001000 : {'R' if n < 90 else 'P'}" for n in range(92))
    host.put(f"{DEVICES}/{GPU3}/ras/gpu_vram_bad_pages", marks)
    host.put("/sys/module/amdgpu/parameters/bad_page_threshold", 100)
    told = list(amdsmi_facts(host))
    assert sorted(events(told)) == [
        ("amdgpu.bad_page", "gpu3"),
        ("amdgpu.bad_page_threshold", "gpu3"),
    ]
    found = samples(told)
    assert found["gpu3", "gpu_ras_umc_uncorrectable_total"] == 2
    assert found["gpu3", "gpu_ras_correctable_total"] == 17
    assert found["gpu3", "gpu_ras_deferred_total"] == 1
    assert found["gpu3", "gpu_bad_pages_retired"] == 90


def test_a_gpu_that_sleeps_is_not_woken() -> None:
    host = sick("mi250x8")
    without_library(host)
    host.put(f"{DEVICES}/{buses(host)[0]}/power/runtime_status", "suspended")
    told = [*look(host), *amdsmi_facts(host)]
    assert ("gpu0", "gpu_temp_celsius") not in samples(told)
    assert ("gpu0", "serial") not in facts(told)
    assert ("gpu1", "gpu_temp_celsius") in samples(told)


def test_partitions_of_one_gpu_are_told_apart() -> None:
    machine = Machine("mi300xx8")
    machine.gpus.insert(1, {**machine.gpus[0]})
    machine.gpus[1][CORE] = {**machine.gpus[0][CORE], "temperature_hotspot": 55}
    for _ in range(2):
        told = samples(look(machine.host))
        assert (told["gpu0", "gpu_temp_celsius"], told["gpu1", "gpu_temp_celsius"]) == (71, 55)
    assert told["gpu0", "gpu_processes"] == 1
    assert ("gpu1", "gpu_processes") not in told


@pytest.mark.parametrize(
    ("cap", "watts"), [(750_000_000, 750.0), (750, 750.0), (0, None), (0xFFFF_FFFF, None)]
)
def test_a_power_cap_in_whichever_unit(cap: int, watts: float | None) -> None:
    machine = Machine("mi300xx8")
    machine.all_say("amdsmi_get_power_cap_info", {"power_cap": cap})
    told = list(amdsmi_facts(machine.host))
    assert samples(told).get(("gpu0", "gpu_power_limit_watts")) == watts
    assert facts(told).get(("gpu0", "power_limit_w")) == watts


def test_every_code_told_is_catalogued() -> None:
    known = catalogue()
    for code in (
        *("amdgpu.driver_missing", "amdgpu.init_failed", "amdgpu.lost", "amdgpu.not_answering"),
        *("amdgpu.reset_failed", "amdgpu.xgmi_error", "amdgpu.throttled", "amdgpu.bad_page"),
        *("amdgpu.bad_page_threshold", "amdgpu.eeprom_corrupt", "clock.hw_thermal"),
        *("cper.fatal", "cper.recoverable", "cper.corrected"),
    ):
        assert code in known


def test_a_library_gone_wrong_says_which() -> None:
    host = sick("mi300xx8")
    host.put("/bigiron/amdsmi.json", "{not JSON")
    with pytest.raises(Permanent, match=r"amdsmi\.json"):
        look(host)


def test_nothing_of_this_is_of_another_time() -> None:
    told: list[Any] = [*look(captured("mi300xx8")), *amdsmi_facts(captured("mi300xx8"))]
    timed = [one for one in told if isinstance(one, Event | Sample) and one.time is not None]
    assert [one.code for one in timed if isinstance(one, Event)] == ["cper.corrected"]
    assert len(timed) == 1
