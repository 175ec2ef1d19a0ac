"""The facts that matter, and what another value of them does. Any other fact may differ freely.

A hostname, a serial number, a boot id differ on every node and do nothing: they are not here.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import NamedTuple


class Weight(StrEnum):
    """What another value is worth to a job that spans many nodes, the worst first."""

    STOPS = "stops or corrupts jobs"
    SLOWS = "slows jobs"
    DIFFERS = "behaves differently"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Weight).index(self)


class Relevant(NamedTuple):
    """Why a fact matters.

    ``order`` tells how values compare: ``version`` (a newer one may be a rollout), ``hex`` (the
    same, its numbers written in base 16), ``least`` (more than the others' is no fault),
    ``switch`` (on or off, however it is said), ``words`` (a set of settings in one text) or ""
    (a value is the same or another). ``tolerance`` is the share by which numbers may differ and
    still be the same.
    """

    effect: str
    source: str
    weight: Weight
    order: str = ""
    tolerance: float = 0.0
    fault: str = "config.drift"


_STOPS, _SLOWS, _DIFFERS = Weight
_NVSMI = "NVIDIA, nvidia-smi manual"
_NCCL = "NVIDIA, NCCL documentation, environment variables"
_KERNEL = "Linux kernel documentation"

MEMORY = 0.01
"""What a kernel keeps for itself differs by less; one memory module of 64 is 1.6 %."""

CLOCK = 0.01
"""NVIDIA's clocks go in steps of 15 MHz, 0.8 % of 1,980 MHz: rounding to the step is no limit."""

POWER = 0.005
"""A limit is told in whole watts or in milliwatts: 699.99 W is 700 W."""

VERSIONS: Mapping[str, Relevant] = {
    "driver_version": Relevant(
        "Its GPUs run another driver than the rest of the job.",
        "NVIDIA, driver release notes: behaviour and fixes differ by version",
        _DIFFERS,
        "version",
    ),
    "cuda_version": Relevant(
        "Programs meet another CUDA than elsewhere.",
        "NVIDIA, CUDA compatibility",
        _DIFFERS,
        "version",
    ),
    "fabricmanager_version": Relevant(
        "Fabric Manager must match the driver, or NVSwitch systems do not start.",
        "NVIDIA, Fabric Manager user guide",
        _STOPS,
        "version",
    ),
    "nccl_version": Relevant(
        "Ranks with another NCCL cannot join, or choose another algorithm.",
        _NCCL,
        _STOPS,
        "version",
    ),
    "gsp_firmware_version": Relevant(
        "Another GPU system processor firmware than its like.", _NVSMI, _DIFFERS, "version"
    ),
    "kernel": Relevant("It runs another kernel than its like.", _KERNEL, _DIFFERS, "version"),
    "os_version": Relevant(
        "Another system release: other libraries.", "os-release(5)", _DIFFERS, "version"
    ),
    "bios_version": Relevant(
        "Another BIOS: other power, NUMA and PCIe settings.",
        "vendors' BIOS notes",
        _DIFFERS,
        "version",
    ),
    "bmc_version": Relevant(
        "Another BMC firmware: other fan curves and sensors.",
        "vendors' BMC notes",
        _DIFFERS,
        "version",
    ),
    "vbios_version": Relevant(
        "Another VBIOS: other clock and power tables.", _NVSMI, _DIFFERS, "hex"
    ),
    "inforom_version": Relevant("Another InfoROM image.", _NVSMI, _DIFFERS, "version"),
    "firmware_version": Relevant(
        "Another firmware than its like: other link training and fixes.",
        "vendors' firmware notes",
        _DIFFERS,
        "version",
    ),
}

OF_GPUS: Mapping[str, Relevant] = {
    "power_limit_w": Relevant(
        "A lower power limit lowers clocks under load.", _NVSMI, _SLOWS, "least", POWER
    ),
    "clock_limit_mhz": Relevant(
        "Locked clocks hold the whole job back.", _NVSMI, _SLOWS, "least", CLOCK
    ),
    "application_clock_mhz": Relevant(
        "Locked clocks hold the whole job back.", _NVSMI, _SLOWS, "least", CLOCK
    ),
    "ecc_mode": Relevant(
        "Without ECC memory errors corrupt results silently.", _NVSMI, _STOPS, "switch"
    ),
    "mig_mode": Relevant(
        "A partitioned GPU cannot take a whole-GPU job.", _NVSMI, _STOPS, "switch"
    ),
    "persistence_mode": Relevant(
        "Without persistence the driver unloads between jobs: each start takes seconds more.",
        _NVSMI,
        _SLOWS,
        "switch",
    ),
    "compute_mode": Relevant(
        "Another compute mode refuses processes its like accept.", _NVSMI, _STOPS, "switch"
    ),
    "addressing_mode": Relevant("Another addressing mode of GPU memory.", _NVSMI, _DIFFERS),
    "nvlink_count": Relevant(
        "Fewer NVLinks: less bandwidth to its peers.", _NVSMI, _SLOWS, "least"
    ),
    "gpu_count": Relevant(
        "A job that asks for all GPUs cannot start.",
        "Slurm, gres.conf",
        _STOPS,
        "least",
        fault="config.missing",
    ),
}

OF_BUSES: Mapping[str, Relevant] = {
    "pcie_link_width_max": Relevant(
        "Fewer lanes: less host bandwidth.", "PCIe base", _SLOWS, "least"
    ),
    "pcie_link_gen_max": Relevant(
        "A slower generation halves host bandwidth.", "PCIe base", _SLOWS, "least"
    ),
    "pcie_link_width": Relevant("Fewer lanes: less host bandwidth.", "PCIe base", _SLOWS, "least"),
    "pcie_link_gen": Relevant(
        "A slower generation halves host bandwidth.", "PCIe base", _SLOWS, "least"
    ),
    "pcie_slot": Relevant(
        "It sits in another slot: another path to CPU and NIC.", "topology", _SLOWS
    ),
    "numa_node": Relevant(
        "It hangs on another CPU socket: traffic crosses between sockets.", _KERNEL, _SLOWS
    ),
    "link_rate_gbps": Relevant(
        "The slowest link sets the pace of every collective.",
        "InfiniBand specification",
        _SLOWS,
        "least",
    ),
    "link_layer": Relevant("InfiniBand and Ethernet ports do not meet.", "RDMA core", _STOPS),
    "mtu": Relevant("Another MTU: fragments or drops between hosts.", _KERNEL, _STOPS),
}

OF_HOSTS: Mapping[str, Relevant] = {
    "kernel_cmdline": Relevant(
        "Other kernel arguments: IOMMU, huge pages or isolation may differ.",
        _KERNEL,
        _SLOWS,
        "words",
    ),
    "memory_total_gb": Relevant("Less memory than its like.", "dmidecode", _SLOWS, "least", MEMORY),
    "iommu": Relevant(
        "An IOMMU in the way slows or breaks peer-to-peer copies.", _NCCL, _SLOWS, "switch"
    ),
    "acs": Relevant("PCIe ACS sends peer-to-peer copies through the CPU.", _NCCL, _SLOWS, "switch"),
    "hugepages": Relevant("Other huge pages: slower pinning and page walks.", _KERNEL, _SLOWS),
    "transparent_hugepages": Relevant("Other huge pages: stalls by compaction.", _KERNEL, _SLOWS),
    "cpu_governor": Relevant(
        "Another governor: slower launches and data loading.", _KERNEL, _SLOWS
    ),
    "smt": Relevant(
        "Another number of threads a core: ranks share cores.", _KERNEL, _SLOWS, "switch"
    ),
    "mounts": Relevant(
        "A mount differs: jobs miss their data or write elsewhere.", "mount(8)", _STOPS, "words"
    ),
    "cpu_microcode": Relevant("Another CPU microcode.", _KERNEL, _DIFFERS, "hex"),
    "numa_layout": Relevant("Its CPUs are split into other NUMA nodes.", _KERNEL, _SLOWS),
    "dimm_count": Relevant("Fewer memory modules: less bandwidth.", "dmidecode", _SLOWS, "least"),
    "slurm_conf": Relevant(
        "Its slurmd may run another configuration than the others.", "Slurm, slurm.conf", _DIFFERS
    ),
}

RELEVANT: Mapping[str, Relevant] = {**VERSIONS, **OF_GPUS, **OF_BUSES, **OF_HOSTS}

PREFIXES: Mapping[str, Relevant] = {
    "env.NCCL_": Relevant("Ranks with other NCCL settings hang or slow the others.", _NCCL, _STOPS),
    "env.CUDA_": Relevant(
        "Other CUDA settings than its like.", "NVIDIA, CUDA environment", _DIFFERS
    ),
    "env.UCX_": Relevant("Other transport settings than its like.", "UCX documentation", _SLOWS),
    "mount.": Relevant(
        "A mount differs: jobs miss their data or write elsewhere.", "mount(8)", _STOPS
    ),
    "sysctl.": Relevant("Another kernel setting than its like.", _KERNEL, _DIFFERS),
    "module.nvidia_peermem": Relevant(
        "Without GPUDirect RDMA transfers go through host memory.", _NCCL, _SLOWS
    ),
    "module.": Relevant("A kernel module or its setting differs.", _KERNEL, _DIFFERS),
    "package.": Relevant("Another version of a package.", "dpkg-query(1)", _DIFFERS, "version"),
    "ulimit.": Relevant(
        "Another limit of processes: pinning memory for RDMA may fail.", "limits.conf(5)", _STOPS
    ),
    "firmware_": Relevant(
        "Another firmware than its like.", "vendors' firmware notes", _DIFFERS, "version"
    ),
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
    "os_image": "os_version",
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


def proper(name: str) -> str:
    """The name of a fact that may be known by another."""
    return ALIASES.get(name, name)


@cache
def names_of(name: str) -> tuple[str, ...]:
    """The name of a fact and all its other names."""
    own = proper(name)
    return (name, own, *(other for other, of in ALIASES.items() if of == own))


@cache
def relevant(name: str) -> Relevant | None:
    """Why a fact matters; None if it does not."""
    found = RELEVANT.get(proper(name))
    if found is None:
        found = next((r for prefix, r in PREFIXES.items() if name.startswith(prefix)), None)
    return found
