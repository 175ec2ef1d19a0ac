"""Bayesian online change point detection, for all streams of a metric at once.

R. Adams and D. MacKay, "Bayesian Online Changepoint Detection" (2007), with a Gaussian of unknown
mean and precision (Normal-Gamma prior) and a constant hazard. A change counts only if it is recent
with more than 90 % probability *and* at least a tenth of the level before (the verification of
GREYHOUND, USENIX ATC 2025).
"""

from math import pi

import numpy as np
from numpy.typing import NDArray

from bigiron.signals import Bad

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

HAZARD = 1.0 / 250.0
LONGEST = 120
RECENT = 4
SURE = 0.9
CHANGE = 0.1
PRIOR_WEIGHT, PRIOR_SHAPE = 1.0, 1.0


def change_points(values: Floats, bad: Bad) -> Flags:
    """Where a stream has just changed for the worse; ``values[time, stream]``, NaN is skipped."""
    level, scale = _start(values)
    scaled = (values - level) / scale
    streams = values.shape[1]
    run = np.full((streams, 1), 0.0)
    mean, weight = np.zeros((streams, 1)), np.full((streams, 1), PRIOR_WEIGHT)
    shape, rate = np.full((streams, 1), PRIOR_SHAPE), np.full((streams, 1), 1.0)
    flags = np.zeros(values.shape, np.bool_)
    before = np.zeros(streams)
    for t in range(len(values)):
        x = scaled[t]
        known = np.isfinite(x)
        x = np.where(known, x, 0.0)[:, None]
        told = _student(x, mean, weight, shape, rate)
        grown = run + told + np.log1p(-HAZARD)
        fresh = np.logaddexp.reduce(run + told + np.log(HAZARD), axis=1, keepdims=True)
        new = np.concatenate([fresh, grown], axis=1)
        new -= np.logaddexp.reduce(new, axis=1, keepdims=True)
        update = _updated(x, mean, weight, shape, rate)
        if new.shape[1] > LONGEST:
            new, update = new[:, :LONGEST], [one[:, :LONGEST] for one in update]
        if new.shape[1] != run.shape[1]:
            pad = new.shape[1] - run.shape[1]
            run = np.pad(run, ((0, 0), (0, pad)), constant_values=-np.inf)
            mean, weight, shape, rate = (
                np.pad(one, ((0, 0), (0, pad)), constant_values=1.0)
                for one in (mean, weight, shape, rate)
            )
        keep = known[:, None]
        run = np.where(keep, new, run)
        mean, weight, shape, rate = (
            np.where(keep, one, old)
            for one, old in zip(update, (mean, weight, shape, rate), strict=True)
        )
        recent = np.exp(np.logaddexp.reduce(run[:, : RECENT + 1], axis=1))
        now = mean[:, min(RECENT, mean.shape[1] - 1)]
        moved = _worse((now - before) * scale, before * scale + level, bad)
        flags[t] = known & (t > 2 * RECENT) & (recent > SURE) & moved
        before = np.where(recent > 0.5, before, _settled(run, mean))
    return flags


def _settled(run: Floats, mean: Floats) -> Floats:
    """The level of the runs that have lasted, each by its probability."""
    weight = np.exp(run[:, RECENT + 1 :])
    total = (weight * mean[:, RECENT + 1 :]).sum(axis=1)
    return np.asarray(total / np.maximum(weight.sum(axis=1), 1e-300), np.float64)


def _start(values: Floats) -> tuple[Floats, Floats]:
    """Level and scatter of each stream's first day or so: the units in which it is looked at."""
    first = values[: max(1, min(len(values), 24))]
    known = np.isfinite(first)
    n = np.maximum(known.sum(axis=0), 1)
    level = np.where(known, first, 0.0).sum(axis=0) / n
    spread = np.sqrt(np.where(known, (first - level) ** 2, 0.0).sum(axis=0) / n)
    return level, np.maximum(spread, np.maximum(1e-9, 0.01 * np.abs(level)))


def _student(x: Floats, mean: Floats, weight: Floats, shape: Floats, rate: Floats) -> Floats:
    """Log density of the next value under each run length, up to the gamma functions' Stirling."""
    width = rate * (weight + 1.0) / (weight * shape)
    degrees = 2.0 * shape
    log_ratio = 0.5 * np.log(np.maximum(shape - 0.25, 0.25))
    return np.asarray(
        log_ratio
        - 0.5 * np.log(degrees * pi * width)
        - (shape + 0.5) * np.log1p((x - mean) ** 2 / (degrees * width)),
        np.float64,
    )


def _updated(x: Floats, mean: Floats, weight: Floats, shape: Floats, rate: Floats) -> list[Floats]:
    """The prior again for run length 0, every other run with one value more."""
    streams = len(x)
    moved = (weight * mean + x) / (weight + 1.0)
    widened = rate + weight * (x - mean) ** 2 / (2.0 * (weight + 1.0))
    priors = (0.0, PRIOR_WEIGHT, PRIOR_SHAPE, 1.0)
    grown = (moved, weight + 1.0, shape + 0.5, widened)
    return [
        np.concatenate([np.full((streams, 1), prior), one], axis=1)
        for prior, one in zip(priors, grown, strict=True)
    ]


def _worse(moved: Floats, level: Floats, bad: Bad) -> Flags:
    towards = moved if bad is Bad.HIGH else -moved if bad is Bad.LOW else np.abs(moved)
    return np.asarray(towards > CHANGE * np.maximum(np.abs(level), 1e-9), np.bool_)
