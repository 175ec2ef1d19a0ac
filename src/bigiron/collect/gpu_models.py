"""Which accelerator a PCI id is, in one word, for the guess of a node's SKU.

Ids as NVIDIA's gpu-admin-tools (devid_names.py) and the PCI ID repository name them; one that is
not here goes by its number, which tells machines apart as well.
"""

from collections import Counter
from collections.abc import Iterable

from bigiron.collect.pci_tree import Part

MODELS = {
    "10de:1db1": "v100",
    "10de:1db5": "v100",
    "10de:1eb8": "t4",
    "10de:20b0": "a100",
    "10de:20b2": "a100",
    "10de:20f1": "a100-pcie",
    "10de:20b5": "a100-pcie",
    "10de:2235": "a40",
    "10de:2236": "a10",
    "10de:27b8": "l4",
    "10de:26b5": "l40",
    "10de:26b9": "l40s",
    "10de:2330": "h100",
    "10de:2331": "h100-pcie",
    "10de:2324": "h800",
    "10de:2329": "h20",
    "10de:2335": "h200",
    "10de:233b": "h200-nvl",
    "10de:2342": "gh200",
    "10de:2348": "gh200",
    "10de:2901": "b200",
    "10de:2941": "gb200",
    "1002:738c": "mi100",
    "1002:7408": "mi250x",
    "1002:740c": "mi250",
    "1002:740f": "mi210",
    "1002:74a0": "mi300a",
    "1002:74a1": "mi300x",
    "1002:74a5": "mi325x",
    "1002:75a0": "mi350x",
    "1002:75a3": "mi355x",
}


def sku(parts: Iterable[Part]) -> str:
    """``h100x8``; several kinds are joined by a plus; "cpu" where there is no accelerator."""
    found = Counter(
        MODELS.get(one.ids, one.ids.replace(":", "-")) for one in parts if one.kind == "gpu"
    )
    return "+".join(f"{model}x{count}" for model, count in sorted(found.items())) or "cpu"
