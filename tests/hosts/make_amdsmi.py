"""AMD SMI's answers, and the driver's plain files, of two hosts. Values are our own.

The shapes are those of the vendor's Python binding (amdsmi 7.0, ROCm 7.0).

python -m tests.hosts.make_amdsmi        write them below tests/hosts
"""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.hosts.sysfs_tree import Tree

HERE = Path(__file__).parent
DEVICES = "/sys/bus/pci/devices"
THRESHOLD = "/sys/module/amdgpu/parameters/bad_page_threshold"
NONE, N_A = {"error": 2}, "N/A"
BLOCKS = ("UMC", "SDMA", "GFX", "MMHUB", "PCIE_BIF", "XGMI_WAFL")
MASK = 0b1010_1111
RECORDS = {  # of the GPU's ring on mi300xx8: number, severity, time, field ids
    5: ((1, "non_fatal_corrected", "2026/11/29 03:12:44", [30]),),
}


def main() -> None:
    """Both hosts."""
    mi300xx8(Tree(HERE / "mi300xx8"))
    mi250x8(Tree(HERE / "mi250x8"))


def mi300xx8(tree: Tree) -> None:
    """Eight MI300X, each linked with the seven others; compute in one partition."""
    system: dict[str, Any] = {}
    gpus = []
    for index, folder in enumerate(_gpus(tree)):
        bus = folder.rpartition("/")[2]
        one = _of_mi300x(index, bus)
        entries, blobs = {}, []
        for place, (number, severity, time, afids) in enumerate(RECORDS.get(index, ())):
            blob = _record(number)
            entries[str(place)] = _header(number, severity, time, len(blob))
            blobs.append({"bytes": [b - 256 if b > 127 else b for b in blob], "size": len(blob)})
            system[f"amdsmi_get_afids_from_cper({zlib.crc32(blob):08x})"] = [afids, len(afids)]
        end = len(entries)
        one["amdsmi_get_gpu_cper_entries(7, 65536, 0)"] = [entries, end, blobs, 0]
        if end:
            one[f"amdsmi_get_gpu_cper_entries(7, 65536, {end})"] = [{}, end, [], 0]
        gpus.append(one)
        _plain_mi300x(tree, folder, index)
    _compute(tree, ranks=8)
    tree.put(THRESHOLD, -1)
    _write(tree, system, _every_mi300x(), gpus)


def mi250x8(tree: Tree) -> None:
    """Eight dies of four MI250: the second die of each has no power sensor of its own."""
    gpus = []
    for index, folder in enumerate(_gpus(tree)):
        gpus.append(_of_mi250(index, folder.rpartition("/")[2]))
        _plain_mi250(tree, folder, index)
    _compute(tree, ranks=0)
    tree.put(THRESHOLD, -1)
    _write(tree, {}, _every_mi250(), gpus)


def _gpus(tree: Tree) -> Iterator[str]:
    """Their folders, in the order in which the library lists them."""
    for at in sorted((tree.root / DEVICES.lstrip("/")).iterdir()):
        if (at / "vendor").read_text().strip() == "0x1002":
            yield "/" + str(at.resolve().relative_to(tree.root.resolve()))


def _of_mi300x(index: int, bus: str) -> dict[str, Any]:
    hot = (71, 68, 74, 70, 69, 73, 72, 75)[index]
    metrics: dict[str, Any] = {
        **_blank(),
        "temperature_hotspot": hot,
        "temperature_mem": hot - 19,
        "temperature_vrsoc": hot - 6,
        "average_gfx_activity": 97 + index % 3,
        "average_umc_activity": 41 + index,
        "energy_accumulator": 29_900_217_774_112 + index * 1_000_003,
        "system_clock_counter": 412_345_678_901_234 + index,
        "current_socket_power": 712 + 3 * index,
        "current_uclk": 1300,
        "current_gfxclks": [2092 - 4 * index + die for die in range(8)],
        "vcn_activity": [0, 0, 0, 0],
        "pcie_link_width": 16,
        "pcie_link_speed": 320,
        "xgmi_link_width": 16,
        "xgmi_link_speed": 32,
        "pcie_replay_count_acc": 2 if index == 3 else 0,
        "pcie_replay_rover_count_acc": 0,
        "pcie_nak_sent_count_acc": 0,
        "pcie_nak_rcvd_count_acc": 1 if index == 3 else 0,
        "pcie_l0_to_recov_count_acc": 24 + index,
        "pcie_lc_perf_other_end_recovery": 3,
        "xgmi_read_data_acc": [(7 + link) * 81_000_123 for link in range(8)],
        "xgmi_write_data_acc": [(6 + link) * 80_900_077 for link in range(8)],
        "accumulation_counter": 392_817_455 + index,
        "prochot_residency_acc": 0,
        "ppt_residency_acc": 1_204_318 + 77 * index,
        "socket_thm_residency_acc": 0,
        "vr_thm_residency_acc": 0,
        "hbm_thm_residency_acc": 0,
        "num_partition": 1,
    }
    serial = f"0x{0x6D41_0000_2F10_0000 + index * 0x1F3:016X}"
    return {
        "amdsmi_get_gpu_device_bdf": bus,
        "amdsmi_get_gpu_device_uuid": _uuid(0x41 + index, "74a1"),
        "amdsmi_get_gpu_metrics_info": metrics,
        "amdsmi_get_gpu_xgmi_link_status": {
            "status": ["X" if link == index else "U" for link in range(8)],
            "total_links": 8,
        },
        "amdsmi_get_gpu_vram_usage": {"vram_total": 196_592, "vram_used": 171_204 + index},
        "amdsmi_get_gpu_asic_info": {
            "market_name": "AMD Instinct MI300X",
            "vendor_id": "0x1002",
            "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
            "subvendor_id": "0x1002",
            "device_id": "0x74a1",
            "rev_id": "0x00",
            "asic_serial": serial,
            "oam_id": (2, 3, 1, 0, 6, 7, 5, 4)[index],
            "num_compute_units": 304,
            "target_graphics_version": "gfx942",
            "subsystem_id": "0x74a1",
        },
        "amdsmi_get_gpu_board_info": {
            "model_number": "102-G30211-0C",
            "product_serial": f"6922430{27 + index:05d}",
            "fru_id": "113-AMDG302110C02-00001",
            "product_name": "AMD Instinct MI300X OAM",
            "manufacturer_name": "AMD",
        },
        "amdsmi_get_xgmi_info": {
            "xgmi_lanes": 16,
            "xgmi_hive_id": 0x7B1E_55C0_9D02_41AF,
            "xgmi_node_id": 0x1000 + index,
            "index": 0,
        },
        **_errors({"UMC": (3, 0, 0)} if index == 5 else {}),
        "amdsmi_get_gpu_bad_page_info": [
            {"value": 0, "page_address": 0x2F1A_000, "page_size": 4096, "status": 0}
        ]
        if index == 5
        else [],
    }


def _every_mi300x() -> dict[str, Any]:
    return {
        "amdsmi_get_gpu_vram_info": {
            "vram_type": 4,
            "vram_vendor": "HYNIX",
            "vram_size": 196_592,
            "vram_bit_width": 8192,
            "vram_max_bandwidth": 5300,
        },
        "amdsmi_get_pcie_info": {
            "pcie_static": {
                "max_pcie_width": 16,
                "max_pcie_speed": 32_000,
                "pcie_interface_version": 5,
                "slot_type": "OAM",
            }
        },
        "amdsmi_get_gpu_driver_info": {
            "driver_name": "amdgpu",
            "driver_version": "6.12.12",
            "driver_date": "2015/01/01 00:00",
        },
        "amdsmi_get_gpu_vbios_info": {
            "name": "AMD MI300X_HW_SRIOV_CVS_1VF",
            "build_date": "2024/09/30 08:12",
            "part_number": "113-M3000100-103",
            "version": "022.040.003.043.000001",
        },
        "amdsmi_get_gpu_ras_feature_info": {"eeprom_version": "0x30000", "poison_schema": True},
        "amdsmi_get_gpu_compute_partition": "SPX",
        "amdsmi_get_gpu_memory_partition": "NPS1",
        "amdsmi_get_gpu_perf_level": "AMDSMI_DEV_PERF_LEVEL_AUTO",
        "amdsmi_get_gpu_ecc_enabled": MASK,
        "amdsmi_get_gpu_bad_page_threshold": 640,
        "amdsmi_get_power_cap_info": {
            "power_cap": 750_000_000,
            "default_power_cap": 750_000_000,
            "dpm_cap": 2100,
            "min_power_cap": 0,
            "max_power_cap": 750_000_000,
        },
        **_temps("EDGE", NONE, NONE),
        **_temps("HOTSPOT", 100, 110),
        **_temps("VRAM", 94, 105),
        "amdsmi_get_clock_info(AmdSmiClkType.GFX)": _clock(2094, 132, 2100),
        "amdsmi_get_clock_info(AmdSmiClkType.MEM)": _clock(1300, 900, 1300),
        "amdsmi_get_gpu_fan_speed(0)": NONE,
        "amdsmi_get_gpu_fan_speed_max(0)": NONE,
        "amdsmi_get_fw_info": _firmware(
            CP_MEC1="169",
            RLC="55",
            VCN="09.11.80.00",
            TA_RAS="1B.36.02.0F",
            PM="00.85.119.00",
            PLDM_BUNDLE="01.25.03.03",
        ),
    }


def _of_mi250(index: int, bus: str) -> dict[str, Any]:
    first = index % 2 == 0
    hot = (52, 49, 54, 50, 51, 48, 53, 50)[index]
    metrics: dict[str, Any] = {
        **_blank(),
        "temperature_edge": hot - 9,
        "temperature_hotspot": hot,
        "temperature_mem": hot + 4,
        "temperature_vrgfx": hot - 3 if first else 0,
        "temperature_vrsoc": hot - 5 if first else 0,
        "temperature_vrmem": hot - 1 if first else 0,
        "temperature_hbm": [hot + 1, hot + 2, hot + 4, hot],
        "average_gfx_activity": 0,
        "average_umc_activity": 0,
        "average_socket_power": 91 + index if first else 0,
        "energy_accumulator": 8_812_345_678_111 + index if first else 0,
        "system_clock_counter": 981_234_567_890_123 + index,
        "average_gfxclk_frequency": 800,
        "average_uclk_frequency": 1600,
        "current_gfxclk": 800,
        "current_uclk": 1600,
        "throttle_status": False,
        "indep_throttle_status": False,
        "pcie_link_width": 16,
        "pcie_link_speed": 160,
        "voltage_gfx": 793 if first else 0,
    }
    return {
        "amdsmi_get_gpu_device_bdf": bus,
        "amdsmi_get_gpu_device_uuid": _uuid(0x21 + index, "740c"),
        "amdsmi_get_gpu_metrics_info": metrics,
        "amdsmi_get_gpu_vram_usage": {"vram_total": 65_520, "vram_used": 10},
        "amdsmi_get_gpu_asic_info": {
            "market_name": "AMD Instinct MI250",
            "vendor_id": "0x1002",
            "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
            "asic_serial": f"0x{0x31B8_0000_6E44_0000 + index * 0x2B7:016X}",
            "oam_id": 0xFFFF_FFFF if not first else index // 2,
            "num_compute_units": 104,
        },
        "amdsmi_get_gpu_board_info": {
            "model_number": "102-D65208-00",
            "product_serial": f"PCB0487{61 + index // 2:05d}",
            "fru_id": N_A,
            "product_name": "AMD INSTINCT MI250 (MCM) OAM AC MBA",
            "manufacturer_name": "AMD",
        },
        "amdsmi_get_xgmi_info": {
            "xgmi_lanes": 16,
            "xgmi_hive_id": 0x2C44_91AA_0B7E_1D05,
            "xgmi_node_id": 0x2000 + index,
            "index": 0,
        },
        **_errors({}),
        "amdsmi_get_gpu_bad_page_info": [],
    }


def _every_mi250() -> dict[str, Any]:
    return {
        "amdsmi_get_gpu_vram_info": {"vram_type": 3, "vram_vendor": "SAMSUNG"},
        "amdsmi_get_pcie_info": {"pcie_static": {"max_pcie_width": 16, "max_pcie_speed": 16_000}},
        "amdsmi_get_gpu_driver_info": {"driver_name": "amdgpu", "driver_version": "6.8.5"},
        "amdsmi_get_gpu_vbios_info": {
            "name": "AMD MI250 AC MBA",
            "part_number": "113-D65209-073",
            "version": "016.003.014.001.000412",
        },
        "amdsmi_get_gpu_ras_feature_info": {"eeprom_version": "0x10000"},
        "amdsmi_get_gpu_perf_level": "AMDSMI_DEV_PERF_LEVEL_AUTO",
        "amdsmi_get_gpu_ecc_enabled": MASK,
        "amdsmi_get_gpu_bad_page_threshold": 0,
        "amdsmi_get_power_cap_info": {
            "power_cap": 500_000_000,
            "default_power_cap": 500_000_000,
            "max_power_cap": 500_000_000,
        },
        **_temps("EDGE", 100, 105),
        **_temps("HOTSPOT", 100, 105),
        **_temps("VRAM", 105, 110),
        "amdsmi_get_clock_info(AmdSmiClkType.GFX)": _clock(800, 500, 1700),
        "amdsmi_get_clock_info(AmdSmiClkType.MEM)": _clock(1600, 400, 1600),
        "amdsmi_get_gpu_fan_speed(0)": NONE,
        "amdsmi_get_gpu_fan_speed_max(0)": NONE,
        "amdsmi_get_fw_info": _firmware(CP_MEC1="78", RLC="17", SDMA0="8", PM="00.68.59.00"),
    }


def _uuid(number: int, model: str) -> str:
    return f"{number:02x}ff{model}-0000-1000-80{number:02x}-9d2c51e07a3b"


def _blank() -> dict[str, Any]:
    """Fields that a generation of GPUs may leave out."""
    fields = (
        *("temperature_edge", "temperature_hotspot", "temperature_mem", "temperature_vrgfx"),
        *("temperature_vrsoc", "temperature_vrmem", "average_gfx_activity", "average_umc_activity"),
        *("average_socket_power", "current_socket_power", "energy_accumulator", "voltage_gfx"),
        *("current_gfxclk", "current_uclk", "average_gfxclk_frequency", "average_uclk_frequency"),
        *("throttle_status", "indep_throttle_status", "xgmi_link_width", "xgmi_link_speed"),
        *("pcie_replay_count_acc", "pcie_nak_sent_count_acc", "accumulation_counter"),
    )
    four = ("temperature_hbm", "vcn_activity")
    return dict.fromkeys(fields, N_A) | {name: [N_A] * 4 for name in four}


def _errors(counts: dict[str, tuple[int, int, int]]) -> dict[str, Any]:
    told = {}
    for block in BLOCKS:
        one, two, three = counts.get(block, (0, 0, 0))
        told[f"amdsmi_get_gpu_ecc_count(AmdSmiGpuBlock.{block})"] = {
            "correctable_count": one,
            "uncorrectable_count": two,
            "deferred_count": three,
        }
    return told


def _temps(sensor: str, slow: Any, stop: Any) -> dict[str, Any]:
    call = f"amdsmi_get_temp_metric(AmdSmiTemperatureType.{sensor}, AmdSmiTemperatureMetric."
    return {f"{call}CRITICAL)": slow, f"{call}EMERGENCY)": stop}


def _clock(now: int, least: int, most: int) -> dict[str, Any]:
    return {"clk": now, "min_clk": least, "max_clk": most, "clk_locked": False}


def _firmware(**versions: str) -> dict[str, Any]:
    listed = [
        {"fw_name": f"AMDSMI_FW_ID_{name}", "fw_version": version}
        for name, version in versions.items()
    ]
    return {"fw_list": listed}


def _record(number: int) -> bytes:
    return (
        b"CPER"
        + number.to_bytes(4, "little")
        + bytes((number * 37 + n * 101) % 256 for n in range(56))
    )


def _header(number: int, severity: str, time: str, size: int) -> dict[str, Any]:
    return {
        "error_severity": severity,
        "notify_type": "CMC",
        "timestamp": time,
        "record_length": size,
        "record_id": f"{number}",
    }


def _plain_mi300x(tree: Tree, folder: str, index: int) -> None:
    hot = (71, 68, 74, 70, 69, 73, 72, 75)[index]
    tree.puts(
        folder,
        {
            **_card(196_592 * 2**20, 171_204 * 2**20, 97 + index % 3, 41 + index, 2 * (index == 3)),
            "unique_id": f"{0x6D41_0000_2F10_0000 + index * 0x1F3:016x}",
            "serial_number": f"6922430{27 + index:05d}",
            "product_name": "AMD Instinct MI300X OAM",
            "product_number": "102-G30211-0C",
            "vbios_version": "113-M3000100-103",
            "mem_info_vram_vendor": "hynix",
            "current_compute_partition": "SPX",
            "current_memory_partition": "NPS1",
            "pp_dpm_sclk": "0: 132Mhz\n1: 2100Mhz *",
            "pp_dpm_mclk": "0: 900Mhz\n1: 1100Mhz\n2: 1300Mhz *",
            "fw_version/smc_fw_version": "0x00557700",
            "fw_version/vcn_fw_version": "0x09118000",
            "ras/umc_err_count": f"ue: 0\nce: {3 if index == 5 else 0}\nde: 0",
            "ras/xgmi_wafl_err_count": "ue: 0\nce: 0\nde: 0",
            "ras/gpu_vram_bad_pages": "0x00002f1a : 0x00001000 : R" if index == 5 else "",
            "hwmon/hwmon4/temp2_label": "junction",
            "hwmon/hwmon4/temp2_input": hot * 1000,
            "hwmon/hwmon4/temp2_crit": 100_000,
            "hwmon/hwmon4/temp2_emergency": 110_000,
            "hwmon/hwmon4/temp3_label": "mem",
            "hwmon/hwmon4/temp3_input": (hot - 19) * 1000,
            "hwmon/hwmon4/temp3_crit": 94_000,
            "hwmon/hwmon4/power1_input": 712_000_000 + index * 3_000_000,
            "hwmon/hwmon4/power1_cap": 750_000_000,
            "hwmon/hwmon4/freq1_input": 2_090_000_000,
            "hwmon/hwmon4/freq2_input": 1_300_000_000,
        },
    )


def _plain_mi250(tree: Tree, folder: str, index: int) -> None:
    hot = (52, 49, 54, 50, 51, 48, 53, 50)[index]
    tree.puts(
        folder,
        {
            **_card(65_520 * 2**20, 10 * 2**20, 0, 0, 0),
            "unique_id": f"{0x31B8_0000_6E44_0000 + index * 0x2B7:016x}",
            "vbios_version": "113-D65209-073",
            "hwmon/hwmon6/temp1_label": "edge",
            "hwmon/hwmon6/temp1_input": (hot - 9) * 1000,
            "hwmon/hwmon6/temp1_crit": 100_000,
            "hwmon/hwmon6/temp2_label": "junction",
            "hwmon/hwmon6/temp2_input": hot * 1000,
            "hwmon/hwmon6/power1_average": 0 if index % 2 else 91_000_000 + index * 1_000_000,
            "ras/umc_err_count": "ue: 0\nce: 0",
        },
    )


def _card(
    total: int, used: int, busy: int, memory: int, replays: int
) -> dict[str, str | bytes | int]:
    return {
        "gpu_busy_percent": busy,
        "mem_busy_percent": memory,
        "mem_info_vram_total": total,
        "mem_info_vram_used": used,
        "pcie_replay_count": replays,
        "power/runtime_status": "active",
    }


def _compute(tree: Tree, ranks: int) -> None:
    """The compute driver's nodes, two of them CPUs, and a process for each rank."""
    kfd = "/sys/class/kfd/kfd"
    for cpu in range(2):
        tree.put(f"{kfd}/topology/nodes/{cpu}/gpu_id", 0)
    ids = []
    for index, folder in enumerate(_gpus(tree)):
        domain, bus, rest = folder.rpartition("/")[2].split(":")
        at = int(bus, 16) << 8 | int(rest.split(".")[0], 16) << 3
        node, gpu = f"{kfd}/topology/nodes/{2 + index}", 20_011 + 7 * index
        ids.append(gpu)
        tree.put(f"{node}/gpu_id", gpu)
        tree.put(
            f"{node}/properties", f"simd_count 1216\ndomain {int(domain, 16)}\nlocation_id {at}"
        )
    tree.put(f"{kfd}/proc/.keep", b"")
    for rank in range(ranks):
        for index, gpu in enumerate(ids):
            held = 171_000 * 2**20 if index == rank else 0
            tree.put(f"{kfd}/proc/{48_120 + rank}/vram_{gpu}", held)


def _write(tree: Tree, system: Any, every: Any, gpus: Any) -> None:
    """One line for each answer: a change is seen as what it is."""
    parts = [("system", _lines(system)), ("every", _lines(every))]
    body = ",\n".join(f'"{name}": {{\n{lines}\n}}' for name, lines in parts)
    listed = ",\n".join(f"{{\n{_lines(gpu)}\n}}" for gpu in gpus)
    at = tree.root / "bigiron/amdsmi.json"
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_text(f'{{\n{body},\n"gpus": [\n{listed}\n]\n}}\n')


def _lines(answers: dict[str, Any]) -> str:
    return ",\n".join(f"{json.dumps(key)}: {json.dumps(answers[key])}" for key in answers)


if __name__ == "__main__":
    main()
