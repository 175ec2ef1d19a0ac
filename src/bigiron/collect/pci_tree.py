"""Which PCI parts matter on a host, and the links on the way from each up to its root port.

A *part* is a GPU, an NVSwitch, a network adapter or a drive. A *link* joins two ends, the port
above and what is below: a part, or the uplink of a switch. The path of a part is the chain of
folders that its entry in ``/sys/bus/pci/devices`` leads to.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bigiron.collect.pci_config import redirects
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.ingest import json_text

DEVICES = "/sys/bus/pci/devices"
SLOTS = "/sys/bus/pci/slots"
NVIDIA, AMD = "10de", "1002"
DRIVERS = {NVIDIA: "nvidia", AMD: "amdgpu"}
UNKNOWN_LANES = (0, 63, 255)
"""No link, a register of all ones, and what sysfs shows for one it cannot read."""
NODES = 1024
"""The kernel has no more NUMA nodes (CONFIG_NODES_SHIFT)."""
MOST_LANES = 64
"""PCI Express has links of at most 32 lanes."""

_BUS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_CLASSES = (
    ("0x0300", "gpu"),
    ("0x0302", "gpu"),
    ("0x0380", "gpu"),
    ("0x1200", "gpu"),
    ("0x0680", "nvswitch"),
    ("0x0200", "nic"),
    ("0x0207", "nic"),
    ("0x0280", "nic"),
    ("0x0108", "nvme"),
)
"""PCI class codes (PCI Code and ID Assignment Specification) of the parts that matter."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part: ``name`` as others call it, ``path`` the addresses from the root port to it."""

    name: str
    kind: str
    bus: str
    ids: str
    folder: str
    path: tuple[str, ...]
    numa: int | None = None
    slot: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A link, named by the end below; at most what both its ends can do.

    ``alike`` is the same for links that should be the same. ``above`` is "" where the port is
    hidden (in a virtual machine). ``idles``: it may slow down to save power, as GPUs' links do.
    ``serves`` are the parts behind it; ``part`` is "" for the uplink of a switch.
    """

    bus: str
    above: str
    folder: str
    part: str
    alike: str
    gt_per_s: float
    lanes: int
    idles: bool
    serves: tuple[str, ...]
    sleeps: bool = False

    @property
    def name(self) -> str:
        """Of its part, else the PCI address."""
        return self.part or self.bus


@dataclass(frozen=True, slots=True)
class Tree:
    """All of one look. ``ports`` are the folders of all ports on the way, by address."""

    parts: tuple[Part, ...]
    links: tuple[Link, ...]
    ports: dict[str, str]


def tree(host: Host) -> Tree:
    """The parts and links of a host. Raises NoData: no PCI, or none of these parts."""
    parts = tuple(_parts(host))
    if not parts:
        raise NoData(DEVICES)
    folders = {bus: folder for part in parts for bus, folder in _above(part)}
    links: dict[str, Link] = {}
    for part in parts:
        for bus in part.path:
            if bus not in links and (link := _link(host, bus, part, parts, folders)):
                links[bus] = link
    own = {part.bus for part in parts}
    return Tree(parts, tuple(links.values()), {b: f for b, f in folders.items() if b not in own})


def acs(host: Host, tree: Tree) -> tuple[str, ...] | None:
    """The ports above GPUs and adapters that redirect peers' traffic; None if none is readable."""
    ports = {bus for p in tree.parts if p.kind in ("gpu", "nic") for bus in p.path[:-1]}
    told = {bus: redirects(host, tree.ports[bus]) for bus in sorted(ports) if bus in tree.ports}
    if all(redirected is None for redirected in told.values()):
        return None
    return tuple(bus for bus, redirected in told.items() if redirected)


def text(host: Host, path: str) -> str:
    """A file's text; "" where it is not there or cannot be read."""
    try:
        return host.read(path)
    except (NoData, Permanent):
        return ""


def names(host: Host, path: str) -> list[str]:
    """What a folder holds; nothing where it is not there."""
    try:
        return host.names(path)
    except (NoData, Permanent):
        return []


def real(host: Host, path: str) -> str:
    """Where a link leads; "" where it leads nowhere."""
    try:
        return host.real(path)
    except NoData:
        return ""


def _parts(host: Host) -> Iterator[Part]:
    found = []
    for bus in host.names(DEVICES):
        at = f"{DEVICES}/{bus}"
        kind = _kind(text(host, f"{at}/class"))
        if not kind or _BUS.match(bus) is None:
            continue
        ids = f"{_id(host, at, 'vendor')}:{_id(host, at, 'device')}"
        if kind in ("gpu", "nvswitch") and ids[:4] not in DRIVERS:
            continue
        folder = real(host, at)
        if folder and "physfn" not in host.names(folder):
            found.append((bus, kind, ids, folder))
    gpus = _gpus(host, [(bus, ids, folder) for bus, kind, ids, folder in found if kind == "gpu"])
    slots = _slots(host)
    switches = 0
    for bus, kind, ids, folder in found:
        name = gpus.get(bus) or _name(host, kind, folder) or bus
        if kind == "nvswitch":
            name, switches = f"nvswitch{switches}", switches + 1
        path = tuple(step for step in folder.split("/") if _BUS.match(step))
        numa = json_text.number(text(host, f"{folder}/numa_node"))
        slot = next((slots[b] for step in reversed(path) if (b := step[:-2]) in slots), "")
        group = real(host, f"{folder}/iommu_group").rpartition("/")[2]
        node = int(numa) if numa is not None and 0 <= numa < NODES else None
        yield Part(name, kind, bus, ids, folder, path, node, slot, group)


def _gpus(host: Host, gpus: list[tuple[str, str, str]]) -> dict[str, str]:
    """The names of GPUs by address: NVML and amd-smi number those of their driver in this order.

    Where no driver has any, all are numbered.
    """
    bound = [
        bus
        for bus, ids, folder in gpus
        if real(host, f"{folder}/driver").endswith(f"/{DRIVERS[ids[:4]]}")
    ]
    return {bus: f"gpu{i}" for i, bus in enumerate(bound or [bus for bus, _, _ in gpus])}


def _kind(said: str) -> str:
    return next((kind for prefix, kind in _CLASSES if said.startswith(prefix)), "")


def _id(host: Host, at: str, name: str) -> str:
    return text(host, f"{at}/{name}").removeprefix("0x").casefold()[:4]


def _name(host: Host, kind: str, folder: str) -> str:
    """``mlx5_0`` or ``nvme1``; an adapter without RDMA goes by its network interface."""
    places = {"nic": ("infiniband", "net"), "nvme": ("nvme",)}.get(kind, ())
    found = (names(host, f"{folder}/{place}") for place in places)
    return next((every[0] for every in found if every), "")


def _slots(host: Host) -> dict[str, str]:
    """Slot labels by domain, bus and device."""
    found: dict[str, str] = {}
    for slot in names(host, SLOTS):
        address = text(host, f"{SLOTS}/{slot}/address")
        if address:
            found[address.casefold()] = slot
    return found


def _above(part: Part) -> Iterator[tuple[str, str]]:
    """The addresses on a part's path, its own too, with their folders."""
    folder = part.folder
    for bus in reversed(part.path):
        yield bus, folder
        folder = folder.rpartition("/")[0]


def _link(
    host: Host, bus: str, part: Part, parts: tuple[Part, ...], folders: dict[str, str]
) -> Link | None:
    """The link above ``bus``; None for ports that have their links below, and where none is told.

    The ends are every second step: root port and uplink, port and part.
    """
    at = part.path.index(bus)
    own = next((one for one in parts if one.bus == bus), None)
    if own is None and at % 2 == 0:
        return None
    above = part.path[at - 1] if at else ""
    if above and own is not None and at % 2 == 0:
        above = ""  # no link goes up to an uplink: the path is not one we know
    speeds, widths = zip(*(_most(host, folders[end]) for end in (bus, above) if end), strict=True)
    gt_per_s, lanes = min(speeds), min(widths)
    if not gt_per_s or not lanes:
        return None
    behind = [one for one in parts if bus in one.path]
    ids = own.ids if own else _ids(host, folders[bus])
    idles = any(one.kind == "gpu" for one in behind) and (own is not None or ids[:4] in DRIVERS)
    sleeps = text(host, f"{folders[bus]}/power/control") == "auto"
    kind = own.kind if own else "switch"
    return Link(
        bus,
        above,
        folders[bus],
        own.name if own else "",
        f"{kind} {ids}",
        gt_per_s,
        lanes,
        idles,
        tuple(one.name for one in behind),
        sleeps,
    )


def _ids(host: Host, at: str) -> str:
    return f"{_id(host, at, 'vendor')}:{_id(host, at, 'device')}"


def _most(host: Host, folder: str) -> tuple[float, int]:
    """Rate and lanes that an end can do; 0 where it does not tell."""
    speed = json_text.number(text(host, f"{folder}/max_link_speed")) or 0.0
    lanes = int(json_text.number(text(host, f"{folder}/max_link_width")) or 0)
    return speed, lanes if lanes <= MOST_LANES and lanes not in UNKNOWN_LANES else 0
