"""Port counters in text: ``perfquery``, ``ibqueryerrors`` and ``ethtool -S``.

Names: InfiniBand's PortCounters as infiniband-diags prints them, and the mlx5 driver's ethtool
names. Octet counts of perfquery's PortXmitData are in units of 4 bytes and are multiplied.
"""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.model import Observation, Sample

_METRICS: dict[str, tuple[str, float]] = {
    "symbolerrorcounter": ("ib_symbol_errors_total", 1),
    "linkerrorrecoverycounter": ("ib_link_error_recovery_total", 1),
    "linkdownedcounter": ("ib_link_downed_total", 1),
    "portrcverrors": ("ib_rcv_errors_total", 1),
    "portxmitdiscards": ("ib_xmit_discards_total", 1),
    "locallinkintegrityerrors": ("ib_local_link_integrity_errors_total", 1),
    "excessivebufferoverrunerrors": ("ib_excessive_buffer_overruns_total", 1),
    "portrcvconstrainterrors": ("ib_rcv_constraint_errors_total", 1),
    "portxmitwait": ("ib_xmit_wait_total", 1),
    "portxmitdata": ("ib_xmit_bytes_total", 4),
    "portrcvdata": ("ib_rcv_bytes_total", 4),
    "rx_symbol_err_phy": ("ib_symbol_errors_total", 1),
    "link_down_events_phy": ("ib_link_downed_total", 1),
    "rx_bytes_phy": ("ib_rcv_bytes_total", 1),
    "tx_bytes_phy": ("ib_xmit_bytes_total", 1),
    "tx_discards_phy": ("ib_xmit_discards_total", 1),
    "rx_crc_errors_phy": ("ib_rcv_errors_total", 1),
    "roce_slow_restart": ("roce_slow_restart_total", 1),
    "rnr_nak_retry_err": ("ib_rnr_nak_retry_total", 1),
}
_ALIAS = {
    "linkerrorrecovery": "linkerrorrecoverycounter",
    "linkdowned": "linkdownedcounter",
    "symbolerrors": "symbolerrorcounter",
}
_PERFQUERY = re.compile(r"^#\s*Port (?:extended )?counters:\s*(.*)$", re.IGNORECASE)
_DOTTED = re.compile(r"^(\w+):\.+(\d+)\s*$")
_ETHTOOL = re.compile(r"^\s+([\w.\[\]-]+):\s+(\d+)\s*$")
_ERRORS_OF = re.compile(r'^Errors for (?:0x[0-9a-f]+ )?"([^"]*)"')
_GUID_PORT = re.compile(r"^\s+GUID 0x[0-9a-f]+ port (\d+|ALL):\s*(.*)$")
_BRACKET = re.compile(r"\[(\w+) == (\d+)[^\]]*\]")
_CA_PORT = re.compile(r"(?:CA\s+)?(mlx\d+_\d+|[a-z]+\d*_\d+)")


class IbCounters:
    """Samples of the ports' error and traffic counters."""

    def sniff(self, head: Head) -> float:
        """Certain by perfquery's dotted lines, ibqueryerrors' brackets or ethtool's title."""
        if re.search(r"^SymbolErrorCounter:\.+\d", head.text, re.MULTILINE):
            return 0.95
        if re.search(r"^PortXmitData:\.+\d", head.text, re.MULTILINE):
            return 0.95
        if _BRACKET.search(head.text) and re.search(_GUID_PORT.pattern, head.text, re.MULTILINE):
            return 0.95
        return 0.9 if head.text.lstrip().startswith("NIC statistics:") else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Counters in the order given."""
        seen = False
        for observation in _samples(document):
            seen = True
            yield observation
        if not seen:
            raise ParseError(document.name, 0, "no port counter that is known")


@reader()
def ib_counters() -> Reader:
    """`perfquery`, `ibqueryerrors` and `ethtool -S`."""
    return IbCounters()


def _samples(document: Document) -> Iterator[Sample]:
    node, device = document.node, ""
    for line in document.lines():
        if title := _PERFQUERY.match(line):
            device = _device(title[1])
        elif owner := _ERRORS_OF.match(line):
            node, device = _owner(owner[1], document.node)
        elif port := _GUID_PORT.match(line):
            for name, count in _BRACKET.findall(port[2]) if port[1] != "ALL" else ():
                yield from _sample(document, node, device or f"port{port[1]}", name, count)
        elif counter := _DOTTED.match(line) or _ETHTOOL.match(line):
            yield from _sample(document, node, device, counter[1], counter[2])


def _sample(document: Document, node: str, device: str, name: str, count: str) -> Iterator[Sample]:
    plain = name.casefold()
    found = _METRICS.get(_ALIAS.get(plain, plain))
    if found is not None and len(count) <= 24:
        metric, factor = found
        yield Sample(node, device, metric, float(count) * factor, document.now)


def _device(said: str) -> str:
    """mlx5_0 of "CA mlx5_0 Port 1"; "" where only a LID is told."""
    found = _CA_PORT.search(said)
    return found[1] if found else ""


def _owner(said: str, node: str) -> tuple[str, str]:
    words = said.split()
    if len(words) == 2 and _CA_PORT.fullmatch(words[1]):
        return words[0], words[1]
    return said or node, ""
