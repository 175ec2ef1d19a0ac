"""A GPU's NVLinks: state, speed and errors of each, in one call for all fields of all links.

Fields with the link as their scope came with Hopper's drivers. Before, each link had numbers of
its own (nvml.h, NVML_FI_DEV_NVLINK_*_L0 to _L11) and its state a function.
"""

from collections.abc import Iterator, Mapping, Set
from datetime import UTC, datetime
from functools import cache

from bigiron.collect.nvml_gpu import Gpu
from bigiron.collect.nvml_library import Field
from bigiron.ingest import Document
from bigiron.ingest.nvidia_links import COUNTERS, RATES, Links, observe_links
from bigiron.model import Fact, Sample

MOST = 18
"""nvml.h, NVML_NVLINK_MAX_LINKS."""
COUNT, SPEED, STATE, VERSION = 91, 164, 165, 166
UP = (1, 2)
"""nvml.h, NVML_NVLINK_STATE_*: active, and asleep for want of work; 3 is up without traffic."""
TRAFFIC_DISABLED = 3

_SCOPED: Mapping[int, str] = {
    161: "replay errors",
    162: "recovery errors",
    163: "crc errors",
    206: "malformed packet errors",
    207: "buffer overrun errors",
    208: "receive errors",
    209: "receive remote errors",
    210: "receive general errors",
    211: "local link integrity errors",
    212: "transmit discards",
    214: "link recovery failed events",
    215: "total link recovery events",
    219: "effective errors",
    220: "effective ber",
    221: "symbol errors",
    222: "symbol ber",
}
"""Counters with the link as scope, by nvidia-smi's words where it has them."""

SELDOM = (SPEED, *(field for field in _SCOPED if field not in (161, 162, 163, 215, 220, 222)))
"""Read every RARE_S: each field of each link is a question to the driver, and eighteen links of
eight GPUs have many. What they tell is summed up by the others."""
RARE_S = 290.0

_LANED: tuple[tuple[str, int, int], ...] = (
    ("crc flit error", 32, 96),
    ("crc data error", 39, 102),
    ("replay error", 46, 108),
    ("recovery error", 53, 114),
    ("speed", 84, 132),
)
"""The numbers of link 0 and of link 6: five follow each."""
_SAME = {"crc flit error": "crc errors", "replay error": "replay errors"} | {
    "recovery error": "recovery errors"
}
"""What is told under a scope and under a number of its own: counted once."""

_BER = frozenset({"effective ber", "symbol ber"})
WORTH_BER = 1e-12
"""A link's own error rate is told from here on: what PCIe and InfiniBand allow at most."""

GIVES: frozenset[str] = frozenset(
    {*COUNTERS.values(), *RATES.values()}
    | {f"gpu_nvlink_links_{state}" for state in ("up", "down")}
    | {"gpu_nvlink_speed_bytes_per_second"}
)

_DOCUMENT = Document.of("nvml", b"", datetime(1970, 1, 1, tzinfo=UTC))


def links(gpu: Gpu, leave: Set[str] = frozenset()) -> Iterator[Sample | Fact]:
    """Counts of links, the slowest, errors summed; of links with errors their own as well."""
    if leave >= GIVES:
        return
    seen = look(gpu)
    if seen is None:
        return
    for one in observe_links(_DOCUMENT, [seen]):
        if isinstance(one, Fact) or (isinstance(one, Sample) and one.metric not in leave):
            yield one
    yield from _of_links(gpu, seen, leave)


def look(gpu: Gpu) -> Links | None:
    """What NVML tells of the links; None where there are none."""
    if not count(gpu):
        return None
    seen = Links(gpu.device, id=gpu.uuid, model=gpu.model)
    values = _values(gpu)
    for link in range(gpu.links):
        state = _state_of(gpu, link, values)
        if state is not None:
            _state(seen, link, state, values)
        _counters(seen, link, values)
    answered = seen.up | seen.down | seen.disabled
    if answered:  # none: a partitioned GPU
        gpu.links_seen |= answered
        seen.down |= gpu.links_seen - answered
    return seen if answered else None


def known(gpu: Gpu) -> int:
    """How many links answer, up or down."""
    states = gpu.fields([(STATE, link) for link in range(count(gpu))])
    return sum(_state_of(gpu, link, states) is not None for link in range(gpu.links))


def count(gpu: Gpu) -> int:
    """How many links it may have at most, found out once."""
    if gpu.links < 0:
        gpu.links = _count(gpu)
    return gpu.links


def version(gpu: Gpu) -> str:
    """``4.0``; "" if it is not told (nvml.h, NVML_NVLINK_VERSION_*)."""
    value = gpu.fields([(VERSION, 0)]).get((VERSION, 0)) if gpu.links else None
    if value is None and gpu.links > 0:
        value = gpu.number("nvmlDeviceGetNvLinkVersion", 0)
    return _VERSIONS.get(int(value), "") if value is not None else ""


_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}


def ber(encoded: float) -> float:
    """A bit error rate as NVML packs it (nvml.h, NVML_NVLINK_BER_*): a * 10^-b."""
    value = int(encoded)
    return (value >> 8 & 0xF) * 10.0 ** -(value & 0xFF)


def _count(gpu: Gpu) -> int:
    told = gpu.fields([(COUNT, 0)]).get((COUNT, 0))
    if told is not None:
        return int(min(max(told, 0), MOST))
    return next((n for n in range(MOST) if gpu.ask("nvmlDeviceGetNvLinkState", n) is None), MOST)


def _values(gpu: Gpu) -> dict[Field, float]:
    often, seldom = _fields(gpu.links)
    values = gpu.fields(often)
    if gpu.now - gpu.seldom_s >= RARE_S:
        gpu.seldom, gpu.seldom_s = gpu.fields(seldom), gpu.now
    return {**values, **gpu.seldom}


@cache
def _fields(count: int) -> tuple[list[Field], list[Field]]:
    """All fields of so many links: those of every look, and those that are read seldom."""
    often = [field for field in (STATE, *_SCOPED) if field not in SELDOM]
    lanes = range(min(count, 12))
    return (
        [(field, link) for field in often for link in range(count)]
        + [(_lane(*row[1:], link), 0) for row in _LANED[:-1] for link in lanes],
        [(field, link) for field in SELDOM for link in range(count)]
        + [(_lane(*_LANED[-1][1:], link), 0) for link in lanes],
    )


def _lane(first: int, sixth: int, link: int) -> int:
    return first + link if link < 6 else sixth + link - 6


def _state_of(gpu: Gpu, link: int, values: Mapping[Field, float]) -> float | None:
    state = values.get((STATE, link))
    return gpu.number("nvmlDeviceGetNvLinkState", link) if state is None else state


def _state(seen: Links, link: int, state: float, values: Mapping[Field, float]) -> None:
    if state in UP:
        seen.up.add(link)
        mbps = values.get((SPEED, link))
        if mbps is None and link < 12:
            mbps = values.get((_lane(84, 132, link), 0))
        if mbps:
            seen.speeds[link] = mbps * 1e6
    elif state == TRAFFIC_DISABLED:
        seen.disabled.add(link)
    else:
        seen.down.add(link)


def _counters(seen: Links, link: int, values: Mapping[Field, float]) -> None:
    told = seen.counters
    for field, counter in _SCOPED.items():
        value = values.get((field, link))
        if value is not None:
            told[link, counter] = ber(value) if counter in _BER else value
    if link >= 12:
        return
    for counter, first, sixth in _LANED[:-1]:
        value = values.get((_lane(first, sixth, link), 0))
        if value is not None and (link, _SAME.get(counter, "")) not in told:
            told[link, counter] = value


def _of_links(gpu: Gpu, seen: Links, leave: Set[str]) -> Iterator[Sample]:
    """The errors of links that have any, and the speed of those that are slower than others."""
    totals: dict[tuple[int, str], float] = {}
    for (link, counter), value in seen.counters.items():
        metric = COUNTERS.get(counter) or RATES.get(counter)
        if metric is not None and value > (WORTH_BER if counter in _BER else 0):
            totals[link, metric] = totals.get((link, metric), 0.0) + value
    fastest = max(seen.speeds.values(), default=0.0)
    for link, speed in seen.speeds.items():
        if speed < fastest:
            totals[link, "gpu_nvlink_speed_bytes_per_second"] = speed
    for (link, metric), value in totals.items():
        if metric not in leave:
            yield Sample("", f"{gpu.device}:nvlink{link}", metric, value)
