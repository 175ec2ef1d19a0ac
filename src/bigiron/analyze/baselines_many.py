"""Baselines that look at several metrics or machines together."""

import numpy as np
from numpy.typing import NDArray

from bigiron.analyze.isolation_forest import IsolationForest

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

FEWEST = 100
SHRINKAGE = 0.1
"""Of the covariance towards its diagonal."""

LEARNED = 0.2
ODD = 0.99
"""An isolation forest learns from the first fifth; odd is beyond this share of what it learned."""

MINDER_SIGMAS = 3.0
SMALLEST_JOB = 4


def mahalanobis(values: Floats) -> Flags:
    """``values[time, machine, feature]``: far from the fleet's mean of the same time.

    The covariance is that of all such differences. Flagged beyond the chi-squared quantile of
    1 - 1e-4; features that nobody moves are left out.
    """
    flags = np.zeros(values.shape[:2], np.bool_)
    centred = values - _mean(values, axis=1)[:, None, :]
    rows = centred.reshape(-1, values.shape[2])
    whole = np.isfinite(rows).all(axis=1)
    if whole.sum() < FEWEST:
        return flags
    spread = rows[whole].std(axis=0)
    moving = spread > 1e-12
    if not moving.any():
        return flags
    scaled = rows[whole][:, moving] / spread[moving]
    covariance = np.cov(scaled, rowvar=False).reshape(scaled.shape[1], -1)
    covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * np.eye(len(covariance))
    distance = (scaled @ np.linalg.inv(covariance) * scaled).sum(axis=1)
    flags.reshape(-1)[whole] = distance > _chi2_beyond(len(covariance))
    return flags


def isolation(values: Floats) -> Flags:
    """``values[time, machine, feature]``: odd against the first fifth of the time."""
    times, machines, features = values.shape
    rows = values.reshape(-1, features)
    whole = np.isfinite(rows).all(axis=1)
    first = whole & (np.arange(len(rows)) < LEARNED * len(rows))
    flags = np.zeros(len(rows), np.bool_)
    if first.sum() >= 2:
        forest = IsolationForest(rows[first])
        beyond = np.quantile(forest.score(rows[first]), ODD)
        flags[whole] = forest.score(rows[whole]) > beyond
        flags[first] = False
    return flags.reshape(times, machines)


def minder(window: Floats) -> Flags:
    """``window[machine, time, metric]`` of one job: the machine far from all others, if one is.

    After Minder (NSDI 2025), with the windows themselves instead of their learned embeddings: each
    metric brought to 0..1, the distances of each machine to all others summed, the sums compared;
    metrics are tried in turn and the first that stands out decides.
    """
    machines = len(window)
    flags = np.zeros(machines, np.bool_)
    if machines < SMALLEST_JOB:
        return flags
    for metric in range(window.shape[2]):
        rows = window[:, :, metric]
        if not np.isfinite(rows).all() or rows.max() <= rows.min():
            continue
        scaled = (rows - rows.min()) / (rows.max() - rows.min())
        square = (scaled**2).sum(axis=1)
        apart = np.sqrt(np.maximum(square[:, None] + square - 2 * scaled @ scaled.T, 0.0))
        total = apart.sum(axis=1)
        others = np.delete(total, total.argmax())
        if total.max() > others.mean() + MINDER_SIGMAS * max(float(others.std()), 1e-9):
            flags[total.argmax()] = True
            return flags
    return flags


def _mean(values: Floats, axis: int) -> Floats:
    known = np.isfinite(values)
    n = np.maximum(known.sum(axis=axis), 1)
    return np.asarray(np.where(known, values, 0.0).sum(axis=axis) / n, np.float64)


def _chi2_beyond(degrees: int) -> float:
    """The quantile 1 - 1e-4 of chi-squared by Wilson and Hilferty's cube (z = 3.719)."""
    part = 2.0 / (9.0 * degrees)
    return float(degrees * (1.0 - part + 3.719 * np.sqrt(part)) ** 3)
