"""NVIDIA GPUs by NVML: what is measured every half minute, and what they are every five.

Where an exporter on this node tells a metric already the runner leaves its name in
``host.handles["scraped"]``, and it is not asked for again; ``GIVES`` is all that this tells.

PCIe traffic is what NVML measures in 20 ms when asked, as nvidia-smi shows it: its counters of
bytes may run over unseen.
"""

from collections.abc import Callable, Iterator, Set
from time import monotonic
from typing import Any

from bigiron.collect import Seen, collector, nvml_config, nvml_links, nvml_mig, nvml_samples
from bigiron.collect.nvml_bus import hidden, ours
from bigiron.collect.nvml_fabric import fabric_events
from bigiron.collect.nvml_gpu import AGAIN_S, Gpu, notes, stale, troubles
from bigiron.collect.nvml_library import LOUD, Code, Library, Refused, let_go, name, opened
from bigiron.collect.standing import standing
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.ingest import pci_address
from bigiron.model import Event, Note

GIVES: frozenset[str] = nvml_samples.GIVES | nvml_links.GIVES | nvml_config.GIVES
"""All metrics that NVML gives here."""

MOST = 64
"""GPUs of one node that are looked at."""


class Watched:
    """The GPUs between two looks, by UUID; ``places`` what sat at each index."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self.gpus: dict[str, Gpu] = {}
        self.places: dict[int, Gpu] = {}
        self.library: Library | None = None
        self.opened_s = 0.0
        """Since when this library is the one that is asked."""
        self.thorough_s = float("-inf")
        """When InfoROMs were last read."""


@collector(every_s=30.0, timeout_s=10.0, apart=True)
def nvml(host: Host) -> Iterator[Seen]:
    """NVIDIA GPUs: heat, power, clocks, memory errors, PCIe, NVLink and fabric, by NVML."""
    leave = _scraped(host)
    events: list[Event] = []
    try:
        library = opened(host)
        gpus = _look(host, "nvml", library)
        for gpu in gpus:
            if gpu.answers:
                yield from nvml_samples.samples(gpu, leave)
                yield from nvml_links.links(gpu, leave)
                yield from nvml_mig.samples(gpu, leave)
                events += fabric_events(gpu)
            events += troubles(gpu)
    except Refused as refused:
        let_go(host)
        events, gpus = [_driver_event(host, refused.code)], []
    yield from standing(host, "nvml").news(events)
    yield from notes(gpus)
    _renew(host, "nvml", gpus)


@collector(every_s=300.0, timeout_s=30.0, apart=True)
def nvml_facts(host: Host) -> Iterator[Seen]:
    """NVIDIA GPUs: versions, serial numbers, modes, limits, MIG instances; GPUs not listed."""
    leave = _scraped(host)
    try:
        library = opened(host)
        gpus = _look(host, "nvml_facts", library)
    except Refused as refused:
        let_go(host)
        raise NoData(f"NVML: {name(refused.code)}") from refused  # ``nvml`` tells it
    yield from nvml_config.node_facts(library, len(gpus))
    watched = _watched(host, "nvml_facts")
    thorough = bool(gpus) and gpus[0].now - watched.thorough_s >= AGAIN_S
    for gpu in gpus:
        if gpu.answers:
            yield nvml_config.device(gpu)
            yield from nvml_config.facts(gpu, thorough=thorough)
            yield from nvml_config.limits(gpu, leave)
    if thorough:
        watched.thorough_s = gpus[0].now
    events: list[Event] = []
    for one in _unlisted(host, library, gpus):
        if isinstance(one, Event):
            events.append(one)
        else:
            yield one
    events += [e for gpu in gpus for e in troubles(gpu) if e.code == "nvrm.inforom_corrupt"]
    yield from standing(host, "nvml_facts").news(events)
    _renew(host, "nvml_facts", gpus)


def _scraped(host: Host) -> frozenset[str]:
    told = host.handles.get("scraped")
    return frozenset(told) if isinstance(told, Set) else frozenset()


def _watched(host: Host, of: str) -> Watched:
    return host.held(f"{of}:watched", Watched)


def _renew(host: Host, of: str, gpus: list[Gpu]) -> None:
    watched = _watched(host, of)
    if stale(gpus, watched.clock() - watched.opened_s):
        let_go(host)


def _look(host: Host, of: str, library: Library) -> list[Gpu]:
    """All GPUs by their indexes, each ready to be asked. Raises Refused, NoData: there are none."""
    count = library.call("nvmlDeviceGetCount")
    if not isinstance(count, int) or (count <= 0 and not ours(host)):
        raise NoData("NVML lists no GPU")
    watched = _watched(host, of)
    if watched.library is not library:
        watched.library, watched.opened_s = library, watched.clock()
    before, watched.places = watched.places, {}
    seen = [_one(watched, before, library, index) for index in range(min(count, MOST))]
    present = {gpu.uuid for gpu in seen}
    watched.gpus = {uuid: gpu for uuid, gpu in watched.gpus.items() if uuid in present}
    _place(host, seen)
    return seen


def _place(host: Host, gpus: list[Gpu]) -> None:
    """One GPU that never answered sits where none of the others does."""
    unknown = [gpu for gpu in gpus if not gpu.bus]
    if len(unknown) == 1:
        left = {one.bus for one in ours(host)} - {gpu.bus for gpu in gpus}
        if len(left) == 1:
            unknown[0].bus = left.pop()


def _one(watched: Watched, before: dict[int, Gpu], library: Library, index: int) -> Gpu:
    device = f"gpu{index}"
    try:
        handle: Any = library.call("nvmlDeviceGetHandleByIndex", index)
        uuid = library.call("nvmlDeviceGetUUID", handle)
    except Refused as refused:
        gpu = watched.places[index] = before.get(index) or Gpu(watched.clock)
        gpu.begin(library, None, device)
        gpu.loud = {refused.code: ["nvmlDeviceGetHandleByIndex"]}
        return gpu
    uuid = uuid if isinstance(uuid, str) and uuid else device
    gpu = watched.gpus.setdefault(uuid, Gpu(watched.clock))
    gpu.begin(library, handle, device)
    gpu.uuid = uuid
    if not gpu.bus:
        told = gpu.ask("nvmlDeviceGetPciInfo")
        bus = told.get("busId") if isinstance(told, dict) else ""
        gpu.bus = pci_address(bus) if isinstance(bus, str) else ""
    watched.places[index] = gpu
    return gpu


def _driver_event(host: Host, code: int) -> Event:
    """What it is that NVML does not start. Raises NoData: no GPU that it could be for; Permanent.

    A GPU that is kept for guests has another driver, and NVML nothing to do.
    """
    there = ours(host)
    if not there:
        raise NoData(f"NVML: {name(code)}, and no NVIDIA GPU on the PCI bus")
    loaded = any(one.driver == "nvidia" for one in there)
    if code == Code.LIBRARY_NOT_FOUND and loaded:
        raise Permanent("the NVIDIA driver is loaded, its library libnvidia-ml.so.1 is not found")
    if code == Code.NO_PERMISSION:
        raise Permanent("NVML: no permission to open the driver")
    fault = LOUD.get(code, "nvrm.no_answer")
    if code in (Code.LIBRARY_NOT_FOUND, Code.DRIVER_NOT_LOADED, Code.UNINITIALIZED):
        fault = "nvrm.not_loaded"
    count = f"{len(there)} NVIDIA GPU{'s' if len(there) > 1 else ''}"
    text = f"NVML does not start: {name(code)}; {count} on the PCI bus"
    return Event("", fault, text, source="nvml", attrs={"nvml": name(code)})


def _unlisted(host: Host, library: Library, gpus: list[Gpu]) -> Iterator[Event | Note]:
    """GPUs on the bus that the driver does not list, and that nobody excluded."""
    if any(not gpu.bus for gpu in gpus):
        return
    listed = {gpu.bus for gpu in gpus} | _excluded(library)
    for one in ours(host):
        if one.bus in listed:
            continue
        if hidden(host, one.bus):
            yield Note("nvml", f"{one.bus}: its device file is not visible here")
            continue
        text = f"{one.bus}: a GPU on the PCI bus that the driver does not list"
        yield Event("", "gpu.missing", text, one.bus, source="nvml", attrs={"pci": one.bus})


def _excluded(library: Library) -> set[str]:
    """Addresses of GPUs that the driver was told to leave alone."""
    found: set[str] = set()
    try:
        count = library.call("nvmlGetExcludedDeviceCount")
        for index in range(min(count, MOST) if isinstance(count, int) else 0):
            told = library.call("nvmlGetExcludedDeviceInfoByIndex", index)
            info = told.get("pciInfo") if isinstance(told, dict) else None
            bus = info.get("busId") if isinstance(info, dict) else None
            if isinstance(bus, str):
                found.add(pci_address(bus))
    except Refused:
        return found
    return found
