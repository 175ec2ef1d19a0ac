"""Tools whose text for people is read as their JSON is: amd-smi, rocm-smi, smartctl, and the
network's ibdev2netdev and ethtool."""

from datetime import UTC, datetime

import pytest

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.model import Device, Event, Fact, Observation, Sample

NOW = datetime(2026, 11, 30, tzinfo=UTC)
AMD = """GPU: 0
    USAGE:
        GFX_ACTIVITY: 97 %
        UMC_ACTIVITY: N/A
    POWER:
        SOCKET_POWER: 512 W
        THROTTLE_STATUS: UNTHROTTLED
    TEMPERATURE:
        EDGE: N/A
        HOTSPOT: 61 °C
        MEM: 52 °C
    ECC:
        TOTAL_CORRECTABLE_COUNT: 4
        TOTAL_UNCORRECTABLE_COUNT: 1
    ECC_BLOCKS:
        UMC:
            CORRECTABLE_COUNT: 4
            UNCORRECTABLE_COUNT: 1

GPU: 1
    POWER:
        SOCKET_POWER: 0.505 kW
    ECC:
        TOTAL_UNCORRECTABLE_COUNT: 0
"""
ROCM = """
============================ ROCm System Management Interface ============================
GPU[0]\t\t: Temperature (Sensor junction) (C): 47.0
GPU[0]\t\t: GPU use (%): 88
GPU[0]\t\t: PCI Bus: 0000:0C:00.0
GPU[0]\t\t: Card Series: \t\tAMD Instinct MI300X
GPU[0]\t\t: RAS INFO
                     Block     Status  Correctable Error  Uncorrectable Error
                       UMC    ENABLED                  7                    2
                       GFX    ENABLED                  1                    0
================================== End of ROCm SMI Log ===================================
"""
BRIEF = """========================= ROCm System Management Interface =========================
Device  Node  IDs              Temp        Power     Partitions          SCLK    MCLK    Fan  Perf
              (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)
0       2     0x74a1,   21233  43.0°C      151.0W    NPS1, SPX, 0        132Mhz  900Mhz  0%   auto\
  750.0W  0%     12%
"""
SMART = """smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.8.0] (local build)

=== START OF INFORMATION SECTION ===
Model Number:                       ACME NV7T
Serial Number:                      S-000117
=== START OF SMART DATA SECTION ===
SMART overall-health self-assessment test result: {overall}

SMART/Health Information (NVMe Log 0x02)
Critical Warning:                   {warning}
Temperature:                        44 Celsius
Available Spare:                    {spare}%
Available Spare Threshold:          10%
Percentage Used:                    3%
Media and Data Integrity Errors:    1,204
"""


def read(format_: str, text: str, name: str = "out.txt") -> list[Observation]:
    document = Document.of(name, text.encode(), NOW)
    found = reader[format_].run()
    assert found.sniff(Head.of(document)) >= 0.9
    return list(found.read(document))


def samples(seen: list[Observation], device: str) -> dict[str, float]:
    return {s.metric: s.value for s in seen if isinstance(s, Sample) and s.device == device}


def events(seen: list[Observation]) -> list[tuple[str, str]]:
    return [(e.code, e.device) for e in seen if isinstance(e, Event)]


def test_amd_smi_text_is_read_as_its_json() -> None:
    seen = read("amd_smi", AMD)
    first = samples(seen, "gpu0")
    assert first["gpu_temp_celsius"] == 61
    assert first["gpu_utilization_ratio"] == pytest.approx(0.97)
    assert first["gpu_ras_uncorrectable_total"] == 1
    assert first["gpu_ras_umc_correctable_total"] == 4
    assert samples(seen, "gpu1")["gpu_ras_uncorrectable_total"] == 0


def test_rocm_smi_text_has_the_keys_of_its_json_and_counts_by_block() -> None:
    seen = read("rocm_smi", ROCM)
    measured = samples(seen, "gpu0")
    assert measured["gpu_temp_celsius"] == 47
    assert measured["gpu_ras_umc_uncorrectable_total"] == 2
    assert measured["gpu_ras_correctable_total"] == 8
    (device,) = (d for d in seen if isinstance(d, Device))
    assert (device.bus, device.model) == ("0000:0c:00.0", "AMD Instinct MI300X")


def test_rocm_smis_short_table_is_read_by_its_units() -> None:
    measured = samples(read("rocm_smi", BRIEF), "gpu0")
    assert measured == {
        "gpu_temp_celsius": 43,
        "gpu_power_watts": 151,
        "gpu_power_limit_watts": 750,
        "gpu_sm_clock_hertz": 132e6,
        "gpu_memory_clock_hertz": 900e6,
        "gpu_utilization_ratio": 0.12,
    }


@pytest.mark.parametrize(
    ("overall", "warning", "spare", "told"),
    [
        ("PASSED", "0x00", 100, []),
        ("FAILED!", "0x04", 100, ["nvme.critical_warning"]),
        ("FAILED!", "0x00", 100, ["nvme.critical_warning"]),
        ("PASSED", "0x00", 4, ["nvme.spare_low"]),
    ],
)
def test_smartctl_text(overall: str, warning: str, spare: int, told: list[str]) -> None:
    text = SMART.format(overall=overall, warning=warning, spare=spare)
    seen = read("smartctl", text, "smart_nvme3.txt")
    assert events(seen) == [(code, "nvme3") for code in told]
    assert samples(seen, "nvme3")["nvme_media_errors_total"] == 1204
    assert samples(seen, "nvme3")["nvme_temp_celsius"] == 44


def test_ibdev2netdev_joins_ports_and_interfaces() -> None:
    text = "mlx5_0 port 1 ==> ibp24s0 (Up)\n0000:41:00.0 mlx5_1 port 1 ==> ibp65s0 (Down)\n"
    seen = read("ibdev2netdev", text)
    assert samples(seen, "mlx5_0") == {"ib_state": 1}
    assert samples(seen, "mlx5_1") == {"ib_state": 0}
    assert [f.value for f in seen if isinstance(f, Fact)] == ["ibp24s0", "ibp65s0"]


def test_ethtool_tells_link_and_speed() -> None:
    text = "Settings for ens5np0:\n\tSpeed: 200000Mb/s\n\tLink detected: yes\n"
    assert samples(read("ethtool_settings", text), "ens5np0") == {
        "node_network_speed_bytes_per_second": 25e9,
        "node_network_up": 1,
    }


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        ("rocm_smi", "=== ROCm System Management Interface ===\nnothing\n"),
        ("smartctl", "smartctl 7.3 2022-02-28 r5338\nSmartctl open device failed\n"),
    ],
)
def test_text_without_a_device_is_refused(format_: str, text: str) -> None:
    with pytest.raises(ParseError):
        read(format_, text)
