"""RDMA adapters and network interfaces of a host: what there is, found by names alone.

No file of an adapter is read here that asks its firmware for anything but its state. Virtual
functions belong to whom they were given to and are left out, as are adapters made of software.
"""

from dataclasses import dataclass

from bigiron.collect.pci_tree import names, real, text
from bigiron.host import Host

RDMA = "/sys/class/infiniband"
NET = "/sys/class/net"
UP = 1
"""IFF_UP: somebody wants this interface to work (netdevice(7))."""
EMPTY_GIDS = 8
"""A table of GIDs has 256 places and is filled from the front: so many empty ones are its end."""

_TOLD = ("fw_ver", "board_id", "hca_type", "node_guid", "node_desc")
_NO_GID = {"", "0000:0000:0000:0000:0000:0000:0000:0000"}


@dataclass(frozen=True, slots=True)
class Port:
    """One port; ``name`` is the adapter's, with ``:2`` for its second port."""

    name: str
    number: str
    folder: str
    layer: str
    gids: int
    counters: tuple[str, ...]
    hw_counters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Adapter:
    """One adapter. ``told`` is what it says of itself; ``sensors`` are labels and files."""

    name: str
    bus: str
    netdev: str
    told: dict[str, str]
    ports: tuple[Port, ...]
    sensors: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface of a card, that somebody wants up and that no RDMA adapter has."""

    name: str
    mtu: str
    bond: str


def adapters(host: Host) -> tuple[Adapter, ...]:
    """All RDMA adapters that are cards, by name."""
    found = []
    for name in names(host, RDMA):
        card = real(host, f"{RDMA}/{name}/device")
        bus = card.rpartition("/")[2]
        if ":" in bus and "physfn" not in names(host, card):
            at = f"{RDMA}/{name}"
            told = {what: text(host, f"{at}/{what}") for what in _TOLD}
            ports = tuple(_port(host, name, n) for n in names(host, f"{at}/ports"))
            netdev = _netdev(host, card)
            found.append(Adapter(name, bus, netdev, told, ports, _sensors(host, card)))
    return tuple(found)


def interfaces(host: Host, adapters: tuple[Adapter, ...]) -> tuple[Interface, ...]:
    """The other interfaces of cards that are switched on."""
    own = {adapter.bus for adapter in adapters}
    found = []
    for name in names(host, NET):
        at = f"{NET}/{name}"
        card = real(host, f"{at}/device")
        bus = card.rpartition("/")[2]
        if ":" not in bus or bus in own or "physfn" in names(host, card):
            continue
        if _flags(text(host, f"{at}/flags")) & UP:
            bond = real(host, f"{at}/master").rpartition("/")[2]
            found.append(Interface(name, text(host, f"{at}/mtu"), bond))
    return tuple(found)


def _flags(said: str) -> int:
    try:
        return int(said, 16)
    except ValueError:
        return 0


def _port(host: Host, adapter: str, number: str) -> Port:
    at = f"{RDMA}/{adapter}/ports/{number}"
    return Port(
        adapter if number == "1" else f"{adapter}:{number}",
        number,
        at,
        text(host, f"{at}/link_layer"),
        _gids(host, f"{at}/gids"),
        tuple(names(host, f"{at}/counters")),
        tuple(names(host, f"{at}/hw_counters")),
    )


def _gids(host: Host, folder: str) -> int:
    """How many GIDs are set: an interface without its addresses has fewer than its like."""
    used = empty = 0
    for place in sorted(names(host, folder), key=lambda name: (len(name), name)):
        if text(host, f"{folder}/{place}") in _NO_GID:
            empty += 1
            if empty == EMPTY_GIDS:
                break
        else:
            used, empty = used + 1, 0
    return used


def _netdev(host: Host, card: str) -> str:
    """The interface of the adapter itself: not a child of it (``ib0.8001``), nor a function's."""
    found = [
        name
        for name in names(host, f"{card}/net")
        if "." not in name and "vf" not in text(host, f"{card}/net/{name}/phys_port_name")
    ]
    return found[0] if found else ""


def _sensors(host: Host, card: str) -> tuple[tuple[str, str], ...]:
    """Temperatures by label (``asic``, ``Module0``) where the driver shows any."""
    found = []
    for hwmon in names(host, f"{card}/hwmon"):
        at = f"{card}/hwmon/{hwmon}"
        for name in names(host, at):
            if name.startswith("temp") and name.endswith("_label"):
                label = text(host, f"{at}/{name}")
                found.append((label, f"{at}/{name.removesuffix('_label')}_input"))
    return tuple(found)
