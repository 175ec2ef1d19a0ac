"""nvidia-smi -q and -q -x: one vocabulary from both, whatever the driver."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.model import Device, Event, Fact, FactValue, Note, Observation, Sample

FIXTURES = Path(__file__).parent.parent / "fixtures" / "nvidia"
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def document(name: str, text: str | None = None) -> Document:
    data = (FIXTURES / name).read_bytes() if text is None else text.encode()
    return Document.of(name, data, NOW, "n1")


def read(format_: str, name: str, text: str | None = None) -> list[Observation]:
    return list(reader[format_].run().read(document(name, text)))


def recognised(name: str, text: str | None = None) -> str:
    head = Head.of(document(name, text))
    sure, best = max((plugin.run().sniff(head), plugin.name) for plugin in reader)
    return best if sure >= 0.3 else ""


def samples(seen: list[Observation], device: str) -> dict[str, float]:
    return {o.metric: o.value for o in seen if isinstance(o, Sample) and o.device == device}


def facts(seen: list[Observation], device: str = "") -> dict[str, FactValue]:
    return {o.name: o.value for o in seen if isinstance(o, Fact) and o.device == device}


def devices(seen: list[Observation]) -> dict[str, Device]:
    return {o.name: o for o in seen if isinstance(o, Device)}


def events(seen: list[Observation]) -> list[tuple[str, str]]:
    return [(o.code, o.device) for o in seen if isinstance(o, Event)]


def notes(seen: list[Observation]) -> list[str]:
    return [o.what for o in seen if isinstance(o, Note)]


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("smi-qx-two-gpus.xml", "nvidia_smi_xml"),
        ("smi-qx-v100.xml", "nvidia_smi_xml"),
        ("smi-q-two-gpus.txt", "nvidia_smi_text"),
        ("smi-table.txt", "nvidia_smi_table"),
        ("smi-nvlink-s.txt", "nvidia_smi_nvlink"),
        ("smi-nvlink-e.txt", "nvidia_smi_nvlink"),
        ("smi-topo.txt", "nvidia_smi_topo"),
        ("dmon.txt", "nvidia_smi_monitor"),
        ("bundle.txt", "nvidia_smi_bundle"),
        ("bug-report.log", "nvidia_bug_report"),
    ],
)
def test_recognises_each_output_by_its_content(name: str, format_: str) -> None:
    assert recognised(name) == format_


# XML


def test_xml_gives_each_gpu_with_identity_and_facts() -> None:
    seen = read("nvidia_smi_xml", "smi-qx-two-gpus.xml")
    assert facts(seen) == {"driver_version": "570.86.15", "cuda_version": "12.8", "gpu_count": 2}
    found = devices(seen)
    assert list(found) == ["gpu0", "gpu1"]
    assert found["gpu1"].bus == "0008:06:00.0"
    assert found["gpu1"].id == "GPU-11111111-aaaa-4bbb-8ccc-000000000002"
    told = facts(seen, "gpu0")
    assert told["serial"] == "1650923000101"
    assert told["inforom_version"] == "G520.0200.00.06"
    assert told["power_limit_w"] == 700
    assert told["pcie_link_gen_max"] == 5
    assert told["temp_margin_slowdown_c"] == -2
    assert told["clock_event_reasons"] == "sw_power_cap"
    assert told["sram_uncorrectable_sources"] == "l2 0, sm 1"
    assert told["fabric_clique"] == "3"


def test_xml_gives_samples_in_base_units() -> None:
    seen = read("nvidia_smi_xml", "smi-qx-two-gpus.xml")
    gpu = samples(seen, "gpu0")
    assert gpu["gpu_temp_celsius"] == 41
    assert gpu["gpu_temp_margin_celsius"] == 45
    assert gpu["gpu_power_watts"] == pytest.approx(212.4)
    assert gpu["gpu_sm_clock_hertz"] == 1.41e9
    assert gpu["gpu_utilization_ratio"] == pytest.approx(0.37)
    assert gpu["gpu_memory_total_bytes"] == 81559 * 1024**2
    assert gpu["gpu_pcie_rx_bytes_per_second"] == 3.4e6
    assert gpu["gpu_throttle_sw_power_cap_seconds_total"] == pytest.approx(2.5)
    assert gpu["gpu_throttle_hw_thermal_seconds_total"] == pytest.approx(0.75)
    assert gpu["gpu_clock_event_reasons"] == 4
    assert gpu["gpu_row_remap_banks_high"] == 1
    assert gpu["gpu_fabric_state"] == 3
    assert gpu["gpu_processes"] == 2
    times = {o.time for o in seen if isinstance(o, Sample)}
    assert times == {datetime(2026, 3, 3, 4, 5, 6, tzinfo=UTC)}


def test_xml_sums_ecc_over_places_and_keeps_each() -> None:
    gpu = samples(read("nvidia_smi_xml", "smi-qx-two-gpus.xml"), "gpu1")
    assert gpu["gpu_ecc_dram_uncorrectable_aggregate_total"] == 4
    assert gpu["gpu_ecc_sram_uncorrectable_aggregate_total"] == 1
    assert gpu["gpu_ecc_uncorrectable_aggregate_total"] == 5
    assert gpu["gpu_ecc_uncorrectable_volatile_total"] == 1
    assert gpu["gpu_ecc_correctable_volatile_total"] == 4
    assert gpu["gpu_sram_threshold_exceeded"] == 0


def test_xml_tells_pending_remap_recovery_width_and_fabric() -> None:
    gpu = samples(read("nvidia_smi_xml", "smi-qx-two-gpus.xml"), "gpu1")
    assert gpu["gpu_row_remap_pending"] == 1
    assert gpu["gpu_row_remap_failure"] == 0
    assert gpu["gpu_remapped_rows_uncorrectable_total"] == 2
    assert gpu["gpu_recovery_action"] == 4
    assert gpu["gpu_pcie_link_width"] == 8
    assert gpu["gpu_pcie_link_width_max"] == 16
    # degraded bandwidth 1, recovery false 2<<2, unhealthy true 1<<4, no partition 4<<8
    assert gpu["gpu_fabric_health_mask"] == 1 | 2 << 2 | 1 << 4 | 4 << 8
    assert int(gpu["gpu_clock_event_reasons"]) == 0x44


def test_a_mig_device_is_no_gpu_and_its_counts_are_not_the_gpus() -> None:
    for format_, name in (
        ("nvidia_smi_xml", "smi-qx-two-gpus.xml"),
        ("nvidia_smi_text", "smi-q-two-gpus.txt"),
    ):
        seen = read(format_, name)
        assert len(devices(seen)) == 2
        assert samples(seen, "gpu0")["gpu_memory_total_bytes"] > 40000 * 1024**2


def test_xml_of_driver_450_keeps_places_retired_pages_and_reset_status() -> None:
    seen = read("nvidia_smi_xml", "smi-qx-v100.xml")
    gpu = samples(seen, "gpu0")
    assert gpu["gpu_ecc_register_correctable_volatile_total"] == 1
    assert gpu["gpu_ecc_l2_correctable_volatile_total"] == 2
    assert gpu["gpu_ecc_correctable_volatile_total"] == 10
    assert gpu["gpu_ecc_uncorrectable_volatile_total"] == 2  # device memory and CBU
    assert gpu["gpu_retired_pages_sbe_total"] == 4
    assert gpu["gpu_retired_pages_dbe_total"] == 17
    assert gpu["gpu_retired_pages_pending"] == 1
    assert gpu["gpu_recovery_action"] == 1
    assert gpu["gpu_temp_slowdown_celsius"] == 87
    assert gpu["gpu_power_limit_watts"] == 250
    assert gpu["gpu_clock_event_reasons"] == 0x81
    assert "gpu_row_remap_pending" not in gpu
    assert devices(seen)["gpu0"].bus == "0000:00:1e.0"


def test_fields_that_got_no_answer_are_events_not_values() -> None:
    seen = read("nvidia_smi_xml", "smi-qx-lost.xml")
    assert events(seen) == [("nvrm.gpu_lost", "gpu0"), ("gpu.recovery_needed", "gpu1")]
    assert "gpu_temp_celsius" not in samples(seen, "gpu0")
    assert "gpu_recovery_action" not in samples(seen, "gpu0")


def test_some_of_the_gpus_are_named_by_minor_number_and_never_by_order() -> None:
    text = (FIXTURES / "smi-qx-two-gpus.xml").read_text()
    head, _, second = text.partition("	<gpu id=")[0], None, text.rpartition("	<gpu id=")[2]
    one = f"{head}	<gpu id={second}".replace("<attached_gpus>2", "<attached_gpus>8")
    assert list(devices(read("nvidia_smi_xml", "one.xml", one))) == ["gpu1"]
    unnumbered = one.replace("<minor_number>1<", "<minor_number>N/A<")
    assert list(devices(read("nvidia_smi_xml", "one.xml", unnumbered))) == ["0008:06:00.0"]


def test_xml_with_entities_is_refused() -> None:
    bomb = (
        '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a "x"><!ENTITY b "&a;&a;">]>'
        "<nvidia_smi_log><driver_version>&b;</driver_version></nvidia_smi_log>"
    )
    with pytest.raises(ParseError, match="entities"):
        read("nvidia_smi_xml", "bomb.xml", bomb)


def test_xml_nested_too_deep_is_refused() -> None:
    deep = "<nvidia_smi_log>" + "<a>" * 100
    with pytest.raises(ParseError, match="deeper"):
        read("nvidia_smi_xml", "deep.xml", deep)


def test_xml_cut_short_is_used_as_far_as_it_goes() -> None:
    text = (FIXTURES / "smi-qx-two-gpus.xml").read_text()
    cut = text[: text.rindex("<fabric>")]
    seen = read("nvidia_smi_xml", "cut.xml", cut)
    assert list(devices(seen)) == ["gpu0", "gpu1"]
    assert samples(seen, "gpu1")["gpu_row_remap_pending"] == 1
    assert any("cut short" in note and "line " in note for note in notes(seen))


def test_xml_that_is_broken_from_the_start_names_the_line() -> None:
    with pytest.raises(ParseError) as raised:
        read("nvidia_smi_xml", "bad.xml", "warning: x\n<nvidia_smi_log><<<")
    assert raised.value.line == 2


def test_xml_of_two_runs_is_read_twice() -> None:
    text = (FIXTURES / "smi-qx-v100.xml").read_text()
    later = text.replace("11:12:13", "11:12:18")
    seen = read("nvidia_smi_xml", "loop.xml", text + later)
    times = sorted({o.time for o in seen if isinstance(o, Sample) and o.time is not None})
    assert [time.second for time in times] == [13, 18]


def test_a_warning_around_the_xml_is_an_event() -> None:
    text = (FIXTURES / "smi-qx-v100.xml").read_text()
    seen = read(
        "nvidia_smi_xml", "w.xml", text + "WARNING: infoROM is corrupted at gpu 0000:00:1E.0\n"
    )
    assert events(seen) == [("dcgm.9", "0000:00:1e.0")]


# -q


def test_text_gives_the_same_vocabulary_as_xml() -> None:
    seen = read("nvidia_smi_text", "smi-q-two-gpus.txt")
    assert facts(seen)["driver_version"] == "550.54.15"
    gpu, told = samples(seen, "gpu0"), facts(seen, "gpu0")
    assert gpu["gpu_temp_celsius"] == 58
    assert gpu["gpu_temp_slowdown_celsius"] == 89
    assert gpu["gpu_power_watts"] == 301.25
    assert gpu["gpu_clock_event_reasons"] == 0x48
    assert gpu["gpu_throttle_hw_thermal_seconds_total"] == 4
    assert gpu["gpu_ecc_uncorrectable_aggregate_total"] == 7
    assert gpu["gpu_row_remap_banks_partial"] == 1
    assert gpu["gpu_row_remap_pending"] == 1
    assert gpu["gpu_pcie_link_gen"] == 3
    assert gpu["gpu_pcie_replays_total"] == 7
    assert gpu["gpu_fan_speed_ratio"] == pytest.approx(0.44)
    assert gpu["gpu_fabric_state"] == 4  # completed, yet without success
    assert gpu["gpu_recovery_action"] == 4  # drain and reset recommended
    assert gpu["gpu_processes"] == 1
    assert "gpu_utilization_ratio" not in gpu
    assert told["ecc_mode"] == "Enabled"
    assert told["ecc_mode_pending"] == "Disabled"
    assert told["mig_mode"] == "Enabled"
    assert samples(seen, "gpu1")["gpu_processes"] == 0
    assert events(seen) == [("gpu.unhealthy", "gpu1")]
    assert notes(seen) == []


def test_text_cut_short_says_so() -> None:
    text = (FIXTURES / "smi-q-two-gpus.txt").read_text()
    seen = read("nvidia_smi_text", "cut.txt", text[: text.rindex("        SM")])
    assert samples(seen, "gpu0")["gpu_temp_celsius"] == 58
    assert any("cut short" in note for note in notes(seen))


def test_deprecated_remarks_are_no_part_of_a_version() -> None:
    text = (
        "==============NVSMI LOG==============\n\n"
        "Driver Version      : 610.62 [Deprecated; will be removed. Use KMD Version instead]\n"
        "KMD Version         : 610.62\n\nAttached GPUs       : 1\n"
        "GPU 00000000:0C:00.0\n    Product Name   : NVIDIA GeForce RTX 2070\n"
        "    GPU Current Temp  : 1 C\n    Processes   : None\n"
    )
    assert facts(read("nvidia_smi_text", "w.txt", text))["driver_version"] == "610.62"
