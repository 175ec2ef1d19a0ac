"""NVML: what it says of captured GPUs, healthy and sick; what a GPU does not answer."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.hosts import make_nvml
from tests.unit.collected import HOSTS, NAMES, captured, events, facts, golden, samples
from tests.unit.nvml_trees import (
    NVIDIA,
    again,
    answers,
    asked,
    every,
    fields,
    holding,
    sick,
    told,
    without,
)

from bigiron import signals
from bigiron.collect import Seen, collector
from bigiron.collect.nvml import GIVES, Watched, nvml, nvml_facts
from bigiron.collect.nvml_links import ber
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.model import Device, Event, Fact, Note, Sample

GPU3 = "gpu3"


def look(host: Host) -> list[Seen]:
    return list(nvml(host))


def whole(host: Host) -> list[Seen]:
    return [*nvml(host), *nvml_facts(host)]


@pytest.mark.parametrize("name", NVIDIA)
def test_what_it_says_of_captured_hosts(name: str) -> None:
    golden(nvml, "nvml", name)
    golden(nvml_facts, "nvml_facts", name)


@pytest.mark.parametrize("name", NVIDIA)
def test_captures_are_what_their_maker_makes(name: str, tmp_path: Path) -> None:
    made = make_nvml.make(tmp_path, name)
    assert made.read_text() == (HOSTS / name / "bigiron" / "nvml.json").read_text()


@pytest.mark.parametrize("name", NVIDIA)
def test_no_captured_host_has_a_fault_at_any_look(name: str) -> None:
    host = captured(name)
    for _ in range(3):
        seen = whole(host)
        assert events(seen) == []
        assert [one for one in seen if isinstance(one, Note)] == []


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(NVIDIA)))
def test_hosts_without_nvidia_are_silent(name: str) -> None:
    for one in (nvml, nvml_facts):
        with pytest.raises(NoData):
            list(one(captured(name)))


def test_a_machine_without_gpus_is_silent(tmp_path: Path) -> None:
    for text in ('{"gpus": []}', '{"system": {"nvmlInit": {"error": 12}}}', "{}"):
        with pytest.raises(NoData):
            look(holding(tmp_path, text))


@pytest.mark.parametrize("name", NVIDIA)
def test_every_metric_is_catalogued_and_announced_and_told_once(name: str) -> None:
    seen = samples(whole(captured(name)))
    assert {metric for _, metric in seen} <= GIVES <= set(signals.SIGNALS)
    for each in (nvml, nvml_facts):
        told_of = [
            (one.device, one.metric if isinstance(one, Sample) else one.name)
            for one in each(captured(name))
            if isinstance(one, Sample | Fact)
        ]
        assert len(told_of) == len(set(told_of))


def test_it_is_registered_to_run_apart_under_a_deadline() -> None:
    quick, slow = collector["nvml"], collector["nvml_facts"]
    assert (quick.every_s, quick.timeout_s, quick.apart) == (30.0, 10.0, True)
    assert (slow.every_s, slow.apart) == (300.0, True)


def test_it_reads_only_below_its_root(tmp_path: Path) -> None:
    before = [str(one) for one in whole(captured("h100x8"))]
    assert [str(one) for one in whole(sick("h100x8", tmp_path))] == before


def test_a_row_waits_to_be_remapped_and_spare_rows_run_low(tmp_path: Path) -> None:
    spare = {"max": 2556, "high": 2, "partial": 0, "low": 1, "none": 1}
    host = sick(
        "h100x8",
        tmp_path,
        fields(3, {"143": 2, "144": 1}),
        answers(3, RowRemapperHistogram=spare),
    )
    seen = samples(look(host))
    assert seen[GPU3, "gpu_row_remap_pending"] == 1
    assert seen["gpu2", "gpu_row_remap_pending"] == 0
    assert seen[GPU3, "gpu_remapped_rows_uncorrectable_total"] == 2
    assert [seen[GPU3, f"gpu_row_remap_banks_{level}"] for level in spare] == [2556, 2, 0, 1, 1]


def test_uncorrectable_errors_are_told_by_place_and_by_how_they_were_found(tmp_path: Path) -> None:
    status = dict(told("h100x8")["every"]["nvmlDeviceGetSramEccErrorStatus(1)"])
    status |= {"volatileUncParity": 1, "volatileUncSecDed": 2, "aggregateUncParity": 5}
    status |= {"aggregateUncSecDed": 3, "aggregateUncBucketSm": 7, "bThresholdExceeded": 1}
    status["aggregateUncBucketL2"] = 1
    host = sick(
        "h100x8",
        tmp_path,
        asked(3, "nvmlDeviceGetSramEccErrorStatus(1)", status),
        fields(3, {"4": 4, "12": 1, "23": 9}),
    )
    seen = samples(look(host))
    assert seen[GPU3, "gpu_ecc_uncorrectable_volatile_total"] == 4
    assert seen[GPU3, "gpu_ecc_dram_uncorrectable_volatile_total"] == 1
    assert seen[GPU3, "gpu_ecc_dram_uncorrectable_aggregate_total"] == 9
    assert seen[GPU3, "gpu_ecc_sram_uncorrectable_volatile_total"] == 3
    assert seen[GPU3, "gpu_ecc_sram_parity_uncorrectable_volatile_total"] == 1
    assert seen[GPU3, "gpu_ecc_sram_secded_uncorrectable_aggregate_total"] == 3
    assert seen[GPU3, "gpu_sram_threshold_exceeded"] == 1
    known = facts(nvml_facts(host))
    assert known[GPU3, "sram_uncorrectable_sources"] == "l2 1, sm 7, mcu 0, pcie 0, other 0"
    assert ("gpu2", "sram_uncorrectable_sources") not in known


def test_a_power_brake_is_a_reason_and_its_time(tmp_path: Path) -> None:
    host = sick(
        "h100x8",
        tmp_path,
        answers(3, CurrentClocksEventReasons=0x88),
        fields(3, {"271": 12_500_000_000}),
    )
    seen = samples(look(host))
    assert seen[GPU3, "gpu_clock_event_reasons"] == 0x88
    assert seen[GPU3, "gpu_throttle_hw_power_brake_seconds_total"] == pytest.approx(12.5)


@pytest.mark.parametrize("name", ["h100x8", "a100x8"])
def test_a_link_that_is_down_is_counted_and_named(name: str, tmp_path: Path) -> None:
    state = asked(3, "nvmlDeviceGetNvLinkState(5)", 0)
    if name == "h100x8":
        state = fields(3, {"165": [1] * 5 + [0] + [1] * 12})
    host = sick(name, tmp_path, state)
    seen = look(host)
    links = 12 if name == "a100x8" else 18
    assert samples(seen)[GPU3, "gpu_nvlink_links_down"] == 1
    assert samples(seen)[GPU3, "gpu_nvlink_links_up"] == links - 1
    assert facts(seen)[GPU3, "nvlink_links_inactive"] == "5"
    assert facts(nvml_facts(host))[GPU3, "nvlink_count"] == links


def test_a_link_that_answered_and_does_no_more_is_down(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path)
    look(host)
    silent = [1] * 5 + [{"error": 3}] + [1] * 12
    for gone in (silent, silent):
        again(host, fields(3, {"165": gone}))
        seen = samples(look(host))
        assert seen[GPU3, "gpu_nvlink_links_down"] == 1
        assert seen[GPU3, "gpu_nvlink_links_up"] == 17
    again(host, fields(3, {"165": [1] * 18}))
    assert samples(look(host))[GPU3, "gpu_nvlink_links_up"] == 18


def test_a_link_that_never_answered_is_none(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path, fields(3, {"165": [1] * 8 + [{"error": 3}] * 10}))
    seen = samples(look(host))
    assert seen[GPU3, "gpu_nvlink_links_up"] == 8
    assert seen[GPU3, "gpu_nvlink_links_down"] == 0


def test_links_with_errors_are_told_one_by_one(tmp_path: Path) -> None:
    slow = [26_562] * 18
    slow[9] = 13_281
    host = sick("h100x8", tmp_path, fields(3, {"161": [0, 0, 7] + [0] * 15, "164": slow}))
    seen = look(host)
    values = samples(seen)
    assert values[GPU3, "gpu_nvlink_replays_total"] == 7
    assert values["gpu3:nvlink2", "gpu_nvlink_replays_total"] == 7
    assert values["gpu3:nvlink9", "gpu_nvlink_speed_bytes_per_second"] == 13_281e6
    assert values[GPU3, "gpu_nvlink_speed_bytes_per_second"] == 13_281e6
    assert facts(seen)[GPU3, "nvlink_errors_by_link"] == "link 2 replay errors 7"
    assert {device for device, _ in values if ":" in device} == {"gpu3:nvlink2", "gpu3:nvlink9"}


def test_rare_counters_of_links_are_read_every_five_minutes(tmp_path: Path) -> None:
    now = [0.0]
    host = sick("gb200x4", tmp_path)
    host.handles["nvml:watched"] = Watched(lambda: now[0])
    look(host)
    again(host, fields(1, {"208": [0, 5] + [0] * 16, "215": [0, 1] + [0] * 16}))
    now[0] = 30.0
    assert facts(look(host))["gpu1", "nvlink_errors_by_link"] == (
        "link 1 total link recovery events 1"
    )
    now[0] = 300.0
    assert facts(look(host))["gpu1", "nvlink_errors_by_link"] == (
        "link 1 receive errors 5; link 1 total link recovery events 1"
    )


def test_a_bit_error_rate_is_unpacked_and_the_worst_link_named(tmp_path: Path) -> None:
    assert ber(0x50F) == pytest.approx(5e-15)
    assert ber(0) == 0
    host = sick("gb200x4", tmp_path, fields(1, {"220": [0x50F] * 17 + [0x307]}))
    seen = samples(look(host))
    assert seen["gpu1", "gpu_nvlink_effective_ber"] == pytest.approx(3e-7)
    assert seen["gpu1:nvlink17", "gpu_nvlink_effective_ber"] == pytest.approx(3e-7)
    assert ("gpu1:nvlink16", "gpu_nvlink_effective_ber") not in seen


def fabric(**changed: Any) -> Any:
    now = told("gb200x4")["every"]["nvmlDeviceGetGpuFabricInfoV(3)"]
    return asked(1, "nvmlDeviceGetGpuFabricInfoV(3)", {**now, **changed})


def test_a_fabric_with_reduced_health_is_taken_apart(tmp_path: Path) -> None:
    # bandwidth degraded, no route recovery, a route unhealthy, no time-out, configuration well
    host = sick("gb200x4", tmp_path, fabric(healthMask=0x199, healthSummary=2))
    seen = look(host)
    assert samples(seen)["gpu1", "gpu_fabric_health_mask"] == 0x199
    assert events(seen) == []  # the limits of the mask are a detector's, which sees how long
    known = facts(nvml_facts(host))
    assert known["gpu1", "fabric_health"] == "Unhealthy"
    assert known["gpu1", "fabric_health_faults"] == "bandwidth degraded, route unhealthy"
    assert ("gpu0", "fabric_health_faults") not in known


def test_a_fabric_that_is_configured_wrong_is_told(tmp_path: Path) -> None:
    host = sick("gb200x4", tmp_path, fabric(healthMask=0x5AA))
    (event,) = [one for one in look(host) if isinstance(one, Event)]
    assert (event.code, event.device) == ("gpu.fabric_unhealthy", "gpu1")
    assert event.text == "gpu1: its NVLink fabric is configured wrong: insufficient nvlinks"


def test_a_fabric_that_was_not_joined_is_told(tmp_path: Path) -> None:
    host = sick("gb200x4", tmp_path, fabric(status=15))
    seen = look(host)
    assert events(seen) == [("gpu.fabric_unhealthy", "gpu1")]
    assert samples(seen)["gpu1", "gpu_fabric_state"] == 4
    assert facts(nvml_facts(host))["gpu1", "fabric_status"] == "GPU_IS_LOST"


def test_an_older_fabric_structure_is_read(tmp_path: Path) -> None:
    for version, key in ((2, "V(2)"), (1, "(1)")):
        plain = {"clusterUuid": "0" * 32, "status": 0, "cliqueId": 3, "state": 3}
        host = sick(
            "h100x8",
            tmp_path / str(version),
            without("nvmlDeviceGetGpuFabricInfoV(3)"),
            every(f"nvmlDeviceGetGpuFabricInfo{key}", plain),
        )
        assert samples(look(host))["gpu0", "gpu_fabric_state"] == 3
        assert facts(nvml_facts(host))["gpu0", "fabric_status"] == "Success"


def test_an_older_driver_is_asked_by_older_functions(tmp_path: Path) -> None:
    mib = 1024 * 1024

    def old(t: dict[str, Any]) -> None:
        gone = [str(n) for n in (3, 4, 5, 6, 74, 75, 76, 77, 78, 79, 83, 94, *range(142, 146))]
        for part in (t["every"], *t["gpus"]):
            part["fields"] = {n: v for n, v in part["fields"].items() if n not in gone}

    host = sick(
        "a100x8",
        tmp_path,
        old,
        without("nvmlDeviceGetMemoryInfo(2)", "nvmlDeviceGetCurrentClocksEventReasons"),
        without("nvmlDeviceGetSramEccErrorStatus(1)"),
        every("nvmlDeviceGetMemoryInfo", {"total": 80 * mib, "used": 30 * mib, "free": 50 * mib}),
        every("nvmlDeviceGetCurrentClocksThrottleReasons", 4),
        every("nvmlDeviceGetViolationStatus(1)", {"referenceTime": 9, "violationTime": 2_000_000}),
        every("nvmlDeviceGetPcieReplayCounter", 11),
        every("nvmlDeviceGetRemappedRows", [1, 2, 1, 0]),
        every("nvmlDeviceGetTotalEnergyConsumption", 5_000),
        every("nvmlDeviceGetTotalEccErrors(1, 0)", 6),
        every("nvmlDeviceGetMemoryErrorCounter(1, 0, 7)", 5),
    )
    seen = samples(look(host))
    wanted = {
        "gpu_memory_used_bytes": 30 * mib,
        "gpu_clock_event_reasons": 4,
        "gpu_throttle_thermal_seconds_total": 0.002,
        "gpu_pcie_replays_total": 11,
        "gpu_remapped_rows_uncorrectable_total": 2,
        "gpu_row_remap_pending": 1,
        "gpu_energy_joules_total": 5,
        "gpu_ecc_uncorrectable_volatile_total": 6,
        "gpu_ecc_sram_uncorrectable_volatile_total": 5,
    }
    assert {metric: seen["gpu0", metric] for metric in wanted} == pytest.approx(wanted)


@pytest.mark.parametrize("blank", [0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF, None, "N/A", True, [], {}])
def test_a_value_that_there_is_not_is_never_a_number(blank: Any, tmp_path: Path) -> None:
    def blanked(t: dict[str, Any]) -> None:
        for gpu in (t["every"], *t["gpus"]):
            for key in gpu:
                if key.startswith("nvmlDeviceGet") and "UUID" not in key:
                    gpu[key] = blank
            gpu["fields"] = dict.fromkeys(gpu.get("fields", {}), blank)

    seen = whole(sick("h100x8", tmp_path, blanked))
    assert samples(seen) == {}
    assert {name for device, name in facts(seen) if device} == {"uuid", "inforom_checksum"}


def test_a_blank_beside_values_is_left_out(tmp_path: Path) -> None:
    host = sick(
        "h100x8", tmp_path, answers(3, PowerUsage=0xFFFF_FFFF), fields(3, {"82": 2**32 - 1})
    )
    seen = samples(look(host))
    assert (GPU3, "gpu_power_watts") not in seen
    assert (GPU3, "gpu_memory_temp_celsius") not in seen
    assert seen[GPU3, "gpu_temp_celsius"] == 62


def test_what_an_exporter_tells_is_not_asked_again(tmp_path: Path) -> None:
    asked_for: list[str] = []
    host = sick("h100x8", tmp_path)
    left = {
        m for m in GIVES if m.startswith(("gpu_pcie_", "gpu_nvlink_", "gpu_memory_", "gpu_ecc"))
    }
    host.handles["scraped"] = frozenset(left)
    seen = samples(look(host))
    assert seen
    assert not left & {metric for _, metric in seen}
    library = host.handles["nvml"]

    class Listening:
        def call(self, function: str, *arguments: Any) -> Any:
            asked_for.append(function)
            return library.call(function, *arguments)

        def fields(self, gpu: Any, wanted: list[tuple[int, int]]) -> Any:
            asked_for.extend(str(field) for field, _ in wanted)
            return library.fields(gpu, wanted)

    host.handles["nvml"] = Listening()
    look(host)
    assert not {"nvmlDeviceGetPcieThroughput", "nvmlDeviceGetMemoryInfo", "165", "94", "3"} & set(
        asked_for
    )
    assert "nvmlDeviceGetTemperature" in asked_for


def test_all_scraped_still_notices_a_lost_gpu(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path, lambda t: t["gpus"][3].update({"*": {"error": 15}}))
    host.handles["scraped"] = GIVES
    assert events(look(host)) == [("nvrm.gpu_lost", GPU3)]


def test_a_gpu_keeps_its_identity_when_indexes_move(tmp_path: Path) -> None:
    host = sick("h100x8", tmp_path)
    before = {d.name: d.id for d in nvml_facts(host) if isinstance(d, Device)}
    again(host, lambda t: t["gpus"].pop(2))
    after = {d.name: (d.id, d.bus) for d in nvml_facts(host) if isinstance(d, Device)}
    assert len(after) == 7
    assert after["gpu2"] == (before["gpu3"], "0000:3d:00.0")


def test_nvlink_traffic_is_the_growth_of_its_counters(tmp_path: Path) -> None:
    now = [1000.0]
    host = sick("h100x8", tmp_path)
    host.handles["nvml:watched"] = Watched(lambda: now[0])
    metric = ("gpu3", "gpu_nvlink_bandwidth_bytes_per_second")
    assert metric not in samples(look(host))
    was = told("h100x8")["every"]["fields"]
    more = {f"{n}/all": was[f"{n}/all"] + 30_000 for n in (138, 139)}
    again(host, fields(3, more))
    now[0] += 30.0
    seen = samples(look(host))
    assert seen[metric] == pytest.approx(2 * 30_000 * 1024 / 30)
    assert seen["gpu2", metric[1]] == 0
    again(host, fields(3, {"138/all": 5, "139/all": 5}))  # the driver was loaded anew
    now[0] += 30.0
    assert metric not in samples(look(host))


def test_what_was_refused_is_asked_again_after_an_hour(tmp_path: Path) -> None:
    now = [0.0]
    host = sick("l40sx8", tmp_path)
    host.handles["nvml:watched"] = Watched(lambda: now[0])
    assert ("gpu0", "gpu_memory_temp_celsius") not in samples(look(host))
    again(host, fields(0, {"82": 71}))
    now[0] += 3599
    assert ("gpu0", "gpu_memory_temp_celsius") not in samples(look(host))
    now[0] += 2
    assert samples(look(host))["gpu0", "gpu_memory_temp_celsius"] == 71


def test_instances_of_a_partitioned_gpu_are_parts_of_it(tmp_path: Path) -> None:
    host = sick("a100x8-mig", tmp_path)
    seen = look(host)
    used = {d: v for (d, m), v in samples(seen).items() if m == "gpu_memory_used_bytes"}
    assert [d for d in used if d.startswith("gpu0:")] == [f"gpu0:gi{7 + n}" for n in range(7)]
    assert not [d for d, m in samples(seen) if d == "gpu0" and m.startswith("gpu_nvlink_links")]
    known = facts(nvml_facts(host))
    assert known["gpu0", "mig_mode"] == "Enabled"
    assert known["gpu0", "mig_profiles"] == "7 x 1g.10gb"
    assert known["gpu5", "mig_mode"] == "Disabled"
    assert ("gpu5", "mig_instances") not in known


def test_an_instance_that_was_just_removed_harms_nothing(tmp_path: Path) -> None:
    host = sick("a100x8-mig", tmp_path, lambda t: t["gpus"][0]["mig"][2].clear())
    seen = whole(host)
    assert events(seen) == []
    assert facts(seen)["gpu0", "mig_instances"] == 6


def test_fans_are_the_gpus_and_further_ones_its_parts(tmp_path: Path) -> None:
    host = sick(
        "t4x4",
        tmp_path,
        answers(1, NumFans=2),
        asked(1, "nvmlDeviceGetFanSpeed_v2(0)", 45),
        asked(1, "nvmlDeviceGetFanSpeed_v2(1)", 47),
    )
    seen = {d: v for (d, m), v in samples(look(host)).items() if m == "gpu_fan_speed_ratio"}
    assert seen == pytest.approx({"gpu1": 0.45, "gpu1:fan1": 0.47})


def test_a_capture_that_is_no_json_is_told(tmp_path: Path) -> None:
    for text in ("", "{", "[" * 100_000, "\x00"):
        with pytest.raises(Permanent):
            look(holding(tmp_path, text))


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | st.text(max_size=8)
    | st.fixed_dictionaries({"error": st.sampled_from([2, 3, 4, 10, 15, 16, 999]) | st.none()}),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whatever_nvml_answers_is_no_traceback(data: st.DataObject, tmp_path: Path) -> None:
    name = data.draw(st.sampled_from(NVIDIA))

    def scrambled(t: dict[str, Any]) -> None:
        for part in (t["system"], t["every"], t["every"]["fields"], *t["gpus"]):
            for key in data.draw(st.lists(st.sampled_from(sorted(part)), max_size=6, unique=True)):
                part[key] = data.draw(ANY)

    host = sick(name, tmp_path, scrambled)
    for each in (nvml, nvml_facts):
        try:
            list(each(host))
        except (NoData, Permanent):
            continue


@given(st.text(max_size=200) | ANY.map(str))
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_a_capture_holds_is_no_traceback(tmp_path: Path, text: str) -> None:
    try:
        look(holding(tmp_path, text.replace("\ud800", "")))
    except (NoData, Permanent):
        return
