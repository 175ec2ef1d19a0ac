"""NVIDIA GPUs on the PCI bus, whatever the driver says: what should be there."""

from collections.abc import Iterator
from typing import NamedTuple

from bigiron.errors import NoData, Permanent
from bigiron.host import Host

DEVICES = "/sys/bus/pci/devices"
NVIDIA, DISPLAY = "0x10de", "0x03"
"""PCI-SIG: vendor and base class of display controllers, among them 3D controllers (GPUs)."""


class OnBus(NamedTuple):
    """A GPU by its address and the driver bound to it ("" if none is)."""

    bus: str
    driver: str


def gpus_on_bus(host: Host) -> list[OnBus]:
    """GPUs of NVIDIA, without the virtual functions that guests get."""
    try:
        addresses = host.names(DEVICES)
    except NoData:
        return []
    return [one for address in addresses if (one := _gpu(host, address)) is not None]


def ours(host: Host) -> list[OnBus]:
    """Those that are not kept for guests or left to another driver on purpose."""
    return [one for one in gpus_on_bus(host) if one.driver in ("", "nvidia", "nouveau")]


def hidden(host: Host, bus: str) -> bool:
    """Whether this process may not see a GPU: its device file is not in its container."""
    try:
        told = host.read(f"/proc/driver/nvidia/gpus/{bus}/information")
    except (NoData, Permanent):
        return False
    minor = next((word for word in _minors(told)), "")
    if not minor.isdecimal():
        return False
    return f"nvidia{minor}" not in _device_files(host)


def _minors(told: str) -> Iterator[str]:
    for line in told.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "Device Minor":
            yield value.strip()


def _device_files(host: Host) -> list[str]:
    try:
        return host.names("/dev")
    except (NoData, Permanent):
        return []


def _gpu(host: Host, address: str) -> OnBus | None:
    folder = f"{DEVICES}/{address}"
    try:
        if host.read(f"{folder}/vendor") != NVIDIA:
            return None
        if not host.read(f"{folder}/class").startswith(DISPLAY):
            return None
    except (NoData, Permanent):
        return None
    try:
        host.real(f"{folder}/physfn")
    except NoData:
        return OnBus(address, _driver(host, folder))
    return None


def _driver(host: Host, folder: str) -> str:
    try:
        return host.real(f"{folder}/driver").rpartition("/")[2]
    except NoData:
        return ""
