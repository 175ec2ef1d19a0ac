"""``rocm-smi -a --json``: one object a card, every value a string, keys that change by version.

Keys are compared in lower case without a trailing colon, because ROCm 5.7 to 6.x renamed
"Card series" to "Card Series" and "GPU memory use (%)" to "GPU Memory Allocated (VRAM%)", and
MI300 says "Current Socket" where older cards say "Average Graphics Package Power".
"""

import re
from collections import Counter
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, pci_address, reader, rocm_smi_text
from bigiron.ingest.amd_smi import RAS_BLOCKS
from bigiron.ingest.pcie_link import link_samples
from bigiron.model import Device, Fact, Note, Observation, Sample

_CARD = re.compile(r"^card(\d+)$")

_SAMPLES: dict[str, tuple[str, float]] = {
    "max graphics package power (w)": ("gpu_power_limit_watts", 1.0),
    "average graphics package power (w)": ("gpu_power_watts", 1.0),
    "current socket graphics package power (w)": ("gpu_power_watts", 1.0),
    "gpu use (%)": ("gpu_utilization_ratio", 0.01),
    "gpu memory use (%)": ("gpu_memory_utilization_ratio", 0.01),
    "gpu memory read/write activity (%)": ("gpu_memory_utilization_ratio", 0.01),
    "vram total memory (b)": ("gpu_memory_total_bytes", 1.0),
    "vram total used memory (b)": ("gpu_memory_used_bytes", 1.0),
    "pcie replay count": ("gpu_pcie_replays_total", 1.0),
    "voltage (mv)": ("gpu_voltage_volts", 0.001),
    "fan speed (%)": ("gpu_fan_speed_ratio", 0.01),
    "sclk clock speed": ("gpu_sm_clock_hertz", 1e6),
    "mclk clock speed": ("gpu_memory_clock_hertz", 1e6),
}
_FACTS = {
    "serial number": "serial",
    "unique id": "uuid",
    "vbios version": "vbios_version",
    "gpu memory vendor": "memory_vendor",
    "card sku": "part_number",
    "card series": "model",
    "device name": "model",
}
_FIRMWARE = " firmware version"


class RocmSmi:
    """Samples, facts and devices of the cards of one node."""

    def sniff(self, head: Head) -> float:
        """Certain by rocm-smi's title, or one of its own long key names in a card."""
        if rocm_smi_text.is_text(head.text):
            return 0.95
        if not re.search(r'"card\d+"\s*:', head.text):
            return 0.0
        known = re.search(
            r'"(Temperature \(Sensor|GPU use|VBIOS version|PCI Bus|Unique ID)', head.text
        )
        return 0.95 if known else 0.3

    def read(self, document: Document) -> Iterator[Observation]:
        """Cards in the order given, then the driver's version."""
        if rocm_smi_text.is_text(Head.of(document).text):
            yield from _read_text(document)
            return
        cards = json_text.mapping(json_text.load(document))
        other = 0
        for name, card in cards.items():
            match = _CARD.match(name)
            if match and isinstance(card, dict):
                yield from _card(document, f"gpu{int(match[1])}", _plain(card))
            elif name != "system":
                other += 1
        driver = json_text.text(
            _plain(json_text.mapping(cards.get("system"))).get("driver version")
        )
        if driver:
            yield Fact(document.node, "driver_version", driver, time=document.now)
        if other:
            yield Note(document.name, "rocm-smi: entries that are no card", other)


@reader()
def rocm_smi() -> Reader:
    """`rocm-smi` as text and with `-a --json`, ROCm 5 to 6."""
    return RocmSmi()


def _read_text(document: Document) -> Iterator[Observation]:
    text = document.text(16 * 1024 * 1024)
    seen = 0
    for name, card in rocm_smi_text.cards(text).items():
        seen += 1
        yield from _card(document, f"gpu{name.removeprefix('card')}", _plain(card))
    totals: Counter[tuple[str, str]] = Counter()
    for gpu, block, kind, count in rocm_smi_text.ras_counts(text):
        seen += 1
        totals[gpu, kind] += int(count)
        if block in RAS_BLOCKS:
            metric = f"gpu_ras_{block}_{kind}_total"
            yield Sample(document.node, gpu, metric, count, document.now)
    for (gpu, kind), total in totals.items():
        yield Sample(document.node, gpu, f"gpu_ras_{kind}_total", float(total), document.now)
    if not seen:
        raise ParseError(document.name, 1, "no GPU in this rocm-smi output")


def _plain(card: json_text.JsonMap) -> dict[str, object]:
    return {str(key).strip().rstrip(":").casefold(): value for key, value in card.items()}


def _card(document: Document, gpu: str, card: dict[str, object]) -> Iterator[Observation]:
    bus = pci_address(json_text.text(card.get("pci bus")))
    model = json_text.text(card.get("card series") or card.get("device name"))
    uuid = json_text.text(card.get("unique id"))
    yield Device(document.node, gpu, "gpu", uuid, bus, model, "AMD")
    facts = {name: json_text.text(card.get(key)) for key, name in _FACTS.items()}
    for key, value in card.items():
        if key.endswith(_FIRMWARE):
            part = key.removesuffix(_FIRMWARE).replace(" ", "_")
            facts[f"firmware_{part}"] = json_text.text(value)
    facts["bus"] = bus
    for name, said in facts.items():
        if said:
            yield Fact(document.node, name, said, gpu, document.now)
    for metric, number in _measured(card):
        yield Sample(document.node, gpu, metric, number, document.now)
    yield from link_samples(
        document, gpu, *_link(json_text.text(card.get("pcie clock level"))), maximum=_widest(card)
    )


def _measured(card: dict[str, object]) -> Iterator[tuple[str, float]]:
    seen: set[str] = set()
    for key, (metric, factor) in _SAMPLES.items():
        number = json_text.number(card.get(key))
        if number is not None and metric not in seen:
            seen.add(metric)
            yield metric, number * factor
    heat = {
        key: number
        for key, value in card.items()
        if key.startswith("temperature (sensor") and (number := json_text.number(value)) is not None
    }
    # The die's edge where there is one; MI300 has only the junction (its hot spot).
    for sensor in ("edge", "junction"):
        if (number := heat.get(f"temperature (sensor {sensor}) (c)")) is not None:
            yield "gpu_temp_celsius", number
            break
    memory = [number for key, number in heat.items() if "sensor memory" in key or "hbm" in key]
    if memory:
        yield "gpu_memory_temp_celsius", max(memory)


def _link(said: str) -> tuple[float | None, float | None]:
    """Speed in GT/s and width of "1 (16.0GT/s x16)"."""
    match = re.search(r"([\d.]+)\s*GT/s\s*x(\d+)", said)
    return (json_text.number(match[1]), float(match[2])) if match else (None, None)


def _widest(card: dict[str, object]) -> tuple[float | None, float | None]:
    """The best of the link levels the driver lists under bare numbers; speed is left out.

    A level below the best is how an idle card saves power, so only the width is a promise.
    """
    widths = [
        width
        for key, value in card.items()
        if key.isdigit() and (width := _link(json_text.text(value))[1]) is not None
    ]
    return None, max(widths, default=None)
