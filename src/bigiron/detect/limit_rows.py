"""Hard limits as data: a metric, the test, the fault it means and where the number comes from."""

from collections.abc import Callable
from typing import NamedTuple

from bigiron.detect.claims import Asks
from bigiron.model import ActionKind, Blame, Severity, When


class Limit(NamedTuple):
    """``bad`` says whether a value is past the limit.

    ``hold`` limits must stay bad for the window's ``sustain_s``; the others are states that
    the device itself keeps, believed at once. ``says`` takes the value.
    """

    metric: str
    bad: Callable[[float], bool]
    fault: str
    says: str
    source: str
    asks: Asks
    hold: bool = False
    unit: str = ""
    node_wide: bool = False
    """Most GPUs of a node at once are one thing about the node: its supply, its fans."""
    passing: bool = False
    """Ordinary for a moment: says nothing in a single look."""


def above(limit: float, top: float = 1e12) -> Callable[[float], bool]:
    """More than ``limit``, and not absurd: exporters write huge blanks for "not supported"."""
    return lambda value: limit < value < top


def below(limit: float) -> Callable[[float], bool]:
    """Less than ``limit``."""
    return lambda value: 0 <= value < limit


def bit(mask: int, unless: int = 0) -> Callable[[float], bool]:
    """A bit of a mask is set and none of ``unless`` is."""

    def test(value: float) -> bool:
        return 0 <= value < 2**53 and bool(int(value) & mask) and not int(value) & unless

    return test


def _pair_is_one(value: float) -> bool:
    """Any of the two-bit fields of the fabric health mask says "true": 0 none, 1 true, 2 false."""
    if not 0 <= value < 2**32:
        return False
    mask = int(value)
    return any((mask >> shift) & 0b11 == 1 for shift in (0, 2, 4, 6))


REPAIR = Asks(Severity.CRITICAL, ActionKind.REPAIR, When.JOB_END)
RESET = Asks(Severity.WARNING, ActionKind.RESET_GPU, When.JOB_END)
RESET_BAD = Asks(Severity.CRITICAL, ActionKind.RESET_GPU, When.JOB_END)
CHECK = Asks(Severity.WARNING, ActionKind.CHECK, When.JOB_END)
CHECK_HOST = Asks(Severity.WARNING, ActionKind.CHECK, When.JOB_END, Blame.HOST)
POWER = Asks(Severity.CRITICAL, ActionKind.DRAIN, When.JOB_END, Blame.HOST)
LINK = Asks(Severity.CRITICAL, ActionKind.DRAIN, When.JOB_END, Blame.LINK)

LIMITS = (
    Limit(
        "gpu_row_remap_pending",
        above(0, 2),
        "gpu.row_remap_pending",
        "a row remap is pending: it takes effect at the next GPU reset",
        "NVIDIA A100 memory error management; health checks of Azure, Meta and gpud agree",
        RESET,
    ),
    Limit(
        "gpu_row_remap_failure",
        above(0, 2),
        "gpu.row_remap_failure",
        "a row could not be remapped: its spare rows are used up",
        "NVIDIA A100 memory error management: with field diagnostics this is a return",
        REPAIR,
    ),
    Limit(
        "gpu_remapped_rows_uncorrectable_total",
        lambda value: 512 <= value < 1e6,
        "gpu.row_remap_limit",
        "{value:.0f} rows were remapped for uncorrectable errors, of at most 512",
        "DCGM health watch and NVIDIA A100 memory error management: 512",
        REPAIR,
    ),
    Limit(
        "gpu_ecc_uncorrectable_volatile_total",
        above(0),
        "gpu.ecc_uncorrectable",
        "{value:.0f} uncorrectable memory errors since the driver was loaded",
        "DCGM health watch: any volatile double-bit error fails",
        RESET_BAD,
    ),
    Limit(
        "gpu_sram_threshold_exceeded",
        above(0, 2),
        "gpu.sram_threshold",
        "its count of SRAM errors is past the vendor's threshold",
        "NVML; DCGM code SRAM_THRESHOLD: field diagnostics, then return",
        REPAIR,
    ),
    Limit(
        "gpu_retired_pages_pending",
        above(0, 1e6),
        "gpu.retired_pages_pending",
        "a page retirement is pending: it takes effect at the next GPU reset",
        "DCGM health watch: pending retirement warns",
        RESET,
    ),
    Limit(
        "gpu_bad_pages_pending",
        above(0, 1e6),
        "amdgpu.bad_page",
        "{value:.0f} memory pages wait to be retired",
        "Linux amdgpu RAS documentation",
        RESET,
    ),
    Limit(
        "gpu_ras_uncorrectable_total",
        above(0),
        "amdgpu.ras_uncorrectable",
        "{value:.0f} uncorrectable RAS errors since the driver was loaded",
        "OCI health checks: any uncorrectable RAS error fails",
        RESET_BAD,
    ),
    Limit(
        "gpu_clock_event_reasons",
        bit(0x40),
        "clock.hw_thermal",
        "its clocks are cut for heat (hardware thermal slowdown)",
        "NVML clock event reasons; unhealthy when sustained (gpud: 0.6 of 10 minutes)",
        CHECK,
        hold=True,
        node_wide=True,
    ),
    Limit(
        "gpu_clock_event_reasons",
        bit(0x80),
        "clock.hw_power_brake",
        "its clocks are cut by the power brake: a supply or rail asked for it",
        "NVML clock event reasons; unhealthy when sustained (gpud: 0.6 of 10 minutes)",
        CHECK_HOST,
        hold=True,
        node_wide=True,
    ),
    Limit(
        "gpu_clock_event_reasons",
        bit(0x8, unless=0x40 | 0x80),
        "clock.hw_slowdown",
        "its clocks are cut by hardware, without saying why",
        "NVML clock event reasons; unhealthy when sustained (gpud: 0.6 of 10 minutes)",
        CHECK,
        hold=True,
    ),
    Limit(
        "gpu_clock_event_reasons",
        bit(0x20, unless=0x40),
        "clock.sw_thermal",
        "its clocks are lowered by the driver to stay below its temperature limit",
        "NVML clock event reasons; Azure health agent warns",
        CHECK,
        hold=True,
        passing=True,
    ),
    Limit(
        "gpu_temp_margin_celsius",
        lambda value: -100 < value <= 0,
        "gpu.temp_high",
        "{value:.0f} °C are left to its slowdown temperature",
        "DCGM field 153: margin to the maximum operating temperature",
        CHECK,
        hold=True,
        unit="celsius",
    ),
    Limit(
        "gpu_memory_temp_celsius",
        above(105, 200),
        "gpu.memory_temp_high",
        "its memory is at {value:.0f} °C",
        "SICHEK warns at 95 °C on H100; HBM throttles above 105 °C",
        CHECK,
        hold=True,
        unit="celsius",
    ),
    Limit(
        "gpu_health",
        lambda value: value == 0,
        "gpu.unhealthy",
        "its exporter calls it unhealthy",
        "AMD device metrics exporter and DCGM exporter health metrics",
        CHECK,
        hold=True,
    ),
    Limit(
        "gpu_fabric_health_mask",
        _pair_is_one,
        "gpu.fabric_unhealthy",
        "its NVLink fabric reports reduced health (mask {value:.0f})",
        "NVML fabric health mask: two-bit fields, 1 is true",
        CHECK,
        hold=True,
    ),
    Limit(
        "gpu_xgmi_links_down",
        above(0, 64),
        "gpu.nvlink_inactive",
        "{value:.0f} XGMI links are down",
        "AMD SMI: a link of a hive that is down",
        LINK,
        hold=True,
    ),
    Limit(
        "nvme_spare_ratio",
        below(0.10),
        "nvme.spare_low",
        "{value:.0%} of its spare blocks are left",
        "NVMe specification: available spare; 10 % is the usual threshold of drives",
        CHECK_HOST,
    ),
    Limit(
        "nvme_critical_warning",
        above(0, 256),
        "nvme.critical_warning",
        "the drive raises its critical warning ({value:.0f})",
        "NVMe specification: critical warning bits",
        CHECK_HOST,
    ),
    Limit(
        "node_edac_uncorrectable_total",
        above(0),
        "edac.uncorrectable",
        "{value:.0f} uncorrectable errors of host memory since boot",
        "Linux EDAC",
        Asks(Severity.CRITICAL, ActionKind.DRAIN, When.JOB_END, Blame.HOST),
    ),
)

RETIRED_LIMIT = 60
"""Pages: 64 can be retired; DCGM fails at 63, vendors replace at 60 (pre-Ampere GPUs)."""

TEMP_LIMIT_C = 93.0
"""Azure's health agent warns above 93 °C; used only where no slowdown temperature is known."""

RECOVERY = {
    1: Asks(Severity.CRITICAL, ActionKind.RESET_GPU, When.JOB_END),
    2: Asks(Severity.CRITICAL, ActionKind.REBOOT, When.JOB_END),
    3: Asks(Severity.WARNING, ActionKind.DRAIN, When.JOB_END),
    4: Asks(Severity.CRITICAL, ActionKind.RESET_GPU, When.JOB_END),
    5: Asks(Severity.CRITICAL, ActionKind.CHECK, When.JOB_END, Blame.LINK),
    6: Asks(Severity.CRITICAL, ActionKind.RESET_GPU, When.JOB_END),
    7: Asks(Severity.CRITICAL, ActionKind.REBOOT, When.JOB_END),
}
"""NVML's recovery action: 1 reset, 2 reboot, 3 drain peer-to-peer, 4 drain and reset, 5 recover
the IMEX domain, 6 bus reset, 7 system reboot."""

RECOVERY_WORDS = {
    1: "a GPU reset",
    2: "a reboot of the node",
    3: "that peer-to-peer work be drained",
    4: "that work be drained and the GPU reset",
    5: "that its IMEX domain be recovered",
    6: "a bus reset",
    7: "a reboot of the system",
}
