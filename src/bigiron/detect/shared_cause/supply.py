"""A power distribution unit: all its nodes dip, brake or are gone at the same step."""

import numpy as np

from bigiron.detect.hygiene import NODE, Clean, Rows
from bigiron.detect.shared_cause.state import Flags, Floats, Power

USUAL_S = 6 * 3600.0
SAGS = 5.0
SAG_SHARE = 0.015
"""A voltage that dips by less than this share of itself is load, not supply (ATX 12V: 5 %)."""

BRAKE = 0x80
"""NVML's clock event reason "hardware power brake": the supply asks for less, at once."""

BRAKED = 0.5
"""So many of a node's GPUs braked together are its supply's doing."""

SLOWER = 0.8
BUSY = 0.5
CLOCK_S = 1800.0
LEARN = 0.02


def follow_supply(power: Power, clean: Clean, away: Flags) -> tuple[Power, Flags, Flags]:
    """What is usual after a step; which nodes (n,) dip now, and which are gone or came back.

    ``away`` (n,) are nodes out of service or under planned work: their absence is meant.
    """
    n = len(clean.nodes)
    node, gpus = clean.rows.get(NODE), clean.rows.get("gpu")
    volts, sag, sagging = _volts(power, node, n, clean.step_s)
    braked, braking = _brakes(power, gpus, n)
    clock, slowed = _clocks(power, gpus, n, clean.step_s)
    if gpus is not None and "gpu_clock_event_reasons" in gpus.values:
        slowed = np.zeros(n, np.bool_)  # the reasons say more than that it is slower
    there = node.present if node is not None else np.zeros(n, np.bool_)
    booted = clean.booted_s
    again = np.isfinite(power.booted) & np.isfinite(booted) & (booted > power.booted + 60.0)
    gone = power.there & ~there
    after = Power(volts, clock, braked, booted, there, sag)
    return after, (sagging | braking | slowed) & ~away, (gone | again) & ~away


def _volts(power: Power, rows: Rows | None, n: int, step_s: float) -> tuple[Floats, float, Flags]:
    told = rows.values.get("node_rail_volts") if rows is not None else None
    if told is None:
        return power.volts, power.sag, np.zeros(n, np.bool_)
    known = np.isfinite(power.volts) & np.isfinite(told)
    off = np.where(known, told - power.volts, 0.0)
    limit = np.maximum(SAGS * power.sag, SAG_SHARE * np.nan_to_num(power.volts))
    sagging = known & (off < -limit)
    sag = power.sag
    if known.any():
        wobble = 1.4826 * float(np.median(np.abs(off[known])))
        sag += LEARN * (min(wobble, 2 * sag) - sag)
    weight = np.where(sagging, 0.0, min(1.0, step_s / USUAL_S))
    volts = np.where(known, power.volts + weight * off, power.volts)
    return np.where(np.isfinite(volts), volts, told), sag, sagging


def _brakes(power: Power, gpus: Rows | None, n: int) -> tuple[Floats, Flags]:
    """The share of each node's GPUs that are braked; news where it was not so before."""
    mask = gpus.values.get("gpu_clock_event_reasons") if gpus is not None else None
    if gpus is None or mask is None:
        return power.braked, np.zeros(n, np.bool_)
    told = (mask >= 0) & (mask < 2.0**63)  # neither is NaN
    bits = np.where(told, mask, 0.0).astype(np.int64)
    count = np.bincount(gpus.node, weights=told, minlength=n)
    set_ = np.bincount(gpus.node, weights=(bits & BRAKE) != 0, minlength=n)
    share = np.divide(set_, count, out=np.zeros(n), where=count > 0)
    usual = power.braked + LEARN * (share - power.braked)
    return usual, (share >= BRAKED) & (power.braked < BRAKED / 2)


def _clocks(power: Power, gpus: Rows | None, n: int, step_s: float) -> tuple[Floats, Flags]:
    """The median clock of each node's busy GPUs; all much slower at once, still at work."""
    clock = gpus.values.get("gpu_sm_clock_hertz") if gpus is not None else None
    load = gpus.values.get("gpu_utilization_ratio") if gpus is not None else None
    if gpus is None or clock is None or load is None:
        return power.clock, np.zeros(n, np.bool_)
    busy = np.isfinite(clock) & (load > BUSY)
    count = np.bincount(gpus.node, weights=busy, minlength=n)
    total = np.bincount(gpus.node, weights=np.where(busy, clock, 0.0), minlength=n)
    mean = np.divide(total, count, out=np.full(n, np.nan), where=count >= 2)
    slowed = mean < SLOWER * power.clock
    share = min(1.0, step_s / CLOCK_S)
    moved = np.where(np.isfinite(power.clock), power.clock + share * (mean - power.clock), mean)
    return np.where(np.isfinite(mean) & ~slowed, moved, power.clock), slowed
