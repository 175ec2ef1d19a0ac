"""What is compared: each stream's definition, and its values at one step.

A stream is a number that should be the same for like parts at like work. Most are logarithms, so
that differences are shares; throttling is a share of time.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.hygiene import Rows

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

HIGH, LOW = 1.0, -1.0


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream. All lengths are in the unit of its values: shares where ``log``.

    ``bad`` is the direction of trouble. ``fault`` is what a part shows that deviates alone,
    ``node_fault`` what a node shows whose parts deviate together; "" claims nothing, and the
    stream only bears witness. ``floor`` is the least shift that matters, ``drift`` the least
    against the commissioning baseline, ``least_spread`` the smallest spread that is believed of an
    hour. ``slope`` is what one unit of the covariate is expected to do until the fleet has shown
    it. ``work``: it depends on the program, so that nodes are compared within a job alone, and
    parts of a node only where one job has it. ``weight`` is what the stream counts for among the
    others of its part: what most faults show first, and what is looked for at small sizes, counts
    more than what is plain when it happens.
    """

    name: str
    bad: float
    fault: str
    node_fault: str
    floor: float
    drift: float
    least_spread: float
    slope: float = 0.0
    log: bool = True
    work: bool = False
    weight: float = 1.0
    metrics: tuple[str, ...] = ()


THERMAL, MEMORY, FREE, CAPPED, POWER = range(5)
HOT, BRAKED, HELD, FAN, LINK, BUS = range(5, 11)

GPU_STREAMS = (
    Stream(
        "thermal_resistance",
        *(HIGH, "thermal_degradation", "fan_failure"),
        *(0.015, 0.03, 0.004),
        slope=1.0,
        weight=6.0,
        metrics=("gpu_temp_celsius", "gpu_power_watts"),
    ),
    Stream(
        "memory_thermal_resistance",
        *(HIGH, "thermal_degradation", ""),
        *(0.04, 0.06, 0.004),
        slope=0.8,
        work=True,
        metrics=("gpu_memory_temp_celsius", "gpu_power_watts"),
    ),
    Stream(
        "clock_uncapped",
        *(LOW, "slow_clock", "slow_clock"),
        *(0.01, 0.02, 0.002),
        weight=2.0,
        metrics=("gpu_sm_clock_hertz",),
    ),
    Stream(
        "clock_at_power_cap",
        *(LOW, "slow_clock", "slow_clock"),
        *(0.01, 0.02, 0.002),
        work=True,
        metrics=("gpu_sm_clock_hertz",),
    ),
    Stream(
        "power_at_load",
        *(LOW, "", ""),
        *(0.02, 0.05, 0.005),
        work=True,
        metrics=("gpu_power_watts",),
    ),
    Stream(
        "thermal_throttling",
        *(HIGH, "thermal_degradation", "fan_failure"),
        *(0.01, 0.03, 0.01),
        log=False,
        metrics=("gpu_throttle_thermal_seconds_total", "gpu_clock_event_reasons"),
    ),
    Stream(
        "power_brake_throttling",
        *(HIGH, "power_brake", "power_brake"),
        *(0.01, 0.03, 0.01),
        log=False,
        metrics=("gpu_throttle_hw_power_brake_seconds_total", "gpu_clock_event_reasons"),
    ),
    Stream(
        "other_throttling",
        *(HIGH, "slow_clock", "slow_clock"),
        *(0.01, 0.03, 0.01),
        log=False,
        metrics=("gpu_throttle_reliability_seconds_total", "gpu_clock_event_reasons"),
    ),
    Stream(
        "gpu_fan_speed",
        *(LOW, "fan_failure", "fan_failure"),
        *(0.03, 0.1, 0.02),
        metrics=("gpu_fan_speed_ratio",),
    ),
    Stream(
        "nvlink_bandwidth",
        *(LOW, "", ""),
        *(0.05, 0.1, 0.02),
        work=True,
        metrics=("gpu_nvlink_bandwidth_bytes_per_second",),
    ),
    Stream(
        "pcie_bandwidth",
        *(LOW, "", ""),
        *(0.05, 0.1, 0.02),
        work=True,
        metrics=("gpu_pcie_rx_bytes_per_second", "gpu_pcie_tx_bytes_per_second"),
    ),
)

NODE_STREAMS = (
    Stream(
        "rail_voltage",
        *(LOW, "power_brake", "power_brake"),
        *(0.0005, 0.002, 0.0003),
        slope=-0.002,
        metrics=("node_rail_volts",),
    ),
    Stream(
        "fan_speed",
        *(LOW, "fan_failure", "fan_failure"),
        *(0.03, 0.1, 0.01),
        metrics=("node_fan_rpm",),
    ),
    Stream(
        "pump_speed",
        *(LOW, "fan_failure", "fan_failure"),
        *(0.02, 0.05, 0.005),
        work=True,
        metrics=("node_pump_rpm",),
    ),
    Stream(
        "scrape_latency",
        *(HIGH, "", ""),
        *(0.2, 0.5, 0.05),
        metrics=("node_scrape_duration_seconds",),
    ),
)

BUSY_SHARE = 0.4
"""A GPU is at work above this share of the most its kind draws. Below, temperatures rise so little
that a sensor's whole degrees are several per cent of it."""

USED = 0.5
"""Utilization above which a clock says something."""

SM_USED = 0.1
"""The same where only the share of active SMs is told."""

NEAR_CAP = 0.97
"""Share of the power limit above which a clock is held by power, where no reason is told."""

HOT_BITS, BRAKE_BITS, HELD_BITS, CAP_BITS = 0x20 | 0x40, 0x80, 0x8, 0x4
"""NVML clock event reasons: thermal slowdown, power brake, unexplained slowdown, power cap."""

STEADY = 0.2
"""Heat lags behind power: readings count only where smoothed power moved less than this share."""

SMOOTH_S = 90.0
"""Heat follows power with about this delay: heat sinks' time constants are 30 to 120 s."""


@dataclass(slots=True)
class Panel:
    """One step of one kind of part: values and covariates (n, m), NaN where not comparable.

    ``plain`` is what an operator reads (K/W, hertz, volts, share of time).
    """

    streams: tuple[Stream, ...]
    values: Floats
    covariates: Floats
    plain: Floats
    busy: Flags


def gpu_panel(rows: Rows, inlet: Floats, power: Floats, before: Floats, most: Floats) -> Panel:
    """The streams of GPUs.

    ``inlet`` (n,) is the temperature of what cools each GPU, NaN if not told; ``power`` (n,) and
    ``before`` (n,) smoothed watts now and a step ago; ``most`` (n,) the most its kind draws.
    """
    n, m = len(rows.units), len(GPU_STREAMS)
    values, covariates, plain = (np.full((n, m), np.nan) for _ in range(3))
    panel = Panel(GPU_STREAMS, values, covariates, plain, power > BUSY_SHARE * most)
    panel.busy &= ~rows.grace & rows.present & ~rows.frozen
    with np.errstate(invalid="ignore", divide="ignore"):
        steady = np.abs(np.log(power / before)) < STEADY
        _heat(panel, rows, inlet, power, most, steady)
        _clocks(panel, rows, power)
        _throttling(panel, rows)
        _bandwidth(panel, rows)
    panel.values[~panel.busy] = np.nan
    return panel


def value(rows: Rows, name: str) -> Floats:
    """A metric's values, or NaN for all."""
    found = rows.values.get(name)
    return np.full(len(rows.units), np.nan) if found is None else found


def _heat(
    panel: Panel, rows: Rows, inlet: Floats, power: Floats, most: Floats, steady: Flags
) -> None:
    for at, name in ((THERMAL, "gpu_temp_celsius"), (MEMORY, "gpu_memory_temp_celsius")):
        above = value(rows, name) - inlet
        above = np.where(steady & (above > 3.0), above, np.nan)
        panel.values[:, at] = np.log(above)
        panel.covariates[:, at] = np.log(power / most)
        panel.plain[:, at] = above / power


def _clocks(panel: Panel, rows: Rows, power: Floats) -> None:
    clock = value(rows, "gpu_sm_clock_hertz")
    reasons = value(rows, "gpu_clock_event_reasons")
    told = np.isfinite(reasons)
    mask = np.where(told, reasons, 0).astype(np.int64)
    limit = value(rows, "gpu_power_limit_watts")
    capped = np.where(told, (mask & CAP_BITS) > 0, power > NEAR_CAP * limit)
    slowed = told & ((mask & (HOT_BITS | BRAKE_BITS | HELD_BITS)) > 0)
    used = value(rows, "gpu_utilization_ratio")
    active = value(rows, "gpu_sm_active_ratio")
    working = np.where(np.isfinite(used), used >= USED, active >= SM_USED)
    working |= ~np.isfinite(used) & ~np.isfinite(active)
    logged = np.where(working & ~slowed & (clock > 0), np.log(clock), np.nan)
    panel.values[:, FREE] = np.where(capped, np.nan, logged)
    panel.values[:, CAPPED] = np.where(capped, logged, np.nan)
    panel.values[:, POWER] = np.where(working & ~capped & ~slowed, np.log(power), np.nan)
    panel.plain[:, POWER] = power
    for at in (CAPPED, POWER):
        panel.covariates[:, at] = active
    for at in (FREE, CAPPED):
        panel.plain[:, at] = clock


def _throttling(panel: Panel, rows: Rows) -> None:
    reasons = value(rows, "gpu_clock_event_reasons")
    told = np.isfinite(reasons)
    mask = np.where(told, reasons, 0).astype(np.int64)
    for at, bits, names in (
        (HOT, HOT_BITS, ("thermal", "sw_thermal", "hw_thermal")),
        (BRAKED, BRAKE_BITS, ("hw_power_brake",)),
        (HELD, HELD_BITS, ("reliability", "board_limit")),
    ):
        seen = (mask & bits) > 0
        if at == HELD:
            seen &= (mask & (HOT_BITS | BRAKE_BITS)) == 0
        share = np.where(told, seen.astype(np.float64), np.nan)
        for name in names:
            metric = f"gpu_throttle_{name}_seconds_total"
            grown = rows.increments.get(metric)
            if grown is not None:
                share = np.fmax(share, np.clip(grown / rows.spans[metric], 0.0, 1.0))
        panel.values[:, at] = panel.plain[:, at] = share


def _bandwidth(panel: Panel, rows: Rows) -> None:
    fan = value(rows, "gpu_fan_speed_ratio")
    both = np.fmax(value(rows, "gpu_pcie_rx_bytes_per_second"), 0) + np.fmax(
        value(rows, "gpu_pcie_tx_bytes_per_second"), 0
    )
    link = value(rows, "gpu_nvlink_bandwidth_bytes_per_second")
    for at, shown, least in ((FAN, fan, 0.01), (LINK, link, 1e8), (BUS, both, 1e8)):
        panel.values[:, at] = np.where(shown > least, np.log(shown), np.nan)
        panel.plain[:, at] = shown


RAIL_LOAD = 0.5
"""A rail that sags does so under load, and each supply gives way to load a little differently:
below this share of the power its node's GPUs may draw, a rail tells nothing."""


def native_panel(rows: Rows, load: Floats, share: Floats) -> Panel | None:
    """The streams of nodes and of their sensors, of one kind; None if it has none of them.

    ``load`` (n,) is the kilowatts that the GPUs of each row's node draw, ``share`` (n,) that as a
    share of the most they do; NaN where not told.
    """
    streams = tuple(s for s in NODE_STREAMS if s.metrics[0] in rows.values)
    if not streams:
        return None
    plain = np.stack([rows.values[s.metrics[0]] for s in streams], axis=1)
    usable = (rows.present & ~rows.grace & ~rows.frozen)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        least = np.array([_least(s) for s in streams])
        values = np.where(usable & (plain >= 0), np.log(np.maximum(plain, least)), np.nan)
    for at, one in enumerate(streams):
        if one.name == "rail_voltage":
            values[share < RAIL_LOAD, at] = np.nan
    covariates = np.repeat(load[:, None], len(streams), axis=1)
    return Panel(streams, values, covariates, plain, usable[:, 0])


def _least(stream: Stream) -> float:
    """A fan that stands still has no logarithm; it is taken for one that hardly turns."""
    return {"fan_speed": 50.0, "pump_speed": 50.0, "scrape_latency": 1e-3}.get(stream.name, 1e-6)


def inlet_of(tables: Iterable[Rows], count: int) -> Floats:
    """The temperature that cools each node (count,): told as such, else its coolest sensor.

    A sensor that reads under 5 °C or over 60 °C is not air or coolant coming in.
    """
    found = np.full((2, count), np.inf)
    for rows in tables:
        for at, name in enumerate(("node_inlet_temp_celsius", "node_hwmon_temp_celsius")):
            shown = rows.values.get(name)
            if shown is not None:
                usable = (shown > 5.0) & (shown < 60.0)
                np.minimum.at(found[at], rows.node[usable], shown[usable])
    inlet = np.where(np.isfinite(found[0]), found[0], found[1])
    return np.where(np.isfinite(inlet), inlet, np.nan)
