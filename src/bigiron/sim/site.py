"""The recorded site: nodes in their places, and the parts in them with their identities.

Two SKUs in two partitions, as sites have that bought twice. Bus addresses are those of the
vendor's eight-GPU systems; names and identities are made up from the seed.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.model import Device, Node
from bigiron.sim.streams import stream

GPUS = 8
NODES_PER_RACK = 8
RINGS = (("ring0", 0.05), ("ring1", 0.15), ("ring2", 0.3), ("ring3", 0.5))
"""Rollout rings and the share of nodes in each: canaries first."""
HBM = (("SK hynix", 0.6), ("Micron", 0.4))
"""Memory vendors of the racks that a third one did not supply."""
THIRD_VENDOR = "Samsung"


@dataclass(frozen=True, slots=True)
class Sku:
    """A node type. Watts, MHz, degrees Celsius, kelvin per watt, link generation and width."""

    name: str
    gpu: str
    partition: str
    buses: tuple[str, ...]
    nic_buses: tuple[str, ...]
    nic: str
    vbios: str
    idle_w: float
    limit_w: float
    clock_mhz: float
    idle_clock_mhz: float
    clock_step_mhz: float
    resistance: float
    slowdown_c: float
    pcie_gen: int


H100 = Sku(
    name="H100-SXM5-80GB",
    gpu="NVIDIA H100 80GB HBM3",
    partition="train",
    buses=("1b", "43", "52", "61", "9d", "c3", "d1", "df"),
    nic_buses=("18", "40", "4f", "5e", "9a", "c0", "ce", "dc"),
    nic="ConnectX-7",
    vbios="96.00.A5.00.03",
    idle_w=72,
    limit_w=700,
    clock_mhz=1980,
    idle_clock_mhz=345,
    clock_step_mhz=15,
    resistance=0.056,
    slowdown_c=87,
    pcie_gen=5,
)
A100 = Sku(
    name="A100-SXM4-80GB",
    gpu="NVIDIA A100-SXM4-80GB",
    partition="general",
    buses=("07", "0f", "47", "4e", "87", "90", "b7", "bd"),
    nic_buses=("0c", "12", "4b", "54", "8d", "94", "ba", "cc"),
    nic="ConnectX-6",
    vbios="92.00.9E.00.01",
    idle_w=58,
    limit_w=400,
    clock_mhz=1410,
    idle_clock_mhz=210,
    clock_step_mhz=15,
    resistance=0.085,
    slowdown_c=85,
    pcie_gen=4,
)


@dataclass(slots=True, repr=False)
class Site:
    """What stands where. ``place[node, index]`` is the socket a GPU index means at the moment.

    ``uuids`` and ``serials`` are by socket and change when a part is swapped.
    """

    nodes: tuple[Node, ...]
    skus: tuple[Sku, ...]
    hbm: list[list[str]]
    uuids: list[list[str]]
    serials: list[list[str]]
    nic_ids: list[list[str]]
    guids: list[list[str]]
    psus: list[list[str]]
    place: NDArray[np.int64]

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(node.name for node in self.nodes)

    def index_of(self, node: int, socket: int) -> int:
        """The GPU index that means this socket now."""
        return int(np.flatnonzero(self.place[node] == socket)[0])

    def bus(self, node: int, socket: int) -> str:
        """PCI address of the GPU in a socket."""
        return f"0000:{self.skus[node].buses[socket]}:00.0"

    def nic_bus(self, node: int, nic: int) -> str:
        """PCI address of a NIC."""
        return f"0000:{self.skus[node].nic_buses[nic]}:00.0"

    def groups(self, by: str) -> dict[str, list[int]]:
        """Node numbers by rack, leaf, pdu, cooling, ring, partition or site."""
        found: dict[str, list[int]] = {}
        for n, node in enumerate(self.nodes):
            found.setdefault(getattr(node, by), []).append(n)
        return dict(sorted(found.items()))

    def devices(self) -> Iterator[Device]:
        """Every GPU, NIC and power supply as it stands."""
        for n, node in enumerate(self.nodes):
            sku = self.skus[n]
            for index in range(GPUS):
                g = int(self.place[n, index])
                yield Device(
                    *(node.name, f"gpu{index}", "gpu", self.uuids[n][g]),
                    *(self.bus(n, g), sku.gpu, "NVIDIA"),
                )
            for k in range(GPUS):
                bus = self.nic_bus(n, k)
                yield Device(
                    node.name, f"nic{k}", "nic", self.nic_ids[n][k], bus, sku.nic, "NVIDIA"
                )
            for k, serial in enumerate(self.psus[n]):
                yield Device(node.name, f"psu{k}", "psu", serial)


def site(nodes: int, seed: int, *, third_vendor: bool) -> Site:
    """A site of ``nodes`` eight-GPU nodes; ``third_vendor`` puts another HBM maker in one rack
    in six. The last quarter of a site of three racks or more is of an older SKU.
    """
    rng = stream(seed, "site")
    racks = (nodes + NODES_PER_RACK - 1) // NODES_PER_RACK
    older = racks - max(1, racks // 4) if racks >= 3 else racks
    rings = rng.choice(len(RINGS), nodes, p=[share for _, share in RINGS])
    vendors = _vendors(racks, seed, third_vendor)
    width = max(3, len(str(nodes)))
    made, skus, hbm = [], [], []
    for n in range(nodes):
        rack = n // NODES_PER_RACK
        sku = A100 if rack >= older else H100
        skus.append(sku)
        hbm.append([vendors[rack]] * GPUS)
        made.append(
            Node(
                name=f"n{n + 1:0{width}d}",
                sku=sku.name,
                role="compute",
                rack=f"r{rack + 1:02d}",
                leaf=f"leaf{rack // 2 + 1:02d}",
                pdu=f"pdu{(rack + 1) // 2 + 1:02d}",
                cooling=f"loop{rack * max(2, racks // 4) // racks + 1:02d}",
                ring=RINGS[rings[n]][0],
                partition=sku.partition,
                site="s1",
            )
        )
    each = range(nodes)
    return Site(
        tuple(made),
        tuple(skus),
        hbm,
        [[new_uuid(rng) for _ in range(GPUS)] for _ in each],
        [[new_serial(rng) for _ in range(GPUS)] for _ in each],
        [[f"MT{rng.integers(10**12):012d}" for _ in range(GPUS)] for _ in each],
        [[f"0x{rng.integers(2**62):016x}" for _ in range(GPUS)] for _ in each],
        [[f"PS{rng.integers(10**10):010d}" for _ in range(2)] for _ in each],
        np.tile(np.arange(GPUS), (nodes, 1)),
    )


def _vendors(racks: int, seed: int, third: bool) -> list[str]:
    """The memory vendor of each rack's GPUs: racks are bought whole."""
    rng = stream(seed, "hbm vendors")
    picks = rng.choice(len(HBM), racks, p=[share for _, share in HBM])
    vendors = [HBM[pick][0] for pick in picks]
    if third:
        for rack in rng.permutation(racks)[: max(1, racks // 6)]:
            vendors[rack] = THIRD_VENDOR
    return vendors


def new_uuid(rng: np.random.Generator) -> str:
    """A GPU's UUID."""
    return f"GPU-{uuid.UUID(bytes=rng.bytes(16), version=4)}"


def new_serial(rng: np.random.Generator) -> str:
    """A GPU board's serial number."""
    return f"16{rng.integers(10**11):011d}"
