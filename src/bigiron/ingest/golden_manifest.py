"""Documents that say what a node should be: they describe no machine and so accuse none.

* A node manifest in JSON (sections pci, ib, eth, disks), as Meta's GCM checks are given. It
  yields facts of a node named ``golden:SKU``, SKU being the document's name without its ending;
  devices are named as ``node_facts`` names those of a real node, so that the two can be compared
  key by key. Where several values are allowed they are joined by " | ".
* A specification in YAML of expected versions and limits (sichek): recognised and counted.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, pci_address, reader
from bigiron.ingest.ib_port import rate_gbps
from bigiron.ingest.json_text import JsonMap
from bigiron.ingest.pcie_link import generation
from bigiron.model import Fact, FactValue, Note, Observation

GOLDEN = "golden:"
"""Prefix of the node whose facts are a golden configuration."""

SEVERAL = " | "
"""Between values of which any is allowed."""

_SPEC = re.compile(r"^(?:nvidia|hca|amd|infiniband|ethernet|gpu|transceiver)\s*:\s*$", re.MULTILINE)
_SPEC_KEYS = (
    "memory_errors_threshold:",
    "temperature_threshold:",
    "phy_state:",
    "pcie_tree_speed:",
)


class GoldenManifest:
    """The golden facts of a SKU."""

    def sniff(self, head: Head) -> float:
        """Certain by sections with slots (JSON) or by thresholds under a vendor (YAML)."""
        if json_text.has_keys(head, "pci", "slot", "link_width"):
            return 0.95
        if _SPEC.search(head.text) and any(key in head.text for key in _SPEC_KEYS):
            return 0.9
        return 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Facts, and a Note that this is a reference."""
        if not document.head().lstrip().startswith(b"{"):
            lines = sum(1 for line in document.lines() if line.strip())
            what = "a specification of expected values, for reference only"
            yield Note(document.name, what, lines)
            return
        manifest = json_text.mapping(json_text.load(document))
        node = GOLDEN + PurePath(document.name).stem
        facts = [
            Fact(node, name, value, device, document.now) for name, value, device in _told(manifest)
        ]
        if not facts:
            raise ParseError(document.name, 0, "no device in this manifest")
        yield Fact(node, "sku", node.removeprefix(GOLDEN), time=document.now)
        yield from facts
        what = f"a golden configuration, its facts are those of {node}"
        yield Note(document.name, what, len(facts))


@reader()
def golden_manifest() -> Reader:
    """Golden manifest of a SKU (GCM JSON), sichek specification."""
    return GoldenManifest()


_Told = tuple[str, FactValue, str]
"""Name and value of a golden fact, and the device it is about."""


def _told(manifest: JsonMap) -> Iterator[_Told]:
    ib = json_text.mapping(manifest.get("ib"))
    adapters = {
        netdev: json_text.text(json_text.mapping(told).get("mlx"))
        for netdev, told in json_text.mapping(ib.get("interfaces")).items()
    }
    for address, part in json_text.mapping(manifest.get("pci")).items():
        bus = pci_address(address)
        if bus:
            yield from _part(bus, json_text.mapping(part), adapters)
    rate = rate_gbps(json_text.text(ib.get("link_rate")))
    firmware = SEVERAL.join(map(str, json_text.sequence(ib.get("firmware_version"))))
    for adapter in filter(None, adapters.values()):
        if rate is not None:
            yield "link_rate_gbps", rate, adapter
        if firmware:
            yield "firmware_version", firmware, adapter
    for told in json_text.mapping(manifest.get("eth")).values():
        link = json_text.mapping(told)
        name = json_text.text(link.get("netdev"))
        mtu, speed = json_text.number(link.get("mtu")), json_text.number(link.get("speed"))
        if name and mtu is not None:
            yield "mtu", int(mtu), name
        if name and speed is not None:
            yield "link_rate_gbps", speed / 1000, name


def _part(bus: str, part: JsonMap, adapters: dict[str, str]) -> Iterator[_Told]:
    name = PurePath(json_text.text(part.get("dev"))).name
    kind = json_text.text(part.get("type"))
    device = adapters.get(name) or (name if kind == "nvme" else bus)
    if kind == "ib" and device != bus:
        yield "netdev", name, device
    if device != bus:
        yield "bus", bus, device
    width = json_text.number(part.get("link_width"))
    if width is not None:
        yield "pcie_link_width", int(width), device
    speeds = part.get("link_speed")
    told = json_text.sequence(speeds) or (speeds,)
    generations = sorted({gen for s in told if (gen := generation(json_text.number(s)))})
    if generations:
        several = len(generations) > 1
        value = SEVERAL.join(map(str, generations)) if several else generations[0]
        yield "pcie_link_gen", value, device
