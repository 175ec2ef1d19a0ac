"""The simulated machines: names, places, parts and identities, all from one seed."""

import uuid
from dataclasses import dataclass

import numpy as np

from bigiron.model import Device, Node

SKU = "H100-SXM5-80GB"
MODEL = "NVIDIA H100 80GB HBM3"
DRIVER = "570.172.08"
VBIOS = "96.00.A5.00.03"
GPUS = 8
BUSES = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")
NODES_PER_RACK = 8
RACKS_PER_LEAF = 2
RACKS_PER_COOLING = 4


@dataclass(frozen=True, slots=True)
class Inventory:
    """Nodes and devices; ``uuids[node][gpu]`` and ``serials[node][gpu]`` are the GPUs' own."""

    nodes: tuple[Node, ...]
    uuids: tuple[tuple[str, ...], ...]
    serials: tuple[tuple[str, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(node.name for node in self.nodes)

    def devices(self) -> list[Device]:
        """Every GPU and NIC as the model's noun."""
        made: list[Device] = []
        for n, node in enumerate(self.nodes):
            made += [
                Device(node.name, f"gpu{g}", "gpu", self.uuids[n][g], bus(g), MODEL, "NVIDIA")
                for g in range(GPUS)
            ]
            made += [
                Device(node.name, f"nic{g}", "nic", f"{node.name}-mlx5-{g}", nic_bus(g))
                for g in range(GPUS)
            ]
        return made


def bus(gpu: int) -> str:
    """PCI address of a GPU by its index."""
    return f"0000:{BUSES[gpu]}:00.0"


def nic_bus(nic: int) -> str:
    """PCI address of a NIC by its index: the slot after its GPU's."""
    return f"0000:{int(BUSES[nic], 16) + 1:02x}:00.0"


def inventory(nodes: int, seed: int) -> Inventory:
    """A fleet of ``nodes`` eight-GPU nodes in racks of 8, two racks a leaf switch."""
    rng = np.random.default_rng([seed, 1])
    made, uuids, serials = [], [], []
    width = max(3, len(str(nodes)))
    for n in range(nodes):
        rack = n // NODES_PER_RACK
        made.append(
            Node(
                name=f"n{n + 1:0{width}d}",
                sku=SKU,
                role="compute",
                rack=f"r{rack + 1:02d}",
                leaf=f"leaf{rack // RACKS_PER_LEAF + 1:02d}",
                pdu=f"pdu{rack + 1:02d}",
                cooling=f"loop{rack // RACKS_PER_COOLING + 1:02d}",
                ring=f"ring{n % 4}",
                partition="train",
                site="demo",
            )
        )
        uuids.append(tuple(f"GPU-{uuid.UUID(bytes=rng.bytes(16), version=4)}" for _ in range(GPUS)))
        serials.append(tuple(f"16{rng.integers(10**11):011d}" for _ in range(GPUS)))
    return Inventory(tuple(made), tuple(uuids), tuple(serials))
