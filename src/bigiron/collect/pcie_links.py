"""Which PCIe links are less than they should be, judged by both their ends and by their like.

What a link can do is the lesser of its two ends, so a card in a slot of eight lanes is no fault.
Where most links of a kind have fewer lanes than both their ends can do, the machine is built so;
only a golden config can say otherwise. A lower *rate* is no fault of a GPU's link, which slows
down while idle: there the GPU's load must be known, which the agent's readers of GPUs tell.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bigiron.collect.pci_tree import Link
from bigiron.ingest.pcie_link import generation
from bigiron.model import Event

LIKE = 3
"""So many links of a kind are needed to say what is usual of a rate."""


class Shape(NamedTuple):
    """What a link is now."""

    gt_per_s: float
    lanes: int


def downgraded(links: Mapping[Link, Shape]) -> Iterator[Event]:
    """An event for each link that is narrower or slower than it should be.

    All functions of a card share one link: it is its first function's.
    """
    of_kind: dict[str, list[tuple[Link, Shape]]] = defaultdict(list)
    seen: set[str] = set()
    for link, shape in sorted(links.items(), key=lambda one: one[0].bus):
        card = link.bus.rpartition(".")[0]
        if card not in seen:
            seen.add(card)
            of_kind[link.alike].append((link, shape))
    for alike in of_kind.values():
        for link, shape in alike:
            why = _narrow(link, shape, alike) or _slow(link, shape, alike)
            if why:
                yield _event(link, shape, why)


def _narrow(link: Link, shape: Shape, alike: Sequence[tuple[Link, Shape]]) -> str:
    """Why it has too few lanes; "" if it has not.

    Where the port above is hidden (a virtual machine), only most of three or more can tell.
    """
    if shape.lanes >= link.lanes:
        return ""
    narrow = sum(other.lanes < one.lanes for one, other in alike)
    alone = len(alike) == 1 and link.above
    few = narrow * 2 <= len(alike) and (link.above or len(alike) >= LIKE)
    if not (alone or few):
        return ""
    better = [other for _, other in alike if other.lanes > shape.lanes]
    like = f", as {len(better)} like it do" if better else ""
    ends = f"it and the port above ({link.above}) can use" if link.above else "it could use"
    return f"{ends} x{link.lanes}{like}"


def _slow(link: Link, shape: Shape, alike: Sequence[tuple[Link, Shape]]) -> str:
    """Why its rate is too low; "" if it is not, or may be low to save power."""
    if not generation(shape.gt_per_s):
        return "a rate that no PCIe generation has"
    if link.idles or shape.gt_per_s >= link.gt_per_s or len(alike) < LIKE:
        return ""
    better = [other for _, other in alike if other.gt_per_s > shape.gt_per_s]
    if len(better) * 2 <= len(alike):
        return ""
    return f"both ends can do {link.gt_per_s:g} GT/s, and {len(better)} like it do better"


def _event(link: Link, shape: Shape, why: str) -> Event:
    text = f"PCIe link of {title(link)} runs at {shape.gt_per_s:g} GT/s x{shape.lanes}: {why}"
    attrs = {"bus": link.bus, "speed_gt_per_s": f"{shape.gt_per_s:g}", "width": str(shape.lanes)}
    if link.above:
        attrs["port"] = link.above
    if not link.part:
        attrs["serves"] = " ".join(link.serves)
    return Event("", "pcie.link_downgraded", text, link.name, source="pcie", attrs=attrs)


def title(link: Link) -> str:
    """``gpu3 (0000:1b:00.0)``, or of a switch's uplink what hangs on it."""
    if link.part:
        return link.part if link.part == link.bus else f"{link.part} ({link.bus})"
    return f"switch uplink {link.bus} ({', '.join(link.serves)})"
