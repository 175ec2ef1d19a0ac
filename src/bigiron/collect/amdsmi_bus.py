"""AMD GPUs on the PCI bus, whatever the driver says: what should be there."""

from collections.abc import Iterable
from typing import NamedTuple

from bigiron.errors import NoData, Permanent
from bigiron.host import Host

DEVICES = "/sys/bus/pci/devices"
AMD = "0x1002"
CLASSES = ("0x0380", "0x1200", "0x0302")
"""PCI class codes of accelerators: MI200 and older, MI300 and newer, 3D controllers. A display
adapter (0x0300) is a workstation's own business."""
DRIVER = "amdgpu"
MODULE = "/sys/module/amdgpu"


class OnBus(NamedTuple):
    """A GPU by its address, where it is in sysfs, and the driver bound to it ("" if none is)."""

    bus: str
    folder: str
    driver: str


class Bus:
    """What sits on the bus; classes are read again only where a slot changed."""

    def __init__(self) -> None:
        self._addresses: list[str] = []
        self._gpus: list[tuple[str, str]] = []

    def gpus(self, host: Host) -> list[OnBus]:
        """GPUs of AMD, without the virtual functions that guests get, by address."""
        try:
            addresses = host.names(DEVICES)
        except (NoData, Permanent):
            return []
        if addresses != self._addresses:
            self._gpus = list(_found(host, addresses))
            self._addresses = addresses
        return [OnBus(bus, folder, _driver(host, folder)) for bus, folder in self._gpus]


def ours(gpus: Iterable[OnBus]) -> list[OnBus]:
    """Those that are not kept for guests or left to another driver on purpose."""
    return [one for one in gpus if one.driver in ("", DRIVER)]


def loaded(host: Host) -> bool:
    """Whether the driver is in the kernel."""
    try:
        host.names(MODULE)
    except (NoData, Permanent):
        return False
    return True


def slot(bus: str) -> str:
    """An address without its function: partitions of a GPU are functions of one."""
    return bus.rpartition(".")[0] or bus


def _found(host: Host, addresses: list[str]) -> Iterable[tuple[str, str]]:
    for address in addresses:
        at = f"{DEVICES}/{address}"
        try:
            if host.read(f"{at}/vendor") == AMD and host.read(f"{at}/class")[:6] in CLASSES:
                folder = host.real(at)
                if "physfn" not in host.names(folder):
                    yield address, folder
        except (NoData, Permanent):
            continue


def _driver(host: Host, folder: str) -> str:
    try:
        return host.real(f"{folder}/driver").rpartition("/")[2]
    except NoData:
        return ""
