"""What a GPU is and how it is set, in nvidia-smi's words: what golden configs compare."""

from collections.abc import Iterator, Mapping
from typing import Any

from bigiron.collect import nvml_links, nvml_mig
from bigiron.collect.nvml_fabric import fabric_facts
from bigiron.collect.nvml_gpu import Gpu
from bigiron.collect.nvml_library import Code, Field, Library, Refused, number
from bigiron.model import Device, Fact, FactValue, Sample

_SWITCH = ("Disabled", "Enabled")
_YES = ("No", "Yes")
_COMPUTE = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")
_ADDRESSING = ("None", "HMM", "ATS")
_VIRTUALIZATION = ("None", "Pass-Through", "VGPU", "Host VGPU", "Host VSGA")
_NAMES = ("Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada Lovelace", "Hopper")
_ARCHITECTURES = dict(enumerate(_NAMES, 2)) | {10: "Blackwell", 13: "Rubin"}
_BRANDS = dict(enumerate(("Quadro", "Tesla", "NVS", "GRID", "GeForce", "Titan"), 1)) | dict(
    enumerate(("Quadro RTX", "NVIDIA RTX", "NVIDIA", "GeForce RTX", "Titan RTX"), 12)
)
"""nvml.h: nvmlBrandType_t, NVML_DEVICE_ARCH_*, and so on, as nvidia-smi writes them."""

_WORDS = (
    ("serial", "nvmlDeviceGetSerial"),
    ("vbios_version", "nvmlDeviceGetVbiosVersion"),
    ("inforom_version", "nvmlDeviceGetInforomImageVersion"),
    ("part_number", "nvmlDeviceGetBoardPartNumber"),
    ("gsp_firmware_version", "nvmlDeviceGetGspFirmwareVersion"),
)
_ENUMS: tuple[tuple[str, str, Mapping[int, str]], ...] = (
    ("brand", "nvmlDeviceGetBrand", _BRANDS),
    ("architecture", "nvmlDeviceGetArchitecture", _ARCHITECTURES),
    ("persistence_mode", "nvmlDeviceGetPersistenceMode", dict(enumerate(_SWITCH))),
    ("compute_mode", "nvmlDeviceGetComputeMode", dict(enumerate(_COMPUTE))),
    ("addressing_mode", "nvmlDeviceGetAddressingMode", dict(enumerate(_ADDRESSING))),
    ("virtualization_mode", "nvmlDeviceGetVirtualizationMode", dict(enumerate(_VIRTUALIZATION))),
)
_PAIRS: tuple[tuple[str, str, str, tuple[str, str]], ...] = (
    ("nvmlDeviceGetEccMode", "ecc_mode", "ecc_mode_pending", _SWITCH),
    ("nvmlDeviceGetMigMode", "mig_mode", "mig_mode_pending", _SWITCH),
    ("nvmlDeviceGetRepairStatus", "channel_repair_pending", "tpc_repair_pending", _YES),
)
_NUMBERS: tuple[tuple[str, str, tuple[int, ...], float], ...] = (
    ("power_limit_w", "nvmlDeviceGetPowerManagementLimit", (), 1e-3),
    ("power_limit_default_w", "nvmlDeviceGetPowerManagementDefaultLimit", (), 1e-3),
    ("application_clock_mhz", "nvmlDeviceGetApplicationsClock", (0,), 1.0),
    ("application_memory_clock_mhz", "nvmlDeviceGetApplicationsClock", (2,), 1.0),
    ("pcie_link_gen", "nvmlDeviceGetCurrPcieLinkGeneration", (), 1.0),
    ("pcie_link_width", "nvmlDeviceGetCurrPcieLinkWidth", (), 1.0),
    ("pcie_link_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration", (), 1.0),
    ("pcie_link_gen_device_max", "nvmlDeviceGetGpuMaxPcieLinkGeneration", (), 1.0),
    ("pcie_link_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), 1.0),
    ("temp_max_operating_c", "nvmlDeviceGetTemperatureThreshold", (3,), 1.0),
    ("memory_temp_max_operating_c", "nvmlDeviceGetTemperatureThreshold", (2,), 1.0),
)
_FIELDED: tuple[tuple[str, Field, float], ...] = (
    ("power_limit_w", (192, 0), 1e-3),
    ("power_limit_default_w", (189, 0), 1e-3),
    ("power_limit_module_w", (190, 1), 1e-3),
    ("temp_margin_shutdown_c", (193, 0), 1.0),
    ("temp_margin_slowdown_c", (194, 0), 1.0),
    ("memory_temp_margin_max_operating_c", (195, 0), 1.0),
    ("temp_margin_max_operating_c", (196, 0), 1.0),
    ("c2c_links", (170, 0), 1.0),
)
_SAMPLED: tuple[tuple[str, str, tuple[int, ...], float], ...] = (
    ("gpu_temp_slowdown_celsius", "nvmlDeviceGetTemperatureThreshold", (1,), 1.0),
    ("gpu_temp_shutdown_celsius", "nvmlDeviceGetTemperatureThreshold", (0,), 1.0),
    ("gpu_sm_clock_max_hertz", "nvmlDeviceGetMaxClockInfo", (1,), 1e6),
    ("gpu_memory_clock_max_hertz", "nvmlDeviceGetMaxClockInfo", (2,), 1e6),
    ("gpu_pcie_link_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration", (), 1.0),
    ("gpu_pcie_link_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), 1.0),
)
GIVES: frozenset[str] = frozenset(row[0] for row in _SAMPLED)
"""Limits that are samples elsewhere: sampled seldom, for they do not change."""

_SRAM_SOURCES = (
    *(("l2", "L2"), ("sm", "Sm"), ("mcu", "Mcu"), ("pcie", "Pcie"), ("other", "Other")),
)


def node_facts(library: Library, gpus: int) -> Iterator[Fact]:
    """Driver, CUDA and NVML versions, and how many GPUs the driver shows."""
    words = {
        "driver_version": _word(library, "nvmlSystemGetDriverVersion"),
        "nvml_version": _word(library, "nvmlSystemGetNVMLVersion"),
    }
    cuda = _asked(library, "nvmlSystemGetCudaDriverVersion_v2")
    if cuda is None:
        cuda = _asked(library, "nvmlSystemGetCudaDriverVersion")
    if isinstance(cuda, int) and cuda > 0:
        words["cuda_version"] = f"{cuda // 1000}.{cuda % 1000 // 10}"
    for name, word in words.items():
        if word:
            yield Fact("", name, word)
    yield Fact("", "gpu_count", gpus)


def device(gpu: Gpu) -> Device:
    """The GPU as a part: known by its UUID wherever it sits."""
    gpu.model = gpu.word("nvmlDeviceGetName")
    return Device("", gpu.device, "gpu", gpu.uuid, gpu.bus, gpu.model, "NVIDIA")


def facts(gpu: Gpu, *, thorough: bool = False) -> Iterator[Fact | Device]:
    """Everything configured of one GPU. ``thorough`` reads its InfoROM again, which is slow."""
    told = dict(_told(gpu))
    for name, value in told.items():
        yield Fact("", name, value, gpu.device)
    yield from fabric_facts(gpu)
    yield from nvml_mig.facts(gpu)
    if thorough:
        yield from _inforom(gpu)


def limits(gpu: Gpu, leave: frozenset[str] = frozenset()) -> Iterator[Sample]:
    """What is sampled of limits."""
    for metric, function, arguments, scale in _SAMPLED:
        value = gpu.number(function, *arguments) if metric not in leave else None
        if value is not None:
            yield Sample("", gpu.device, metric, value * scale)


def _told(gpu: Gpu) -> Iterator[tuple[str, FactValue]]:
    known = (("uuid", gpu.uuid), ("bus", gpu.bus), ("model", gpu.model))
    yield from ((name, word) for name, word in known if word)
    for name, function in _WORDS:
        if word := gpu.word(function):
            yield name, word
    for name, function, words in _ENUMS:
        value = gpu.number(function)
        if value is not None and int(value) in words:
            yield name, words[int(value)]
    for function, now, pending, pair in _PAIRS:
        states = gpu.ask(function)
        if isinstance(states, list) and len(states) == 2:
            yield from (
                (n, pair[s]) for n, s in zip((now, pending), states, strict=True) if s in (0, 1)
            )
    yield from _numbers(gpu)
    yield from _board(gpu)


def _numbers(gpu: Gpu) -> Iterator[tuple[str, FactValue]]:
    told: dict[str, float] = {}
    values = gpu.fields([field for _, field, _ in _FIELDED])
    for name, field, scale in _FIELDED:
        if field in values:
            told.setdefault(name, values[field] * scale)
    for name, function, arguments, scale in _NUMBERS:
        value = gpu.number(function, *arguments)
        if value is not None:
            told[name] = value * scale
    most = gpu.ask("nvmlDeviceGetPowerManagementLimitConstraints")
    if isinstance(most, list) and len(most) == 2:
        pairs = zip(("power_limit_min_w", "power_limit_max_w"), most, strict=True)
        told |= {name: value * 1e-3 for name, milli in pairs if (value := number(milli))}
    for name, value in told.items():
        value = round(value, 3)
        yield name, int(value) if value == int(value) else value


def _board(gpu: Gpu) -> Iterator[tuple[str, FactValue]]:
    if links := nvml_links.known(gpu):
        yield "nvlink_count", links
        if told := nvml_links.version(gpu):
            yield "nvlink_version", told
    c2c = gpu.ask("nvmlDeviceGetC2cModeInfoV")
    if isinstance(c2c, Mapping) and c2c.get("isC2cEnabled") in (0, 1):
        yield "c2c_mode", _SWITCH[c2c["isC2cEnabled"]]
    yield from _place(gpu)
    damage = gpu.number("nvmlDeviceGetUnrepairableMemoryFlag_v1")
    if damage in (0, 1):
        yield "unrepairable_memory", _YES[int(damage)]
    status = gpu.ask("nvmlDeviceGetSramEccErrorStatus", 1)
    if isinstance(status, Mapping):
        counts = {s: number(status.get(f"aggregateUncBucket{key}")) for s, key in _SRAM_SOURCES}
        if any(counts.values()):
            text = ", ".join(f"{s} {count:.0f}" for s, count in counts.items() if count is not None)
            yield "sram_uncorrectable_sources", text


def _place(gpu: Gpu) -> Iterator[tuple[str, FactValue]]:
    """Where it sits in a rack-scale system; elsewhere only its number on the baseboard."""
    told = gpu.first(("nvmlDeviceGetPlatformInfo", (2,)), ("nvmlDeviceGetPlatformInfo", (1,)))
    platform: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    chassis = platform.get("chassisSerialNumber")
    if isinstance(chassis, str) and chassis.strip():
        yield "chassis_serial", chassis.strip()
        for name, key in (("slot_number", "slotNumber"), ("tray_index", "trayIndex")):
            value = number(platform.get(key))
            if value is not None:
                yield name, str(int(value))
    module = number(platform.get("moduleId"))
    if not module:
        module = gpu.number("nvmlDeviceGetModuleId")
    if module is not None:
        yield "module_id", str(int(module))


def _inforom(gpu: Gpu) -> Iterator[Fact]:
    try:
        gpu.library.call("nvmlDeviceValidateInforom", gpu.handle)
    except Refused as refused:
        if refused.code == Code.CORRUPTED_INFOROM:
            gpu.loud.setdefault(refused.code, []).append("nvmlDeviceValidateInforom")
            yield Fact("", "inforom_checksum", "Invalid", gpu.device)
    else:
        yield Fact("", "inforom_checksum", "Valid", gpu.device)


def _asked(library: Library, function: str) -> Any:
    try:
        return library.call(function)
    except Refused:
        return None


def _word(library: Library, function: str) -> str:
    value = _asked(library, function)
    return value.strip()[:256] if isinstance(value, str) else ""
