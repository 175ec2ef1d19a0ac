"""Devices that differ from their like, doing the same work: hotter, or slower.

One plain comparison of medians over ``sustain_s``, with margins that a healthy fleet keeps to:
a device must differ from its SKU's busy devices *and* from its own neighbours, by a physical
amount and by many times the pooled spread. Small cohorts say nothing (fewer than 16).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import log
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from bigiron.detect import Key, Window, detector
from bigiron.detect.claims import SUSPECT, claim, sampled
from bigiron.detect.recent import recent
from bigiron.detect.words import device_words
from bigiron.model import Finding, Subject

if TYPE_CHECKING:
    from bigiron.detect.at_work import Busy

NAME = "peers"

MIN_COHORT = 16
"""Leave-one-out medians of smaller cohorts call healthy devices odd."""

MIN_NEIGHBOURS = 3
BUSY = 0.5
BAND = 1.07
"""Temperatures are compared at about the same power, for heat follows power: ±10 %."""

HOTTER_C = 12.0
HOTTER_NEAR_C = 8.0
SLOWER = 0.10
LONG, LONG_SAMPLES = 3.0, 5
"""A GPU is called hot or slow after three times ``sustain_s`` and five samples."""

CAPPED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""Clock event reasons that lower a clock for power or heat (NVML)."""

Z = 6.0
"""Pooled robust standard deviations; with few samples the pooled spread is what can be trusted."""


@detector(
    reads=(
        "gpu_temp_celsius",
        "gpu_power_watts",
        "gpu_sm_clock_hertz",
        "gpu_utilization_ratio",
    ),
    every_s=60.0,
)
def peers(window: Window) -> Iterator[Finding]:
    """GPUs hotter or slower than their like at the same work."""
    if window.single_look:
        return
    from bigiron.detect.at_work import busy  # it needs numpy

    for cohort in busy(window).cohorts():
        if len(cohort.keys) >= MIN_COHORT:
            yield from _hotter(window, cohort)
            yield from _slower(window, cohort)


def _hotter(window: Window, cohort: "Busy") -> Iterator[Finding]:
    """GPUs far above the median of those at about the same power, and above their neighbours."""
    told = (cohort.temp_c == cohort.temp_c) & (cohort.power_w > 0)
    warm = cohort.some(told.nonzero()[0])
    above = warm.temp_c - warm.near(warm.temp_c, MIN_NEIGHBOURS) >= HOTTER_NEAR_C
    hot = (above & (warm.temp_c != 0)).nonzero()[0].tolist()
    if not hot:
        return
    temps_c = warm.temp_c.tolist()
    of_band = [_band(power_w) for power_w in warm.power_w.tolist()]
    bands = _bands(of_band, temps_c)
    spread_c = _pooled(of_band, temps_c, bands)
    for one in hot:
        key, temp_c = warm.keys[one], temps_c[one]
        steady = _steady(window, key)
        like = bands.get(_band(steady[1])) if steady is not None else None
        if steady is None or like is None:
            continue
        hotter_c = min(temp_c, steady[0]) - like.usual_c
        if hotter_c < max(HOTTER_C, Z * spread_c):
            continue
        text = (
            f"{temp_c:.0f} °C, {hotter_c:.0f} °C hotter than {like.devices - 1} others of its "
            f"kind at about the same power"
        )
        yield _claim(window, key, "gpu.hot", "gpu_temp_celsius", text, like.usual_c)


def _steady(window: Window, key: Key) -> tuple[float, float] | None:
    """The temperature it stays above and the power it stays below, but for one reading in five.

    Over three times ``sustain_s``: a sensor that now and then reads nothing, or anything, must not
    make a GPU look hot for its power. None with fewer than five readings of either.
    """
    temps = sorted(_recent(window, "gpu_temp_celsius", key, LONG))
    powers = sorted(_recent(window, "gpu_power_watts", key, LONG))
    if min(len(temps), len(powers)) < LONG_SAMPLES:
        return None
    return temps[len(temps) // 5], max(1.0, powers[-1 - len(powers) // 5])


def _recent(window: Window, metric: str, key: Key, times: float = 1.0) -> Sequence[float]:
    return recent(window.series.get(metric, {}).get(key), window, times)


class Band(NamedTuple):
    """Devices at about one power: how many, and their median temperature."""

    devices: int
    usual_c: float


def _band(power_w: float) -> int:
    """Which band of power: each is 7 % wide, so three side by side span about ±10 %."""
    return round(log(power_w) / log(BAND))


def _bands(of_band: Sequence[int], temps_c: Sequence[float]) -> dict[int, Band]:
    """The bands with enough devices in them and their two neighbours to say what is usual."""
    in_band: dict[int, list[float]] = {}
    for band, temp_c in zip(of_band, temps_c, strict=True):
        in_band.setdefault(band, []).append(temp_c)
    bands: dict[int, Band] = {}
    for band in in_band:
        temps = [c for b in (band - 1, band, band + 1) for c in in_band.get(b, ())]
        if len(temps) >= MIN_COHORT:
            bands[band] = Band(len(temps), median(temps))
    return bands


def _pooled(of_band: Sequence[int], temps_c: Sequence[float], bands: Mapping[int, Band]) -> float:
    """The robust standard deviation of all against their band's median: 1.4826 times the MAD."""
    off = [
        abs(temp_c - like.usual_c)
        for band, temp_c in zip(of_band, temps_c, strict=True)
        if (like := bands.get(band)) is not None
    ]
    return 1.4826 * median(off) if off else 0.0


def _slower(window: Window, cohort: "Busy") -> Iterator[Finding]:
    """Clocks that stay low where nothing the GPU reports (power, heat) lowers them.

    Power-capped GPUs differ in clock by nature; a locked or faulty one is slow all the time.
    """
    clocks = cohort.clock_hz
    every = clocks[clocks == clocks].tolist()
    if not every:
        return
    usual_hz = median(every)
    near = cohort.near(clocks, MIN_NEIGHBOURS)
    limits = (1 - SLOWER) * near.clip(max=usual_hz)
    for one in (clocks <= limits).nonzero()[0].tolist():
        key, near_hz, limit_hz = cohort.keys[one], float(near[one]), float(limits[one])
        if _capped(window, key):
            continue
        top_hz = _top(window, key)
        if top_hz is None or top_hz > limit_hz:
            continue
        text = (
            f"clock at most {top_hz / 1e6:.0f} MHz at work; its neighbours "
            f"{near_hz / 1e6:.0f} MHz, all of its kind {usual_hz / 1e6:.0f} MHz"
        )
        yield _claim(window, key, "gpu.slow_clock", "gpu_sm_clock_hertz", text, near_hz)


def _capped(window: Window, key: Key) -> bool:
    """Whether the device says in any recent sample that power or heat lowers its clock."""
    reasons = _recent(window, "gpu_clock_event_reasons", key)
    return any(0 <= value < 2**53 and int(value) & CAPPED for value in reasons)


def _top(window: Window, key: Key) -> float | None:
    """The highest clock over three times ``sustain_s``, at work throughout; None if it is not."""
    clocks = _recent(window, "gpu_sm_clock_hertz", key, LONG)
    uses = _recent(window, "gpu_utilization_ratio", key, LONG)
    if len(clocks) < LONG_SAMPLES or not uses or min(uses) < BUSY:
        return None
    return max(clocks)


def _claim(window: Window, key: Key, fault: str, metric: str, text: str, peer: float) -> Finding:
    node, device = key
    series = window.series[metric][key]
    since = datetime.fromtimestamp(window.now.timestamp() - window.sustain_s, UTC)
    return claim(
        NAME,
        fault,
        Subject(node=node, device=device),
        (f"{device_words(window, node, device)} of {node}: {text}.",),
        since=since,
        evidence=(sampled(metric, series, text, peer=peer),),
        confidence=0.7,
        asks=SUSPECT if fault == "gpu.slow_clock" else None,
    )
