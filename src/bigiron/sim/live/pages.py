"""The fleet as its exporters show it: dcgm-exporter and node_exporter pages."""

from collections.abc import Iterator

import numpy as np

from bigiron.sim.live.fleet import GPUS, MODEL, VBIOS, Inventory, bus
from bigiron.sim.live.physics import LIMIT_W, Floats, State

FB_MIB = 81_079


def dcgm_page(inventory: Inventory, state: State, node: int) -> str:
    """One node's dcgm-exporter page: every GPU that the driver still sees."""
    name = inventory.nodes[node].name
    gpus = [g for g in range(GPUS) if state.present[node, g]]
    labels = {
        g: f'gpu="{g}",UUID="{inventory.uuids[node][g]}",pci_bus_id="0000{bus(g).upper()}",'
        f'device="nvidia{g}",modelName="{MODEL}",Hostname="{name}",'
        f'DCGM_FI_DRIVER_VERSION="{state.drivers[node]}",DCGM_FI_DEV_VBIOS_VERSION="{VBIOS}"'
        for g in gpus
    }
    lines: list[str] = []
    for metric, kind, text, values in exported(state):
        lines += [f"# HELP {metric} {text}", f"# TYPE {metric} {kind}"]
        lines += [f"{metric}{{{labels[g]}}} {_number(float(values[node, g]))}" for g in gpus]
    return "\n".join(lines) + "\n"


def exported(state: State) -> Iterator[tuple[str, str, str, Floats]]:
    """(name, type, help, values by node and GPU) of what dcgm-exporter shows."""
    busy = (state.power > 120).astype(float)
    active = busy * state.load[:, None]
    used = np.where(busy > 0, 0.88, 0.01) * FB_MIB
    all_ = np.ones_like(state.power)
    count, states = state.counters, state.states
    gauges = (
        ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", state.temp.round()),
        ("DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C).", state.memory_temp.round()),
        ("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", state.power.round(1)),
        ("DCGM_FI_DEV_POWER_MGMT_LIMIT", "Power limit (in W).", all_ * LIMIT_W),
        ("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", state.clock.round()),
        ("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", all_ * 2619),
        ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", (busy * 99).round()),
        ("DCGM_FI_PROF_SM_ACTIVE", "Ratio of cycles an SM has work.", active.round(4)),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Tensor pipe.", (active * 0.55).round(4)),
        ("DCGM_FI_PROF_DRAM_ACTIVE", "Memory interface.", (active * 0.4).round(4)),
        ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", used.round()),
        ("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", (FB_MIB - used).round()),
        ("DCGM_FI_DEV_PCIE_LINK_WIDTH", "PCIe link width.", state.width.astype(float)),
        ("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "Largest PCIe link width.", all_ * 16),
        ("DCGM_FI_DEV_PCIE_LINK_GEN", "PCIe link generation.", all_ * 5),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "Clock reasons.", state.reasons.astype(float)),
        ("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error.", states["xid"]),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "Remapping failed.", states["remap_failure"]),
        ("DCGM_FI_DEV_ROW_REMAP_PENDING", "Remap pending.", states["remap_pending"]),
    )
    counters = (
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Energy (in mJ).", count["energy_mj"].round()),
        ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "PCIe retries.", count["pcie_replay"]),
        ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "Corrected, volatile.", count["ecc_sbe"]),
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Uncorrected, volatile.", count["ecc_dbe"]),
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "Rows remapped.", count["remap_unc"]),
        ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Rows remapped.", count["remap_cor"]),
        ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "CRC.", count["nvlink_crc"]),
        ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "Replays.", count["nvlink_replay"]),
        ("DCGM_FI_DEV_THERMAL_VIOLATION", "Thermal throttling (in ns).", count["thermal_ns"]),
        ("DCGM_FI_DEV_POWER_VIOLATION", "Power throttling (in ns).", count["power_ns"]),
    )
    for kind, rows in (("gauge", gauges), ("counter", counters)):
        for name, text, values in rows:
            yield name, kind, text, values


def node_page(inventory: Inventory, state: State, node: int, now_s: float) -> str:
    """One node's node_exporter page."""
    nics = range(GPUS)
    load = state.load[node]
    lines = [
        "# TYPE node_boot_time_seconds gauge",
        f"node_boot_time_seconds {state.boot[node]:.0f}",
        "# TYPE node_time_seconds gauge",
        f"node_time_seconds {now_s:.3f}",
        "# TYPE node_load1 gauge",
        f"node_load1 {load * 96 + 1:.2f}",
        "# TYPE node_memory_MemAvailable_bytes gauge",
        f"node_memory_MemAvailable_bytes {(1 - 0.4 * load) * 2.1e12:.0f}",
        "# TYPE node_hwmon_temp_celsius gauge",
        f'node_hwmon_temp_celsius{{chip="inlet",sensor="temp1"}} {state.inlet[node]:.1f}',
        "# TYPE node_uname_info gauge",
        f'node_uname_info{{nodename="{inventory.nodes[node].name}",release="6.8.0-60-generic"}} 1',
        "# TYPE node_infiniband_state_id gauge",
        *(f'node_infiniband_state_id{{device="mlx5_{i}",port="1"}} 4' for i in nics),
        "# TYPE node_infiniband_rate_bytes_per_second gauge",
        *(
            f'node_infiniband_rate_bytes_per_second{{device="mlx5_{i}",port="1"}} 5e+10'
            for i in nics
        ),
    ]
    for metric, key in (
        ("node_infiniband_link_downed_total", "ib_downed"),
        ("node_infiniband_symbol_error_total", "ib_symbol"),
        ("node_infiniband_link_error_recovery_total", "ib_recovery"),
    ):
        lines.append(f"# TYPE {metric} counter")
        values = state.counters[key][node]
        lines += [f'{metric}{{device="mlx5_{i}",port="1"}} {values[i]:.0f}' for i in nics]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() else f"{value:.6g}"
