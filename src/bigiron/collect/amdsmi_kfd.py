"""How many processes compute on each AMD GPU: the kernel's compute driver (KFD) knows.

``amdsmi_get_gpu_process_list`` tells it too, and reads every process's open files for it.
"""

import re

from bigiron.collect.amdsmi_bus import slot
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.ingest import json_text

NODES, PROCESSES = "/sys/class/kfd/kfd/topology/nodes", "/sys/class/kfd/kfd/proc"
MOST = 512
"""Processes that are looked at."""

_PLACE = re.compile(r"^(domain|location_id) (\d{1,12})$", re.MULTILINE)


class Compute:
    """KFD's numbers of GPUs, by PCI address without the function; read anew when they change."""

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._ids: dict[str, list[str]] = {}

    def processes(self, host: Host) -> dict[str, int]:
        """Processes that hold memory of each GPU; empty where the driver does not tell."""
        nodes = _names(host, NODES)
        if nodes != self._nodes:
            self._nodes, self._ids = nodes, _ids(host, nodes)
        try:
            running = host.names(PROCESSES)
        except (NoData, Permanent):
            return {}
        return {
            at: sum(any(_holds(host, pid, gpu) for gpu in gpus) for pid in running[:MOST])
            for at, gpus in self._ids.items()
        }


def _ids(host: Host, nodes: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in nodes:
        number = _text(host, f"{NODES}/{node}/gpu_id")
        place = dict(_PLACE.findall(_text(host, f"{NODES}/{node}/properties")))
        if number.isdecimal() and int(number) and "location_id" in place:
            found.setdefault(_slot(place), []).append(number)
    return found


def _slot(place: dict[str, str]) -> str:
    """KFD's location is bus, device and function in one number (kernel, kfd_topology.c)."""
    at = int(place["location_id"])
    bus = f"{int(place.get('domain', '0')):04x}:{at >> 8 & 0xFF:02x}:{at >> 3 & 0x1F:02x}.0"
    return slot(bus)


def _holds(host: Host, pid: str, gpu: str) -> bool:
    held = json_text.number(_text(host, f"{PROCESSES}/{pid}/vram_{gpu}"))
    return held is not None and held > 0


def _names(host: Host, path: str) -> list[str]:
    try:
        return host.names(path)
    except (NoData, Permanent):
        return []


def _text(host: Host, path: str) -> str:
    try:
        return host.read(path)
    except (NoData, Permanent):
        return ""
