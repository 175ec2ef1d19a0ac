"""Whatever AMD SMI and the driver's files answer: records once, no false numbers, no traceback."""

import contextlib
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit import amdsmi_binding
from tests.unit.amdsmi_machine import CORE, Machine
from tests.unit.collected import captured, events, facts, lines, samples, sick
from tools.capture_amdsmi import Recorder, changed, record

from bigiron.collect import Seen, amdsmi_real
from bigiron.collect.amdsmi import amdsmi, amdsmi_facts
from bigiron.collect.amdsmi_captured import Captured
from bigiron.collect.amdsmi_cper import AFRESH, KNOWN
from bigiron.collect.amdsmi_library import MORE_DATA, Refused, Status, counted, gauged
from bigiron.collect.amdsmi_real import Real
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.model import Event, Fact, Sample
from bigiron.signals import SIGNALS

DEVICES = "/sys/bus/pci/devices"
CPER = "amdsmi_get_gpu_cper_entries(7, 65536, {})"
FIELDS = json.loads((captured("mi300xx8").root / "bigiron/amdsmi.json").read_text())["gpus"][0]


def entry(number: int, severity: str = "fatal", time: str = "2026/11/30 09:00:01") -> Any:
    return {"error_severity": severity, "timestamp": time, "record_id": str(number)}


def ring(
    machine: Machine, cursor: int, end: int, entries: list[Any], status: int = 0, gpu: int = 0
) -> None:
    listed = {str(place): one for place, one in enumerate(entries)}
    blobs = [{"bytes": [place, -1, 7], "size": 3} for place in range(len(entries))]
    machine.gpus[gpu][CPER.format(cursor)] = [listed, end, blobs, status]


def told(machine: Machine) -> list[str]:
    """The numbers of the records told in a look."""
    seen = [one for one in amdsmi(machine.host) if isinstance(one, Event)]
    return [one.attrs["record"] for one in seen if one.device == "gpu0"]


def test_records_are_told_once_each_with_their_own_time() -> None:
    machine = Machine("mi300xx8")
    ring(machine, 0, 2, [entry(1), entry(2, "non_fatal_uncorrected")])
    ring(machine, 2, 2, [])
    seen = [one for one in amdsmi(machine.host) if isinstance(one, Event)]
    assert [(one.code, one.device) for one in seen] == [
        ("cper.fatal", "gpu0"),
        ("cper.recoverable", "gpu0"),
        ("cper.corrected", "gpu5"),
    ]
    assert seen[0].time == datetime(2026, 11, 30, 9, 0, 1, tzinfo=UTC)
    assert told(machine) == []
    ring(machine, 2, 3, [entry(3)])
    assert told(machine) == ["3"]


def test_more_records_than_one_answer_holds_are_all_told() -> None:
    machine = Machine("mi300xx8")
    for start in range(0, 60, 20):
        listed = [entry(number) for number in range(start, start + 20)]
        ring(machine, start, start + 20, listed, MORE_DATA if start < 40 else 0)
    assert told(machine) == [str(number) for number in range(60)]


def test_a_ring_that_never_moves_on_is_left() -> None:
    machine = Machine("mi300xx8")
    ring(machine, 0, 0, [entry(1)], MORE_DATA)
    assert told(machine) == ["1"]
    asked = [function for function, _ in machine.asked if function.startswith("amdsmi_get_gpu_cp")]
    assert len(asked) == len(machine.gpus)


def test_a_ring_begun_anew_is_read_from_its_beginning_and_nothing_twice() -> None:
    machine = Machine("mi300xx8")
    ring(machine, 0, 2, [entry(1), entry(2)])
    ring(machine, 2, 2, [])
    assert told(machine) == ["1", "2"]
    ring(machine, 0, 1, [entry(9)])
    ring(machine, 1, 1, [])
    assert [number for _ in range(AFRESH) for number in told(machine)] == ["9"]


def test_records_are_told_again_only_past_the_most_that_are_remembered() -> None:
    machine = Machine("mi300xx8")
    ring(machine, 0, KNOWN + 1, [entry(number) for number in range(KNOWN + 1)])
    ring(machine, KNOWN + 1, KNOWN + 1, [])
    assert len(told(machine)) == KNOWN + 1
    assert [number for _ in range(AFRESH) for number in told(machine)][:1] == ["0"]


def test_a_record_without_a_known_severity_or_time_is_no_event_of_a_guess() -> None:
    machine = Machine("mi300xx8")
    ring(machine, 0, 1, [entry(1, "unused"), entry(2, "fatal", "2026/13/45 99:00:00")])
    seen = [one for one in amdsmi(machine.host) if getattr(one, "device", "") == "gpu0"]
    assert [one.time for one in seen if isinstance(one, Event)] == [None]
    assert [line for line in lines(amdsmi(Machine("mi300xx8").host)) if "severity" in line] == []


NOTHING: tuple[object, ...] = (
    *("N/A", None, True, "", [], {}),
    -1,
    -0.5,
    0xFFFF_FFFF,
    2**64 - 1,
    float("nan"),
    1e300,
)


@given(st.sampled_from(NOTHING))
def test_what_is_no_number_is_none(value: object) -> None:
    assert counted(value) is None
    assert gauged(value) is None


def test_a_counter_may_be_what_is_no_gauge() -> None:
    assert (counted(0), counted(0xFFFF)) == (0.0, 65535.0)
    assert (gauged(0), gauged(0xFFFF)) == (None, None)


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["N/A", None, 0xFFFF, 0xFFFF_FFFF, 2**64 - 1, -1]), st.data())
def test_no_sentinel_ever_becomes_a_sample(sentinel: object, data: st.DataObject) -> None:
    machine = Machine("mi300xx8")
    names = data.draw(st.sets(st.sampled_from(sorted(FIELDS[CORE])), min_size=1))
    for name in names:
        was = machine.gpus[0][CORE][name]
        machine.gpus[0][CORE][name] = [sentinel] * len(was) if isinstance(was, list) else sentinel
    for (device, metric), value in samples(amdsmi(machine.host)).items():
        if device == "gpu0" and not metric.endswith("_total"):
            assert 0 <= value < 1e12, metric


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["N/A", "U", "D", {"error": 8}, {"error": 31}, {"error": "x"}]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["status", "error", "bytes", "fw_list", "x"]), inner)
    ),
    max_leaves=8,
)


def heard(host: Host) -> list[Seen]:
    """Both collectors' words; they may only refuse as they are to."""
    found: list[Seen] = []
    for collector in (amdsmi, amdsmi_facts):
        with contextlib.suppress(NoData, Permanent):
            found.extend(collector(host))
    return found


def sound(found: list[Seen]) -> None:
    for one in found:
        if isinstance(one, Sample):
            assert one.metric in SIGNALS
            assert 0 <= one.value < 1e26
        elif isinstance(one, Fact) and isinstance(one.value, str):
            assert 0 < len(one.value) <= 4096


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["mi300xx8", "mi250x8"]), st.data())
def test_any_answer_is_borne(name: str, data: st.DataObject) -> None:
    machine = Machine(name)
    machine.gpus = machine.gpus[:2]
    gpu = machine.gpus[0]
    for key in data.draw(st.sets(st.sampled_from(sorted(gpu)), min_size=1, max_size=6)):
        answer = data.draw(JSON)
        if isinstance(gpu[key], dict) and data.draw(st.booleans()):
            for field in data.draw(st.sets(st.sampled_from(sorted(gpu[key]) or ["x"]))):
                gpu[key] = {**gpu[key], field: answer}
        else:
            gpu[key] = answer
    for _ in range(2):
        sound(heard(machine.host))


@settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))
@given(JSON)
def test_any_capture_is_borne(told: object) -> None:
    host = sick("mi300xx8")
    host.put("/bigiron/amdsmi.json", json.dumps(told))
    sound(heard(host))


FILES = (
    *("gpu_busy_percent", "mem_info_vram_total", "mem_info_vram_used", "pcie_replay_count"),
    *("current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "unique_id"),
    *("vbios_version", "serial_number", "product_name", "pp_dpm_sclk", "ras/umc_err_count"),
    *("ras/gpu_vram_bad_pages", "fw_version/smc_fw_version", "current_compute_partition"),
    *("hwmon/hwmon4/temp2_input", "hwmon/hwmon4/temp2_label", "hwmon/hwmon4/power1_cap"),
)


@settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))
@given(
    st.sets(st.sampled_from(FILES), min_size=1),
    st.binary(max_size=60)
    | st.sampled_from(
        [b"-1", b"N/A", b"4294967295", b"9" * 400, b"1e400", b"0x", b"ue: 9\nce: -1"]
    ),
)
def test_any_plain_file_is_borne(files: set[str], content: bytes) -> None:
    host = sick("mi300xx8")
    host.handles["amdsmi"] = None
    for file in files:
        host.put(f"{DEVICES}/0000:13:00.0/{file}", content)
    sound(heard(host))


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=40), st.binary(max_size=60))
def test_any_word_of_the_compute_driver_is_borne(held: bytes, place: bytes) -> None:
    host = sick("mi300xx8")
    host.put("/sys/class/kfd/kfd/proc/48120/vram_20011", held)
    host.put("/sys/class/kfd/kfd/topology/nodes/2/properties", place)
    sound(heard(host))


def real() -> Host:
    host = captured("mi300xx8")
    host.handles["amdsmi"] = Real(amdsmi_binding)
    return host


def test_the_binding_is_asked_in_its_own_words() -> None:
    host = real()
    look = list(amdsmi(host))
    assert samples(look)["gpu0", "gpu_temp_celsius"] == 64
    assert ("gpu1", "gpu_temp_celsius") not in samples(look)
    assert ("cper.fatal", "gpu0") in events(look)
    assert [one.attrs["afids"] for one in look if isinstance(one, Event)] == ["25"]
    assert [one.attrs["record"] for one in look if isinstance(one, Event)] == ["7"]
    assert events(amdsmi(host)) == [("amdgpu.not_answering", "gpu1")]
    what = list(amdsmi_facts(host))
    assert samples(what)["gpu0", "gpu_ras_umc_correctable_total"] == 4
    assert facts(what)["gpu0", "firmware_pm"] == "00.85.119.00"
    assert facts(what)["gpu0", "serial"] == "692243000027"


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (("amdsmi_get_gpu_metrics_info", 1), Status.TIMEOUT),
        (("amdsmi_get_gpu_metrics_info", 2), Status.NOT_FOUND),
        (("amdsmi_get_of_another_version", 0), Status.NOT_SUPPORTED),
        (("amdsmi_get_gpu_ecc_count", 0, "AmdSmiGpuBlock.NEW"), Status.NOT_SUPPORTED),
        (("amdsmi_get_gpu_ecc_count", 0, 1), Status.INVAL),
        (("amdsmi_get_gpu_asic_info", 0), Status.UNEXPECTED_DATA),
    ],
)
def test_the_binding_says_no_in_numbers(call: tuple[Any, ...], status: Status) -> None:
    with pytest.raises(Refused) as refused:
        Real(amdsmi_binding).call(*call)
    assert refused.value.status == status


def test_a_library_let_go_is_shut_down() -> None:
    library = Real(amdsmi_binding)
    library.close()
    assert amdsmi_binding.STARTED[-2:] == [True, False]


@pytest.mark.parametrize(
    "binding", ["print('no library')\n{}['libamd_smi.so']", "raise OSError", "import not_installed"]
)
def test_a_binding_without_its_library_is_none_and_prints_nothing(
    binding: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "amdsmi.py").write_text(binding)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    assert amdsmi_real.opened() is None
    assert capsys.readouterr().out == ""


def test_what_is_recorded_says_the_same_when_it_is_read() -> None:
    recorder = Recorder(Real(amdsmi_binding), as_is=True)
    record(recorder, captured("mi300xx8"))
    host = captured("mi300xx8")
    host.handles["amdsmi"] = Captured(
        json.loads(json.dumps({"system": recorder.system, "gpus": recorder.gpus}))
    )
    assert lines(amdsmi(host)) == lines(amdsmi(real()))
    assert lines(amdsmi_facts(host)) == lines(amdsmi_facts(real()))
    assert "xcp_stats.vcn_busy" not in recorder.gpus[0][CORE]


def test_serial_numbers_are_others_of_the_same_shape() -> None:
    told = {"product_serial": "692243000027", "asic_serial": "0x6D4100002F100000", "fru_id": "N/A"}
    other = changed(told)
    assert other["product_serial"] != told["product_serial"]
    assert len(other["product_serial"]) == 12
    assert other["asic_serial"].startswith("0x")
    assert other["fru_id"] == "N/A"
    uuid = "41ff74a1-0000-1000-8041-9d2c51e07a3b"
    assert [len(part) for part in changed(uuid, uuid=True).split("-")] == [8, 4, 4, 4, 12]
    assert changed(uuid, uuid=True) != uuid
