"""nvidia-smi --query, the table, nvlink, topo, -L, dmon and pmon."""

from collections.abc import Iterator
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


# --query


def test_csv_with_units_and_timestamps() -> None:
    text = (
        "timestamp, index, name, pci.bus_id, temperature.gpu, power.draw [W], memory.used [MiB], "
        "clocks.current.sm [MHz], clocks_throttle_reasons.active, fan.speed [%]\n"
        "2026/05/06 07:08:09.123, 3, NVIDIA A100-SXM4-40GB, 00000000:47:00.0, 61, 250.10 W, "
        "1024 MiB, 1110 MHz, 0x0000000000000040, [N/A]\n"
    )
    assert recognised("q.csv", text) == "nvidia_smi_csv"
    seen = read("nvidia_smi_csv", "q.csv", text)
    gpu = samples(seen, "gpu3")
    assert gpu == {
        "gpu_temp_celsius": 61,
        "gpu_power_watts": 250.1,
        "gpu_memory_used_bytes": 1024**3,
        "gpu_sm_clock_hertz": 1.11e9,
        "gpu_clock_event_reasons": 0x40,
    }
    assert facts(seen, "gpu3")["clock_event_reasons"] == "hw_thermal_slowdown"
    times = [o.time for o in seen if isinstance(o, Sample)]
    assert times[0] == datetime(2026, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)


def test_csv_without_units_means_the_same() -> None:
    text = "index, power.draw [W], memory.used [MiB], utilization.gpu [%]\n0, 99.5, 512, 40\n"
    assert samples(read("nvidia_smi_csv", "q.csv", text), "gpu0") == {
        "gpu_power_watts": 99.5,
        "gpu_memory_used_bytes": 512 * 1024**2,
        "gpu_utilization_ratio": 0.4,
    }


def test_csv_without_a_header_is_read_by_its_command_line() -> None:
    text = (
        "$ nvidia-smi --query-gpu=gpu_bus_id,ecc.errors.uncorrected.volatile.total "
        "--format=csv,noheader\n00000000:9B:00.0, 2\n"
    )
    seen = read("nvidia_smi_csv", "q.csv", text)
    assert samples(seen, "0000:9b:00.0") == {"gpu_ecc_uncorrectable_volatile_total": 2}


def test_csv_without_header_or_command_gives_only_which_gpus() -> None:
    text = "0, NVIDIA H20, GPU-66666666-aaaa-4bbb-8ccc-000000000000, 00000000:08:00.0, 55\n"
    seen = read("nvidia_smi_csv", "q.csv", text)
    assert devices(seen)["0000:08:00.0"].model == "NVIDIA H20"
    assert samples(seen, "0000:08:00.0") == {}
    assert any("header" in note for note in notes(seen))


def test_csv_tells_of_a_lost_gpu_between_rows_and_counts_odd_rows() -> None:
    text = (
        "index, temperature.gpu\n0, 40\n"
        "Unable to determine the device handle for GPU1: 0000:44:00.0: GPU is lost.\n"
        "2, [GPU is lost]\n3\n4, 1, 2\n"
    )
    seen = read("nvidia_smi_csv", "q.csv", text)
    assert ("nvrm.gpu_lost", "gpu1") in events(seen)
    assert ("nvrm.gpu_lost", "gpu2") in events(seen)
    assert devices(seen)["gpu1"].bus == "0000:44:00.0"
    assert [o.count for o in seen if isinstance(o, Note)] == [2]


def test_csv_of_compute_apps_counts_processes_per_gpu() -> None:
    text = (
        "gpu_bus_id, pid, process_name, used_gpu_memory [MiB]\n"
        "00000000:9B:00.0, 5, python, 10 MiB\n00000000:9B:00.0, 6, python, 10 MiB\n"
        "00000000:9C:00.0, 7, python, 10 MiB\n"
    )
    seen = read("nvidia_smi_csv", "apps.csv", text)
    assert samples(seen, "0000:9b:00.0") == {"gpu_processes": 2}
    assert samples(seen, "0000:9c:00.0") == {"gpu_processes": 1}


def test_csv_of_retired_pages_counts_addresses_by_cause() -> None:
    text = (
        "gpu_bus_id, gpu_uuid, retired_pages.address, retired_pages.cause\n"
        "00000000:3B:00.0, GPU-7, 0x1, Double Bit ECC\n"
        "00000000:3B:00.0, GPU-7, 0x2, Double Bit ECC\n"
        "00000000:3B:00.0, GPU-7, 0x3, Single Bit ECC\n"
        "00000000:AF:00.0, GPU-8, [N/A], Double Bit ECC\n"
    )
    seen = read("nvidia_smi_csv", "pages.csv", text)
    assert samples(seen, "0000:3b:00.0") == {
        "gpu_retired_pages_sbe_total": 1,
        "gpu_retired_pages_dbe_total": 2,
    }
    assert samples(seen, "0000:af:00.0") == {}


def test_a_list_of_field_names_is_no_table() -> None:
    assert recognised("fields.txt", "index\ntemperature.gpu\npower.draw\nfan.speed\n") == ""


# The table


def test_table_gives_gpus_and_tells_which_does_not_answer() -> None:
    seen = read("nvidia_smi_table", "smi-table.txt")
    assert facts(seen) == {"driver_version": "560.35.03", "cuda_version": "12.6", "gpu_count": 3}
    gpu = samples(seen, "gpu0")
    assert gpu["gpu_temp_celsius"] == 44
    assert gpu["gpu_power_watts"] == 388
    assert gpu["gpu_power_limit_watts"] == 700
    assert gpu["gpu_memory_used_bytes"] == 90112 * 1024**2
    assert gpu["gpu_ecc_uncorrectable_volatile_total"] == 2
    assert gpu["gpu_processes"] == 2
    assert facts(seen, "gpu0")["persistence_mode"] == "Enabled"
    assert facts(seen, "gpu2")["ecc_mode"] == "Disabled"
    assert facts(seen, "gpu2")["persistence_mode"] == "Disabled"
    assert devices(seen)["gpu2"].model == ""  # the table cut the name
    assert events(seen) == [("nvrm.gpu_lost", "gpu1")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Unable to determine the device handle for GPU0000:9B:00.0: GPU is lost.  "
            "Reboot the system to recover this GPU\n",
            [("nvrm.gpu_lost", "0000:9b:00.0")],
        ),
        (
            "Unable to determine the device handle for GPU 0000:9B:00.0: Unknown Error\n",
            [("nvrm.gpu_lost", "0000:9b:00.0")],
        ),
        (
            "Unable to determine the device handle for GPU2: 0000:9B:00.0: Unknown Error\n"
            "No devices were found\n",
            [("nvrm.gpu_lost", "gpu2"), ("gpu.missing", "")],
        ),
        (
            "Unable to determine the device handle for gpu 0000:9B:00.0: GPU requires reset\n",
            [("gpu.recovery_needed", "0000:9b:00.0")],
        ),
        ("No devices were found\n", [("gpu.missing", "")]),
        (
            "Failed to initialize NVML: Driver/library version mismatch\n"
            "NVML library version: 550.90\n",
            [("nvrm.version_mismatch", "")],
        ),
        ("Failed to initialize NVML: Unknown Error\n", [("nvrm.probe_failed", "")]),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
            "Make sure that the latest NVIDIA driver is installed and running.\n",
            [("nvrm.probe_failed", "")],
        ),
    ],
)
def test_each_failure_text_is_an_event(text: str, expected: list[tuple[str, str]]) -> None:
    assert recognised("smi.txt", text) == "nvidia_smi_table"
    assert events(read("nvidia_smi_table", "smi.txt", text)) == expected


# nvlink, topo, -L, dmon, pmon


def test_nvlink_status_counts_links_and_gives_the_slowest() -> None:
    seen = read("nvidia_smi_nvlink", "smi-nvlink-s.txt")
    assert samples(seen, "gpu0") == {
        "gpu_nvlink_links_up": 3,
        "gpu_nvlink_links_down": 1,
        "gpu_nvlink_speed_bytes_per_second": pytest.approx(13.281e9),
    }
    assert facts(seen, "gpu0")["nvlink_links_inactive"] == "3"
    assert samples(seen, "gpu1") == {"gpu_nvlink_links_up": 0, "gpu_nvlink_links_down": 18}


def test_nvlink_all_inactive_alone_tells_only_of_that_gpu() -> None:
    text = (
        "GPU 6: NVIDIA A100-SXM4-40GB (UUID: GPU-6)\n"
        "NVML: Unable to retrieve NVLink information as all links are inactive\n"
    )
    seen = read("nvidia_smi_nvlink", "n.txt", text)
    assert list(devices(seen)) == ["gpu6"]
    assert samples(seen, "gpu6") == {"gpu_nvlink_links_up": 0, "gpu_nvlink_links_down": 12}


def test_a_card_without_a_bridge_has_no_links_down() -> None:
    text = "GPU 0: NVIDIA GeForce RTX 2070 (UUID: GPU-6)\n\t Link 0: <inactive>\n"
    assert samples(read("nvidia_smi_nvlink", "n.txt", text), "gpu0") == {}


def test_nvlink_errors_are_summed_and_told_by_link() -> None:
    seen = read("nvidia_smi_nvlink", "smi-nvlink-e.txt")
    gpu = samples(seen, "gpu0")
    assert gpu["gpu_nvlink_replays_total"] == 10
    assert gpu["gpu_nvlink_recoveries_total"] == 1
    assert gpu["gpu_nvlink_crc_flit_errors_total"] == 30
    assert gpu["gpu_nvlink_symbol_ber"] == 2e-9
    assert gpu["gpu_nvlink_effective_ber"] < 1e-200
    told = str(facts(seen, "gpu0")["nvlink_errors_by_link"])
    assert "link 0 crc errors 30" in told
    assert "fec" not in told
    assert "raw" not in told


def test_topo_reads_rows_in_any_order_with_escapes_and_legend() -> None:
    seen = read("nvidia_smi_topo", "smi-topo.txt")
    assert facts(seen, "gpu1") == {
        "topology": "gpu0=NV18 mlx5_0=SYS mlx5_4=PXB",
        "nearest_nics": "mlx5_4",
        "cpu_affinity": "56-111",
        "numa_node": 1,
    }
    assert {d.name for d in devices(seen).values() if d.kind == "nic"} == {"mlx5_0", "mlx5_4"}


@pytest.mark.parametrize(
    ("row", "topology"),
    [
        ("X NV4 PIX SYS NODE 0-7 0", "gpu1=NV4 nic0=PIX nic10=SYS nic11=NODE"),
        ("X NV4 PIX SYS 0-7 0", "gpu1=NV4 nic0=PIX"),
    ],
)
def test_topo_with_labels_run_together(row: str, topology: str) -> None:
    text = (
        "      GPU0  GPU1  NIC0  NIC10NIC11  CPU Affinity\n"
        f"GPU0  {row}\nGPU1  NV4 X SYS PIX 8-15 1\n"
    )
    seen = read("nvidia_smi_topo", "t.txt", text)
    assert facts(seen, "gpu0")["topology"] == topology


def test_topo_with_a_wrapped_heading_and_one_gpu() -> None:
    wrapped = (
        "        GPU0\nGPU1    NIC0    CPU Affinity    NUMA Affinity\n"
        "GPU0     X      NV12    PXB     0-31    0\nGPU1    NV12     X      SYS     32-63   1\n\n"
        "NIC Legend:\n  NIC0: mlx5_2\n"
    )
    seen = read("nvidia_smi_topo", "t.txt", wrapped)
    assert facts(seen, "gpu0")["topology"] == "gpu1=NV12 mlx5_2=PXB"
    alone = "Note: GPU0 seen\n        GPU0    mlx5_0  CPU Affinity\nGPU0     X      PIX     0-15\n"
    assert facts(read("nvidia_smi_topo", "t.txt", alone), "gpu0")["topology"] == "mlx5_0=PIX"


def test_list_gives_gpus_without_mig_devices() -> None:
    text = (
        "GPU 0: NVIDIA H200 (UUID: GPU-77777777-aaaa-4bbb-8ccc-000000000000)\n"
        "  MIG 1g.18gb     Device  0: (UUID: MIG-77777777-aaaa-4bbb-8ccc-000000000009)\n"
        "Unable to determine the device handle for GPU1: 0000:5F:00.0: Unknown Error\n"
    )
    assert recognised("l.txt", text) == "nvidia_smi_list"
    seen = read("nvidia_smi_list", "l.txt", text)
    assert facts(seen)["gpu_count"] == 1
    assert devices(seen)["gpu0"].model == "NVIDIA H200"
    assert events(seen) == [("nvrm.gpu_lost", "gpu1")]


def test_version_and_discovery() -> None:
    version = "NVIDIA-SMI version  : 560.35.03\nDRIVER version      : 560.35.03\n"
    assert recognised("v.txt", version) == "nvidia_smi_version"
    assert facts(read("nvidia_smi_version", "v.txt", version)) == {"driver_version": "560.35.03"}
    found = (
        "2 GPUs found.\n| GPU ID | Device Information |\n"
        "| 0      | Name: NVIDIA H800 |\n|        | PCI Bus ID: 00000000:18:00.0 |\n"
        "|        | Device UUID: GPU-88 |\n| 1      | Name: NVIDIA H800 |\n0 NvSwitches found.\n"
    )
    seen = read("dcgmi_discovery", "d.txt", found)
    assert facts(seen) == {"gpu_count": 2}
    assert devices(seen)["gpu0"].bus == "0000:18:00.0"


def test_dmon_gives_the_newest_row_of_each_gpu() -> None:
    seen = read("nvidia_smi_monitor", "dmon.txt")
    assert samples(seen, "gpu0")["gpu_power_watts"] == 102
    assert samples(seen, "gpu0")["gpu_pcie_rx_bytes_per_second"] == 3e6
    assert "gpu_memory_temp_celsius" not in samples(seen, "gpu1")


def test_dmon_with_date_and_time_gives_every_row() -> None:
    text = (
        "#Date       Time        gpu    pwr  gtemp\n#YYYYMMDD   HH:MM:SS    Idx      W      C\n"
        " 20260601   10:00:00      0    100     40\n 20260601   10:00:01      0    110     41\n"
    )
    seen = read("nvidia_smi_monitor", "d.txt", text)
    watts = [o.value for o in seen if isinstance(o, Sample) and o.metric == "gpu_power_watts"]
    assert watts == [100, 110]


def test_pmon_counts_processes() -> None:
    text = (
        "# gpu        pid   type     sm    mem    command\n"
        "# Idx          #    C/G      %      %    name\n"
        "    0      20037     C      2      0    some program\n"
        "    0      20038     C      2      0    other\n"
        "    1          -     -      -      -    -\n"
    )
    seen = read("nvidia_smi_monitor", "p.txt", text)
    assert samples(seen, "gpu0") == {"gpu_processes": 2}
    assert samples(seen, "gpu1") == {"gpu_processes": 0}


def every_format() -> Iterator[str]:
    for plugin in reader:
        if plugin.name.startswith(("nvidia_", "dcgmi_")):
            yield plugin.name


@pytest.mark.parametrize("format_", sorted(every_format()))
def test_what_is_something_else_is_a_parse_error(format_: str) -> None:
    with pytest.raises(ParseError):
        read(format_, "other.txt", "once upon a time\nthere was a log\n")
