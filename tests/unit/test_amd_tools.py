"""What AMD's tools print becomes samples, facts and verdicts, whatever the version."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader
from bigiron.ingest.agfhc import agfhc
from bigiron.ingest.amd_smi import amd_smi
from bigiron.ingest.rdma_statistics import rdma_statistics
from bigiron.ingest.rocm_smi import rocm_smi
from bigiron.ingest.rvs import rvs
from bigiron.model import (
    CheckResult,
    CheckStatus,
    Device,
    Event,
    Fact,
    Note,
    Observation,
    Sample,
)

TOOLS = Path(__file__).parent.parent / "fixtures" / "tools"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def read(reader: Reader, name: str) -> list[Observation]:
    return read_bytes(reader, (TOOLS / name).read_bytes(), name)


def read_bytes(reader: Reader, data: bytes, name: str = "x") -> list[Observation]:
    document = Document.of(name, data, NOW)
    assert reader.sniff(Head.of(document)) >= 0.7
    return list(reader.read(document))


def samples(found: list[Observation]) -> dict[tuple[str, str], float]:
    return {(x.device, x.metric): x.value for x in found if isinstance(x, Sample)}


def facts(found: list[Observation]) -> dict[tuple[str, str], object]:
    return {(x.device, x.name): x.value for x in found if isinstance(x, Fact)}


def checks(found: list[Observation]) -> dict[tuple[str, str], CheckStatus]:
    return {(x.check, x.device): x.status for x in found if isinstance(x, CheckResult)}


def codes(found: list[Observation]) -> list[tuple[str, str]]:
    return [(x.code, x.device) for x in found if isinstance(x, Event)]


def test_rocm_smi_6_is_read_below_a_warning_line() -> None:
    found = read(rocm_smi(), "rocm_smi_6.json")
    measured = samples(found)
    assert measured[("gpu0", "gpu_temp_celsius")] == 61.0  # no edge sensor: the junction
    assert measured[("gpu0", "gpu_memory_temp_celsius")] == 49.0  # the hottest stack
    assert measured[("gpu0", "gpu_power_watts")] == 743.0
    assert measured[("gpu0", "gpu_power_limit_watts")] == 750.0
    assert measured[("gpu0", "gpu_sm_clock_hertz")] == 1987e6
    assert measured[("gpu0", "gpu_memory_utilization_ratio")] == pytest.approx(0.41)
    assert measured[("gpu0", "gpu_pcie_replays_total")] == 17
    assert measured[("gpu0", "gpu_pcie_link_width")] == 8
    assert measured[("gpu0", "gpu_pcie_link_width_max")] == 16
    assert measured[("gpu0", "gpu_pcie_link_gen")] == 5
    assert ("gpu0", "gpu_voltage_volts") not in measured  # "N/A" is no number
    told = facts(found)
    assert told[("", "driver_version")] == "6.10.5"
    assert told[("gpu0", "bus")] == "0000:0c:00.0"
    assert told[("gpu0", "firmware_smc")] == "00.85.112.00"
    device = next(x for x in found if isinstance(x, Device))
    assert (device.id, device.vendor) == ("0x5e1f00d5a1b2c3d4", "AMD")


def test_amd_smi_metric_converts_every_unit() -> None:
    found = read(amd_smi(), "amd_smi_metric_24.json")
    measured = samples(found)
    assert measured[("gpu0", "gpu_utilization_ratio")] == pytest.approx(0.88)
    assert measured[("gpu0", "gpu_voltage_volts")] == pytest.approx(0.845)
    assert measured[("gpu0", "gpu_sm_clock_hertz")] == 1950e6  # mean over the dies
    assert measured[("gpu0", "gpu_temp_celsius")] == 93
    assert measured[("gpu0", "gpu_memory_total_bytes")] == 196592 * 1024**2
    assert measured[("gpu0", "gpu_pcie_nak_received_total")] == 3
    assert measured[("gpu0", "gpu_pcie_recoveries_total")] == 9
    assert measured[("gpu0", "gpu_ras_uncorrectable_total")] == 1
    assert measured[("gpu0", "gpu_ras_xgmi_wafl_correctable_total")] == 2
    assert ("gpu0", "gpu_fan_speed_ratio") not in measured


def test_amd_smi_metric_tells_throttling_and_unknown_blocks() -> None:
    found = read(amd_smi(), "amd_smi_metric_24.json")
    assert sorted(codes(found)) == [("clock.hw_thermal", "gpu0"), ("clock.sw_power_cap", "gpu0")]
    assert any(isinstance(x, Note) and "RAS blocks" in x.what for x in found)
    power = next(x for x in found if isinstance(x, Event) and x.code == "clock.sw_power_cap")
    assert "42%" in power.text


def test_amd_smi_static_of_the_wrapped_shape() -> None:
    found = read(amd_smi(), "amd_smi_static_25.json")
    told, measured = facts(found), samples(found)
    assert told[("gpu3", "bus")] == "0001:9d:00.0"
    assert told[("gpu3", "model")] == "AMD Instinct MI325X"
    assert told[("gpu3", "serial")] == "PCB0399"
    assert told[("gpu3", "vbios_version")] == "113-M3250101-100"
    assert told[("gpu3", "compute_partition")] == "SPX"
    assert told[("gpu3", "pcie_link_width_max")] == 16
    assert measured[("gpu3", "gpu_power_limit_watts")] == 950
    assert measured[("gpu3", "gpu_temp_slowdown_celsius")] == 100


def test_amd_smi_bad_pages_counts_lists_and_leaves_na_out() -> None:
    found = read(amd_smi(), "amd_smi_bad_pages.json")
    measured = samples(found)
    assert measured[("gpu0", "gpu_bad_pages_pending")] == 0
    assert measured[("gpu1", "gpu_bad_pages_pending")] == 2
    assert ("gpu2", "gpu_bad_pages_pending") not in measured
    assert codes(found) == [("amdgpu.bad_page", "gpu1"), ("amdgpu.bad_page", "gpu2")]


def test_amd_smi_xgmi_link_down() -> None:
    found = read(amd_smi(), "amd_smi_xgmi.json")
    measured = samples(found)
    assert measured[("gpu0", "gpu_xgmi_rx_bytes_total")] == 10 * 1024
    assert measured[("gpu0", "gpu_xgmi_links_down")] == 1
    assert codes(found) == [("amdgpu.xgmi_error", "gpu0")]


def test_amd_smi_ras_records_become_cper_events() -> None:
    rows = b'[{"gpu_id": 1, "severity": "fatal", "file_name": "f.cper", "list_of_afids": [24, 29]}]'
    found = read_bytes(amd_smi(), rows)
    assert codes(found) == [("cper.fatal", "gpu1")]
    assert next(x for x in found if isinstance(x, Event)).attrs["afids"] == "24 29"


def test_amd_smi_without_a_gpu_is_refused() -> None:
    with pytest.raises(ParseError, match="no GPU"):
        list(amd_smi().read(Document.of("x", b'[{"asic": {}}]', NOW)))


def test_rvs_gives_a_verdict_for_every_action_and_gpu() -> None:
    verdicts = checks(read(rvs(), "rvs.log"))
    assert verdicts[("rvs gst", "0000:0c:00.0")] is CheckStatus.PASS
    assert verdicts[("rvs gst", "0000:22:00.0")] is CheckStatus.FAIL
    assert verdicts[("rvs gst", "kfd11003")] is CheckStatus.ERROR  # began, never ended
    assert verdicts[("rvs pbqt", "0000:22:00.0")] is CheckStatus.ERROR  # zero bandwidth
    assert verdicts[("rvs gm", "0000:0c:00.0")] is CheckStatus.FAIL  # three violations
    assert verdicts[("rvs mem", "")] is CheckStatus.FAIL
    assert CheckStatus.ERROR in [s for (check, _), s in verdicts.items() if "peqt" in check]


def test_rvs_settings_that_differ_only_warn() -> None:
    log = b"[RESULT] [1.0] Action name :a\n[RESULT] [2.0] [a]  smqt 3254 pass: false\n"
    assert checks(read_bytes(rvs(), log)) == {("rvs smqt", "kfd3254"): CheckStatus.WARN}


def test_agfhc_log_tells_tests_and_run() -> None:
    verdicts = checks(read(agfhc(), "agfhc.log"))
    assert verdicts == {
        ("agfhc hbm_bw", ""): CheckStatus.PASS,
        ("agfhc xgmi_a2a", ""): CheckStatus.FAIL,
        ("agfhc run", ""): CheckStatus.FAIL,
    }


@pytest.mark.parametrize(
    ("log", "status"),
    [
        (b"AGFHC Unable to Run\n", CheckStatus.ERROR),
        (
            b"Tests: 0 Total, 0 Executed, 0 Skipped\n"
            b"Program exiting with return code AGFHC_SUCCESS [0]\n",
            CheckStatus.ERROR,
        ),
        (b"agfhc\nExecuting tests:\n  PASS: hbm_bw-1-1 [1]\n", CheckStatus.ERROR),
        (
            b"  PASS: hbm_bw-1-1 [1]\nTests: 1 Total, 1 Executed, 0 Skipped\n"
            b"Program exiting with return code AGFHC_SUCCESS [0]\n",
            CheckStatus.PASS,
        ),
    ],
)
def test_agfhc_run_passes_only_with_tests_and_its_return_code(
    log: bytes, status: CheckStatus
) -> None:
    assert checks(read_bytes(agfhc(), log))[("agfhc run", "")] is status


def test_agfhc_results_without_a_result_are_errors() -> None:
    verdicts = checks(read(agfhc(), "agfhc_results.json"))
    assert verdicts[("agfhc hbm_bw", "")] is CheckStatus.FAIL
    assert verdicts[("agfhc mall", "")] is CheckStatus.ERROR
    assert verdicts[("agfhc all_lvl1", "")] is CheckStatus.FAIL


def test_ai_nic_port_statistics() -> None:
    measured = samples(read(rdma_statistics(), "nicctl_port_statistics.json"))
    assert measured[("nic0", "ib_link_downed_total")] == 3
    assert measured[("nic0", "ib_rcv_errors_total")] == 7
    assert measured[("nic0", "ib_symbol_errors_total")] == 5


def test_rdma_statistic_of_two_drivers() -> None:
    measured = samples(read(rdma_statistics(), "rdma_statistic.json"))
    assert measured[("mlx5_3", "ib_rnr_nak_retry_total")] == 6
    assert measured[("mlx5_3", "roce_slow_restart_total")] == 2
    assert measured[("ionic_2", "ib_rcv_bytes_total")] == 50
    assert measured[("ionic_2", "ib_rnr_nak_retry_total")] == 1
