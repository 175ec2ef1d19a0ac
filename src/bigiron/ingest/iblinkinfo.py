"""``iblinkinfo``: every link of a fabric, and what narrower or slower links could be.

iblinkinfo itself compares what both ends support with what they use and writes "Could be 4X" or
"Could be 25.78125 Gbps" at the end of the line. Source: infiniband-diags, iblinkinfo(8).
"""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.model import Event, Note, Observation, Sample

_LINK = re.compile(
    r'^(?:\s*(?:0x[0-9a-f]+|"[^"]*")?)?\s*(?P<lid>\d+)\s+(?P<port>\d+)\s*\[[^\]]*\]\s*==\('
    r"\s*(?:(?P<width>\d+)X\s+(?P<speed>[\d.]+)\s*Gbps)?\s*(?P<state>\w+)/\s*(?P<physical>\w+)\s*\)==>"
    r'(?P<peer>[^"]*"(?P<name>[^"]*)")?(?P<rest>.*)$'
)
_NODE = re.compile(r"^(?P<kind>CA|Switch|Router):\s*(?:0x[0-9a-f]+\s+)?(?P<name>.*?)\s*:?\s*$")
_COULD = re.compile(r"Could be ((?:\d+X)|(?:[\d.]+ ?Gbps)|\w+)", re.IGNORECASE)
_MAX_LINKS = 200_000


class Iblinkinfo:
    """Rates and states of links; an Event for each that could be wider or faster."""

    def sniff(self, head: Head) -> float:
        """Certain by the arrow of a link."""
        return 0.95 if "]" in head.text and "==(" in head.text and ")==>" in head.text else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Links in the order given; down ports are counted, not told one by one."""
        kind = node = ""
        links = down = 0
        for line in document.lines():
            if "==(" not in line:
                found = _NODE.match(line)
                kind, node = (found["kind"], found["name"]) if found else (kind, node)
                continue
            match = _LINK.match(line)
            if match is None or links >= _MAX_LINKS:
                continue
            links += 1
            down += match["state"].casefold() == "down"
            yield from _link(document, kind, node, match)
        if not links:
            raise ParseError(document.name, 0, "no link in this iblinkinfo output")
        if down:
            yield Note(document.name, "iblinkinfo: ports that are down (cabled or not)", down)


@reader()
def iblinkinfo() -> Reader:
    """`iblinkinfo`: every link of an InfiniBand fabric, its state, width and rate."""
    return Iblinkinfo()


def _link(document: Document, kind: str, owner: str, match: re.Match[str]) -> Iterator[Observation]:
    node, device = _place(kind, owner, match["port"])
    if match["width"]:
        rate = float(match["width"]) * float(match["speed"]) * 1e9
        yield Sample(node, device, "ib_rate_bits_per_second", rate, document.now)
    active = float(match["state"].casefold() == "active")
    if match["width"] or kind == "CA":
        yield Sample(node, device, "ib_state", active, document.now)
    could = _COULD.findall(match["rest"])
    if not could:
        return
    now = f"{match['width'] or '?'}X {match['speed'] or '?'} Gbps"
    yield Event(
        node,
        "ib.rate_degraded",
        f"{owner or node} port {match['port']} to {match['name'] or '?'} runs at {now}, "
        f"could be {' and '.join(could)}",
        device,
        document.now,
        source=document.name,
        attrs={"peer": match["name"] or "", "now": now, "could_be": " ".join(could)},
    )


def _place(kind: str, owner: str, port: str) -> tuple[str, str]:
    """A CA is "node mlx5_0"; of a switch the whole description is its name."""
    words = owner.split()
    if kind == "CA" and len(words) >= 2:
        return words[0], words[-1]
    return owner, f"port{port}"
