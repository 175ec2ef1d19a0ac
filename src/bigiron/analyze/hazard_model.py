"""How likely a part fails within the next period: a discrete-time hazard, fitted and judged.

One row a part and period in which it was at risk (person-period data); a logistic regression on
such rows is a discrete-time survival model, and a part taken out before its period ended counts for
the share of it that it was watched (P. Allison, "Discrete-Time Methods for the Analysis of Event
Histories", Sociological Methodology 13, 1982). Squares of the weights are penalised (L2) after the
features were standardised, so that one penalty means the same for all of them.

Everything is numpy: fitting is Newton's method on a convex function, with halved steps where a step
would lead uphill.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEPS = 60
TOLERANCE = 1e-8
LARGEST_LOGIT = 35.0


@dataclass(frozen=True, slots=True)
class Hazard:
    """A fitted model: ``weights`` belong to standardised features, in the order of ``names``."""

    names: tuple[str, ...]
    mean: Floats
    spread: Floats
    weights: Floats
    intercept: float

    def logit(self, features: Floats) -> Floats:
        """Log-odds of a failure within one period; ``features`` has a row a part."""
        scaled = (features - self.mean) / self.spread
        return np.asarray(scaled @ self.weights + self.intercept, np.float64)

    def probability(self, features: Floats, periods: int = 1) -> Floats:
        """Of a failure within the next ``periods`` periods, the hazard staying as it is."""
        return within(self.logit(features), periods)

    def because(self, features: Floats) -> list[tuple[str, float]]:
        """What one part's features add to its log-odds, the largest first."""
        added = (features - self.mean) / self.spread * self.weights
        told = zip(self.names, (float(a) for a in added), strict=True)
        return sorted(told, key=lambda one: -abs(one[1]))


@dataclass(frozen=True, slots=True)
class Bin:
    """Parts of like predicted probability: how many, predicted and observed share of failures."""

    n: int
    predicted: float
    observed: float


def fit(
    features: Floats,
    failed: NDArray[np.bool_],
    weight: Floats,
    names: Sequence[str],
    *,
    l2: float = 100.0,
) -> Hazard:
    """Fit to person-period rows.

    ``weight`` is the share of the period watched (1 for a failure), times the inverse of the share
    sampled if rows were left out. Raises ValueError if there is no failure or no survival.
    """
    if features.ndim != 2 or len(failed) != len(features) or len(weight) != len(features):
        raise ValueError("a row of features, an outcome and a weight are wanted for each case")
    _both(failed)
    mean = features.mean(axis=0)
    spread = features.std(axis=0)
    spread[spread < TOLERANCE] = 1.0
    design = np.hstack([np.ones((len(features), 1)), (features - mean) / spread])
    found = _newton(design, failed.astype(np.float64), weight, l2)
    return Hazard(tuple(names), mean, spread, found[1:], float(found[0]))


def within(logit: Floats, periods: int) -> Floats:
    """The probability over several periods from the log-odds of one."""
    return np.asarray(1.0 - (1.0 - _sigmoid(logit)) ** periods, np.float64)


def log_rate_ratio(count: Floats, expected: Floats, *, prior: float = 3.0) -> Floats:
    """How often something happens to a group against what the fleet's rate would give it, as a log.

    A gamma prior worth ``prior`` expected events draws small groups towards the fleet (0).
    """
    return np.asarray(np.log((count + prior) / (expected + prior)), np.float64)


def auc(failed: NDArray[np.bool_], score: Floats, weight: Floats | None = None) -> float:
    """Chance that a part that failed was ranked above one that did not; ties count a half."""
    w = np.ones(len(score)) if weight is None else weight
    _, tied = np.unique(score, return_inverse=True)
    bad = np.bincount(tied, w * failed)
    good = np.bincount(tied, w * ~failed)
    below = np.cumsum(good) - good
    pairs = bad.sum() * good.sum()
    return float((bad * (below + good / 2)).sum() / pairs) if pairs > 0 else float("nan")


def capture(
    failed: NDArray[np.bool_], score: Floats, share: float, weight: Floats | None = None
) -> float:
    """Share of all failures among the ``share`` of parts with the highest scores."""
    w = np.ones(len(score)) if weight is None else weight
    order = np.argsort(-score, kind="stable")
    inside = np.cumsum(w[order]) <= share * w.sum()
    total = (w * failed).sum()
    return float((w * failed)[order][inside].sum() / total) if total > 0 else float("nan")


def platt(failed: NDArray[np.bool_], logit: Floats) -> tuple[float, float]:
    """Slope and intercept that bring log-odds to what was observed (J. Platt, 1999).

    Raises ValueError if there is no failure or no survival.
    """
    _both(failed)
    design = np.stack([np.ones(len(logit)), logit], axis=1)
    found = _newton(design, failed.astype(np.float64), np.ones(len(logit)), 1e-6)
    return float(found[1]), float(found[0])


def reliability(failed: NDArray[np.bool_], probability: Floats, bins: int = 10) -> list[Bin]:
    """Predicted against observed, by bins of equally many parts, the safest first."""
    parts = np.array_split(np.argsort(probability, kind="stable"), bins)
    return [
        Bin(len(part), float(probability[part].mean()), float(failed[part].mean()))
        for part in parts
        if len(part)
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    """Mean distance of predicted from observed shares, each bin by its size (ECE)."""
    total = sum(b.n for b in bins)
    return sum(b.n * abs(b.predicted - b.observed) for b in bins) / total if total else 0.0


def _both(failed: NDArray[np.bool_]) -> None:
    if not failed.any() or failed.all():
        raise ValueError("both failures and survivals are wanted")


def _newton(design: Floats, failed: Floats, weight: Floats, l2: float) -> Floats:
    """Minimise the weighted log loss plus l2/2 of the squared weights, the intercept left free."""
    penalty = np.full(design.shape[1], l2)
    penalty[0] = 1e-9
    beta = np.zeros(design.shape[1])
    share = float((weight * failed).sum() / weight.sum())
    beta[0] = np.log(share / (1.0 - share))
    loss = _loss(design, failed, weight, penalty, beta)
    for _ in range(STEPS):
        p = _sigmoid(design @ beta)
        slope = design.T @ (weight * (p - failed)) + penalty * beta
        curve = (design * (weight * np.maximum(p * (1 - p), 1e-12))[:, None]).T @ design
        step = np.linalg.solve(curve + np.diag(penalty), slope)
        size = 1.0
        while size > 1e-6:
            tried = beta - size * step
            reached = _loss(design, failed, weight, penalty, tried)
            if reached <= loss:
                break
            size /= 2
        if size <= 1e-6 or loss - reached < TOLERANCE * (1.0 + abs(loss)):
            return np.asarray(tried if size > 1e-6 else beta, np.float64)
        beta, loss = tried, reached
    return np.asarray(beta, np.float64)


def _loss(design: Floats, failed: Floats, weight: Floats, penalty: Floats, beta: Floats) -> float:
    logit = design @ beta
    told = (weight * (np.logaddexp(0.0, logit) - failed * logit)).sum()
    return float(told + 0.5 * (penalty * beta * beta).sum())


def _sigmoid(logit: Floats) -> Floats:
    bounded = np.clip(logit, -LARGEST_LOGIT, LARGEST_LOGIT)
    return np.asarray(1.0 / (1.0 + np.exp(-bounded)), np.float64)
