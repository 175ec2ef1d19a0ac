"""What is known of one GPU's or switch's NVLinks, whatever tool told it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bigiron.ingest import Document
from bigiron.model import Device, Fact, Observation, Sample

LINKS_BY_MODEL = (
    ("V100-SXM", 6),
    ("A100-SXM", 12),
    ("A800-SXM", 12),
    ("H100 80GB HBM3", 18),
    ("H100 64GB HBM2", 18),
    ("H100-SXM", 18),
    ("H800", 8),
    ("H20", 18),
    ("H200", 18),
    ("B100", 18),
    ("B200", 18),
    ("B300", 18),
)
"""Links of a GPU on an NVLink baseboard (NVIDIA's product briefs), for when the tool says only
that all are inactive."""

COUNTERS = {
    "crc flit error": "gpu_nvlink_crc_flit_errors_total",
    "crc errors": "gpu_nvlink_crc_flit_errors_total",
    "crc data error": "gpu_nvlink_crc_data_errors_total",
    "replay error": "gpu_nvlink_replays_total",
    "replay errors": "gpu_nvlink_replays_total",
    "recovery error": "gpu_nvlink_recoveries_total",
    "recovery errors": "gpu_nvlink_recoveries_total",
    "total link recovery events": "gpu_nvlink_recoveries_total",
}
RATES = {
    "effective ber": "gpu_nvlink_effective_ber",
    "symbol ber": "gpu_nvlink_symbol_ber",
}
_QUIET = ("raw ", "fec errors", "tx ", "rx ", "link recovery successful", "data tx", "data rx")
"""Counters that grow on a healthy link and are not told one by one."""

MAX_TOLD = 40


@dataclass(slots=True)
class Links:
    """The links of one device: speeds (bytes a second) of those that are up, and counters."""

    name: str
    kind: str = "gpu"
    id: str = ""
    model: str = ""
    speeds: dict[int, float] = field(default_factory=dict)
    down: set[int] = field(default_factory=set)
    disabled: set[int] = field(default_factory=set)
    up: set[int] = field(default_factory=set)
    all_inactive: bool = False
    counters: dict[tuple[int, str], float] = field(default_factory=dict)

    @property
    def known(self) -> int:
        """How many links the document tells of."""
        return len(self.up | self.down | self.disabled | set(self.speeds))


def observe_links(document: Document, every: Iterable[Links]) -> Iterator[Observation]:
    """Devices, then counts of links, the slowest active link, and the counters summed.

    A card whose links are all inactive has no bridge, as most have not: that counts as links
    down only for a GPU of a baseboard, or where another of the same document has links.
    """
    links = list(every)
    most = max((one.known for one in links if one.up or one.speeds), default=0)
    for one in links:
        yield Device(
            node=document.node,
            name=one.name,
            kind=one.kind,
            id=one.id,
            model=one.model,
            vendor="NVIDIA",
        )
        yield from _states(document, one, most)
        yield from _counters(document, one)


def _states(document: Document, one: Links, most: int) -> Iterator[Observation]:
    node, name = document.node, one.name
    up = one.up | set(one.speeds)
    if one.all_inactive or (one.down and not up):
        wanted = len(one.down) or _by_model(one.model) or most
        yield Fact(node, "nvlink_state", "all links inactive", name)
        if most or _by_model(one.model):
            yield Sample(node, name, "gpu_nvlink_links_up", 0.0)
            yield Sample(node, name, "gpu_nvlink_links_down", float(wanted))
        return
    if up or one.down or one.disabled:
        yield Sample(node, name, "gpu_nvlink_links_up", float(len(up)))
        yield Sample(node, name, "gpu_nvlink_links_down", float(len(one.down - up)))
    if one.speeds:
        slowest = min(one.speeds.values())
        yield Sample(node, name, "gpu_nvlink_speed_bytes_per_second", slowest)
    if one.down and up:
        yield Fact(node, "nvlink_links_inactive", _numbers(one.down), name)
    if one.disabled:
        yield Fact(node, "nvlink_links_disabled", _numbers(one.disabled), name)


def _counters(document: Document, one: Links) -> Iterator[Observation]:
    totals: dict[str, float] = {}
    for (_, counter), value in one.counters.items():
        if counter in COUNTERS:
            metric = COUNTERS[counter]
            totals[metric] = totals.get(metric, 0.0) + value
        elif counter in RATES:
            metric = RATES[counter]
            totals[metric] = max(totals.get(metric, 0.0), value)
    for metric, value in totals.items():
        yield Sample(document.node, one.name, metric, value)
    told = [
        f"link {link} {counter} {value:.0f}"
        for (link, counter), value in sorted(one.counters.items())
        if value and counter not in RATES and not counter.startswith(_QUIET)
    ]
    if told:
        text = "; ".join(told[:MAX_TOLD])
        yield Fact(document.node, "nvlink_errors_by_link", text, one.name)


def _by_model(model: str) -> int:
    return next((count for part, count in LINKS_BY_MODEL if part in model), 0)


def _numbers(links: Iterable[int]) -> str:
    return ",".join(str(link) for link in sorted(links))
