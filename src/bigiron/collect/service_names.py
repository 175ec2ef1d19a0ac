"""Which services a GPU node may run, how their processes are called, and what calls for them."""

from collections.abc import Callable
from typing import NamedTuple

from bigiron.errors import NoData, Permanent
from bigiron.host import Host

NVIDIA = "0x10de"
BRIDGE = "0x0680"
"""PCI class of an NVSwitch (other bridge device), as the driver matches it."""

_BLACKWELL = frozenset({"0x2901", "0x3182"})
"""PCI devices B200 and B300 (the list of PCI ids)."""


class Service(NamedTuple):
    """``process`` is its name as the kernel cuts it (15 characters); ``fault`` what its end is.

    ``calls`` tells from the machine whether it has to run whatever systemd says, ``fits`` whether
    it has to where systemd starts it: images are made for several kinds of machine. One not known
    ``by_name`` counts only as a unit of systemd: in containers it comes and goes.
    Of services with one ``fault``, one that runs is enough.
    """

    name: str
    process: str
    units: tuple[str, ...]
    fault: str
    calls: Callable[[Host], bool] | None = None
    fits: Callable[[Host], bool] | None = None
    by_name: bool = True


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


def fifth_nvlink(host: Host) -> bool:
    """Whether its GPUs are B200 or B300, whose switches are no PCI devices of their own.

    A guest that was handed such GPUs needs no Fabric Manager: its host has it.
    """
    return any(
        _start(host, path) in _BLACKWELL
        and _start(host, path.removesuffix("device") + "vendor") == NVIDIA
        for path in host.glob("/sys/bus/pci/devices/*/device")
    )


def imex_nodes(host: Host) -> bool:
    """Whether nodes are listed that IMEX joins."""
    try:
        lines = host.read("/etc/nvidia-imex/nodes_config.cfg").splitlines()
    except (NoData, Permanent):
        return False
    return any(line.strip() and not line.lstrip().startswith("#") for line in lines)


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
        calls=nvswitches,
        fits=fifth_nvlink,
    ),
    Service("nvlsm", "nvlsm", ("nvlsm",), "service.nvlsm", fits=fifth_nvlink),
    Service(
        "nvidia-imex",
        "nvidia-imex",
        ("nvidia-imex",),
        "imex.unhealthy",
        fits=imex_nodes,
        by_name=False,
    ),
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
