"""What an AMD GPU is and is set to, its limits, error counts of its blocks and bad pages.

Identity, limits and pages are written as ``amd-smi static`` and ``bad-pages`` write them and read
by the parser of those (``ingest.amd_smi_inventory``), so that both tell the same.

Counts of errors are read here, every five minutes, and not at every look: to read one, older
drivers write a line to the kernel log. What cannot be repaired the kernel log tells at once.
"""

from collections.abc import Iterator, Mapping, Set
from datetime import UTC, datetime

import msgspec

from bigiron.collect.amdsmi_gpu import Gpu
from bigiron.collect.amdsmi_library import Status, counted, gauged, mapping
from bigiron.ingest import Document, amd_smi_inventory, json_text
from bigiron.ingest.amd_smi import RAS_BLOCKS
from bigiron.model import Device, Event, Fact, FactValue, Sample

Answers = Mapping[str, object]
Told = Device | Event | Fact | Sample

MICRO_W = 100_000.0
"""A power cap above is in microwatts, as on a bare machine; below in watts, as for a guest."""
MOST_PAGES = 1_000_000
NEAR = 0.9
"""The driver warns when so much of the threshold of bad pages is reached (kernel, amdgpu RAS)."""

_VRAM = {1: "HBM", 2: "HBM2", 3: "HBM2E", 4: "HBM3", 5: "HBM3E", 21: "GDDR5", 22: "GDDR6"}
"""amdsmi.h, amdsmi_vram_type_t."""
_PAGES = {0: "retired", 1: "pending", 2: "un_res"}
"""amdsmi.h, amdsmi_memory_page_status_t, as ``amd-smi bad-pages`` calls them."""
_SORTS = ("correctable", "uncorrectable", "deferred")
_BLOCKS = (
    *("UMC", "SDMA", "GFX", "MMHUB", "ATHUB", "PCIE_BIF", "HDP", "XGMI_WAFL", "DF", "SMN"),
    *("SEM", "MP0", "MP1", "FUSE", "MCA", "VCN", "JPEG", "IH", "MPIO"),
)
"""amdsmi.h, amdsmi_gpu_block_t: a bit each, in this order from the lowest."""
UMC = 1

GIVES: frozenset[str] = frozenset(
    {
        *(f"gpu_ras_{block}_{sort}_total" for block in RAS_BLOCKS for sort in _SORTS),
        *(f"gpu_ras_{sort}_total" for sort in _SORTS),
        *("gpu_xgmi_correctable_total", "gpu_xgmi_uncorrectable_total"),
        *(f"gpu_bad_pages_{kind}" for kind in ("retired", "pending", "unreservable", "threshold")),
        *("gpu_temp_slowdown_celsius", "gpu_temp_shutdown_celsius", "gpu_power_limit_watts"),
        *("gpu_memory_temp_slowdown_celsius", "gpu_memory_temp_shutdown_celsius"),
        *("gpu_pcie_link_gen_max", "gpu_pcie_link_width_max", "gpu_memory_total_bytes"),
        *("gpu_sm_clock_max_hertz", "gpu_memory_clock_max_hertz", "gpu_fan_speed_ratio"),
    }
)
"""All metrics told here."""

_NOW = datetime.min.replace(tzinfo=UTC)


def config(gpu: Gpu, leave: Set[str] = frozenset()) -> Iterator[Told]:
    """Everything of one GPU but the metrics in ``leave``."""
    for one in _all(gpu):
        if not isinstance(one, Sample) or one.metric not in leave:
            yield one


def _all(gpu: Gpu) -> Iterator[Told]:
    asic, board = (mapping(gpu.ask(f"amdsmi_get_gpu_{part}_info")) for part in ("asic", "board"))
    cap = mapping(gpu.ask("amdsmi_get_power_cap_info"))
    pages = _bad_pages(gpu.ask("amdsmi_get_gpu_bad_page_info"))
    blocks = gpu.number("amdsmi_get_gpu_ecc_enabled")
    entry = {**_identity(gpu), "asic": asic, "board": board, "limit": _limits(gpu, cap), **pages}
    yield from as_amd_smi(gpu.device, entry)
    facts: list[tuple[str, FactValue]] = [*_caps(cap), *_words(gpu, asic, board), *_firmware(gpu)]
    if blocks is not None:
        facts.append(("ecc_mode", "enabled" if int(blocks) & UMC else "disabled"))
    for name, value in facts:
        yield Fact("", name, value, gpu.device)
    for metric, measured in _measured(gpu):
        yield Sample("", gpu.device, metric, measured)
    yield from errors(gpu.device, _counts(gpu, int(blocks or 0)))
    threshold = gpu.number("amdsmi_get_gpu_bad_page_threshold")
    if threshold:
        yield Sample("", gpu.device, "gpu_bad_pages_threshold", threshold)
        yield from near_threshold(gpu.device, len(pages.get("retired", ())), threshold)
    if any(status == Status.CORRUPTED_EEPROM for _, status in gpu.refused):
        text = f"{gpu.device}: its record of bad memory pages cannot be read"
        yield Event("", "amdgpu.eeprom_corrupt", text, gpu.device, source="amdsmi")


def as_amd_smi(device: str, entry: dict[str, object]) -> Iterator[Told]:
    """What the parser of amd-smi says of one GPU's sections, without its time."""
    document = Document.of("amdsmi", b"", _NOW)
    for one in amd_smi_inventory.inventory(document, device, entry):
        if isinstance(one, Event | Fact | Sample):
            yield msgspec.structs.replace(one, time=None)
        elif isinstance(one, Device):
            yield one


def errors(device: str, counts: dict[str, dict[str, float]]) -> Iterator[Sample]:
    """Error counts by block and over all blocks, of each sort that is told."""
    totals: dict[str, float] = {}
    for block, sorts in counts.items():
        for sort, count in sorts.items():
            totals[sort] = totals.get(sort, 0.0) + count
            yield Sample("", device, f"gpu_ras_{block}_{sort}_total", count)
            if block == "xgmi_wafl" and sort != "deferred":
                yield Sample("", device, f"gpu_xgmi_{sort}_total", count)
    for sort, total in totals.items():
        yield Sample("", device, f"gpu_ras_{sort}_total", total)


def near_threshold(device: str, retired: int, threshold: float) -> Iterator[Event]:
    """An event of a GPU whose retired pages near the count at which it is to be replaced."""
    if threshold > 0 and retired >= NEAR * threshold:
        text = f"{device}: {retired} bad memory pages retired, of {threshold:.0f} at most"
        attrs = {"pages": str(retired), "threshold": f"{threshold:.0f}"}
        code = "amdgpu.bad_page_threshold"
        yield Event("", code, text, device, source="amdsmi", attrs=attrs)


def _identity(gpu: Gpu) -> dict[str, object]:
    vram = mapping(gpu.ask("amdsmi_get_gpu_vram_info"))
    bus = mapping(mapping(gpu.ask("amdsmi_get_pcie_info")).get("pcie_static"))
    speed = gauged(bus.get("max_pcie_speed"))
    driver = mapping(gpu.ask("amdsmi_get_gpu_driver_info"))
    kind = vram.get("vram_type")
    return {
        "bdf": gpu.bus,
        "uuid": gpu.word("amdsmi_get_gpu_device_uuid"),
        "vbios": mapping(gpu.ask("amdsmi_get_gpu_vbios_info")),
        "vram": {
            "vendor": vram.get("vram_vendor"),
            "type": _VRAM.get(kind) if type(kind) is int else None,
        },
        "ras": mapping(gpu.ask("amdsmi_get_gpu_ras_feature_info")),
        "partition": {
            "compute_partition": gpu.word("amdsmi_get_gpu_compute_partition"),
            "memory_partition": gpu.word("amdsmi_get_gpu_memory_partition"),
        },
        "driver": {"version": driver.get("driver_version")},
        "bus": {
            "max_pcie_speed": None if speed is None else speed / 1000,
            "max_pcie_width": gauged(bus.get("max_pcie_width")),
        },
    }


def _limits(gpu: Gpu, cap: Answers) -> dict[str, object]:
    """Of the sensor that ``gpu_temp_celsius`` is of: the hot spot, else the edge."""
    limits: dict[str, object] = {"socket_power": watts(cap.get("power_cap"))}
    for sensor in ("HOTSPOT", "EDGE"):
        slow, stop = _temp(gpu, sensor, "CRITICAL"), _temp(gpu, sensor, "EMERGENCY")
        if slow is not None or stop is not None:
            word = sensor.lower()
            limits[f"slowdown_{word}_temperature"] = slow
            limits[f"shutdown_{word}_temperature"] = stop
            break
    return limits


def _temp(gpu: Gpu, sensor: str, limit: str) -> float | None:
    kind, metric = f"AmdSmiTemperatureType.{sensor}", f"AmdSmiTemperatureMetric.{limit}"
    found = gauged(gpu.ask("amdsmi_get_temp_metric", kind, metric))
    return None if found is None or found > 1000 else found


def watts(cap: object) -> float | None:
    """A power cap in watts."""
    found = counted(cap)
    if not found or found == 0xFFFF:
        return None
    return found * 1e-6 if found >= MICRO_W else found


def _bad_pages(told: object) -> dict[str, list[object]]:
    if not isinstance(told, list):
        return {}
    pages: dict[str, list[object]] = {name: [] for name in _PAGES.values()}
    for page in told[:MOST_PAGES]:
        status = mapping(page).get("status")
        if type(status) is int and status in _PAGES:
            pages[_PAGES[status]].append(page)
    return pages


def _caps(cap: Answers) -> Iterator[tuple[str, FactValue]]:
    for name, key in (
        ("power_limit_default_w", "default_power_cap"),
        ("power_limit_max_w", "max_power_cap"),
    ):
        if (limit := watts(cap.get(key))) is not None:
            yield name, limit


def _words(gpu: Gpu, asic: Answers, board: Answers) -> Iterator[tuple[str, FactValue]]:
    xgmi = mapping(gpu.ask("amdsmi_get_xgmi_info"))
    words = {
        "asset": json_text.text(board.get("fru_id")),
        "board_vendor": json_text.text(board.get("manufacturer_name")),
        "performance_level": gpu.word("amdsmi_get_gpu_perf_level").removeprefix(
            "AMDSMI_DEV_PERF_LEVEL_"
        ),
    }
    module, hive = counted(asic.get("oam_id")), xgmi.get("xgmi_hive_id")
    if module is not None:
        words["module"] = f"{module:.0f}"
    if type(hive) is int and counted(hive):
        words["xgmi_hive"] = f"{hive:#x}"
    yield from ((name, said) for name, said in words.items() if said)


def _firmware(gpu: Gpu) -> Iterator[tuple[str, FactValue]]:
    listed = mapping(gpu.ask("amdsmi_get_fw_info")).get("fw_list")
    for one in listed if isinstance(listed, list) else ():
        part = mapping(one).get("fw_name")
        name = str(getattr(part, "name", part)).removeprefix("AMDSMI_FW_ID_").lower()
        said = json_text.text(mapping(one).get("fw_version"))
        if said and name.isidentifier():
            yield ("firmware_version" if name == "pldm_bundle" else f"firmware_{name}"), said


def _measured(gpu: Gpu) -> Iterator[tuple[str, float]]:
    for name, clock in (("gpu_sm", "GFX"), ("gpu_memory", "MEM")):
        told = mapping(gpu.ask("amdsmi_get_clock_info", f"AmdSmiClkType.{clock}"))
        most = gauged(told.get("max_clk"))
        if most is not None:
            yield f"{name}_clock_max_hertz", most * 1e6
    for limit, metric in (("CRITICAL", "slowdown"), ("EMERGENCY", "shutdown")):
        degrees = _temp(gpu, "VRAM", limit)
        if degrees is not None:
            yield f"gpu_memory_temp_{metric}_celsius", degrees
    speed = gpu.number("amdsmi_get_gpu_fan_speed", 0)
    most = gpu.number("amdsmi_get_gpu_fan_speed_max", 0)
    if speed is not None and most and speed <= most:
        yield "gpu_fan_speed_ratio", speed / most


def _counts(gpu: Gpu, mask: int) -> dict[str, dict[str, float]]:
    """By block, of those whose errors are counted."""
    found: dict[str, dict[str, float]] = {}
    for bit, block in enumerate(_BLOCKS):
        if mask >> bit & 1:
            told = mapping(gpu.ask("amdsmi_get_gpu_ecc_count", f"AmdSmiGpuBlock.{block}"))
            sorts = {sort: counted(told.get(f"{sort}_count")) for sort in _SORTS}
            known = {sort: count for sort, count in sorts.items() if count is not None}
            if known:
                found[block.lower()] = known
    return found
