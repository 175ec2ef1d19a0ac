"""Which services a GPU node may run, how their processes are called, and what calls for them."""

from collections.abc import Callable
from typing import NamedTuple

from bigiron.errors import NoData, Permanent
from bigiron.host import Host

NVIDIA = "0x10de"
BRIDGE = "0x0680"
"""PCI class of an NVSwitch (other bridge device), as the driver matches it."""


class Service(NamedTuple):
    """``process`` is its name as the kernel cuts it (15 characters); ``fault`` what its end is.

    ``hardware`` tells from the machine whether it has to run.
    """

    name: str
    process: str
    units: tuple[str, ...]
    fault: str
    hardware: Callable[[Host], bool] | None = None


def nvswitches(host: Host) -> bool:
    """Whether the host itself has NVSwitches (HGX A100 and H100; not trays of an NVL rack)."""
    if any(True for _ in host.glob("/proc/driver/nvidia-nvswitch/devices/*")):
        return True
    for path in host.glob("/sys/bus/pci/devices/*/class"):
        if _start(host, path) == BRIDGE:
            vendor = path.removesuffix("class") + "vendor"
            if _start(host, vendor) == NVIDIA:
                return True
    return False


def _start(host: Host, path: str) -> str:
    try:
        return host.read(path)[:6]
    except (NoData, Permanent):
        return ""


SERVICES = (
    Service(
        "nvidia-fabricmanager",
        "nv-fabricmanage",
        ("nvidia-fabricmanager",),
        "fm.not_running",
        nvswitches,
    ),
    Service("nvlsm", "nvlsm", ("nvlsm",), "service.nvlsm"),
    Service("nvidia-imex", "nvidia-imex", ("nvidia-imex",), "imex.unhealthy"),
    Service(
        "nvidia-persistenced",
        "nvidia-persiste",
        ("nvidia-persistenced",),
        "service.persistenced",
    ),
    Service(
        "nv-hostengine",
        "nv-hostengine",
        ("nvidia-dcgm", "dcgm", "nv-hostengine"),
        "service.dcgm",
    ),
    Service("kubelet", "kubelet", ("kubelet",), "service.kubelet"),
    Service("containerd", "containerd", ("containerd",), "service.containerd"),
    Service("slurmd", "slurmd", ("slurmd",), "service.slurmd"),
    Service("munged", "munged", ("munge", "munged"), "service.munge"),
    Service("chronyd", "chronyd", ("chronyd", "chrony"), "service.time"),
    Service("ntpd", "ntpd", ("ntpd", "ntp", "ntpsec"), "service.time"),
    Service("systemd-timesyncd", "systemd-timesyn", ("systemd-timesyncd",), "service.time"),
    Service("rasdaemon", "rasdaemon", ("rasdaemon",), "service.rasdaemon"),
    Service("opensm", "opensm", ("opensm", "opensmd"), "service.opensm"),
)
"""Process names: the binaries of the packages (nv-fabricmanager, nvidia-persistenced ...)."""
