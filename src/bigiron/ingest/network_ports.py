"""Which network ports are up: ``ibdev2netdev`` and ``ethtool INTERFACE``.

ibdev2netdev joins an RDMA device to its network interface: "mlx5_0 port 1 ==> ib0 (Up)".
ethtool prints an interface's settings under "Settings for ens1:".
"""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.model import Fact, Observation, Sample

_JOINED = re.compile(
    r"^(?:\S+ )?(?P<device>\w+_?\d+) port (?P<port>\d+) ==> (?P<netdev>[\w.-]+) \((?P<state>\w+)\)"
)
_SETTINGS = re.compile(r"^Settings for (?P<device>[\w.-]+):\s*$")
_SPEED = re.compile(r"^\s+Speed: (\d+)Mb/s\s*$")
_LINK = re.compile(r"^\s+Link detected: (yes|no)\b")


class Ibdev2netdev:
    """State of each RDMA port and the name of its network interface."""

    def sniff(self, head: Head) -> float:
        """Certain by the arrow, in the first lines."""
        lines = [line for line in head.text.splitlines() if line.strip()][:4]
        return 0.95 if lines and all(_JOINED.match(line) for line in lines) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Ports in the order given. Raises ParseError if there is none."""
        seen = False
        for line in document.lines():
            match = _JOINED.match(line)
            if match is None:
                continue
            seen = True
            up = float(match["state"].lower() == "up")
            yield Sample(document.node, match["device"], "ib_state", up, document.now)
            yield Fact(document.node, "netdev", match["netdev"], match["device"], document.now)
        if not seen:
            raise ParseError(document.name, 1, "no port of ibdev2netdev in it")


class EthtoolSettings:
    """Link and speed of interfaces."""

    def sniff(self, head: Head) -> float:
        """Certain by its title, where a link is told of."""
        first = next((line for line in head.text.splitlines() if line.strip()), "")
        return 0.95 if _SETTINGS.match(first) and "Link detected:" in head.text else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Interfaces in the order given. Raises ParseError if there is none."""
        device = ""
        for line in document.lines():
            if (title := _SETTINGS.match(line)) is not None:
                device = title["device"]
            elif device and (speed := _SPEED.match(line)) is not None:
                rate = float(speed[1]) * 1e6 / 8
                metric = "node_network_speed_bytes_per_second"
                yield Sample(document.node, device, metric, rate, document.now)
            elif device and (link := _LINK.match(line)) is not None:
                up = float(link[1] == "yes")
                yield Sample(document.node, device, "node_network_up", up, document.now)
        if not device:
            raise ParseError(document.name, 1, "no interface of ethtool in it")


@reader()
def ibdev2netdev() -> Reader:
    """`ibdev2netdev`: RDMA devices, their network interfaces and whether they are up."""
    return Ibdev2netdev()


@reader()
def ethtool_settings() -> Reader:
    """`ethtool INTERFACE`: link and speed."""
    return EthtoolSettings()
