"""Node facts as JSON: a flat capture of sysfs, or of a node's Ethernet interfaces.

Two shapes, both as Meta's GCM health checks take them from a node. *sysfs*: a path of /sys and
its content for each key. *Ethernet*: intf_status (``ip -j addr``), link_speed (Mb/s, the sysfs
file), phys_macaddr, intf_ifcfg (what the system was told to configure).

Everything is told as facts and samples, so that a golden configuration can be compared. Where a
file contradicts itself, and so needs no golden configuration, an Event says so.
"""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, ethernet_facts, json_text, reader, sysfs_facts
from bigiron.model import Observation

_SYSFS = re.compile(
    r'"/sys/(?:class/pci_bus/[^"]+/current_link_(?:speed|width)'
    r'|bus/pci/devices/[^"]+/(?:infiniband|net|nvme)/)'
)


class NodeFacts:
    """Links, ports and interfaces of one node."""

    def sniff(self, head: Head) -> float:
        """Certain by paths of sysfs as keys, or by the interface sections."""
        if head.text.lstrip().startswith("{") and _SYSFS.search(head.text):
            return 0.95
        return 0.95 if json_text.has_keys(head, "intf_status") else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """PCI links, then InfiniBand ports, then Ethernet interfaces."""
        facts = json_text.mapping(json_text.load(document))
        seen = False
        for source in (sysfs_facts.observations, ethernet_facts.observations):
            for observation in source(document, facts):
                seen = True
                yield observation
        if not seen:
            raise ParseError(document.name, 0, "no link, port or interface in these node facts")


@reader()
def node_facts() -> Reader:
    """Node facts as JSON (captured sysfs, interfaces)."""
    return NodeFacts()
