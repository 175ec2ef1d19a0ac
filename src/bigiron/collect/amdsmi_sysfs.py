"""AMD GPUs where AMD SMI is not installed: what the driver tells in plain files of sysfs.

Its ``gpu_metrics`` is binary and left alone, and so is ``xgmi_error``, which is cleared by being
read. A GPU that sleeps (a workstation's) is not woken.
"""

import re
from collections.abc import Iterator, Set
from typing import NamedTuple

from bigiron.collect.amdsmi_config import Told, as_amd_smi, errors, near_threshold
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.ingest import json_text
from bigiron.ingest.amd_smi import RAS_BLOCKS
from bigiron.ingest.pcie_link import generation
from bigiron.model import Fact, Sample

LANES = 32
"""The most of a PCIe link; sysfs shows 63 or 255 for one that it cannot read."""


class Plain(NamedTuple):
    """A file whose number, times ``scale``, is a metric; 0 is none unless ``zero``, and what is
    more than ``most``."""

    metric: str
    file: str
    scale: float = 1.0
    zero: bool = False
    most: float = 2.0**63


PLAIN: tuple[Plain, ...] = (
    Plain("gpu_utilization_ratio", "gpu_busy_percent", 0.01, zero=True, most=100),
    Plain("gpu_memory_utilization_ratio", "mem_busy_percent", 0.01, zero=True, most=100),
    Plain("gpu_memory_total_bytes", "mem_info_vram_total"),
    Plain("gpu_memory_used_bytes", "mem_info_vram_used", zero=True),
    Plain("gpu_pcie_replays_total", "pcie_replay_count", zero=True),
    Plain("gpu_pcie_link_width", "current_link_width", most=LANES),
)
SENSORS: tuple[Plain, ...] = (
    Plain("gpu_power_watts", "power1_average", 1e-6),
    Plain("gpu_power_watts", "power1_input", 1e-6),
    Plain("gpu_voltage_volts", "in0_input", 1e-3),
    Plain("gpu_sm_clock_hertz", "freq1_input"),
    Plain("gpu_memory_clock_hertz", "freq2_input"),
)
"""Files of hwmon (kernel, amdgpu thermal documentation): microwatts, millivolts, hertz."""
_HEAT = {
    "junction": ("gpu_temp_celsius", "gpu_temp_{}_celsius"),
    "edge": ("gpu_edge_temp_celsius", ""),
    "mem": ("gpu_memory_temp_celsius", "gpu_memory_temp_{}_celsius"),
}
"""hwmon's label of a sensor: what it measures, and its limits."""
_LEVELS = (("gpu_sm_clock_max_hertz", "pp_dpm_sclk"), ("gpu_memory_clock_max_hertz", "pp_dpm_mclk"))
_LEVEL = re.compile(r"^\d+:\s*(\d{1,6})\s*mhz", re.MULTILINE | re.IGNORECASE)
_COUNT = re.compile(r"^(ue|ce|de):\s*(\d{1,18})\s*$", re.MULTILINE)
_SORTS = {"ue": "uncorrectable", "ce": "correctable", "de": "deferred"}
_PAGE = re.compile(r"^0x[0-9a-f]+\s*:\s*0x[0-9a-f]+\s*:\s*([RPF])\s*$", re.MULTILINE | re.I)
_PAGES = {"R": "retired", "P": "pending", "F": "un_res"}
"""How ``ras/gpu_vram_bad_pages`` marks a page (kernel, amdgpu RAS documentation)."""
THRESHOLD = "/sys/module/amdgpu/parameters/bad_page_threshold"


def asleep(host: Host, folder: str) -> bool:
    """Whether a GPU's power is off: to read it would wake it."""
    return _text(host, f"{folder}/power/runtime_status") == "suspended"


def samples(host: Host, folder: str, device: str, leave: Set[str]) -> Iterator[Sample]:
    """What is measured of the GPU in this folder. Of each metric one sample."""
    found = dict(_numbers(host, folder, PLAIN))
    used, total = found.get("gpu_memory_used_bytes"), found.get("gpu_memory_total_bytes")
    if used is not None and total is not None and used <= total:
        found["gpu_memory_free_bytes"] = total - used
    speed = json_text.number(_text(host, f"{folder}/current_link_speed"))
    if generation(speed):
        found["gpu_pcie_link_gen"] = float(generation(speed))
    monitor = _monitor(host, folder)
    if monitor:
        found.update(_numbers(host, monitor, SENSORS))
        found.update(_heat(host, monitor, "input"))
    for metric, value in found.items():
        if metric not in leave:
            yield Sample("", device, metric, value)


def config(host: Host, folder: str, device: str, leave: Set[str]) -> Iterator[Told]:
    """What the GPU in this folder is and is set to, its limits, errors and bad pages."""
    for one in _all(host, folder, device):
        if not isinstance(one, Sample) or one.metric not in leave:
            yield one


def _all(host: Host, folder: str, device: str) -> Iterator[Told]:
    monitor = _monitor(host, folder)
    pages = _bad_pages(host, folder)
    cap = _number(host, f"{monitor}/power1_cap", 1e-6) if monitor else None
    entry = {**_identity(host, folder), **pages, "limit": {"socket_power": cap}}
    yield from as_amd_smi(device, entry)
    for name, value in _facts(host, folder):
        yield Fact("", name, value, device)
    if monitor:
        for limit, metric in (("crit", "slowdown"), ("emergency", "shutdown")):
            for name, degrees in _heat(host, monitor, limit, metric):
                yield Sample("", device, name, degrees)
    for metric, file in _LEVELS:
        levels = [int(mhz) for mhz in _LEVEL.findall(_text(host, f"{folder}/{file}"))]
        if levels:
            yield Sample("", device, metric, max(levels) * 1e6)
    yield from errors(device, _counts(host, folder))
    threshold = _number(host, THRESHOLD)
    if threshold:
        yield from near_threshold(device, len(pages.get("retired", ())), threshold)


def _identity(host: Host, folder: str) -> dict[str, object]:
    def said(file: str) -> str:
        return json_text.text(_text(host, f"{folder}/{file}"))

    return {
        "bdf": folder.rpartition("/")[2],
        "uuid": said("unique_id"),
        "board": {
            "product_name": said("product_name"),
            "model_number": said("product_number"),
            "product_serial": said("serial_number"),
        },
        "vbios": {"version": said("vbios_version")},
        "vram": {"vendor": said("mem_info_vram_vendor")},
        "partition": {
            "compute_partition": said("current_compute_partition"),
            "memory_partition": said("current_memory_partition"),
        },
        "driver": {"version": json_text.text(_text(host, "/sys/module/amdgpu/version"))},
        "bus": {
            "max_pcie_speed": json_text.number(said("max_link_speed")),
            "max_pcie_width": _number(host, f"{folder}/max_link_width", most=LANES),
        },
    }


def _facts(host: Host, folder: str) -> Iterator[tuple[str, str]]:
    for name, file in (
        ("asset", "fru_id"),
        ("board_vendor", "manufacturer"),
        ("performance_level", "power_dpm_force_performance_level"),
        ("module", "xgmi_physical_id"),
        ("xgmi_hive", "xgmi_hive_info/xgmi_hive_id"),
    ):
        if said := json_text.text(_text(host, f"{folder}/{file}")):
            yield name, said.upper() if name == "performance_level" else said
    for file in _names(host, f"{folder}/fw_version"):
        part = file.removesuffix("_fw_version")
        said = _text(host, f"{folder}/fw_version/{file}")
        if said and part.isidentifier() and json_text.text(said) and said != "0x00000000":
            yield f"firmware_{part}", said


def _monitor(host: Host, folder: str) -> str:
    """The folder of its sensors; "" without."""
    names = _names(host, f"{folder}/hwmon")
    return f"{folder}/hwmon/{names[0]}" if names else ""


def _heat(host: Host, monitor: str, kind: str, limit: str = "") -> Iterator[tuple[str, float]]:
    """Degrees by metric: now (``input``), or of a limit; the edge stands in for the hot spot."""
    edge: float | None = None
    junction = False
    for number in (1, 2, 3):
        label = _text(host, f"{monitor}/temp{number}_label")
        degrees = _number(host, f"{monitor}/temp{number}_{kind}", 1e-3)
        if label not in _HEAT or degrees is None:
            continue
        now, of_limit = _HEAT[label]
        metric = of_limit.format(limit) if limit else now
        junction |= label == "junction"
        edge = degrees if label == "edge" else edge
        if metric:
            yield metric, degrees
    if edge is not None and not junction:
        yield (f"gpu_temp_{limit}_celsius" if limit else "gpu_temp_celsius"), edge


def _counts(host: Host, folder: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for file in _names(host, f"{folder}/ras"):
        block = file.removesuffix("_err_count").lower()
        if file.endswith("_err_count") and block in RAS_BLOCKS:
            told = _COUNT.findall(_text(host, f"{folder}/ras/{file}"))
            if told:
                found[block] = {_SORTS[sort]: float(count) for sort, count in told}
    return found


def _bad_pages(host: Host, folder: str) -> dict[str, list[str]]:
    """The marks of the pages, by amd-smi's words; empty where the driver does not tell."""
    if "gpu_vram_bad_pages" not in _names(host, f"{folder}/ras"):
        return {}
    said = _text(host, f"{folder}/ras/gpu_vram_bad_pages")
    marks = [mark.upper() for mark in _PAGE.findall(said)]
    return {name: [m for m in marks if m == mark] for mark, name in _PAGES.items()}


def _numbers(host: Host, folder: str, rows: tuple[Plain, ...]) -> Iterator[tuple[str, float]]:
    for row in rows:
        value = _number(host, f"{folder}/{row.file}", row.scale, zero=row.zero, most=row.most)
        if value is not None:
            yield row.metric, value


def _number(
    host: Host, path: str, scale: float = 1.0, *, zero: bool = False, most: float = 2.0**63
) -> float | None:
    """A file's number; none where it is not there, negative, too much, or 0 where that is none."""
    said = _text(host, path)
    value = json_text.number(said) if said else None
    if value is None or not 0 <= value <= most or (value == 0 and not zero):
        return None
    return value * scale


def _names(host: Host, path: str) -> list[str]:
    try:
        return host.names(path)
    except (NoData, Permanent):
        return []


def _text(host: Host, path: str) -> str:
    """A file's text; "" where it is not there, or the driver refuses to tell."""
    try:
        return host.read(path)
    except (NoData, Permanent):
        return ""
