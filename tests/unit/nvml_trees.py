"""Captured hosts made sick: what NVML answers, changed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.collected import HOSTS

from bigiron.host import Host
from bigiron.ingest import pci_address

Told = dict[str, Any]
Change = Callable[[Told], object]

NVIDIA = ("a100x8", "a100x8-mig", "h100x8", "gb200x4", "l40sx8", "t4x4")


def told(name: str) -> Told:
    """What NVML answers on a captured host."""
    read: Told = json.loads((HOSTS / name / "bigiron" / "nvml.json").read_text())
    return read


def sick(name: str, to: Path, *changes: Change) -> Host:
    """A host of which only NVML is captured, after some changes."""
    changed = told(name)
    for change in changes:
        change(changed)
    return holding(to / name, json.dumps(changed))


def machine(name: str, to: Path, *changes: Change) -> Host:
    """The same with its GPUs on the PCI bus, as they were before the changes."""
    host = sick(name, to, *changes)
    for gpu in told(name)["gpus"]:
        bus(host, pci_address(gpu["nvmlDeviceGetPciInfo"]["busId"]))
    return host


def holding(root: Path, text: str) -> Host:
    """A host with this text as its capture of NVML."""
    at = root / "bigiron" / "nvml.json"
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_text(text)
    return Host(root=root)


def again(host: Host, change: Change) -> None:
    """Change what a host answers from now on; its library is opened anew."""
    at = host.root / "bigiron" / "nvml.json"
    read = json.loads(at.read_text())
    change(read)
    at.write_text(json.dumps(read))
    host.let_go("nvml")


def answers(gpu: int, **changed: Any) -> Change:
    """A GPU answers these functions (``Temperature`` for nvmlDeviceGetTemperature) so."""
    return lambda t: t["gpus"][gpu].update({f"nvmlDeviceGet{k}": v for k, v in changed.items()})


def asked(gpu: int, function: str, value: Any) -> Change:
    """A GPU answers a function with arguments so."""
    return lambda t: t["gpus"][gpu].update({function: value})


def fields(gpu: int, changed: dict[str, Any]) -> Change:
    """A GPU answers these fields so."""
    return lambda t: t["gpus"][gpu].setdefault("fields", {}).update(changed)


def every(function: str, value: Any) -> Change:
    """All GPUs answer a function so."""
    return lambda t: t["every"].update({function: value})


def without(*functions: str) -> Change:
    """An older driver: it knows none of these functions."""

    def change(t: Told) -> None:
        for function in functions:
            t["every"].pop(function, None)
            for gpu in t["gpus"]:
                gpu.pop(function, None)

    return change


def bus(host: Host, address: str, driver: str = "nvidia", kind: str = "0x030200") -> None:
    """A GPU on the PCI bus of a host."""
    folder = host.root / "sys" / "bus" / "pci" / "devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text(f"{kind}\n")
    if driver:
        drivers = host.root / "sys" / "bus" / "pci" / "drivers" / driver
        drivers.mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(f"../../drivers/{driver}")
