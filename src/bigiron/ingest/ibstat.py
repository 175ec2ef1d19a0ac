"""InfiniBand adapters as ``ibstat``, ``ibstatus`` and ``ibv_devinfo`` show them.

A port that is LinkUp but stays in Initializing has no subnet manager to configure it; a port that
is down while adapters of the same type on the same node are active is taken as a fault, because
an adapter nobody cabled is usually one whole type (the storage or front-end cards).
Source: infiniband-diags and rdma-core, the output of the three tools.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.ingest.ib_port import port_events, port_observations, rate_gbps
from bigiron.model import Device, Fact, Observation

_CA = re.compile(r"^CA '([\w.-]+)'")
_STATUS_CA = re.compile(r"^Infiniband device '([\w.-]+)' port (\d+) status:")
_HCA = re.compile(r"^hca_id:\s*([\w.-]+)")
_PORT = re.compile(r"^\s+Port (\d+):\s*$|^\s+port:\s+(\d+)\s*$")
_FIELD = re.compile(r"^\s+([\w ]+?):\s+(.*?)\s*$")
_LANES = re.compile(r"(\d{1,4})X", re.IGNORECASE)
_SPEED = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*Gbps")
_MAX_PORTS = 4096


@dataclass(slots=True)
class _Port:
    adapter: str
    index: str = ""
    of_port: dict[str, str] = field(default_factory=dict)
    of_adapter: dict[str, str] = field(default_factory=dict)


class Ibstat:
    """State, rate and identity of each port."""

    def sniff(self, head: Head) -> float:
        """Certain by the first line of an adapter and a field of its port."""
        for start, needed in (
            (_CA, "Physical state"),
            (_STATUS_CA, "phys state"),
            (_HCA, "state:"),
        ):
            if re.search(start.pattern, head.text, re.MULTILINE) and needed in head.text:
                return 0.95
        return 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Ports in the order given."""
        ports = _ports(document)
        if not ports:
            raise ParseError(document.name, 0, "no InfiniBand port in this text")
        states = [_plain(port) for port in ports]
        for port, state in zip(ports, states, strict=True):
            yield from _port(document, port, state)
        yield from port_events(document, states)


@reader()
def ibstat() -> Reader:
    """`ibstat`, `ibstatus` and `ibv_devinfo`."""
    return Ibstat()


def _ports(document: Document) -> list[_Port]:
    ports: list[_Port] = []
    adapter, of_adapter = "", dict[str, str]()
    port: _Port | None = None
    for line in document.lines():
        if match := _CA.match(line) or _HCA.match(line):
            adapter, of_adapter, port = match[1], {}, None
        elif match := _STATUS_CA.match(line):
            port = _Port(match[1], match[2])
            ports.append(port)
        elif match := _PORT.match(line):
            port = _Port(adapter, match[1] or match[2], of_adapter=of_adapter)
            ports.append(port)
        elif match := _FIELD.match(line):
            (port.of_port if port else of_adapter)[match[1].strip().casefold()] = match[2]
        if len(ports) >= _MAX_PORTS:
            break
    return ports


def _plain(port: _Port) -> dict[str, str]:
    said = port.of_port
    name = port.adapter if port.index in {"", "1"} else f"{port.adapter}/{port.index}"
    layer = said.get("link layer") or said.get("link_layer") or ""
    return {
        "name": name,
        "kind": port.of_adapter.get("ca type") or port.of_adapter.get("board_id") or "",
        "state": said.get("state", ""),
        "physical": said.get("physical state")
        or said.get("phys state")
        or said.get("phys_state")
        or "",
        "rate": said.get("rate") or "",
        "layer": layer,
    }


def _port(document: Document, port: _Port, state: dict[str, str]) -> Iterator[Observation]:
    about, name = port.of_adapter, state["name"]
    guid = about.get("node guid") or about.get("node_guid") or ""
    yield Device(document.node, name, "nic", guid, model=state["kind"])
    facts = {
        "firmware_version": about.get("firmware version") or about.get("fw_ver") or "",
        "model": about.get("ca type") or "",
        "board_id": about.get("board_id") or "",
        "link_layer": state["layer"],
    }
    for fact, said in facts.items():
        if said:
            yield Fact(document.node, fact, said, name, document.now)
    yield from port_observations(document, state, rate_gbps(state["rate"]) or _rate(port))


def _rate(port: _Port) -> float | None:
    """ibv_devinfo -v gives lanes and the speed of one: "4X (2)" and "25.0 Gbps (32)"."""
    lanes = _LANES.search(port.of_port.get("active_width", ""))
    speed = _SPEED.search(port.of_port.get("active_speed", ""))
    return float(lanes[1]) * float(speed[1]) if lanes and speed else None
