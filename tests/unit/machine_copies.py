"""Copies of captured hosts, to be made sick: real files, for what looks through folders itself."""

import shutil
from pathlib import Path

from tests.unit.collected import HOSTS

from bigiron.host import Host

PARTS = (
    *("bigiron", "dev", "etc", "proc", "sys/fs", "sys/firmware"),
    *("sys/devices/system/edac", "sys/devices/system/clocksource"),
)
DRIVES = "sys/class/nvme"
NVSWITCHES = "sys/bus/pci/devices"


def copied(name: str, to: Path) -> Host:
    """What services, mounts, memory, clock, drives and BMC read of a host."""
    root = to / name
    if (HOSTS / name / DRIVES).exists():
        shutil.copytree(HOSTS / name / DRIVES, root / DRIVES)  # the folders behind the links
    for part in PARTS:
        if (HOSTS / name / part).exists():
            shutil.copytree(HOSTS / name / part, root / part, symlinks=True)
    for device in (HOSTS / name / NVSWITCHES).glob("*"):
        at = root / NVSWITCHES / device.name
        at.mkdir(parents=True)
        for file in ("class", "vendor"):
            shutil.copyfile(device / file, at / file)
    return Host(root=root)


def put(host: Host, path: str, content: str | int | bytes) -> None:
    """Change a file of a copy; the path may lead through links."""
    at = host.root / path.lstrip("/")
    at.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())
