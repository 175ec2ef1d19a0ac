"""GPU exporters that run on this node anyway, scraped on loopback: nothing is sampled twice.

dcgm-exporter (port 9400) and AMD's device-metrics-exporter (port 5000) where they are; others,
such as node_exporter, where the configuration names them. What a good page tells of every GPU is
left in ``host.handles["scraped"]`` for the collectors of the drivers, which then do not ask for it;
from the first scrape that fails on they do.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic

import msgspec

from bigiron.collect import Seen, collector
from bigiron.collect.page_fetch import PAGE_BYTES, fetch
from bigiron.collect.pci_tree import tree
from bigiron.collect.standing import standing
from bigiron.errors import NoData, Permanent, Temporary
from bigiron.host import Host
from bigiron.ingest.openmetrics_page import Page, PageParser
from bigiron.model import Device, Event, Note, Sample

TIMEOUT_S = 4.0
MOST = 4
"""Targets: each may take its time."""
FAILS = 2
"""Failed scrapes in a row that make an exporter dead: one is a restart or an upgrade."""
STRANGER_S = 600.0
"""Seconds until a port is looked at again that has a server, and no exporter's, behind it."""
SCRAPED = "scraped"
TARGETS = "exporters:targets"
INVENTORY = "exporters:inventory"
"""True where no driver's own library can be asked: labels then are what tells of devices and facts.
Elsewhere they would be told twice, and spelled in two ways."""


@dataclass(frozen=True, slots=True)
class Target:
    """An exporter. ``expected``: the configuration names it, so it is missed where it is not."""

    job: str
    url: str
    expected: bool = True


DEFAULT = (
    Target("dcgm", "http://127.0.0.1:9400/metrics", expected=False),
    Target("amd", "http://127.0.0.1:5000/metrics", expected=False),
)


@dataclass(slots=True)
class _Watch:
    """What is known of a target: its page's layout, and whether it ever was an exporter's.

    ``told`` is what devices and facts were last told of: it is the same object as long as the
    layout stays.
    """

    parser: PageParser = field(default_factory=lambda: PageParser(fixed=True, vector=False))
    answered: bool = False
    fails: int = 0
    problem: str = ""
    not_before: float = 0.0
    told: object = None
    renamed: dict[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


@collector(every_s=30.0, timeout_s=20.0)
def exporters(host: Host) -> Iterator[Seen]:
    """dcgm-exporter, AMD's exporter and others on this node, scraped on loopback."""
    targets: tuple[Target, ...] = host.handles.get(TARGETS, DEFAULT)
    watches = host.held("exporters", dict[Target, _Watch])
    host.handles[SCRAPED] = frozenset[str]()
    scraped: set[str] = set()
    dead: list[str] = []
    seen_any = False
    for target in targets[:MOST]:
        watch = watches.setdefault(target, _Watch())
        start = monotonic()
        if start < watch.not_before:
            continue
        page = _scrape(host, target, watch)
        if page is not None:
            yield from _told(host, target, watch, page)
            scraped |= _whole(page)
        elif not (target.expected or watch.answered):
            continue
        elif watch.fails >= FAILS:
            dead.append(f"{target.job} exporter does not answer: {watch.problem}")
        yield Sample("", target.job, "node_scrape_up", float(page is not None))
        yield Sample("", target.job, "node_scrape_duration_seconds", monotonic() - start)
        seen_any = True
    host.handles[SCRAPED] = frozenset(scraped)
    if not seen_any:
        raise NoData("no exporter on this node")
    down = [Event("", "node.exporter_down", "; ".join(dead), source="exporters")] if dead else []
    yield from standing(host, "exporters").news(down)


def _scrape(host: Host, target: Target, watch: _Watch) -> Page | None:
    """The page now; None, and what the matter is, if there is none or it is nobody's we know."""
    try:
        page = watch.parser.parse(_fetch(host, target))
    except (NoData, Temporary, Permanent) as error:
        watch.problem = str(error)
        stranger = isinstance(error, Permanent)
    else:
        if page.series and (target.expected or any(one.kind == "gpu" for one in page.devices())):
            watch.answered, watch.fails = True, 0
            return page
        watch.problem = f"{target.url}: no page of an exporter that is known"
        stranger = True
    watch.fails += 1
    if stranger and not (watch.answered or target.expected):
        watch.not_before = monotonic() + STRANGER_S
    return None


def _fetch(host: Host, target: Target) -> bytes:
    """From loopback; of a captured machine, what it was captured with."""
    if host.captured and target in DEFAULT:
        return host.part(f"/bigiron/exporters/{target.job}.prom", None, PAGE_BYTES)
    return fetch(target.url, timeout_s=TIMEOUT_S)


def _told(host: Host, target: Target, watch: _Watch, page: Page) -> Iterator[Seen]:
    """The page's samples; what its labels tell, and what was not used, when they change."""
    if watch.told is not page.inventory:
        watch.told = page.inventory
        watch.renamed = _renamed(host, page.devices())
        if host.handles.get(INVENTORY, False):
            yield from _inventory(page, watch.renamed)
    if watch.renamed:
        for sample in page.samples(None):
            yield msgspec.structs.replace(sample, device=_name(sample.device, watch.renamed))
    else:
        yield from page.samples(None)
    notes = tuple(page.notes(f"{target.job} exporter"))
    if notes != watch.notes:
        watch.notes = notes
        yield from notes


def _inventory(page: Page, renamed: dict[str, str]) -> Iterator[Seen]:
    """The devices and facts that labels tell."""
    for device in page.devices():
        yield msgspec.structs.replace(device, name=_name(device.name, renamed))
    for fact in page.facts(None):
        yield msgspec.structs.replace(fact, device=_name(fact.device, renamed))


def _renamed(host: Host, devices: tuple[Device, ...]) -> dict[str, str]:
    """GPUs that the exporter numbers otherwise than the driver does: known by their PCI address."""
    if not any(device.bus for device in devices):
        return {}
    try:
        names = {part.bus: part.name for part in tree(host).parts if part.kind == "gpu"}
    except (NoData, Permanent):
        return {}
    found = {device.name: names.get(device.bus, device.name) for device in devices}
    moved = {was: name for was, name in found.items() if was != name}
    return moved if len(set(found.values())) == len(found) else {}


def _name(device: str, renamed: dict[str, str]) -> str:
    gpu, colon, part = device.partition(":")
    if device in renamed:  # a PCI address has colons of its own
        return renamed[device]
    return f"{renamed[gpu]}{colon}{part}" if gpu in renamed else device


def _whole(page: Page) -> frozenset[str]:
    """The metrics that the page has of every GPU, by link where they are a link's."""
    gpus = {device.name for device in page.devices() if device.kind == "gpu"}
    of: dict[str, set[str]] = {}
    for (metric, _, device), value in zip(page.series, page.values, strict=True):
        if value == value and (":" in device or "nvlink" not in metric):
            of.setdefault(metric, set()).add(_gpu(device, gpus))
    return frozenset(metric for metric, told in of.items() if gpus and gpus <= told)


def _gpu(device: str, gpus: set[str]) -> str:
    return device if device in gpus else device.partition(":")[0]
