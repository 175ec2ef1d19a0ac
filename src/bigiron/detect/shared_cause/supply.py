"""A power distribution unit: all its nodes dip, brake or are gone at the same step."""

from typing import NamedTuple

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
BRAKE_USUAL_S = 4 * 3600.0
STANDS_FOR_S = 3600.0
"""A sample after a gap teaches what an hour of samples would, however long the gap was."""

ONE_MOMENT_S = 150.0
"""What one supply takes down boots again within minutes, if it starts by itself."""

GAP_STEPS = 2.5
"""A step that comes later than this many is a gap: when what differs came about is not known."""

LEARN = 0.02


class Meant(NamedTuple):
    """Nodes (n,) of which something is meant: ``out`` are out of service by someone's word,
    ``away`` are those and all under planned work, whose absence is meant."""

    out: Flags
    away: Flags


def follow_supply(
    power: Power, clean: Clean, meant: Meant, elapsed_s: float
) -> tuple[Power, Flags, Flags]:
    """What is usual after a step; which nodes (n,) dip now, and which are gone or came back.

    A dip is meant by no planned work but the node's own. ``elapsed_s`` is the time since the step
    before: of what happened in a gap only boots tell the moment.
    """
    n, taught_s = len(clean.nodes), min(elapsed_s, STANDS_FOR_S)
    node, gpus = clean.rows.get(NODE), clean.rows.get("gpu")
    volts, sag, sagging = _volts(power, node, n, taught_s)
    braked, braking = _brakes(power, gpus, n, taught_s)
    clock, slowed = _clocks(power, gpus, n, taught_s)
    if gpus is not None and "gpu_clock_event_reasons" in gpus.values:
        slowed = np.zeros(n, np.bool_)  # the reasons say more than that it is slower
    there = node.present if node is not None else np.zeros(n, np.bool_)
    booted = clean.booted_s
    again = np.isfinite(power.booted) & np.isfinite(booted) & (booted > power.booted + 60.0)
    gone = power.there & ~there
    unseen = np.full(n, elapsed_s > GAP_STEPS * clean.step_s) | ~power.there
    again = (again & ~unseen) | _at_once(again & unseen & ~meant.away, booted)
    gone &= ~unseen
    after = Power(volts, clock, braked, booted, there, sag)
    return after, (sagging | braking | slowed) & ~meant.out, (gone | again) & ~meant.away


def _at_once(again: Flags, booted: Floats) -> Flags:
    """Those nodes that booted at the same moment as most of those that did."""
    if not again.any():
        return again
    return again & (np.abs(booted - np.median(booted[again])) <= ONE_MOMENT_S)


def _volts(power: Power, rows: Rows | None, n: int, taught_s: float) -> tuple[Floats, float, Flags]:
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
    weight = np.where(sagging, 0.0, taught_s / USUAL_S)
    volts = np.where(known, power.volts + weight * off, power.volts)
    return np.where(np.isfinite(volts), volts, told), sag, sagging


def _brakes(power: Power, gpus: Rows | None, n: int, taught_s: float) -> tuple[Floats, Flags]:
    """The share of each node's GPUs that are braked; news where it was not so before."""
    mask = gpus.values.get("gpu_clock_event_reasons") if gpus is not None else None
    if gpus is None or mask is None:
        return power.braked, np.zeros(n, np.bool_)
    told = (mask >= 0) & (mask < 2.0**63)  # neither is NaN
    bits = np.where(told, mask, 0.0).astype(np.int64)
    count = np.bincount(gpus.node, weights=told, minlength=n)
    set_ = np.bincount(gpus.node, weights=(bits & BRAKE) != 0, minlength=n)
    share = np.divide(set_, count, out=np.zeros(n), where=count > 0)
    usual = power.braked + taught_s / BRAKE_USUAL_S * (share - power.braked)
    return usual, (share >= BRAKED) & (power.braked < BRAKED / 2)


def _clocks(power: Power, gpus: Rows | None, n: int, taught_s: float) -> tuple[Floats, Flags]:
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
    share = min(1.0, taught_s / CLOCK_S)
    moved = np.where(np.isfinite(power.clock), power.clock + share * (mean - power.clock), mean)
    return np.where(np.isfinite(mean) & ~slowed, moved, power.clock), slowed
