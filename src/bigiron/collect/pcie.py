"""PCIe from sysfs: links of GPUs, adapters, drives and switches, error counters, placement.

Every 30 seconds two small files of each link; the rest rarely. What does not change is told
every ten minutes, when parts and paths are looked for anew. A device that sleeps is not woken: a
read of its link would. GPUs' own generation and lanes as samples are their readers' to tell.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic

from bigiron.collect import Seen, collector
from bigiron.collect.pci_config import answers
from bigiron.collect.pci_tree import MOST_LANES, UNKNOWN_LANES, Link, Part, Tree, acs, text, tree
from bigiron.collect.pcie_errors import Errors
from bigiron.collect.pcie_links import Shape, downgraded, title
from bigiron.collect.standing import standing
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.ingest import json_text
from bigiron.ingest.pcie_link import generation
from bigiron.model import Device, Event, Fact, FactValue

TREE_S = 600.0
ERRORS_S = 300.0
LOOKS = 2
"""A device is silent while it is being reset; in two looks it is not being reset."""


@dataclass(slots=True)
class _Watch:
    """What is known between looks."""

    tree: Tree | None = None
    tree_s: float = 0.0
    errors: Errors = field(default_factory=Errors)
    silent: dict[str, int] = field(default_factory=dict)
    told: dict[tuple[str, str], FactValue] = field(default_factory=dict)


@collector(every_s=30.0, timeout_s=20.0)
def pcie(host: Host) -> Iterator[Seen]:
    """PCIe links up to the root port, AER errors, slots, NUMA nodes, ACS, IOMMU groups."""
    watch, now = host.held("pcie", _Watch), monotonic()
    if watch.tree is None or now - watch.tree_s >= TREE_S:
        watch.tree, watch.tree_s = tree(host), now
        watch.told.clear()
        yield from _placed(host, watch.tree)
    shapes, events = _links(host, watch, watch.tree)
    for link, shape in shapes.items():
        for name, value in _facts(link, shape):
            if watch.told.get((link.name, name)) != value:
                watch.told[link.name, name] = value
                yield Fact("", name, value, link.name)
    yield from standing(host, "pcie").news([*events, *downgraded(shapes)])
    at_s = watch.errors.at_s
    if at_s is None or now - at_s >= ERRORS_S:
        yield from watch.errors.look(host, _folders(watch.tree), now)


def _placed(host: Host, tree: Tree) -> Iterator[Seen]:
    """Where each part sits, and what switches' uplinks there are."""
    for part in tree.parts:
        for name, value in _place(part):
            if value not in (None, ""):
                yield Fact("", name, value, part.name)
    for link in tree.links:
        if not link.part:
            model = link.alike.removeprefix("switch ")
            yield Device("", link.bus, "pcie_switch", bus=link.bus, model=model)
            yield Fact("", "serves", " ".join(link.serves), link.bus)
    redirecting = acs(host, tree)
    if redirecting is not None:
        yield Fact("", "acs", "enabled" if redirecting else "disabled")
        if redirecting:
            yield Fact("", "acs_ports", " ".join(redirecting))


def _place(part: Part) -> Iterator[tuple[str, FactValue | None]]:
    yield "bus", part.bus
    yield "pci_id", part.ids
    yield "numa_node", part.numa
    yield "pcie_slot", part.slot
    yield "pcie_path", " ".join(part.path[:-1])
    yield "iommu_group", part.group


def _links(host: Host, watch: _Watch, tree: Tree) -> tuple[dict[Link, Shape], list[Event]]:
    """What each link is now, and events of devices that do not answer."""
    shapes: dict[Link, Shape] = {}
    silent: dict[str, int] = {}
    for link in tree.links:
        if link.sleeps and text(host, f"{link.folder}/power/runtime_status") == "suspended":
            continue
        try:
            shape = _shape(host, link)
        except (NoData, Permanent):
            watch.tree_s = float("-inf")  # something was moved, taken out or put in
            continue
        if shape is not None:
            shapes[link] = shape
        elif answers(host, link.folder) is False:
            silent[link.bus] = watch.silent.get(link.bus, 0) + 1
    watch.silent = silent
    gone = [link for link in tree.links if silent.get(link.bus, 0) >= LOOKS]
    return shapes, [_inaccessible(link) for link in gone]


def _shape(host: Host, link: Link) -> Shape | None:
    """Rate and lanes; None where there is no link now."""
    lanes = json_text.number(host.read(f"{link.folder}/current_link_width"))
    speed = json_text.number(host.read(f"{link.folder}/current_link_speed"))
    if lanes is None or not speed or not 0 < lanes <= MOST_LANES or int(lanes) in UNKNOWN_LANES:
        return None
    return Shape(speed, int(lanes))


def _facts(link: Link, shape: Shape) -> Iterator[tuple[str, FactValue]]:
    """What a link is and can be. The rate of one that slows down when idle is no setting."""
    yield "pcie_link_width", shape.lanes
    yield "pcie_link_width_max", link.lanes
    yield "pcie_link_speed_gt_per_s_max", link.gt_per_s
    if generation(link.gt_per_s):
        yield "pcie_link_gen_max", generation(link.gt_per_s)
    if not link.idles:
        yield "pcie_link_speed_gt_per_s", shape.gt_per_s
        if generation(shape.gt_per_s):
            yield "pcie_link_gen", generation(shape.gt_per_s)


def _inaccessible(link: Link) -> Event:
    words = f"{title(link)} does not answer: its configuration space reads all ones"
    attrs = {"bus": link.bus}
    return Event("", "pcie.device_inaccessible", words, link.name, source="pcie", attrs=attrs)


def _folders(tree: Tree) -> dict[str, tuple[str, str]]:
    """Name and folder of every part and port, by address."""
    ports = {bus: (bus, folder) for bus, folder in tree.ports.items()}
    return ports | {part.bus: (part.name, part.folder) for part in tree.parts}
