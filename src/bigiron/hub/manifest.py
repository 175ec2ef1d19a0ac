"""Golden manifests among the documents: what they declare of the machines beside them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from bigiron.detect import Declared, Fleet
from bigiron.hub.hosts import Reading
from bigiron.ingest import pci_address
from bigiron.ingest.golden_manifest import SEVERAL
from bigiron.model import Fact, FactValue

MOVING = frozenset({"pcie_link_gen"})
"""An idle GPU lowers its link's generation to save power: that is no other configuration."""


def declared(readings: Sequence[Reading], fleet: Fleet) -> Iterator[Declared]:
    """Each device's golden facts, under its address and every name the fleet knows it by."""
    names: dict[str, set[str]] = defaultdict(set)
    for (_, name), device in fleet.devices.items():
        if device.bus:
            names[pci_address(device.bus) or device.bus].add(name)
    for reading in readings:
        if not reading.golden:
            continue
        of_device: dict[str, dict[str, tuple[FactValue, ...]]] = defaultdict(dict)
        for fact in reading.observations:
            if isinstance(fact, Fact):
                of_device[fact.device][fact.name] = _values(fact.value)
        for told, facts in of_device.items():
            for name in sorted({told, *names.get(told, set())}):
                gpu = name.startswith("gpu")
                kept = {k: v for k, v in facts.items() if not (gpu and k in MOVING)}
                yield Declared(kept, device=name)


def _values(value: FactValue) -> tuple[FactValue, ...]:
    return tuple(value.split(SEVERAL)) if isinstance(value, str) else (value,)
