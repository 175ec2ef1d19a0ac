"""The facts that matter, and what another value of them does. Any other fact may differ freely.

A hostname, a serial number, a boot id differ on every node and do nothing: they are not here.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from bigiron.model import FactValue


class Relevant(NamedTuple):
    """Why a fact matters.

    ``order`` tells how values compare: ``version`` (a newer one may be a rollout), ``hex`` (the
    same, its numbers written in base 16), ``least`` (more than the others' is no fault) or "" (a
    value is the same or another).
    """

    effect: str
    source: str
    order: str = ""
    fault: str = "config.drift"


_NVSMI = "NVIDIA, nvidia-smi manual"
_NCCL = "NVIDIA, NCCL documentation, environment variables"
_KERNEL = "Linux kernel documentation"

RELEVANT: Mapping[str, Relevant] = {
    "driver_version": Relevant(
        "Its GPUs run another driver than the rest of the job.",
        "NVIDIA, driver release notes: behaviour and fixes differ by version",
        "version",
    ),
    "cuda_version": Relevant(
        "Programs meet another CUDA than elsewhere.", "NVIDIA, CUDA compatibility", "version"
    ),
    "fabricmanager_version": Relevant(
        "Fabric Manager must match the driver, or NVSwitch systems do not start.",
        "NVIDIA, Fabric Manager user guide",
        "version",
    ),
    "nccl_version": Relevant(
        "Ranks with another NCCL cannot join, or choose another algorithm.", _NCCL, "version"
    ),
    "gsp_firmware_version": Relevant(
        "Another GPU system processor firmware than its like.", _NVSMI, "version"
    ),
    "kernel": Relevant("It runs another kernel than its like.", _KERNEL, "version"),
    "kernel_cmdline": Relevant(
        "Other kernel arguments: IOMMU, huge pages or isolation may differ.", _KERNEL
    ),
    "os_version": Relevant("Another system release: other libraries.", "os-release(5)", "version"),
    "bios_version": Relevant(
        "Another BIOS: other power, NUMA and PCIe settings.", "vendors' BIOS notes", "version"
    ),
    "bmc_version": Relevant(
        "Another BMC firmware: other fan curves and sensors.", "vendors' BMC notes", "version"
    ),
    "vbios_version": Relevant("Another VBIOS: other clock and power tables.", _NVSMI, "hex"),
    "inforom_version": Relevant("Another InfoROM image.", _NVSMI, "version"),
    "firmware_version": Relevant(
        "Another firmware than its like: other link training and fixes.",
        "vendors' firmware notes",
        "version",
    ),
    "power_limit_w": Relevant("A lower power limit lowers clocks under load.", _NVSMI, "least"),
    "clock_limit_mhz": Relevant("Locked clocks hold the whole job back.", _NVSMI, "least"),
    "application_clock_mhz": Relevant("Locked clocks hold the whole job back.", _NVSMI, "least"),
    "ecc_mode": Relevant("Without ECC memory errors corrupt results silently.", _NVSMI),
    "mig_mode": Relevant("A partitioned GPU cannot take a whole-GPU job.", _NVSMI),
    "persistence_mode": Relevant("Without persistence the driver unloads between jobs.", _NVSMI),
    "compute_mode": Relevant("Another compute mode refuses processes its like accept.", _NVSMI),
    "addressing_mode": Relevant("Another addressing mode of GPU memory.", _NVSMI),
    "pcie_link_width_max": Relevant("Fewer lanes: less host bandwidth.", "PCIe base", "least"),
    "pcie_link_gen_max": Relevant(
        "A slower generation halves host bandwidth.", "PCIe base", "least"
    ),
    "pcie_link_width": Relevant("Fewer lanes: less host bandwidth.", "PCIe base", "least"),
    "pcie_link_gen": Relevant("A slower generation halves host bandwidth.", "PCIe base", "least"),
    "pcie_slot": Relevant("It sits in another slot: another path to CPU and NIC.", "topology"),
    "numa_node": Relevant(
        "It hangs on another CPU socket: traffic crosses between sockets.", _KERNEL
    ),
    "nvlink_count": Relevant("Fewer NVLinks: less bandwidth to its peers.", _NVSMI, "least"),
    "gpu_count": Relevant(
        "A job that asks for all GPUs cannot start.", "Slurm, gres.conf", "least", "config.missing"
    ),
    "memory_total_gb": Relevant("Less memory than its like.", "dmidecode", "least"),
    "iommu": Relevant("An IOMMU in the way slows or breaks peer-to-peer copies.", _NCCL),
    "acs": Relevant("PCIe ACS sends peer-to-peer copies through the CPU.", _NCCL),
    "hugepages": Relevant("Other huge pages: slower pinning and page walks.", _KERNEL),
    "transparent_hugepages": Relevant("Other huge pages: stalls by compaction.", _KERNEL),
    "cpu_governor": Relevant("Another governor: slower launches and data loading.", _KERNEL),
    "smt": Relevant("Another number of threads a core: ranks share cores.", _KERNEL),
    "link_rate_gbps": Relevant(
        "The slowest link sets the pace of every collective.", "InfiniBand specification", "least"
    ),
    "link_layer": Relevant("InfiniBand and Ethernet ports do not meet.", "RDMA core"),
    "mtu": Relevant("Another MTU: fragments or drops between hosts.", _KERNEL),
    "mounts": Relevant("A mount differs: jobs miss their data or write elsewhere.", "mount(8)"),
}

PREFIXES: Mapping[str, Relevant] = {
    "env.NCCL_": Relevant("Ranks with other NCCL settings hang or slow the others.", _NCCL),
    "env.CUDA_": Relevant("Other CUDA settings than its like.", "NVIDIA, CUDA environment"),
    "env.UCX_": Relevant("Other transport settings than its like.", "UCX documentation"),
    "mount.": Relevant("A mount differs: jobs miss their data or write elsewhere.", "mount(8)"),
    "sysctl.": Relevant("Another kernel setting than its like.", _KERNEL),
    "firmware_": Relevant("Another firmware than its like.", "vendors' firmware notes", "version"),
}
"""Families of facts, by how their names begin."""

ALIASES = {
    "fw_version": "firmware_version",
    "nic_firmware_version": "firmware_version",
    "nvidia_driver_version": "driver_version",
    "kernel_version": "kernel",
    "kernel_args": "kernel_cmdline",
    "bmc_firmware_version": "bmc_version",
    "nvlinks": "nvlink_count",
}
"""Other names of the same fact."""

ONLY_DECLARED = frozenset({"pcie_link_gen"})
"""Moves with load, so that what most others show says nothing."""

BUS = "bus"
AT_ITS_PLACE = frozenset({"numa_node", "pcie_slot"})
"""Compared at the same bus address of other nodes: indexes move."""

DRIVER = "driver_version"
WITH_DRIVER = frozenset({"fabricmanager_version", "cuda_version", "gsp_firmware_version"})
"""Come and go with the driver: while it is rolled out, theirs is the same wave."""

TOLD_AS = {"link_rate_gbps": "nic.rate", "mtu": "nic.mtu", "firmware_version": "nic.firmware"}
"""The event by which a document may have told a difference itself."""

READS = tuple(f"fact:{name}" for name in (*RELEVANT, *ALIASES))


@cache
def relevant(name: str) -> Relevant | None:
    """Why a fact matters; None if it does not."""
    found = RELEVANT.get(ALIASES.get(name, name))
    if found is None:
        found = next((r for prefix, r in PREFIXES.items() if name.startswith(prefix)), None)
    return found


def newer(value: FactValue, other: FactValue, order: str) -> bool:
    """Whether a value is a later version than another; False where versions have no order."""
    if order not in ("version", "hex") or isinstance(value, bool) or isinstance(other, bool):
        return False
    base = 16 if order == "hex" else 10
    return _parts(str(value), base) > _parts(str(other), base)


def better(value: FactValue, other: FactValue, order: str) -> bool:
    """Whether a value is more than another where more is no fault."""
    return order == "least" and _number(value) > _number(other) > 0


def fits(value: FactValue, allowed: tuple[FactValue, ...], order: str) -> bool:
    """Whether a value is one of those allowed; where more is no fault, at least the least."""
    if any(value == other or str(value) == str(other) for other in allowed):
        return True
    numbers = [_number(other) for other in allowed]
    return order == "least" and bool(numbers) and _number(value) >= min(numbers) > 0


def _parts(text: str, base: int) -> tuple[int, ...]:
    """The numbers in a version, for order: ``570.124.06`` before ``570.158.01``."""
    digits = "0123456789abcdef"[:base]
    words = "".join(c if c.lower() in digits else " " for c in text).split()
    return tuple(int(word[:9], base) for word in words)


def _number(value: FactValue) -> float:
    """0 for what is no number."""
    try:
        return float(value)
    except ValueError:
        return 0.0


UNITS = {"gbps": "Gb/s", "w": "W", "gb": "GB", "mhz": "MHz"}
"""Units by the end of a fact's name."""


def label(name: str) -> str:
    """A fact's name as people say it: ``driver version``, ``link rate``."""
    words, _, unit = name.rpartition("_")
    text = (words if unit in UNITS else name).replace("_", " ")
    for word in ("pcie", "numa", "mig", "ecc", "mtu", "nccl"):
        text = text.replace(word, "PCIe" if word == "pcie" else word.upper())
    return text if not name.startswith(("env.", "sysctl.", "mount.")) else name


def said(name: str, value: FactValue) -> str:
    """A value with its unit."""
    unit = UNITS.get(name.rpartition("_")[2], "")
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{text} {unit}" if unit else text
