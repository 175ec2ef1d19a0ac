"""A whole InfiniBand fabric in text: ibdiagnet's port counters, a manager's list of bad ports and
``ibnetdiscover -p``.

ibdiagnet writes a block a port with counters as hexadecimal numbers (``ibdiagnet2.pm``). A subnet
or fabric manager keeps the ports it distrusts in a list of comma-separated values that ends in
conditions such as ``{FLAPPING}``. ``ibnetdiscover -p`` has a line a port: width and speed, and
both ends by name. Sources: ibdiagnet, opensm and infiniband-diags.
"""

import csv
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.model import Event, Note, Observation, Sample

_PORT = re.compile(
    r"^Port=(?P<port>\d{1,4}) Lid=\S+ GUID=(?P<guid>0x[0-9a-f]+) .*?Port Name=(?P<name>\S+)", re.I
)
_COUNTER = re.compile(r"^(?P<name>[a-z0-9_]{3,60})=0x(?P<value>[0-9a-f]{1,16})\s*$", re.IGNORECASE)
_COUNTERS = {
    "symbol_error_counter": "ib_symbol_errors_total",
    "link_error_recovery_counter": "ib_link_error_recovery_total",
    "link_down_counter": "ib_link_downed_total",
    "link_downed_counter": "ib_link_downed_total",
    "port_rcv_errors": "ib_rcv_errors_total",
    "port_xmit_discard": "ib_xmit_discards_total",
    "port_xmit_discards": "ib_xmit_discards_total",
    "local_link_integrity_errors": "ib_local_link_integrity_errors_total",
    "excessive_buffer_errors": "ib_excessive_buffer_overruns_total",
    "excessive_buffer_overrun_errors": "ib_excessive_buffer_overruns_total",
    "port_rcv_constraint_errors": "ib_rcv_constraint_errors_total",
    "port_xmit_wait": "ib_xmit_wait_total",
}
_BAD_HEADER = re.compile(r"^#?\s*NodeGUID,\s*PortNum,\s*NodeDesc,\s*PeerNodeGUID", re.IGNORECASE)
_BAD = re.compile(r"\{(?P<conditions>[^}]{0,200})\}")
_SPEEDS = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.0,
    "FDR": 14.0,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
"""Nominal Gb/s of one lane, as ibstat gives them, by the name of the signalling rate."""
_LINE = re.compile(
    r"^(?P<kind>CA|SW|RT)\s+\d+\s+(?P<port>\d+)\s+0x[0-9a-f]+\s+(?P<width>\d+)x\s+(?P<speed>\S+)"
    r"(?:\s+-\s+\w+\s+\d+\s+\d+\s+0x[0-9a-f]+\s+\(\s*'(?P<name>[^']*)' - '(?P<peer>[^']*)'\s*\))?"
    r"(?:\s+'(?P<alone>[^']*)')?\s*$"
)


class IbdiagnetCounters:
    """ibdiagnet's counters of each port."""

    def sniff(self, head: Head) -> float:
        """Certain by the title of a port's block."""
        found = re.search(r"^Port=\d+ Lid=\S+ GUID=0x.*Port Name=", head.text, re.MULTILINE)
        return 0.95 if found else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Known counters of every port. Raises ParseError if there is none."""
        node = device = ""
        ports = unknown = 0
        for line in document.lines():
            title = _PORT.match(line)
            if title is not None:
                node, device = _place(title["name"], title["port"])
                ports += 1
                continue
            counter = _COUNTER.match(line)
            if counter is None or not ports:
                continue
            name = counter["name"].lower().removesuffix("_extended").removesuffix("_ext")
            metric = _COUNTERS.get(name)
            if metric is None:
                unknown += 1
            else:
                value = float(int(counter["value"], 16))
                yield Sample(node, device, metric, value, document.now)
        if not ports:
            raise ParseError(document.name, 1, "no port of ibdiagnet in it")
        if unknown:
            yield Note(document.name, "ibdiagnet counters that are not kept", unknown)


def _place(name: str, port: str) -> tuple[str, str]:
    """``node001/U1/...`` is a host's adapter; ``Sguid/Nguid/P2``, ``leaf/P2`` are a switch's."""
    parts = name.split("/")
    unit = next((part for part in parts[1:] if re.fullmatch(r"U\d{1,3}", part)), "")
    return parts[0], f"hca{int(unit[1:])}_port{port}" if unit else f"port{port}"


class BadPorts:
    """Ports that the subnet or fabric manager distrusts."""

    def sniff(self, head: Head) -> float:
        """Certain by its header."""
        return 0.95 if _BAD_HEADER.match(head.text.lstrip()) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """One event a port: a flapping link is counted once, at the end listed first."""
        told: set[frozenset[tuple[str, str]]] = set()
        skipped = 0
        for number, line in enumerate(document.lines(), 1):
            if not line.strip() or line.startswith("#") or _BAD_HEADER.match(line):
                continue
            event, ends = _bad_port(document, number, line)
            if event is None:
                skipped += 1
            elif ends not in told:
                told.add(ends)
                yield event
        if skipped:
            yield Note(document.name, "lines that are not ports with a condition", skipped)


def _bad_port(
    document: Document, number: int, line: str
) -> tuple[Event | None, frozenset[tuple[str, str]]]:
    match = _BAD.search(line)
    cells = [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
    if match is None or len(cells) < 6 or not cells[1].isdigit():
        return None, frozenset()
    node, port, peer, peer_port = cells[2], cells[1], cells[5], cells[4]
    said = match["conditions"].strip()
    code = "ib.flap" if "FLAP" in said.upper() else "ib.port_error"
    event = Event(
        node,
        code,
        f"{node} port {port} to {peer} port {peer_port}: {said}",
        f"port{port}",
        _time(cells[-1]) or document.now,
        source=document.name,
        line=number,
        attrs={"peer": peer, "peer_port": peer_port, "conditions": said},
    )
    return event, frozenset({(node, port), (peer, peer_port)})


def _time(text: str) -> datetime | None:
    """ "Fri Mar 20 01:13:40 2026", taken as UTC; None if it is no such time."""
    try:
        return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    except ValueError:
        return None


class Ibnetdiscover:
    """Rates of a fabric's links; ports without a peer are counted."""

    def sniff(self, head: Head) -> float:
        """Most lines are ports as ``ibnetdiscover -p`` writes them."""
        lines = [line for line in head.text.splitlines()[:200] if line.strip()]
        found = sum(_LINE.match(line) is not None for line in lines)
        return 0.9 if found and found * 2 > len(lines) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """The rate of each link at the end that is listed."""
        links = alone = 0
        for line in document.lines():
            match = _LINE.match(line)
            if match is None:
                continue
            if match["name"] is None:
                alone += 1
                continue
            links += 1
            words = match["name"].split()
            host = match["kind"] == "CA" and len(words) >= 2
            node = words[0] if host else match["name"]
            device = words[-1] if host else f"port{match['port']}"
            speed = _SPEEDS.get(match["speed"].upper())
            yield Sample(node, device, "ib_state", 1.0, document.now)
            if speed is not None:
                rate = float(match["width"]) * speed * 1e9
                yield Sample(node, device, "ib_rate_bits_per_second", rate, document.now)
        if not links and not alone:
            raise ParseError(document.name, 1, "no port of ibnetdiscover -p in it")
        if alone:
            yield Note(document.name, "ibnetdiscover: ports without a peer", alone)


@reader()
def ibdiagnet_counters() -> Reader:
    """`ibdiagnet`'s port counters (ibdiagnet2.pm)."""
    return IbdiagnetCounters()


@reader()
def ib_bad_ports() -> Reader:
    """The subnet or fabric manager's list of unhealthy ports."""
    return BadPorts()


@reader()
def ibnetdiscover() -> Reader:
    """`ibnetdiscover -p`: a fabric's ports with width and speed."""
    return Ibnetdiscover()
