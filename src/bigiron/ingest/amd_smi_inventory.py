"""The amd-smi sections that say what a GPU is and what has been retired of it.

``amd-smi static|list|bad-pages|xgmi|ras --json``. Shapes: amd-smi CLI documentation, 6.0 to 7.1.
"""

from collections.abc import Iterator

from bigiron.ingest import Document, json_text, pci_address
from bigiron.ingest.amd_smi_value import measure
from bigiron.ingest.json_text import JsonMap, at
from bigiron.ingest.pcie_link import link_samples
from bigiron.model import Device, Event, Fact, Observation, Sample

_FACTS: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("model", (("asic", "market_name"), ("board", "product_name"))),
    ("serial", (("board", "product_serial"), ("asic", "asic_serial"))),
    ("part_number", (("board", "model_number"),)),
    (
        "vbios_version",
        (
            ("vbios", "part_number"),
            ("ifwi", "part_number"),
            ("vbios", "version"),
            ("ifwi", "version"),
        ),
    ),
    ("memory_vendor", (("vram", "vendor"),)),
    ("memory_type", (("vram", "type"),)),
    (
        "compute_partition",
        (("partition", "compute_partition"), ("partition", "accelerator_partition")),
    ),
    ("memory_partition", (("partition", "memory_partition"),)),
    ("ras_eeprom_version", (("ras", "eeprom_version"),)),
)
_LIMITS = (
    ("gpu_temp_slowdown_celsius", ("slowdown_edge_temperature", "slowdown_hotspot_temperature")),
    ("gpu_temp_shutdown_celsius", ("shutdown_edge_temperature", "shutdown_hotspot_temperature")),
    ("gpu_power_limit_watts", ("socket_power", "power_cap", "socket_power_limit")),
)
_PAGES = {"retired": "retired", "pending": "pending", "un_res": "unreservable"}
_CPER = {
    "fatal": "cper.fatal",
    "nonfatal-uncorrected": "cper.recoverable",
    "non-fatal-uncorrected": "cper.recoverable",
    "uncorrected": "cper.recoverable",
    "nonfatal-corrected": "cper.corrected",
    "corrected": "cper.corrected",
}


def inventory(document: Document, gpu: str, entry: JsonMap) -> Iterator[Observation]:
    """Whatever of these sections one GPU's object has."""
    yield from _identity(document, gpu, entry)
    yield from _limits(document, gpu, json_text.mapping(entry.get("limit")))
    yield from _bad_pages(document, gpu, entry)
    yield from _xgmi(document, gpu, entry)
    yield from _cper(document, gpu, entry)


def _identity(document: Document, gpu: str, entry: JsonMap) -> Iterator[Observation]:
    facts = {
        name: next((said for path in paths if (said := json_text.text(at(entry, *path)))), "")
        for name, paths in _FACTS
    }
    facts["bus"] = pci_address(
        json_text.text(entry.get("bdf")) or json_text.text(at(entry, "bus", "bdf"))
    )
    facts["uuid"] = json_text.text(entry.get("uuid"))
    if facts["uuid"] or facts["model"] or facts["bus"]:
        yield Device(
            document.node,
            gpu,
            "gpu",
            facts["uuid"] or facts["serial"],
            facts["bus"],
            facts["model"],
            "AMD",
        )
    for name, said in facts.items():
        if said:
            yield Fact(document.node, name, said, gpu, document.now)
    driver = json_text.text(at(entry, "driver", "version"))
    if driver:
        yield Fact(document.node, "driver_version", driver, gpu, document.now)
    size = measure(at(entry, "vram", "size"))
    if size is not None:
        yield Sample(document.node, gpu, "gpu_memory_total_bytes", size, document.now)
    bus = json_text.mapping(entry.get("bus"))
    best = (measure(bus.get("max_pcie_speed")), measure(bus.get("max_pcie_width")))
    yield from link_samples(document, gpu, None, None, maximum=best)


def _limits(document: Document, gpu: str, limit: JsonMap) -> Iterator[Observation]:
    # ROCm 7 nests the power limits one level down, by power domain.
    limit = {**limit, **json_text.mapping(limit.get("ppt0"))}
    for metric, keys in _LIMITS:
        found = next((n for key in keys if (n := measure(limit.get(key))) is not None), None)
        if found is not None:
            yield Sample(document.node, gpu, metric, found, document.now)
            if metric == "gpu_power_limit_watts":
                yield Fact(document.node, "power_limit_w", found, gpu, document.now)


def _bad_pages(document: Document, gpu: str, entry: JsonMap) -> Iterator[Observation]:
    for key, kind in _PAGES.items():
        pages = entry.get(key)
        none = isinstance(pages, str) and pages.casefold().startswith("no bad pages")
        if not none and not isinstance(pages, list):
            continue
        count = len(json_text.sequence(pages))
        yield Sample(document.node, gpu, f"gpu_bad_pages_{kind}", float(count), document.now)
        if count and kind != "retired":
            effect = "retired at the next reset" if kind == "pending" else "still in use"
            yield Event(
                document.node,
                "amdgpu.bad_page",
                f"{gpu}: {count} bad memory page{'s' * (count > 1)} {kind} ({effect})",
                gpu,
                document.now,
                source=document.name,
                attrs={"state": kind, "pages": str(count)},
            )


def _xgmi(document: Document, gpu: str, entry: JsonMap) -> Iterator[Observation]:
    links = list(json_text.objects(at(entry, "link_metrics", "links")))
    for field, metric in (
        ("read", "gpu_xgmi_rx_bytes_total"),
        ("write", "gpu_xgmi_tx_bytes_total"),
    ):
        counts = [n for link in links if (n := measure(link.get(field))) is not None]
        if counts:
            yield Sample(document.node, gpu, metric, sum(counts), document.now)
    states = [
        json_text.text(state).upper() for state in json_text.sequence(entry.get("link_status"))
    ]
    if not states:
        return
    down = sum(state in {"D", "DOWN"} for state in states)
    yield Sample(document.node, gpu, "gpu_xgmi_links_down", float(down), document.now)
    if down:
        text = f"{gpu}: {down} of {len(states)} XGMI links down"
        yield Event(
            document.node,
            "amdgpu.xgmi_error",
            text,
            gpu,
            document.now,
            source=document.name,
            attrs={"links_down": str(down)},
        )


def _cper(document: Document, gpu: str, entry: JsonMap) -> Iterator[Event]:
    afids = entry.get("afids", entry.get("list_of_afids", entry.get("list of afids")))
    code = _CPER.get(json_text.text(entry.get("severity")).casefold())
    if code is None:
        return
    numbers = afids if isinstance(afids, list) else json_text.text(afids).replace(",", " ").split()
    told = " ".join(str(number) for number in numbers)
    yield Event(
        document.node,
        code,
        f"{gpu}: {json_text.text(entry.get('severity'))} error record, AMD field ids {told or '?'}",
        gpu,
        document.now,
        source=document.name,
        attrs={"afids": told},
    )
