"""``amd-smi metric|monitor --json`` and the dispatch of the other amd-smi documents.

Values are numbers, "N/A", or ``{"value": 32, "unit": "GT/s"}``; the list of GPUs stands bare
(amd-smi 23 to 25.4) or under ``gpu_data`` (25.5, ROCm 6.4, and later). Shapes: amd-smi's own
CLI documentation and change log, ROCm 6.0 to 7.1. Memory is counted in units of 1024.
"""

import re
from collections.abc import Iterator, Sequence

from bigiron.errors import ParseError
from bigiron.ingest import (
    Document,
    Head,
    Reader,
    amd_smi_inventory,
    amd_smi_text,
    json_text,
    reader,
)
from bigiron.ingest.amd_smi_value import gpu_name, measure
from bigiron.ingest.json_text import JsonMap, at
from bigiron.ingest.pcie_link import link_samples
from bigiron.model import Event, Note, Observation, Sample

_SECTIONS = (
    "usage|power|clock|temperature|pcie|ecc|ecc_blocks|mem_usage|throttle|asic|bus|limit|vbios|ifwi"
    "|retired|pending|un_res|power_usage|hotspot_temperature|xgmi_err|kfd_id|link_metrics"
    "|link_status|uuid"
)
_KNOWN = re.compile(rf'"(?:{_SECTIONS})"\s*:')

_METRICS: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("gpu_utilization_ratio", (("usage", "gfx_activity"), ("gfx",))),
    ("gpu_memory_utilization_ratio", (("usage", "umc_activity"), ("mem",))),
    (
        "gpu_power_watts",
        (
            ("power", "socket_power"),
            ("power", "current_socket_power"),
            ("power", "average_socket_power"),
            ("power_usage",),
        ),
    ),
    ("gpu_power_limit_watts", (("power", "power_limit"), ("max_power",))),
    ("gpu_voltage_volts", (("power", "gfx_voltage"),)),
    (
        "gpu_temp_celsius",
        (("temperature", "edge"), ("temperature", "hotspot"), ("hotspot_temperature",)),
    ),
    ("gpu_memory_temp_celsius", (("temperature", "mem"), ("memory_temperature",))),
    ("gpu_pcie_replays_total", (("pcie", "replay_count"), ("pcie_replay",))),
    ("gpu_pcie_replay_rollovers_total", (("pcie", "replay_roll_over_count"),)),
    ("gpu_pcie_nak_sent_total", (("pcie", "nak_sent_count"),)),
    ("gpu_pcie_nak_received_total", (("pcie", "nak_received_count"),)),
    ("gpu_pcie_recoveries_total", (("pcie", "l0_to_recovery_count"),)),
    ("gpu_ras_correctable_total", (("ecc", "total_correctable_count"), ("single_bit_ecc",))),
    ("gpu_ras_uncorrectable_total", (("ecc", "total_uncorrectable_count"), ("double_bit_ecc",))),
    ("gpu_ras_deferred_total", (("ecc", "total_deferred_count"),)),
    ("gpu_fan_speed_ratio", (("fan", "usage"),)),
    ("gpu_energy_joules_total", (("energy", "total_energy_consumption"),)),
    ("gpu_memory_total_bytes", (("mem_usage", "total_vram"), ("vram_total",))),
    ("gpu_memory_used_bytes", (("mem_usage", "used_vram"), ("vram_used",))),
    ("gpu_memory_free_bytes", (("mem_usage", "free_vram"), ("vram_free",))),
    ("gpu_sm_clock_hertz", (("gfx_clk",), ("gfx_clock",))),
    ("gpu_memory_clock_hertz", (("mem_clock",), ("mem_clk",))),
)
RAS_BLOCKS = frozenset(
    {
        "umc",
        "sdma",
        "gfx",
        "mmhub",
        "athub",
        "pcie_bif",
        "hdp",
        "xgmi_wafl",
        "df",
        "smn",
        "sem",
        "mp0",
        "mp1",
        "fuse",
        "mca",
        "vcn",
        "jpeg",
        "ih",
        "mpio",
    }
)
_THROTTLES = {
    "prochot": ("clock.hw_thermal", "processor hot"),
    "socket_thermal": ("clock.hw_thermal", "socket too hot"),
    "vr_thermal": ("clock.hw_thermal", "voltage regulator too hot"),
    "hbm_thermal": ("clock.hw_thermal", "HBM too hot"),
    "ppt": ("clock.sw_power_cap", "package power limit"),
}


class AmdSmi:
    """Everything amd-smi prints as JSON, and its text for people."""

    def sniff(self, head: Head) -> float:
        """Likely where objects, or text, name a GPU by number and one of amd-smi's sections."""
        if amd_smi_text.is_text(head.text):
            return 0.9
        if re.search(r'"xgmi_metric"\s*:', head.text):
            return 0.9
        if not re.search(r'"gpu"\s*:\s*\d+', head.text) or not _KNOWN.search(head.text):
            return 0.9 if re.search(r'"(?:list_of_)?afids"\s*:', head.text) else 0.0
        return 0.9

    def read(self, document: Document) -> Iterator[Observation]:
        """GPU by GPU, what each object's sections hold."""
        seen = 0
        skipped = 0
        for entry in _document_entries(document):
            name = gpu_name(entry)
            if not name:
                skipped += 1
                continue
            seen += 1
            yield from _metric(document, name, entry)
            yield from amd_smi_inventory.inventory(document, name, entry)
        if not seen:
            raise ParseError(document.name, 0, "no GPU in this amd-smi output")
        if skipped:
            yield Note(document.name, "amd-smi: entries without a GPU index", skipped)


@reader()
def amd_smi() -> Reader:
    """`amd-smi metric|static|list|bad-pages|xgmi|ras` with --json or without, `monitor --json`."""
    return AmdSmi()


def _document_entries(document: Document) -> Iterator[JsonMap]:
    if amd_smi_text.is_text(Head.of(document).text):
        return amd_smi_text.entries(document.text(16 * 1024 * 1024))
    return _entries(json_text.load(document))


def _entries(value: object) -> Iterator[JsonMap]:
    if isinstance(value, dict):
        wrapped = [item for item in value.values() if isinstance(item, list)]
        if wrapped and "gpu" not in value:
            for items in wrapped:
                yield from json_text.objects(items)
            return
    for item in json_text.objects(value):
        inner = item.get("gpu_data")
        yield from json_text.objects(inner) if inner is not None else (item,)


def _metric(document: Document, gpu: str, entry: JsonMap) -> Iterator[Observation]:
    for metric, paths in _METRICS:
        found = next((n for path in paths if (n := measure(at(entry, *path))) is not None), None)
        if found is not None:
            yield Sample(document.node, gpu, metric, found, document.now)
    yield from _clocks(document, gpu, json_text.mapping(entry.get("clock")))
    pcie = json_text.mapping(entry.get("pcie"))
    if pcie:
        yield from link_samples(
            document, gpu, measure(pcie.get("speed")), measure(pcie.get("width"))
        )
    yield from _ras_blocks(document, gpu, json_text.mapping(entry.get("ecc_blocks")))
    yield from _throttling(document, gpu, json_text.mapping(entry.get("throttle")))
    said = json_text.text(entry.get("xgmi_err"))
    if "error" in said.casefold() and not said.casefold().startswith("no error"):
        text = f"XGMI of {gpu}: {said}"
        yield Event(
            document.node, "amdgpu.xgmi_error", text, gpu, document.now, source=document.name
        )


def _clocks(document: Document, gpu: str, clock: JsonMap) -> Iterator[Sample]:
    """The mean over the dies: MI300 runs eight, and one die asleep is no slow GPU."""
    for prefix, metric in (("gfx", "gpu_sm_clock"), ("mem", "gpu_memory_clock")):
        parts = [value for key, value in clock.items() if re.fullmatch(rf"{prefix}_\d+", key)]
        for field, suffix in (("clk", "_hertz"), ("max_clk", "_max_hertz")):
            found = [n for part in parts if (n := measure(at(part, field)))]
            if found:
                mean = sum(found) / len(found)
                yield Sample(document.node, gpu, metric + suffix, mean, document.now)


def _ras_blocks(document: Document, gpu: str, blocks: JsonMap) -> Iterator[Observation]:
    other = 0
    for block, counts in blocks.items():
        name = block.casefold()
        if name not in RAS_BLOCKS:
            other += 1
            continue
        for kind in ("correctable", "uncorrectable", "deferred"):
            count = measure(at(counts, f"{kind}_count"))
            if count is not None:
                metric = f"gpu_ras_{name}_{kind}_total"
                yield Sample(document.node, gpu, metric, count, document.now)
    if other:
        yield Note(document.name, "amd-smi: RAS blocks that are not known", other)


def _throttling(document: Document, gpu: str, throttle: JsonMap) -> Iterator[Event]:
    for cause, (code, words) in _THROTTLES.items():
        status = throttle.get(f"{cause}_violation_status")
        if _active(status):
            share = measure(throttle.get(f"{cause}_violation_activity"))
            told = f", {share:.0%} of the time" if share is not None else ""
            yield Event(
                document.node,
                code,
                f"{gpu} throttles: {words} ({cause} violation active{told})",
                gpu,
                document.now,
                source=document.name,
                attrs={"violation": cause},
            )


def _active(status: object) -> bool:
    if isinstance(status, Sequence) and not isinstance(status, str):
        return any(_active(item) for item in status)
    if isinstance(status, dict):
        return any(_active(item) for item in status.values())
    return status == "ACTIVE" or status is True
