"""Fields of a GPU under nvidia-smi's own query names: what each is to us.

``nvidia-smi --help-query-gpu`` names every field (``temperature.gpu``, ``pcie.link.gen.max``).
The XML and the ``-q`` text carry the same fields under other names; their readers translate
into these. A few names that ``-q`` knows and the query does not are ours: ``temperature.slowdown``,
``temperature.shutdown``, ``reset_required``, ``drain_and_reset_recommended``.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measure:
    """A query field measured in ``unit`` (where the text names none) kept as ``metric``."""

    field: str
    metric: str
    unit: str = ""


# Several fields may feed one metric: the first that has a value counts.
MEASURES: tuple[Measure, ...] = (
    Measure("temperature.gpu", "gpu_temp_celsius", "C"),
    Measure("temperature.gpu.tlimit", "gpu_temp_margin_celsius", "C"),
    Measure("temperature.memory", "gpu_memory_temp_celsius", "C"),
    Measure("temperature.slowdown", "gpu_temp_slowdown_celsius", "C"),
    Measure("temperature.shutdown", "gpu_temp_shutdown_celsius", "C"),
    Measure("power.draw", "gpu_power_watts", "W"),
    Measure("power.draw.average", "gpu_power_watts", "W"),
    Measure("power.draw.instant", "gpu_power_watts", "W"),
    Measure("enforced.power.limit", "gpu_power_limit_watts", "W"),
    Measure("power.limit", "gpu_power_limit_watts", "W"),
    Measure("clocks.current.sm", "gpu_sm_clock_hertz", "MHz"),
    Measure("clocks.current.graphics", "gpu_sm_clock_hertz", "MHz"),
    Measure("clocks.current.memory", "gpu_memory_clock_hertz", "MHz"),
    Measure("clocks.max.sm", "gpu_sm_clock_max_hertz", "MHz"),
    Measure("clocks.max.graphics", "gpu_sm_clock_max_hertz", "MHz"),
    Measure("clocks.max.memory", "gpu_memory_clock_max_hertz", "MHz"),
    Measure("utilization.gpu", "gpu_utilization_ratio", "%"),
    Measure("utilization.memory", "gpu_memory_utilization_ratio", "%"),
    Measure("utilization.encoder", "gpu_encoder_utilization_ratio", "%"),
    Measure("utilization.decoder", "gpu_decoder_utilization_ratio", "%"),
    Measure("memory.used", "gpu_memory_used_bytes", "MiB"),
    Measure("memory.free", "gpu_memory_free_bytes", "MiB"),
    Measure("memory.reserved", "gpu_memory_reserved_bytes", "MiB"),
    Measure("memory.total", "gpu_memory_total_bytes", "MiB"),
    Measure("remapped_rows.correctable", "gpu_remapped_rows_correctable_total"),
    Measure("remapped_rows.uncorrectable", "gpu_remapped_rows_uncorrectable_total"),
    Measure("remapped_rows.histogram.max", "gpu_row_remap_banks_max"),
    Measure("remapped_rows.histogram.high", "gpu_row_remap_banks_high"),
    Measure("remapped_rows.histogram.partial", "gpu_row_remap_banks_partial"),
    Measure("remapped_rows.histogram.low", "gpu_row_remap_banks_low"),
    Measure("remapped_rows.histogram.none", "gpu_row_remap_banks_none"),
    Measure("retired_pages.single_bit_ecc.count", "gpu_retired_pages_sbe_total"),
    Measure("retired_pages.double_bit.count", "gpu_retired_pages_dbe_total"),
    Measure("pcie.link.gen.current", "gpu_pcie_link_gen"),
    Measure("pcie.link.gen.gpucurrent", "gpu_pcie_link_gen"),
    Measure("pcie.link.width.current", "gpu_pcie_link_width"),
    Measure("pcie.link.gen.max", "gpu_pcie_link_gen_max"),
    Measure("pcie.link.width.max", "gpu_pcie_link_width_max"),
    Measure("pcie.replay", "gpu_pcie_replays_total"),
    Measure("pcie.replay_rollover", "gpu_pcie_replay_rollovers_total"),
    Measure("pcie.rx", "gpu_pcie_rx_bytes_per_second", "KB/s"),
    Measure("pcie.tx", "gpu_pcie_tx_bytes_per_second", "KB/s"),
    Measure("fan.speed", "gpu_fan_speed_ratio", "%"),
    Measure("voltage.graphics", "gpu_voltage_volts", "mV"),
    Measure(
        "clocks_event_reasons_counters.sw_power_cap",
        "gpu_throttle_sw_power_cap_seconds_total",
        "us",
    ),
    Measure(
        "clocks_event_reasons_counters.sync_boost", "gpu_throttle_sync_boost_seconds_total", "us"
    ),
    Measure(
        "clocks_event_reasons_counters.sw_thermal_slowdown",
        "gpu_throttle_sw_thermal_seconds_total",
        "us",
    ),
    Measure(
        "clocks_event_reasons_counters.hw_thermal_slowdown",
        "gpu_throttle_hw_thermal_seconds_total",
        "us",
    ),
    Measure(
        "clocks_event_reasons_counters.hw_power_brake_slowdown",
        "gpu_throttle_hw_power_brake_seconds_total",
        "us",
    ),
)

FLAGS: tuple[tuple[str, str], ...] = (
    ("remapped_rows.pending", "gpu_row_remap_pending"),
    ("remapped_rows.failure", "gpu_row_remap_failure"),
    ("retired_pages.pending", "gpu_retired_pages_pending"),
    ("retired_pages.pending_blacklist", "gpu_retired_pages_pending"),
    ("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", "gpu_sram_threshold_exceeded"),
)

FACTS: tuple[tuple[str, str], ...] = (
    ("uuid", "uuid"),
    ("serial", "serial"),
    ("name", "model"),
    ("brand", "brand"),
    ("architecture", "architecture"),
    ("vbios_version", "vbios_version"),
    ("inforom.img", "inforom_version"),
    ("part_number", "part_number"),
    ("ecc.mode.current", "ecc_mode"),
    ("ecc.mode.pending", "ecc_mode_pending"),
    ("mig.mode.current", "mig_mode"),
    ("mig.mode.pending", "mig_mode_pending"),
    ("persistence_mode", "persistence_mode"),
    ("compute_mode", "compute_mode"),
    ("addressing_mode", "addressing_mode"),
    ("driver_model.current", "driver_model"),
    ("virtualization_mode", "virtualization_mode"),
    ("c2c.mode", "c2c_mode"),
    ("gsp_firmware_version", "gsp_firmware_version"),
    ("fabric.state", "fabric_state"),
    ("fabric.status", "fabric_status"),
    ("fabric.cliqueId", "fabric_clique"),
    ("fabric.clusterUuid", "fabric_cluster"),
    ("fabric.health.summary", "fabric_health"),
    ("platform.chassis_serial_number", "chassis_serial"),
    ("platform.slot_number", "slot_number"),
    ("platform.tray_index", "tray_index"),
    ("platform.module_id", "module_id"),
    ("channel_repair_pending", "channel_repair_pending"),
    ("tpc_repair_pending", "tpc_repair_pending"),
    ("unrepairable_memory", "unrepairable_memory"),
    ("inforom.checksum_validation", "inforom_checksum"),
)

NUMBER_FACTS: tuple[Measure, ...] = (
    Measure("power.limit", "power_limit_w", "W"),
    Measure("enforced.power.limit", "power_limit_w", "W"),
    Measure("power.default_limit", "power_limit_default_w", "W"),
    Measure("power.max_limit", "power_limit_max_w", "W"),
    Measure("pcie.link.width.current", "pcie_link_width"),
    Measure("pcie.link.gen.current", "pcie_link_gen"),
    Measure("pcie.link.gen.gpucurrent", "pcie_link_gen"),
    Measure("pcie.link.width.max", "pcie_link_width_max"),
    Measure("pcie.link.gen.max", "pcie_link_gen_max"),
    Measure("temperature.tlimit.slowdown", "temp_margin_slowdown_c", "C"),
    Measure("temperature.tlimit.shutdown", "temp_margin_shutdown_c", "C"),
    Measure("temperature.max_operating", "temp_max_operating_c", "C"),
    Measure("temperature.memory.max_operating", "memory_temp_max_operating_c", "C"),
)

REASONS: tuple[tuple[str, int], ...] = (
    ("gpu_idle", 0x1),
    ("applications_clocks_setting", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("sw_thermal_slowdown", 0x20),
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake_slowdown", 0x80),
    ("display_clock_setting", 0x100),
)
"""Bits of NVML's nvmlClocksEventReasons."""

RECOVERY_ACTIONS: dict[str, int] = {
    "none": 0,
    "reset": 1,
    "gpu reset": 1,
    "reboot": 2,
    "node reboot": 2,
    "drain p2p": 3,
    "drain and reset": 4,
    "recover imex domain": 5,
    "imex recovery": 5,
    "bus reset": 6,
    "system reboot": 7,
}
"""NVML's nvmlDeviceGpuRecoveryAction as nvidia-smi spells it."""

FABRIC_STATES: dict[str, int] = {
    "not supported": 0,
    "not started": 1,
    "in progress": 2,
    "completed": 3,
}
FABRIC_FAILED = 4
"""NVML's nvmlGpuFabricState; a completed registration whose status is no success is 4, as DCGM
counts it in DCGM_FI_DEV_FABRIC_MANAGER_STATUS."""

HEALTH_SLOTS: tuple[tuple[str, int], ...] = (
    ("fabric.health.bandwidth", 0),
    ("fabric.health.route_recovery_in_progress", 2),
    ("fabric.health.route_unhealthy", 4),
    ("fabric.health.access_timeout_recovery", 6),
)
HEALTH_WORDS: dict[str, int] = {
    "degraded": 1,
    "true": 1,
    "yes": 1,
    "full": 2,
    "false": 2,
    "no": 2,
}
HEALTH_CONFIGURATION_SHIFT = 8
HEALTH_CONFIGURATIONS: dict[str, int] = {
    "none": 1,
    "incorrect system guid": 2,
    "incorrect sysguid": 2,
    "incorrect chassis serial number": 3,
    "incorrect chassis sn": 3,
    "no partition": 4,
    "insufficient nvlinks": 5,
    "incompatible gpu firmware": 6,
    "incompatible gpu fw": 6,
    "invalid location": 7,
    "gpu state invalid": 8,
}
"""Slots of NVML's fabric health mask (nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_*): two bits each
(0 not supported, 1 true, 2 false), four for the wrong configuration."""

ALIASES: dict[str, str] = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "kmd_version": "driver_version",
    "vbios": "vbios_version",
    "pcie.link.gen.gpumax": "pcie.link.gen.devicemax",
    "temperature": "temperature.gpu",
    "clocks.gr": "clocks.current.graphics",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.max.gr": "clocks.max.graphics",
    "clocks.max.mem": "clocks.max.memory",
    "retired_pages.sbe": "retired_pages.single_bit_ecc.count",
    "retired_pages.dbe": "retired_pages.double_bit.count",
    "power.management": "power_management",
}


def canonical(field: str) -> str:
    """The query field's one name, for any of the spellings nvidia-smi has accepted."""
    name = field.strip()
    name = name.replace("clocks_throttle_reasons", "clocks_event_reasons")
    return ALIASES.get(name, name)
