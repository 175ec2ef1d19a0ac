"""The AMD GPUs of a host from look to look: which there are, which went, which have no driver."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from bigiron.collect.amdsmi_bus import DRIVER, Bus, OnBus, loaded, ours, slot
from bigiron.collect.amdsmi_cper import Records
from bigiron.collect.amdsmi_gpu import HARD, LOOKS, Gpu
from bigiron.collect.amdsmi_kfd import Compute
from bigiron.collect.amdsmi_library import Library, Refused, Status, let_go, name, opened
from bigiron.collect.amdsmi_throttle import Throttle
from bigiron.errors import NoData
from bigiron.host import Host
from bigiron.ingest import pci_address
from bigiron.model import Event

MOST = 128
"""GPUs of one node that are looked at: eight of them in eight partitions are 64."""


@dataclass(slots=True)
class One:
    """A GPU, or a partition of one, and what is remembered of it."""

    gpu: Gpu = field(default_factory=Gpu)
    throttle: Throttle = field(default_factory=Throttle)
    records: Records = field(default_factory=Records)


class Watched:
    """What is known between two looks."""

    def __init__(self) -> None:
        self.compute = Compute()
        self.listed: dict[tuple[str, int], One] = {}
        """By address, and of partitions that share one by their order."""
        self.bound: list[OnBus] = []
        self.closed = 0
        """Why the library does not start; 0: it does, or there is none."""
        self._bus = Bus()
        self._there: list[OnBus] = []
        self._library: Library | None = None
        self._missing: set[str] = set()
        """Addresses that were listed once and are no longer."""
        self._looks: Counter[tuple[str, str]] = Counter()
        """Looks in a row at which something was wrong: what, and with which address."""

    def look(self, host: Host) -> list[One]:
        """The GPUs that the library lists, their metrics read; none where there is no library.

        Raises NoData (no AMD GPU here, or none for this system), Permanent.
        """
        everything = self._bus.gpus(host)
        self._there, before = ours(everything), {one.bus for one in self.bound}
        self.bound = [one for one in self._there if one.driver == DRIVER]
        if not self._there and not self.listed:
            raise NoData("no AMD GPU on the PCI bus")
        if before and any(one.bus not in before for one in self.bound):
            let_go(host)  # a GPU came back: its list is old
        library = self._opened(host) if self.bound else None
        if library is None:
            return []
        if library is not self._library:
            self._list(library)
        present = {slot(one.bus) for one in everything}
        for index, one in enumerate(self.listed.values()):
            gone = bool(one.gpu.bus) and slot(one.gpu.bus) not in present
            one.gpu.begin(library, index, gone=gone)
        return list(self.listed.values())

    def folder(self, bus: str) -> str:
        """Where a GPU is in sysfs; "" if its driver has none of that address."""
        return next((one.folder for one in self.bound if one.bus == bus), "")

    def troubles(self, host: Host) -> Iterator[Event]:
        """What is wrong with the GPUs that are not listed, or with the library."""
        wrong = [*self._bare(host), *self._gone()]
        if self.closed in HARD:
            count = f"{len(self.bound)} GPU{'s' if len(self.bound) > 1 else ''}"
            words = f"AMD SMI does not start ({name(self.closed)}); {count} with their driver"
            wrong.append(("amdgpu.not_answering", "", words))
        looks = {key: self._looks[key] + 1 for code, bus, _ in wrong if (key := (code, bus))}
        self._looks = Counter(looks)
        for code, bus, words in wrong:
            if looks[code, bus] >= LOOKS:
                attrs = {"pci": bus} if bus else {}
                yield Event("", code, words, bus, source="amdsmi", attrs=attrs)

    def _opened(self, host: Host) -> Library | None:
        """The library; None where there is none, or none that lists the GPUs it listed before."""
        self.closed = 0
        try:
            library = opened(host)
        except Refused as refused:
            self.closed = refused.status
            return None
        if library is not None and self.listed and not library.count():
            self.closed = Status.NOT_FOUND
            let_go(host)
            return None
        return library

    def _list(self, library: Library) -> None:
        """All that the library lists; what was listed before keeps what is known of it."""
        before, self.listed, self._library = self.listed, {}, library
        order: Counter[str] = Counter()
        for index in range(min(library.count(), MOST)):
            bus = _address(library, index)
            key = bus, order[bus]
            order[bus] += 1
            one = self.listed[key] = before.get(key) or One()
            one.gpu.bus = bus
        if "" not in order:
            self._missing = ({bus for bus, _ in before if bus} | self._missing) - set(order)

    def _bare(self, host: Host) -> Iterator[tuple[str, str, str]]:
        """GPUs without a driver: all of them because it is not loaded, or some that it refused."""
        bare = [one.bus for one in self._there if not one.driver]
        if bare and not self.bound and not loaded(host):
            count = f"{len(bare)} AMD GPU{'s' if len(bare) > 1 else ''}"
            words = f"the amdgpu driver is not loaded; {count} on the PCI bus"
            yield "amdgpu.driver_missing", "", words
            return
        for bus in bare:
            yield "amdgpu.init_failed", bus, f"{bus}: a GPU that the amdgpu driver did not take"

    def _gone(self) -> Iterator[tuple[str, str, str]]:
        if self.bound:
            for bus in sorted(self._missing):
                yield "amdgpu.lost", bus, f"{bus}: a GPU that was there is no longer listed"


def _address(library: Library, index: int) -> str:
    try:
        told = library.call("amdsmi_get_gpu_device_bdf", index)
    except Refused:
        return ""
    return pci_address(told) if isinstance(told, str) else ""
