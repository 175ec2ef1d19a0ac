"""Everything about a machine that should be alike on all of its kind: golden's input.

Told at start and each hour. What moves with load is not here, nor what others tell: GPUs' modes
and firmware (readers of GPUs), the BMC's version (bmc), adapters' firmware (infiniband), where
parts sit (pcie). Configuration files may lie on a server that does not answer.
"""

from collections.abc import Callable, Iterator

from bigiron.collect import Seen, collector
from bigiron.collect.gpu_models import sku
from bigiron.collect.inventory_machine import Told, board, iommu, kernel, memory, processors
from bigiron.collect.inventory_setup import (
    configurations,
    drivers,
    environment,
    limits,
    mounts,
    packages,
    sysctls,
)
from bigiron.collect.pci_tree import Part, tree
from bigiron.errors import NoData
from bigiron.host import Host
from bigiron.model import Fact

TOPICS: tuple[Callable[[Host], Told], ...] = (
    kernel,
    board,
    processors,
    memory,
    drivers,
    sysctls,
    environment,
    limits,
    packages,
    mounts,
    configurations,
)


@collector(every_s=3600.0, timeout_s=60.0, apart=True)
def inventory(host: Host) -> Iterator[Seen]:
    """Kernel, board, CPUs, memory, IOMMU, drivers, modules, sysctls, mounts, NCCL, packages."""
    parts: tuple[Part, ...] = ()
    try:
        parts = tree(host).parts
    except NoData:
        parts = ()
    said = False
    for device, name, value in _told(host, parts):
        if value not in ("", 0):
            said = True
            yield Fact("", name, value, device)
    if not said:
        raise NoData("neither /proc nor /sys is to be seen")
    yield Fact("", "sku", sku(parts))


def _told(host: Host, parts: tuple[Part, ...]) -> Told:
    for topic in TOPICS:
        yield from topic(host)
    yield from iommu(host, parts)
