"""Devices that differ from their like, doing the same work: hotter, or slower.

One plain comparison of medians over ``sustain_s``, with margins that a healthy fleet keeps to:
a device must differ from its SKU's busy devices *and* from its own neighbours, by a physical
amount and by many times the pooled spread. Small cohorts say nothing (fewer than 16).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import log
from statistics import median
from typing import NamedTuple

from bigiron.detect import Columnar, Key, Series, Window, detector
from bigiron.detect.claims import MIN_SAMPLES, SUSPECT, claim, sampled
from bigiron.detect.recent import recent_of
from bigiron.detect.words import device_words
from bigiron.model import Finding, Subject

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


@dataclass(frozen=True, slots=True)
class Busy:
    """A busy device's medians over the window's ``sustain_s``."""

    key: Key
    power_w: float
    temp_c: float | None
    clock_hz: float | None


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
    for cohort in _cohorts(window).values():
        if len(cohort) >= MIN_COHORT:
            yield from _hotter(window, cohort)
            yield from _slower(window, cohort)


def _cohorts(window: Window) -> dict[tuple[str, str], list[Busy]]:
    """The busy devices by SKU and model."""
    cohorts: dict[tuple[str, str], list[Busy]] = {}
    for busy in _busy(window):
        node = window.fleet.nodes.get(busy.key[0])
        part = window.fleet.devices.get(busy.key)
        like = (node.sku if node else "", part.model if part else "")
        cohorts.setdefault(like, []).append(busy)
    return cohorts


def _busy(window: Window) -> Iterator[Busy]:
    """The devices at work throughout ``sustain_s``, with their medians."""
    utilization = window.series.get("gpu_utilization_ratio", {})
    if isinstance(utilization, Columnar):
        yield from _busy_columns(window, utilization)
        return
    powers = window.series.get("gpu_power_watts", {})
    temps = window.series.get("gpu_temp_celsius", {})
    clocks = window.series.get("gpu_sm_clock_hertz", {})
    for key, series in utilization.items():
        used = _recent(series, window)
        power = _recent(powers.get(key), window)
        if len(used) < MIN_SAMPLES or min(used) < BUSY or len(power) < MIN_SAMPLES:
            continue
        temp, clock = _recent(temps.get(key), window), _recent(clocks.get(key), window)
        yield Busy(
            key,
            median(power),
            median(temp) if len(temp) >= MIN_SAMPLES else None,
            median(clock) if len(clock) >= MIN_SAMPLES else None,
        )


def _busy_columns(window: Window, used: Columnar) -> Iterator[Busy]:
    """The same where samples are kept side by side."""
    now_s = window.now.timestamp()
    asked = now_s, window.sustain_s, window.fresh_s
    count, least, _ = recent_of(used, *asked)
    busy = ((count >= MIN_SAMPLES) & (least >= BUSY)).nonzero()[0].tolist()
    medians = []
    for metric in ("gpu_power_watts", "gpu_temp_celsius", "gpu_sm_clock_hertz"):
        of_metric = window.series.get(metric)
        medians.append(_medians(window, metric, asked) if of_metric is not None else {})
    powers, temps, clocks = medians
    for row in busy:
        key = used.names[row]
        power_w = powers.get(key)
        if power_w is not None:
            yield Busy(key, power_w, temps.get(key), clocks.get(key))


def _medians(window: Window, metric: str, asked: tuple[float, float, float]) -> Mapping[Key, float]:
    """The median of each subject that has enough samples."""
    of_metric = window.series[metric]
    if not isinstance(of_metric, Columnar):
        recent = {key: _recent(series, window) for key, series in of_metric.items()}
        return {key: median(of) for key, of in recent.items() if len(of) >= MIN_SAMPLES}
    count, _, middle = recent_of(of_metric, *asked)
    enough = (count >= MIN_SAMPLES).nonzero()[0].tolist()
    values = middle.tolist()
    return {of_metric.names[row]: values[row] for row in enough}


def _recent(series: Series | None, window: Window, times: float = 1.0) -> Sequence[float]:
    """The values of the last ``sustain_s`` (times ``times``), if they reach back and are fresh."""
    if series is None or not series.times:
        return ()
    now_s, span_s = window.now.timestamp(), window.sustain_s * times
    if series.times[-1] < now_s - window.fresh_s or series.times[0] > now_s - span_s:
        return ()
    first = len(series.times)
    while first > 0 and series.times[first - 1] >= now_s - span_s - 1:
        first -= 1
    return [v for v in series.values[first:] if -100 < v < 1e12]


def _hotter(window: Window, cohort: Sequence[Busy]) -> Iterator[Finding]:
    """GPUs far above the median of those at about the same power, and above their neighbours."""
    warm = [b for b in cohort if b.temp_c is not None and b.power_w > 0]
    near = {
        node: median(beside)
        for node, beside in _by_node(warm, lambda b: b.temp_c).items()
        if len(beside) > MIN_NEIGHBOURS
    }
    hot = [b for b in warm if b.temp_c and b.temp_c - near.get(b.key[0], 1e9) >= HOTTER_NEAR_C]
    if not hot:
        return
    bands = _bands(warm)
    spread_c = _pooled(warm, bands)
    for one in hot:
        steady = _steady(window, one.key)
        like = bands.get(_band(steady[1])) if steady is not None else None
        if steady is None or like is None or one.temp_c is None:
            continue
        hotter_c = min(one.temp_c, steady[0]) - like.usual_c
        if hotter_c < max(HOTTER_C, Z * spread_c):
            continue
        text = (
            f"{one.temp_c:.0f} °C, {hotter_c:.0f} °C hotter than {like.devices - 1} others of its "
            f"kind at about the same power"
        )
        yield _claim(window, one, "gpu.hot", "gpu_temp_celsius", text, like.usual_c)


def _steady(window: Window, key: Key) -> tuple[float, float] | None:
    """The temperature it stays above and the power it stays below, but for one reading in five.

    Over three times ``sustain_s``: a sensor that now and then reads nothing, or anything, must not
    make a GPU look hot for its power. None with fewer than five readings of either.
    """
    temps = sorted(_recent(window.series.get("gpu_temp_celsius", {}).get(key), window, LONG))
    powers = sorted(_recent(window.series.get("gpu_power_watts", {}).get(key), window, LONG))
    if min(len(temps), len(powers)) < LONG_SAMPLES:
        return None
    return temps[len(temps) // 5], max(1.0, powers[-1 - len(powers) // 5])


class Band(NamedTuple):
    """Devices at about one power: how many, and their median temperature."""

    devices: int
    usual_c: float


def _band(power_w: float) -> int:
    """Which band of power: each is 7 % wide, so three side by side span about ±10 %."""
    return round(log(power_w) / log(BAND))


def _bands(warm: Sequence[Busy]) -> dict[int, Band]:
    """The bands with enough devices in them and their two neighbours to say what is usual."""
    of_band: dict[int, list[float]] = {}
    for one in warm:
        if one.temp_c is not None:
            of_band.setdefault(_band(one.power_w), []).append(one.temp_c)
    bands: dict[int, Band] = {}
    for band in of_band:
        temps = [c for b in (band - 1, band, band + 1) for c in of_band.get(b, ())]
        if len(temps) >= MIN_COHORT:
            bands[band] = Band(len(temps), median(temps))
    return bands


def _pooled(warm: Sequence[Busy], bands: dict[int, Band]) -> float:
    """The robust standard deviation of all against their band's median: 1.4826 times the MAD."""
    off = [
        abs(b.temp_c - like.usual_c)
        for b in warm
        if b.temp_c is not None and (like := bands.get(_band(b.power_w))) is not None
    ]
    return 1.4826 * median(off) if off else 0.0


def _by_node(
    cohort: Sequence[Busy], value: Callable[[Busy], float | None]
) -> dict[str, list[float]]:
    by_node: dict[str, list[float]] = {}
    for one in cohort:
        number = value(one)
        if number is not None:
            by_node.setdefault(one.key[0], []).append(number)
    return by_node


def _slower(window: Window, cohort: Sequence[Busy]) -> Iterator[Finding]:
    """Clocks that stay low where nothing the GPU reports (power, heat) lowers them.

    Power-capped GPUs differ in clock by nature; a locked or faulty one is slow all the time.
    """
    near = _by_node(cohort, lambda b: b.clock_hz)
    every = [hz for of_node in near.values() for hz in of_node]
    if not every:
        return
    usual_hz = median(every)
    near_of = {n: median(beside) for n, beside in near.items() if len(beside) > MIN_NEIGHBOURS}
    for one in cohort:
        near_hz = near_of.get(one.key[0])
        if one.clock_hz is None or near_hz is None:
            continue
        limit_hz = (1 - SLOWER) * min(near_hz, usual_hz)
        if one.clock_hz > limit_hz or _capped(window, one.key):
            continue
        top_hz = _top(window, one.key)
        if top_hz is None or top_hz > limit_hz:
            continue
        text = (
            f"clock at most {top_hz / 1e6:.0f} MHz at work; its neighbours "
            f"{near_hz / 1e6:.0f} MHz, all of its kind {usual_hz / 1e6:.0f} MHz"
        )
        yield _claim(window, one, "gpu.slow_clock", "gpu_sm_clock_hertz", text, near_hz)


def _capped(window: Window, key: Key) -> bool:
    """Whether the device says in any recent sample that power or heat lowers its clock."""
    series = window.series.get("gpu_clock_event_reasons", {}).get(key)
    reasons = _recent(series, window)
    return any(0 <= value < 2**53 and int(value) & CAPPED for value in reasons)


def _top(window: Window, key: Key) -> float | None:
    """The highest clock over three times ``sustain_s``, at work throughout; None if it is not."""
    clock = window.series.get("gpu_sm_clock_hertz", {}).get(key)
    used = window.series.get("gpu_utilization_ratio", {}).get(key)
    clocks, uses = _recent(clock, window, LONG), _recent(used, window, LONG)
    if len(clocks) < LONG_SAMPLES or not uses or min(uses) < BUSY:
        return None
    return max(clocks)


def _claim(window: Window, one: Busy, fault: str, metric: str, text: str, peer: float) -> Finding:
    node, device = one.key
    series = window.series[metric][one.key]
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
