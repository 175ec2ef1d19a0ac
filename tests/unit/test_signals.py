"""The catalogue of metrics: names lead to one signal, units are base units, blanks are blanks."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron import signals
from bigiron.signals import Bad, Kind
from bigiron.signals.document import markdown

UNITS = {
    "_celsius": "celsius",
    "_watts": "watts",
    "_hertz": "hertz",
    "_bytes": "bytes",
    "_bytes_total": "bytes",
    "_joules_total": "joules",
    "_volts": "volts",
    "_ratio": "ratio",
    "_rpm": "rpm",
    "_bits_per_second": "bits_per_second",
    "_bytes_per_second": "bytes_per_second",
    "_seconds_total": "seconds",
}


def test_names_tell_unit_and_kind() -> None:
    for name, signal in signals.SIGNALS.items():
        assert signal.name == name
        endings = [unit for ending, unit in UNITS.items() if name.endswith(ending)]
        assert not endings or signal.unit in endings, name
        assert name.endswith("_total") == (signal.kind is Kind.COUNTER), name
        assert signal.help
        assert signal.help.isprintable()
        assert signal.bad in Bad


@pytest.mark.parametrize(
    ("exporter", "value", "metric", "wanted"),
    [
        ("DCGM_FI_DEV_GPU_TEMP", 71, "gpu_temp_celsius", 71),
        ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 71, "gpu_temp_celsius", 71),
        ("dcgm_gpu_temp", 71, "gpu_temp_celsius", 71),
        ("DCGM_FI_DEV_FB_USED", 1024, "gpu_memory_used_bytes", 2**30),
        ("DCGM_FI_DEV_FB_CAPACITY_BYTES", 2**36, "gpu_memory_total_bytes", 2**36),
        ("DCGM_FI_DEV_SM_CLOCK", 1980, "gpu_sm_clock_hertz", 1.98e9),
        ("DCGM_FI_DEV_GPU_UTIL", 97, "gpu_utilization_ratio", 0.97),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.97, "gpu_utilization_ratio", 0.97),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, "gpu_graphics_active_ratio", 0.5),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 5000, "gpu_energy_joules_total", 5),
        ("DCGM_FI_DEV_POWER_VIOLATION", 2e9, "gpu_throttle_power_seconds_total", 2),
        (
            "DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL",
            2,
            "gpu_throttle_power_seconds_total",
            2,
        ),
        ("DCGM_FI_DEV_PCIE_RX_THROUGHPUT", 3, "gpu_pcie_rx_bytes_per_second", 3000),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", 3, "gpu_pcie_rx_bytes_per_second", 3),
        (
            "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
            1000,
            "gpu_nvlink_bandwidth_bytes_per_second",
            1.024e9,
        ),
        ("DCGM_FI_DEV_ECC_DBE_AGG_DEV", 1, "gpu_ecc_dram_uncorrectable_aggregate_total", 1),
        ("DCGM_FI_DEV_XID_ERRORS", 79, "gpu_xid_last", 79),
        ("DCGM_EXP_GPU_HEALTH_STATUS", 0, "gpu_health", 1),
        ("DCGM_EXP_GPU_HEALTH_STATUS", 20, "gpu_health", 0),
        ("GPU_EDGE_TEMPERATURE", 40, "gpu_temp_celsius", 40),
        ("gpu_junction_temperature", 40, "gpu_temp_celsius", 40),
        ("amd_gpu_package_power", 700, "gpu_power_watts", 700),
        ("gpu_energy_consumed", 1e6, "gpu_energy_joules_total", 1),
        ("gpu_ecc_correct_bif", 2, "gpu_ras_pcie_bif_correctable_total", 2),
        ("pcie_speed", 32, "gpu_pcie_link_gen", 5),
        ("nvidia_smi_memory_used_bytes", 5, "gpu_memory_used_bytes", 5),
        ("temperature.gpu", 33, "gpu_temp_celsius", 33),
        ("node_infiniband_state_id", 4, "ib_state", 1),
        ("node_infiniband_state_id", 1, "ib_state", 0),
        ("node_infiniband_rate_bytes_per_second", 5e10, "ib_rate_bits_per_second", 4e11),
        ("node_vmstat_oom_kill", 3, "node_oom_kills_total", 3),
        ("node_memory_MemAvailable_bytes", 9, "node_memory_available_bytes", 9),
        ("up", 1, "node_scrape_up", 1),
        ("gpu_temp_celsius", 3, "gpu_temp_celsius", 3),
    ],
)
def test_exporters_names(exporter: str, value: float, metric: str, wanted: float) -> None:
    found = signals.canonical(exporter, value)
    assert found is not None
    assert found[0] == metric
    assert found[1] == pytest.approx(wanted)
    known = signals.find(exporter)
    assert known is not None
    assert known[0].name == metric


def test_what_is_not_catalogued_is_none() -> None:
    assert signals.find("python_gc_objects_collected_total") is None
    assert signals.canonical("python_gc_objects_collected_total", 1) is None


def test_the_better_of_two_names_ranks_first() -> None:
    assert signals.rank("DCGM_FI_DEV_POWER_USAGE") < signals.rank("DCGM_FI_DEV_POWER_USAGE_INSTANT")
    assert signals.rank("gpu_junction_temperature") < signals.rank("gpu_edge_temperature")


@pytest.mark.parametrize(
    "blank",
    [2147483632, 2147483634, 9223372036854775792, 9223372036854775794, 140737488355328.0,
     140737488355330.0, math.nan],
)  # fmt: skip
def test_blanks(blank: float) -> None:
    assert signals.is_blank(float(blank))
    assert signals.canonical("DCGM_FI_DEV_MEMORY_TEMP", float(blank)) is None


@given(st.floats(-2e9, 2e9))
def test_ordinary_values_are_no_blanks(value: float) -> None:
    assert not signals.is_blank(value)


@pytest.mark.parametrize("value", [2147483631, 2147483648, 9e18, 140737488355344, math.inf])
def test_large_values_are_no_blanks(value: float) -> None:
    assert not signals.is_blank(value)


@given(st.integers(min_value=0), st.floats(allow_nan=False))
def test_blanks_and_is_blank_agree(number: int, value: float) -> None:
    for one in (float(number % 2**64), value):
        assert signals.is_blank(one) == (one in {float(blank) for blank in signals.BLANKS})


@pytest.mark.parametrize(
    ("metric", "value", "shown"),
    [
        ("gpu_sm_clock_hertz", 1.98e9, "1,980 MHz"),
        ("gpu_temp_celsius", 71, "71 °C"),
        ("gpu_power_watts", 412.4, "412 W"),
        ("gpu_pcie_link_width", 8, "x8"),
        ("gpu_pcie_link_gen", 5, "gen 5"),
        ("gpu_utilization_ratio", 0.23, "23 %"),
        ("gpu_pcie_rx_bytes_per_second", 1.2e9, "1.2 GB/s"),
        ("gpu_memory_used_bytes", 999_960, "1.0 MB"),
        ("ib_rate_bits_per_second", 4e11, "400 Gbit/s"),
        ("gpu_clock_event_reasons", 0x48, "0x48"),
        ("gpu_throttle_power_seconds_total", 0, "0 s"),
        ("gpu_throttle_power_seconds_total", 0.0021, "2.1 ms"),
        ("gpu_throttle_power_seconds_total", 10_800, "3.0 h"),
        ("gpu_nvlink_effective_ber", 1.5e-12, "1.5e-12"),
        ("gpu_remapped_rows_correctable_total", 1234, "1,234"),
        ("node_rail_volts", 11.871, "11.871 V"),
        ("gpu_temp_celsius", math.nan, "n/a"),
        ("gpu_temp_celsius", math.inf, "+inf"),
        ("never_heard_of", 1.5, "1.5"),
    ],
)
def test_values_as_people_write_them(metric: str, value: float, shown: str) -> None:
    assert signals.show(metric, value) == shown


@given(st.sampled_from(sorted(signals.SIGNALS)), st.floats())
def test_any_value_can_be_shown(metric: str, value: float) -> None:
    assert signals.show(metric, value)


def test_the_document_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "signals.md"
    assert page.read_text(encoding="utf-8") == markdown(), (
        "run: python -m bigiron.signals.document > docs/signals.md"
    )
