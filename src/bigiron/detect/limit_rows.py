"""Hard limits as data: a metric, the test, the fault it means and where the number comes from."""

from collections.abc import Callable
from typing import NamedTuple

from bigiron.detect.claims import Asks
from bigiron.model import ActionKind, Blame, Severity, When


class Limit(NamedTuple):
    """``bad`` says whether a value is past the limit.

    ``hold`` limits must stay bad for the window's ``sustain_s``; the others are states that
    the device itself keeps, believed at once. ``says`` takes the value, and ``{s}`` for a plural.
    """

    metric: str
    bad: Callable[[float], bool]
    fault: str
    says: str
    source: str
    asks: Asks | None = None
    """Where it differs from what the catalogue asks for."""
    hold: bool = False
    unit: str = ""
    node_wide: bool = False
    """Most GPUs of a node at once are one thing about the node: its supply, its fans."""
    passing: bool = False
    """Ordinary for a moment: says nothing in a single look."""
    brief: bool = False
    """Comes for a moment too: a single look sees it, and not whether it lasts."""


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


AGE = "the counter cannot tell how old the error is; the event tells of one just now"
COUNTED = Asks(Severity.CRITICAL, ActionKind.RESET_GPU, When.JOB_END, why=AGE)
COUNTED_HOST = Asks(Severity.CRITICAL, ActionKind.DRAIN, When.JOB_END, Blame.HOST, AGE)
WAITING = Asks(
    Severity.WARNING,
    ActionKind.RESET_GPU,
    When.JOB_END,
    why="pages that wait go out of use at a reset; the event tells of one that did already",
)
GLANCE = Asks(
    Severity.WARNING,
    ActionKind.CHECK,
    When.JOB_END,
    Blame.UNKNOWN,
    "one look cannot tell whether it lasts; the catalogue means what does",
)

HEAT = 0x02
"""The bit of an NVMe drive's critical warning that only says that it is too warm."""

LIMITS = (
    Limit(
        "gpu_row_remap_pending",
        above(0, 2),
        "gpu.row_remap_pending",
        "a row remap is pending: it takes effect at the next GPU reset",
        "NVIDIA A100 memory error management; health checks of Azure, Meta and gpud agree",
    ),
    Limit(
        "gpu_row_remap_failure",
        above(0, 2),
        "gpu.row_remap_failure",
        "a row could not be remapped: its spare rows are used up",
        "NVIDIA A100 memory error management: with field diagnostics this is a return",
    ),
    Limit(
        "gpu_remapped_rows_uncorrectable_total",
        lambda value: 512 <= value < 1e6,
        "gpu.row_remap_limit",
        "{value:.0f} rows were remapped for uncorrectable errors, of at most 512",
        "DCGM health watch and NVIDIA A100 memory error management: 512",
    ),
    Limit(
        "gpu_ecc_uncorrectable_volatile_total",
        above(0),
        "gpu.ecc_uncorrectable",
        "{value:.0f} uncorrectable memory error{s} since the driver was loaded",
        "DCGM health watch: any volatile double-bit error fails",
    ),
    Limit(
        "gpu_sram_threshold_exceeded",
        above(0, 2),
        "gpu.sram_threshold",
        "its count of SRAM errors is past the vendor's threshold",
        "NVML; DCGM code SRAM_THRESHOLD: field diagnostics, then return",
    ),
    Limit(
        "gpu_retired_pages_pending",
        above(0, 1e6),
        "gpu.retired_pages_pending",
        "a page retirement is pending: it takes effect at the next GPU reset",
        "DCGM health watch: pending retirement warns",
    ),
    Limit(
        "gpu_bad_pages_pending",
        above(0, 1e6),
        "amdgpu.bad_page",
        "{value:.0f} memory page{s} to be retired",
        "Linux amdgpu RAS documentation",
        WAITING,
    ),
    Limit(
        "gpu_ras_uncorrectable_total",
        above(0),
        "amdgpu.ras_uncorrectable",
        "{value:.0f} uncorrectable RAS error{s} since the driver was loaded",
        "OCI health checks: any uncorrectable RAS error fails",
        COUNTED,
    ),
    Limit(
        "gpu_clock_event_reasons",
        bit(0x40),
        "clock.hw_thermal",
        "its clocks are cut for heat (hardware thermal slowdown)",
        "NVML clock event reasons; unhealthy when sustained (gpud: 0.6 of 10 minutes)",
        hold=True,
        brief=True,
        node_wide=True,
    ),
    Limit(
        "gpu_clock_event_reasons",
        bit(0x80),
        "clock.hw_power_brake",
        "its clocks are cut by the power brake: a supply or rail asked for it",
        "NVML clock event reasons; unhealthy when sustained (gpud: 0.6 of 10 minutes)",
        hold=True,
        brief=True,
        node_wide=True,
    ),
    Limit(
        "gpu_clock_event_reasons",
        bit(0x8, unless=0x40 | 0x80),
        "clock.hw_slowdown",
        "its clocks are cut by hardware, without saying why",
        "NVML clock event reasons; unhealthy when sustained (gpud: 0.6 of 10 minutes)",
        hold=True,
        brief=True,
    ),
    Limit(
        "gpu_clock_event_reasons",
        bit(0x20, unless=0x40),
        "clock.sw_thermal",
        "its clocks are lowered by the driver to stay below its temperature limit",
        "NVML clock event reasons; Azure health agent warns",
        hold=True,
        passing=True,
    ),
    Limit(
        "gpu_temp_margin_celsius",
        lambda value: -100 < value <= 0,
        "gpu.temp_high",
        "{value:.0f} °C are left to its slowdown temperature",
        "DCGM field 153: margin to the maximum operating temperature",
        hold=True,
        unit="celsius",
    ),
    Limit(
        "gpu_memory_temp_celsius",
        above(105, 200),
        "gpu.memory_temp_high",
        "its memory is at {value:.0f} °C",
        "SICHEK warns at 95 °C on H100; HBM throttles above 105 °C",
        hold=True,
        unit="celsius",
    ),
    Limit(
        "gpu_health",
        lambda value: value == 0,
        "gpu.unhealthy",
        "its exporter calls it unhealthy",
        "AMD device metrics exporter and DCGM exporter health metrics",
        hold=True,
    ),
    Limit(
        "gpu_fabric_health_mask",
        _pair_is_one,
        "gpu.fabric_unhealthy",
        "its NVLink fabric reports reduced health (mask {value:.0f})",
        "NVML fabric health mask: two-bit fields, 1 is true",
        hold=True,
    ),
    Limit(
        "gpu_xgmi_links_down",
        above(0, 64),
        "gpu.nvlink_inactive",
        "{value:.0f} XGMI link{s} down",
        "AMD SMI: a link of a hive that is down",
        hold=True,
    ),
    Limit(
        "nvme_spare_ratio",
        below(0.10),
        "nvme.spare_low",
        "{value:.0%} of its spare blocks are left",
        "NVMe specification: available spare; 10 % is the usual threshold of drives",
    ),
    Limit(
        "nvme_critical_warning",
        bit(0xFF & ~HEAT),
        "nvme.critical_warning",
        "the drive raises its critical warning ({value:.0f})",
        "NVMe specification: critical warning bits",
    ),
    Limit(
        "node_edac_uncorrectable_total",
        above(0),
        "edac.uncorrectable",
        "{value:.0f} uncorrectable error{s} of host memory since boot",
        "Linux EDAC",
        COUNTED_HOST,
    ),
)

RETIRED_LIMIT = 60
"""Pages: 64 can be retired; DCGM fails at 63, vendors replace at 60 (pre-Ampere GPUs)."""

TEMP_LIMIT_C = 93.0
"""Azure's health agent warns above 93 °C; used only where no slowdown temperature is known."""

RECOVERY_WORDS = {
    1: "a GPU reset",
    2: "a reboot of the node",
    3: "that peer-to-peer work be drained",
    4: "that work be drained and the GPU reset",
    5: "that its IMEX domain be recovered",
    6: "a bus reset",
    7: "a reboot of the system",
}
"""NVML's recovery actions, whose entries in the catalogue are ``recovery.N``."""
