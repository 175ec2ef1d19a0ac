"""Signals of accelerators. Exporters' names by version:

* ``dcgm``: dcgm-exporter's names are DCGM's field names; DCGM 4.5 renamed many, 4.7 added
  fields in base units, exporter 1.x wrote lower-case names (NVIDIA/dcgm-exporter etc/*.csv;
  dcgm_fields.h; DCGM documentation, field identifiers).
* ``nvml``: names of ``nvidia-smi --query-gpu``; ``nvidia_gpu_exporter`` exports those.
* ``amd_exporter``: ROCm/device-metrics-exporter, docs/configuration/metricslist.md.
* ``amd_smi``: keys of ``amd-smi metric --json``, joined by dots.
"""

from bigiron.signals.gpu_errors import GPU_ERRORS
from bigiron.signals.gpu_links import GPU_LINKS
from bigiron.signals.noun import Bad, Kind, Signal, signal

_MIB = "*1048576"
_MHZ = "*1e6"
_PERCENT = "*0.01"
_NS = "*1e-9"

_THERMAL_AND_POWER: tuple[Signal, ...] = (
    signal(
        "gpu_temp_celsius",
        "celsius",
        Kind.GAUGE,
        Bad.HIGH,
        "temperature of the GPU die; AMD: junction (hotspot), else edge",
        dcgm="DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_GPU_TEMP_CELSIUS dcgm_gpu_temp",
        nvml="temperature.gpu",
        nvidia_gpu_exporter="nvidia_smi_temperature_gpu",
        amd_exporter="GPU_JUNCTION_TEMPERATURE GPU_EDGE_TEMPERATURE",
        amd_smi="temperature.hotspot temperature.edge",
    ),
    signal(
        "gpu_memory_temp_celsius",
        "celsius",
        Kind.GAUGE,
        Bad.HIGH,
        "temperature of GPU memory",
        dcgm="DCGM_FI_DEV_MEMORY_TEMP DCGM_FI_DEV_MEMORY_TEMP_CELSIUS dcgm_memory_temp",
        nvml="temperature.memory",
        nvidia_gpu_exporter="nvidia_smi_temperature_memory",
        amd_exporter="GPU_MEMORY_TEMPERATURE GPU_HBM_TEMPERATURE",
        amd_smi="temperature.mem",
    ),
    signal(
        "gpu_temp_margin_celsius",
        "celsius",
        Kind.GAUGE,
        Bad.LOW,
        "degrees left until the GPU slows itself down",
        dcgm="DCGM_FI_DEV_GPU_TEMP_LIMIT DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS",
        nvml="temperature.gpu.tlimit",
        nvidia_gpu_exporter="nvidia_smi_temperature_gpu_tlimit",
    ),
    signal(
        "gpu_temp_slowdown_celsius",
        "celsius",
        Kind.GAUGE,
        Bad.NONE,
        "where clocks are lowered",
        dcgm="DCGM_FI_DEV_SLOWDOWN_TEMP DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS",
    ),
    signal(
        "gpu_temp_shutdown_celsius",
        "celsius",
        Kind.GAUGE,
        Bad.NONE,
        "where the GPU shuts down",
        dcgm="DCGM_FI_DEV_SHUTDOWN_TEMP DCGM_FI_DEV_GPU_TEMP_SHUTDOWN_CELSIUS",
    ),
    signal(
        "gpu_power_watts",
        "watts",
        Kind.GAUGE,
        Bad.NONE,
        "power drawn by the GPU's board",
        dcgm="DCGM_FI_DEV_POWER_USAGE DCGM_FI_DEV_BOARD_POWER_WATTS dcgm_power_usage "
        "DCGM_FI_DEV_POWER_USAGE_INSTANT DCGM_FI_DEV_BOARD_POWER_RAW_WATTS",
        nvml="power.draw power.draw.average power.draw.instant",
        nvidia_gpu_exporter="nvidia_smi_power_draw_watts nvidia_smi_power_draw_average_watts "
        "nvidia_smi_power_draw_instant_watts",
        amd_exporter="GPU_PACKAGE_POWER GPU_AVERAGE_PACKAGE_POWER GPU_POWER_USAGE",
        amd_smi="power.socket_power power.average_socket_power power.current_socket_power",
    ),
    signal(
        "gpu_module_power_watts",
        "watts",
        Kind.GAUGE,
        Bad.NONE,
        "power drawn by the whole module: GPU and CPU of a superchip",
    ),
    signal(
        "gpu_power_limit_watts",
        "watts",
        Kind.GAUGE,
        Bad.LOW,
        "power limit in force",
        dcgm="DCGM_FI_DEV_ENFORCED_POWER_LIMIT DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS "
        "DCGM_FI_DEV_POWER_MGMT_LIMIT DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS",
        nvml="enforced.power.limit power.limit",
        nvidia_gpu_exporter="nvidia_smi_enforced_power_limit_watts nvidia_smi_power_limit_watts",
        amd_smi="power.power_cap limit.power_cap",
    ),
    signal(
        "gpu_energy_joules_total",
        "joules",
        Kind.COUNTER,
        Bad.NONE,
        "energy used",
        dcgm="DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION*1e-3 dcgm_total_energy_consumption*1e-3 "
        "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL",
        amd_exporter="GPU_ENERGY_CONSUMED*1e-6",
        amd_smi="energy.total_energy_consumption",
    ),
    signal(
        "gpu_fan_speed_ratio",
        "ratio",
        Kind.GAUGE,
        Bad.ANY,
        "fan speed, of its greatest",
        dcgm=f"DCGM_FI_DEV_FAN_SPEED{_PERCENT} DCGM_FI_DEV_FAN_SPEED_RATIO",
        nvml=f"fan.speed{_PERCENT}",
        nvidia_gpu_exporter="nvidia_smi_fan_speed_ratio",
        amd_smi=f"fan.usage{_PERCENT}",
    ),
    signal(
        "gpu_voltage_volts",
        "volts",
        Kind.GAUGE,
        Bad.ANY,
        "core voltage",
        amd_exporter="GPU_GFX_VOLTAGE*1e-3 GPU_VOLTAGE*1e-3",
        amd_smi="power.gfx_voltage*1e-3 voltage.gfx*1e-3",
    ),
)

_CLOCKS: tuple[Signal, ...] = (
    signal(
        "gpu_sm_clock_hertz",
        "hertz",
        Kind.GAUGE,
        Bad.LOW,
        "clock of the compute units",
        dcgm=f"DCGM_FI_DEV_SM_CLOCK{_MHZ} dcgm_sm_clock{_MHZ} DCGM_FI_DEV_SM_CLOCK_HERTZ",
        nvml=f"clocks.current.sm{_MHZ} clocks.sm{_MHZ} "
        f"clocks.current.graphics{_MHZ} clocks.gr{_MHZ}",
        nvidia_gpu_exporter="nvidia_smi_clocks_current_sm_clock_hz "
        "nvidia_smi_clocks_current_graphics_clock_hz",
        amd_exporter=f"GPU_CLOCK{_MHZ}",
        amd_smi=f"clock.gfx_0.clk{_MHZ} clock.gfx.clk{_MHZ}",
    ),
    signal(
        "gpu_memory_clock_hertz",
        "hertz",
        Kind.GAUGE,
        Bad.LOW,
        "clock of GPU memory",
        dcgm=f"DCGM_FI_DEV_MEM_CLOCK{_MHZ} dcgm_memory_clock{_MHZ} DCGM_FI_DEV_MEMORY_CLOCK_HERTZ",
        nvml=f"clocks.current.memory{_MHZ} clocks.mem{_MHZ}",
        nvidia_gpu_exporter="nvidia_smi_clocks_current_memory_clock_hz",
        amd_smi=f"clock.mem_0.clk{_MHZ} clock.mem.clk{_MHZ}",
    ),
    signal(
        "gpu_sm_clock_max_hertz",
        "hertz",
        Kind.GAUGE,
        Bad.LOW,
        "highest compute clock",
        dcgm=f"DCGM_FI_DEV_MAX_SM_CLOCK{_MHZ} DCGM_FI_DEV_MAX_SM_CLOCK_HERTZ",
        nvml=f"clocks.max.sm{_MHZ} clocks.max.graphics{_MHZ}",
        nvidia_gpu_exporter="nvidia_smi_clocks_max_sm_clock_hz "
        "nvidia_smi_clocks_max_graphics_clock_hz",
        amd_exporter=f"GPU_MAX_CLOCK{_MHZ}",
        amd_smi=f"clock.gfx_0.max_clk{_MHZ} clock.gfx.max_clk{_MHZ}",
    ),
    signal(
        "gpu_memory_clock_max_hertz",
        "hertz",
        Kind.GAUGE,
        Bad.LOW,
        "highest memory clock",
        dcgm=f"DCGM_FI_DEV_MAX_MEM_CLOCK{_MHZ}",
        nvml=f"clocks.max.memory{_MHZ}",
        nvidia_gpu_exporter="nvidia_smi_clocks_max_memory_clock_hz",
        amd_smi=f"clock.mem_0.max_clk{_MHZ} clock.mem.max_clk{_MHZ}",
    ),
    signal(
        "gpu_clock_event_reasons",
        "mask",
        Kind.MASK,
        Bad.HIGH,
        "why clocks are lowered: nvml.h, nvmlClocksEventReasons",
        dcgm="DCGM_FI_DEV_CLOCKS_EVENT_REASONS DCGM_FI_DEV_CLOCK_THROTTLE_REASONS "
        "DCGM_FI_DEV_CLOCKS_EVENTS_REASONS",
        nvml="clocks_event_reasons.active clocks_throttle_reasons.active",
        nvidia_gpu_exporter="nvidia_smi_clocks_event_reasons_active "
        "nvidia_smi_clocks_throttle_reasons_active",
    ),
)

_THROTTLES = (
    ("power", "POWER_VIOLATION", "of its power limit"),
    ("thermal", "THERMAL_VIOLATION", "of heat"),
    ("reliability", "RELIABILITY_VIOLATION", "of its reliability voltage"),
    ("board_limit", "BOARD_LIMIT_VIOLATION", "of the board's limit"),
    ("low_utilization", "LOW_UTIL_VIOLATION", "it had little to do"),
    ("sync_boost", "SYNC_BOOST_VIOLATION", "of its sync boost group"),
    ("sw_power_cap", "CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "software capped power"),
    ("sw_thermal", "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "software saw heat"),
    ("hw_thermal", "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "hardware saw heat"),
    ("hw_power_brake", "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", "of the power brake"),
)


def _base_unit(name: str) -> str:
    """DCGM 4.7's field in seconds for the first six (fields 1617 to 1622)."""
    word = {"board_limit": "LIMIT", "low_utilization": "LOW_UTIL"}.get(name, name.upper())
    if name.startswith(("sw_", "hw_")):
        return ""
    return f" DCGM_FI_DEV_GPU_{word}_THROTTLE_SECONDS_TOTAL"


# NVML counts violations in nanoseconds and DCGM passes that on; documents up to DCGM 3.0 called
# the same number microseconds.
_THROTTLED: tuple[Signal, ...] = (
    *(
        signal(
            f"gpu_throttle_{name}_seconds_total",
            "seconds",
            Kind.COUNTER,
            Bad.NONE if name == "low_utilization" else Bad.HIGH,
            f"time at lowered clocks: {why}",
            dcgm=f"DCGM_FI_DEV_{field}{_NS}{_base_unit(name)}",
        )
        for name, field, why in _THROTTLES
    ),
    signal(
        "gpu_throttle_hw_slowdown_seconds_total",
        "seconds",
        Kind.COUNTER,
        Bad.HIGH,
        "time at lowered clocks: any hardware slowdown",
    ),
)

_LOADS = (
    (
        "gpu_utilization_ratio",
        "share of time a kernel ran",
        f"DCGM_FI_DEV_GPU_UTIL{_PERCENT} DCGM_FI_DEV_GPU_UTIL_RATIO dcgm_gpu_utilization{_PERCENT}",
        "utilization.gpu",
        "GPU_GFX_ACTIVITY GPU_USAGE",
        "usage.gfx_activity",
    ),
    (
        "gpu_memory_utilization_ratio",
        "share of time memory was read or written",
        f"DCGM_FI_DEV_MEM_COPY_UTIL{_PERCENT} dcgm_mem_copy_utilization{_PERCENT} "
        "DCGM_FI_DEV_MEMORY_UTIL_RATIO",
        "utilization.memory",
        "GPU_UMC_ACTIVITY",
        "usage.umc_activity",
    ),
    (
        "gpu_encoder_utilization_ratio",
        "share of time the encoder ran",
        f"DCGM_FI_DEV_ENC_UTIL{_PERCENT} dcgm_enc_utilization{_PERCENT} DCGM_FI_DEV_ENC_UTIL_RATIO",
        "utilization.encoder",
        "",
        "",
    ),
    (
        "gpu_decoder_utilization_ratio",
        "share of time the decoder ran",
        f"DCGM_FI_DEV_DEC_UTIL{_PERCENT} dcgm_dec_utilization{_PERCENT} DCGM_FI_DEV_DEC_UTIL_RATIO",
        "utilization.decoder",
        "GPU_VCN_ACTIVITY",
        "",
    ),
)
_PROFILED = (
    (
        "gpu_graphics_active_ratio",
        "share of cycles the graphics or compute engine was active",
        "GR_ENGINE_ACTIVE GR_ENGINE_UTIL_RATIO",
    ),
    ("gpu_sm_active_ratio", "share of cycles an SM had a warp", "SM_ACTIVE SM_UTIL_RATIO"),
    (
        "gpu_sm_occupancy_ratio",
        "resident warps, of the most possible",
        "SM_OCCUPANCY SM_OCCUPANCY_RATIO",
    ),
    (
        "gpu_tensor_active_ratio",
        "share of cycles the tensor pipe was active",
        "PIPE_TENSOR_ACTIVE TENSOR_UTIL_RATIO",
    ),
    ("gpu_dram_active_ratio", "share of cycles memory moved data", "DRAM_ACTIVE DRAM_UTIL_RATIO"),
    (
        "gpu_fp64_active_ratio",
        "share of cycles the FP64 pipe was active",
        "PIPE_FP64_ACTIVE FP64_UTIL_RATIO",
    ),
    (
        "gpu_fp32_active_ratio",
        "share of cycles the FP32 pipe was active",
        "PIPE_FP32_ACTIVE FP32_UTIL_RATIO",
    ),
    (
        "gpu_fp16_active_ratio",
        "share of cycles the FP16 pipe was active",
        "PIPE_FP16_ACTIVE FP16_UTIL_RATIO",
    ),
)


def _load(name: str, text: str, dcgm: str, nvml: str, amd: str, smi: str) -> Signal:
    exporters = {
        "dcgm": dcgm,
        "nvml": f"{nvml}{_PERCENT}",
        "nvidia_gpu_exporter": f"nvidia_smi_{nvml.replace('.', '_')}_ratio",
    }
    if amd:
        exporters["amd_exporter"] = " ".join(name + _PERCENT for name in amd.split())
    if smi:
        exporters["amd_smi"] = f"{smi}{_PERCENT}"
    return signal(name, "ratio", Kind.GAUGE, Bad.NONE, text, **exporters)


def _profiled(name: str, text: str, fields: str) -> Signal:
    both = [f"DCGM_FI_PROF_{field}" for field in fields.split()]
    both.append(both[0].lower())
    return signal(name, "ratio", Kind.GAUGE, Bad.NONE, text, dcgm=" ".join(both))


def _memory(what: str, text: str, amd: str = "", smi: str = "") -> Signal:
    exact = "CAPACITY" if what == "total" else what.upper()
    exporters = {
        "dcgm": f"DCGM_FI_DEV_FB_{what.upper()}{_MIB} dcgm_fb_{what}{_MIB} "
        f"DCGM_FI_DEV_FB_{exact}_BYTES"
    }
    exporters["nvml"] = f"memory.{what}{_MIB}"
    exporters["nvidia_gpu_exporter"] = f"nvidia_smi_memory_{what}_bytes"
    if amd:
        exporters["amd_exporter"] = " ".join(
            name if "*" in name else name + _MIB for name in amd.split()
        )
    if smi:
        exporters["amd_smi"] = f"{smi}{_MIB}"
    return signal(
        f"gpu_memory_{what}_bytes",
        "bytes",
        Kind.GAUGE,
        Bad.LOW if what == "total" else Bad.NONE,
        text,
        **exporters,
    )


_LOAD: tuple[Signal, ...] = (
    signal("gpu_processes", "count", Kind.GAUGE, Bad.NONE, "processes that use the GPU"),
    signal(
        "gpu_step_compute_seconds",
        "seconds",
        Kind.GAUGE,
        Bad.HIGH,
        "what its rank computed for in its last training step, without waiting for other ranks; "
        "told by the training job itself",
    ),
    *(_load(*row) for row in _LOADS),
    *(_profiled(*row) for row in _PROFILED),
    _memory("used", "memory in use", "GPU_USED_VRAM", "mem_usage.used_vram"),
    _memory("free", "memory free", "GPU_FREE_VRAM", "mem_usage.free_vram"),
    _memory("reserved", "memory kept by the driver and firmware"),
    _memory(
        "total", "memory installed", "GPU_TOTAL_VRAM GPU_TOTAL_MEMORY*1e6", "mem_usage.total_vram"
    ),
)

GPU: tuple[Signal, ...] = _THERMAL_AND_POWER + _CLOCKS + _THROTTLED + _LOAD + GPU_ERRORS + GPU_LINKS
