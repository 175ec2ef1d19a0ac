"""What is sampled of a GPU: NVML's functions and fields, under our names and in our units.

Where several sources give one metric the first that has a value counts, as for
``ingest.nvidia_fields``. A metric that a local exporter tells already is not asked for.
"""

from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple

from bigiron.collect.nvml_gpu import Gpu
from bigiron.collect.nvml_library import ALL, Field, number
from bigiron.ingest.nvidia_fields import FABRIC_FAILED
from bigiron.model import Sample


class Asked(NamedTuple):
    """A function whose answer, times ``scale``, is a metric; ``key`` picks one of several."""

    metric: str
    function: str
    arguments: tuple[int, ...] = ()
    scale: float = 1.0
    key: str | int = ""


class Fielded(NamedTuple):
    """A field whose value, times ``scale``, is a metric."""

    metric: str
    field: Field
    scale: float = 1.0


_THROTTLES = (
    ("power", 74, 0),
    ("sw_power_cap", 74, 0),
    ("thermal", 75, 1),
    ("sync_boost", 76, 2),
    ("board_limit", 77, 3),
    ("low_utilization", 78, 4),
    ("reliability", 79, 5),
    ("sw_thermal", 269, -1),
    ("hw_thermal", 270, -1),
    ("hw_power_brake", 271, -1),
)
"""Nanoseconds: name, field, and nvml.h's nvmlPerfPolicyType_t for drivers without the field."""

_PLACES = (
    ("l1", (7, 8, 18, 19)),
    ("l2", (9, 10, 20, 21)),
    ("dram", (11, 12, 22, 23)),
    ("register", (13, 14, 24, 25)),
    ("texture", (15, 16, 26, 27)),
    ("cbu", (0, 17, 0, 28)),
)
_COUNTS = (
    ("correctable", "volatile", 0, 0),
    ("uncorrectable", "volatile", 1, 0),
    ("correctable", "aggregate", 0, 1),
    ("uncorrectable", "aggregate", 1, 1),
)
"""Kind, since when, nvml.h's nvmlMemoryErrorType_t and nvmlEccCounterType_t."""

FUNCTIONS: tuple[Asked, ...] = (
    Asked("gpu_temp_celsius", "nvmlDeviceGetTemperatureV", (0,)),
    Asked("gpu_temp_celsius", "nvmlDeviceGetTemperature", (0,)),
    Asked("gpu_temp_margin_celsius", "nvmlDeviceGetMarginTemperature"),
    Asked("gpu_power_watts", "nvmlDeviceGetPowerUsage", (), 1e-3),
    Asked("gpu_power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", (), 1e-3),
    Asked("gpu_sm_clock_hertz", "nvmlDeviceGetClockInfo", (1,), 1e6),
    Asked("gpu_sm_clock_hertz", "nvmlDeviceGetClockInfo", (0,), 1e6),
    Asked("gpu_memory_clock_hertz", "nvmlDeviceGetClockInfo", (2,), 1e6),
    Asked("gpu_clock_event_reasons", "nvmlDeviceGetCurrentClocksEventReasons"),
    Asked("gpu_clock_event_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
    Asked("gpu_utilization_ratio", "nvmlDeviceGetUtilizationRates", (), 0.01, "gpu"),
    Asked("gpu_memory_utilization_ratio", "nvmlDeviceGetUtilizationRates", (), 0.01, "memory"),
    Asked("gpu_memory_total_bytes", "nvmlDeviceGetMemoryInfo", (2,), 1.0, "total"),
    Asked("gpu_memory_reserved_bytes", "nvmlDeviceGetMemoryInfo", (2,), 1.0, "reserved"),
    Asked("gpu_memory_used_bytes", "nvmlDeviceGetMemoryInfo", (2,), 1.0, "used"),
    Asked("gpu_memory_free_bytes", "nvmlDeviceGetMemoryInfo", (2,), 1.0, "free"),
    Asked("gpu_memory_total_bytes", "nvmlDeviceGetMemoryInfo", (), 1.0, "total"),
    Asked("gpu_memory_used_bytes", "nvmlDeviceGetMemoryInfo", (), 1.0, "used"),
    Asked("gpu_memory_free_bytes", "nvmlDeviceGetMemoryInfo", (), 1.0, "free"),
    Asked("gpu_pcie_link_gen", "nvmlDeviceGetCurrPcieLinkGeneration"),
    Asked("gpu_pcie_link_width", "nvmlDeviceGetCurrPcieLinkWidth"),
    Asked("gpu_pcie_tx_bytes_per_second", "nvmlDeviceGetPcieThroughput", (0,), 1e3),
    Asked("gpu_pcie_rx_bytes_per_second", "nvmlDeviceGetPcieThroughput", (1,), 1e3),
    *(
        Asked(f"gpu_row_remap_banks_{level}", "nvmlDeviceGetRowRemapperHistogram", (), 1.0, level)
        for level in ("max", "high", "partial", "low", "none")
    ),
)

FIELDS: tuple[Fielded, ...] = (
    Fielded("gpu_memory_temp_celsius", (82, 0)),
    Fielded("gpu_power_watts", (185, 0), 1e-3),
    Fielded("gpu_power_watts", (186, 0), 1e-3),
    Fielded("gpu_module_power_watts", (185, 1), 1e-3),
    Fielded("gpu_module_power_watts", (186, 1), 1e-3),
    Fielded("gpu_energy_joules_total", (83, 0), 1e-3),
    Fielded("gpu_recovery_action", (230, 0)),
    *(Fielded(f"gpu_throttle_{n}_seconds_total", (field, 0), 1e-9) for n, field, _ in _THROTTLES),
    *(
        Fielded(f"gpu_ecc_{kind}_{since}_total", (3 + at, 0))
        for at, (kind, since, _, _) in enumerate(_COUNTS)
    ),
    *(
        Fielded(f"gpu_ecc_{place}_{kind}_{since}_total", (numbers[at], 0))
        for place, numbers in _PLACES
        for at, (kind, since, _, _) in enumerate(_COUNTS)
        if numbers[at]
    ),
    Fielded("gpu_retired_pages_sbe_total", (29, 0)),
    Fielded("gpu_retired_pages_dbe_total", (30, 0)),
    Fielded("gpu_retired_pages_pending", (31, 0)),
    Fielded("gpu_remapped_rows_correctable_total", (142, 0)),
    Fielded("gpu_remapped_rows_uncorrectable_total", (143, 0)),
    Fielded("gpu_row_remap_pending", (144, 0)),
    Fielded("gpu_row_remap_failure", (145, 0)),
    Fielded("gpu_pcie_replays_total", (94, 0)),
    Fielded("gpu_pcie_replay_rollovers_total", (95, 0)),
    Fielded("gpu_pcie_recoveries_total", (169, 0)),
    Fielded("gpu_pcie_nak_received_total", (174, 0)),
    Fielded("gpu_pcie_nak_sent_total", (177, 0)),
    Fielded("gpu_nvlink_tx_bytes_total", (138, ALL), 1024.0),
    Fielded("gpu_nvlink_rx_bytes_total", (139, ALL), 1024.0),
)

OLDER: tuple[Asked, ...] = (
    Asked("gpu_energy_joules_total", "nvmlDeviceGetTotalEnergyConsumption", (), 1e-3),
    Asked("gpu_pcie_replays_total", "nvmlDeviceGetPcieReplayCounter"),
    *(
        Asked(
            f"gpu_throttle_{n}_seconds_total",
            "nvmlDeviceGetViolationStatus",
            (policy,),
            1e-9,
            "violationTime",
        )
        for n, _, policy in _THROTTLES
        if policy >= 0
    ),
    *(
        Asked(f"gpu_ecc_{kind}_{since}_total", "nvmlDeviceGetTotalEccErrors", (error, counter))
        for kind, since, error, counter in _COUNTS
    ),
    *(
        Asked(
            f"gpu_ecc_{place}_{kind}_{since}_total",
            "nvmlDeviceGetMemoryErrorCounter",
            (error, counter, location),
        )
        for place, location in (("dram", 2), ("sram", 7))
        for kind, since, error, counter in _COUNTS
    ),
    Asked("gpu_remapped_rows_correctable_total", "nvmlDeviceGetRemappedRows", (), 1.0, 0),
    Asked("gpu_remapped_rows_uncorrectable_total", "nvmlDeviceGetRemappedRows", (), 1.0, 1),
    Asked("gpu_row_remap_pending", "nvmlDeviceGetRemappedRows", (), 1.0, 2),
    Asked("gpu_row_remap_failure", "nvmlDeviceGetRemappedRows", (), 1.0, 3),
    Asked("gpu_retired_pages_sbe_total", "nvmlDeviceGetRetiredPages", (0,)),
    Asked("gpu_retired_pages_dbe_total", "nvmlDeviceGetRetiredPages", (1,)),
    Asked("gpu_retired_pages_pending", "nvmlDeviceGetRetiredPagesPendingStatus"),
)
"""Asked only where the field is not answered: drivers and GPUs that do not know it."""

_SRAM: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gpu_ecc_sram_correctable_volatile_total", ("volatileCor",)),
    ("gpu_ecc_sram_correctable_aggregate_total", ("aggregateCor",)),
    ("gpu_ecc_sram_uncorrectable_volatile_total", ("volatileUncParity", "volatileUncSecDed")),
    ("gpu_ecc_sram_uncorrectable_aggregate_total", ("aggregateUncParity", "aggregateUncSecDed")),
    ("gpu_ecc_sram_parity_uncorrectable_volatile_total", ("volatileUncParity",)),
    ("gpu_ecc_sram_parity_uncorrectable_aggregate_total", ("aggregateUncParity",)),
    ("gpu_ecc_sram_secded_uncorrectable_volatile_total", ("volatileUncSecDed",)),
    ("gpu_ecc_sram_secded_uncorrectable_aggregate_total", ("aggregateUncSecDed",)),
    ("gpu_sram_threshold_exceeded", ("bThresholdExceeded",)),
)
_FABRIC = ("gpu_fabric_state", "gpu_fabric_health_mask")
_BANDWIDTH = "gpu_nvlink_bandwidth_bytes_per_second"
_PULSE = "gpu_temp_celsius"
_FANS, _PROCESSES = "gpu_fan_speed_ratio", "gpu_processes"

GIVES: frozenset[str] = frozenset(
    {row.metric for row in (*FUNCTIONS, *OLDER)}
    | {row.metric for row in FIELDS}
    | {metric for metric, _ in _SRAM}
    | {*_FABRIC, _BANDWIDTH, _FANS, _PROCESSES}
)
"""All that is sampled of a GPU here, besides its links."""


def samples(gpu: Gpu, leave: Set[str] = frozenset()) -> Iterator[Sample]:
    """Everything measured of a GPU but what is in ``leave``. Of each metric one sample."""
    found: dict[str, float] = {}
    if _PULSE in leave:  # asked all the same: a GPU that answers nothing is to be noticed
        gpu.first(*((row.function, row.arguments) for row in FUNCTIONS if row.metric == _PULSE))
    _functions(gpu, FUNCTIONS, leave, found)
    _fields(gpu, leave, found)
    _sram(gpu, leave, found)
    _functions(gpu, OLDER, leave, found)
    _fabric(gpu, leave, found)
    _rest(gpu, leave, found)
    for metric, value in found.items():
        yield Sample("", gpu.device, metric, value)
    if _FANS not in leave:
        yield from _fans(gpu)


def _functions(gpu: Gpu, rows: tuple[Asked, ...], leave: Set[str], found: dict[str, float]) -> None:
    answers: dict[tuple[str, tuple[int, ...]], Any] = {}
    for metric, function, arguments, scale, key in rows:
        if metric in found or metric in leave:
            continue
        asked = function, arguments
        answer = answers[asked] if asked in answers else gpu.ask(function, *arguments)
        answers[asked] = answer
        value = number(answer if key == "" else _part(answer, key))
        if value is not None:
            found[metric] = value * scale


def _part(answer: Any, key: str | int) -> Any:
    if isinstance(answer, Mapping):
        return answer.get(key)
    if isinstance(answer, list) and isinstance(key, int) and key < len(answer):
        return answer[key]
    return None


def _fields(gpu: Gpu, leave: Set[str], found: dict[str, float]) -> None:
    rows = [row for row in FIELDS if row.metric not in leave]
    values = gpu.fields(list(dict.fromkeys(row.field for row in rows)))
    for metric, field, scale in rows:
        value = values.get(field)
        if value is not None and metric not in found:
            found[metric] = value * scale


def _sram(gpu: Gpu, leave: Set[str], found: dict[str, float]) -> None:
    if all(metric in leave for metric, _ in _SRAM):
        return
    status = gpu.ask("nvmlDeviceGetSramEccErrorStatus", 1)
    if not isinstance(status, Mapping):
        return
    for metric, parts in _SRAM:
        values = [number(status.get(part)) for part in parts]
        known = [value for value in values if value is not None]
        if metric not in leave and len(known) == len(parts):
            found[metric] = float(sum(known))


def fabric(gpu: Gpu) -> Mapping[str, Any]:
    """What NVML says of the GPU's NVLink fabric, by the newest structure it knows; may be empty."""
    told = gpu.first(
        ("nvmlDeviceGetGpuFabricInfoV", (3,)),
        ("nvmlDeviceGetGpuFabricInfoV", (2,)),
        ("nvmlDeviceGetGpuFabricInfo", (1,)),
    )
    return told if isinstance(told, Mapping) else {}


def fabric_state(told: Mapping[str, Any]) -> float | None:
    """0 not supported to 3 completed; completed without success is FABRIC_FAILED."""
    state = number(told.get("state"))
    if state == 3 and number(told.get("status")) not in (None, 0):
        return float(FABRIC_FAILED)
    return state


def _fabric(gpu: Gpu, leave: Set[str], found: dict[str, float]) -> None:
    if all(metric in leave for metric in _FABRIC):
        return
    told = fabric(gpu)
    state, mask = fabric_state(told), number(told.get("healthMask"))
    if state is not None and _FABRIC[0] not in leave:
        found[_FABRIC[0]] = state
    if mask is not None and state not in (None, 0) and _FABRIC[1] not in leave:
        found[_FABRIC[1]] = mask


def _rest(gpu: Gpu, leave: Set[str], found: dict[str, float]) -> None:
    if _PROCESSES not in leave:
        counts = [number(gpu.first(*_processes(kind))) for kind in ("Compute", "Graphics")]
        known = [count for count in counts if count is not None]
        if known:
            found[_PROCESSES] = float(sum(known))
    if _BANDWIDTH not in leave:
        ways = [found.get(f"gpu_nvlink_{way}_bytes_total") for way in ("tx", "rx")]
        moved = [value for value in ways if value is not None]
        rate = gpu.grown(_BANDWIDTH, sum(moved)) if len(moved) == len(ways) else None
        if rate is not None:
            found[_BANDWIDTH] = rate


def _processes(kind: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    for version in (3, 2):
        yield f"nvmlDeviceGet{kind}RunningProcesses_v{version}", ()


def _fans(gpu: Gpu) -> Iterator[Sample]:
    """The first fan as the GPU's, as nvidia-smi has it; others as parts of it."""
    count = gpu.number("nvmlDeviceGetNumFans") or 0
    for fan in range(int(min(count, 16))):
        percent = gpu.number("nvmlDeviceGetFanSpeed_v2", fan)
        if percent is not None:
            device = f"{gpu.device}:fan{fan}" if fan else gpu.device
            yield Sample("", device, _FANS, percent * 0.01)
