"""AMD GPUs by AMD SMI: what is measured every half minute, and what they are every five.

Where AMD SMI is not installed, the driver's plain files in sysfs tell what they can. Where an
exporter on this node tells a metric already the runner leaves its name in
``host.handles["scraped"]``, and it is not told again; ``GIVES`` is all that this tells.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain

from bigiron.collect import (
    Seen,
    amdsmi_config,
    amdsmi_samples,
    amdsmi_sysfs,
    amdsmi_throttle,
    collector,
)
from bigiron.collect.amdsmi_bus import slot
from bigiron.collect.amdsmi_gpu import HARD, closed_to_us, notes, troubles
from bigiron.collect.amdsmi_library import STALE, let_go, name
from bigiron.collect.amdsmi_watch import One, Watched
from bigiron.collect.standing import standing
from bigiron.errors import Permanent
from bigiron.host import Host
from bigiron.model import Event, Note, Sample

PROCESSES = "gpu_processes"
GIVES: frozenset[str] = (
    amdsmi_samples.GIVES | amdsmi_throttle.GIVES | amdsmi_config.GIVES | {PROCESSES}
)
"""All metrics told here."""


@collector(every_s=30.0, timeout_s=20.0, apart=True)
def amdsmi(host: Host) -> Iterator[Seen]:
    """AMD GPUs: heat, power, clocks, throttling, PCIe, XGMI, error records, by AMD SMI."""
    watched, leave = host.held("amdsmi:watched", Watched), _scraped(host)
    every = watched.look(host)
    lasting: list[Event] = []
    for seen in chain.from_iterable(_measured(host, watched, one, leave) for one in every):
        if isinstance(seen, Event) and not seen.code.startswith("cper."):
            lasting.append(seen)
        else:
            yield seen
    if not every:
        yield from _plain(host, watched, leave)
    if PROCESSES not in leave:
        yield from _processes(host, watched)
    gpus = [one.gpu for one in every]
    lasting += [*watched.troubles(host), *troubles(gpus)]
    yield from standing(host, "amdsmi").news(lasting)
    yield from _end(host, watched, every)


@collector(every_s=300.0, timeout_s=60.0, apart=True)
def amdsmi_facts(host: Host) -> Iterator[Seen]:
    """AMD GPUs: versions, serial numbers, limits, partitions, error counts, bad pages."""
    watched, leave = host.held("amdsmi_facts:watched", Watched), _scraped(host)
    every = watched.look(host)
    lasting: list[Event] = []
    for seen in _configured(host, watched, every, leave):
        if isinstance(seen, Event):
            lasting.append(seen)
        else:
            yield seen
    if not every and watched.bound and not watched.closed:
        yield Note("amdsmi", "AMD SMI is not installed: the driver's plain files are read")
    late = [one.gpu for one in every if one.gpu.metrics]  # what has none ``amdsmi`` tells
    yield from standing(host, "amdsmi_facts").news([*lasting, *troubles(late)])
    yield from _end(host, watched, every)


def _scraped(host: Host) -> frozenset[str]:
    told = host.handles.get("scraped")
    return frozenset(told) if isinstance(told, Set) else frozenset()


def _measured(host: Host, watched: Watched, one: One, leave: Set[str]) -> Iterator[Seen]:
    """One look at one GPU; by plain files where the library does not know its metrics."""
    folder = watched.folder(one.gpu.bus)
    if one.gpu.metrics or one.gpu.failed or not folder:
        yield from amdsmi_samples.samples(one.gpu, leave)
    elif not amdsmi_sysfs.asleep(host, folder):
        yield from amdsmi_sysfs.samples(host, folder, one.gpu.device, leave)
    yield from amdsmi_samples.links(one.gpu, leave)
    yield from one.throttle.look(one.gpu, leave)
    yield from one.records.new(one.gpu)
    one.gpu.end()


def _plain(host: Host, watched: Watched, leave: Set[str]) -> Iterator[Sample]:
    """Without the library."""
    for index, one in enumerate(watched.bound):
        if not amdsmi_sysfs.asleep(host, one.folder):
            yield from amdsmi_sysfs.samples(host, one.folder, f"gpu{index}", leave)


def _configured(
    host: Host, watched: Watched, every: Sequence[One], leave: Set[str]
) -> Iterator[amdsmi_config.Told]:
    for one in every:
        if not one.gpu.failed:
            yield from amdsmi_config.config(one.gpu, leave)
        one.gpu.end()
    for index, bare in enumerate(() if every else watched.bound):
        if not amdsmi_sysfs.asleep(host, bare.folder):
            yield from amdsmi_sysfs.config(host, bare.folder, f"gpu{index}", leave)


def _processes(host: Host, watched: Watched) -> Iterator[Sample]:
    """Of a GPU in partitions, which the kernel counts together, under the first."""
    found = watched.compute.processes(host)
    listed = [(one.gpu.bus, one.gpu.device) for one in watched.listed.values()]
    bare: Iterable[tuple[str, str]] = (
        (one.bus, f"gpu{index}") for index, one in enumerate(watched.bound)
    )
    for bus, device in listed or bare:
        count = found.pop(slot(bus), None)
        if count is not None:
            yield Sample("", device, PROCESSES, float(count))


def _end(host: Host, watched: Watched, every: Sequence[One]) -> Iterator[Seen]:
    """What was not used; raises Permanent where AMD SMI is there and of no use."""
    gpus = [one.gpu for one in every]
    yield from notes(gpus)
    if gpus and all(gpu.failed in STALE for gpu in gpus):
        let_go(host)
    if why := closed_to_us(gpus):
        raise Permanent(f"AMD SMI: the metrics of no GPU can be read: {why}")
    if watched.closed and watched.closed not in HARD:
        raise Permanent(f"AMD SMI does not start: {name(watched.closed)}")
