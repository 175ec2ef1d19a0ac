"""The weights of the hazard from hours of nodes: a logistic regression drawn to a prior.

One row an hour of a node, weighted so that a node-day (for 7 days a node-week) counts once;
outcomes of overlapping rows are not independent. A finding's weight is that of its severity, plus
what its family and its very fault differ from it. Each of these has a normal prior, so that where
there is little to learn from the weight stays near the more general one, and that of a severity
near what was assumed before anything was fitted. No weight is below zero: evidence of a fault never
makes a failure less likely.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from hazard_rows import DAY_S, HORIZON_D, HOUR_S, Cell, Evidence, History
from numpy.typing import NDArray

from bigiron.decide.hazard import REPEATED
from bigiron.decide.hazard_weights import below

Floats = NDArray[np.float64]
Key = tuple[str, str]
"""(severity, fault): a fault's code, the beginning of codes, or "" for any."""

SEVERITIES = ("warning", "critical", "fatal")
ASSUMED = {"warning": 1.6, "critical": 4.0, "fatal": 8.0}
"""Log-odds of a finding before anything was fitted: several times the base rate, one in four,
almost surely."""
SEVERITY_SD, FAULT_SD = 1.5, 2.0
PAST_ASSUMED, PAST_SD = 1.0, 0.5
SHAPE = 0.35
"""Of the gamma distribution of nodes' own rates: 1 over its relative variance, 1.2 % of the nodes
failing 20 times as often as the others. Meta found 1.2 % lemons on RSC-1, after whose removal the
failures of large jobs fell from 14 to 4 % (arXiv 2410.21680)."""
PLATT_SD = 0.25
SUPPORT = 3
"""A fault or family has a weight of its own from so many findings on."""
ROUNDS, STEPS = 6, 80


@dataclass(frozen=True, slots=True)
class Rows:
    """Cells of some recordings with their hours; ``group`` numbers the recording of each."""

    cells: list[Cell]
    hours: Floats
    group: NDArray[np.int64]

    def of(self, groups: Sequence[int]) -> "Rows":
        """Those of some recordings."""
        inside = np.flatnonzero(np.isin(self.group, groups))
        return Rows([self.cells[i] for i in inside], self.hours[inside], self.group[inside])


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model of one horizon: log-odds of the base, of each key above its parents, of the past."""

    base: float
    past: float
    weights: dict[Key, float]
    """Each as it is used: for (severity, fault) the whole weight."""

    def calibrated(self, slope: float, shift: float) -> "Fitted":
        """The same with Platt's slope and shift taken in."""
        scaled = {key: slope * w for key, w in self.weights.items()}
        return Fitted(slope * self.base + shift, slope * self.past, scaled)

    def weight(self, evidence: Evidence) -> float:
        """Of a finding: that of the most particular key."""
        keys = [k for k in self.weights if _fits(evidence, k)]
        return self.weights[max(keys, key=lambda k: len(k[1]))] * evidence.confidence


def rows(histories: Sequence[History]) -> Rows:
    """The cells of all recordings; of a single one, its quarters take the recordings' place."""
    cells, hours, group = [], [], []
    for number, one in enumerate(histories):
        for cell, count in one.hours.items():
            cells.append(cell._replace(node=f"{one.name}/{cell.node}"))
            hours.append(float(count))
            group.append(number if len(histories) > 1 else cell.part)
    return Rows(cells, np.array(hours), np.array(group))


def keys(histories: Sequence[History]) -> dict[Key, tuple[int, int]]:
    """Which weights there are to fit, each with its findings and how many met a failure."""
    seen: Counter[Key] = Counter()
    met: Counter[Key] = Counter()
    for evidence, failed in (one for history in histories for one in history.findings):
        family = evidence.fault.split(".")[0]
        for fault in {"", family, evidence.fault}:
            key = (evidence.severity, fault)
            seen[key] += 1
            met[key] += failed
    every = {(severity, "") for severity in SEVERITIES}
    for key in sorted(seen, key=lambda k: len(k[1])):
        if seen[key] >= SUPPORT and key[1] and seen[key] < seen[parent(key, every)]:
            every.add(key)
    return {key: (seen[key], met[key]) for key in sorted(every)}


def _above(key: Key, other: Key) -> bool:
    return key != other and key[0] == other[0] and below(other[1], key[1])


def fit(data: Rows, horizon: str, known: Sequence[Key], rate: float) -> Fitted:
    """The model of one horizon, by penalised maximum likelihood; ``rate`` is the fleet's.

    A week is assumed to have the weights of a day: what fails within a day fails within a week.
    """
    outcome, weight, cells = _cases(data, horizon)
    assumed = Fitted(-5.0, PAST_ASSUMED, {key: ASSUMED[key[0]] for key in known})
    if horizon != "24h":
        assumed = fit(data, "24h", known, rate)
    mean, spread = _prior(known, assumed)
    fitted = assumed
    for _ in range(ROUNDS):
        design = _design(cells, known, fitted, rate)
        design, outcomes, weights = _gathered(design, outcome, weight)
        beta = newton(design, outcomes, weights, mean, spread, _parents(known))
        fitted = Fitted(float(beta[0]), float(beta[1]), _whole_weights(beta[2:], known))
    return fitted


def platt(data: Rows, horizon: str, logit: Floats) -> tuple[float, float]:
    """Slope and shift that bring log-odds to what was observed, drawn to 1 and 0."""
    outcome, weight, _ = _cases(data, horizon)
    design = np.stack([np.ones(len(logit)), logit], axis=1)
    spread = np.array([2 * PLATT_SD, PLATT_SD])
    beta = newton(design, outcome, weight, np.array([0.0, 1.0]), spread, [])
    return float(beta[1]), float(beta[0])


def logits(data: Rows, horizon: str, fitted: Fitted, rate: float) -> Floats:
    """The log-odds of every cell whose outcome is known."""
    _, _, cells = _cases(data, horizon)
    told = np.full(len(cells), fitted.base)
    for i, cell in enumerate(cells):
        told[i] += fitted.past * past(cell.incidents, rate)
        ranked = sorted((fitted.weight(e) for e in cell.evidence), reverse=True)
        told[i] += sum(w * REPEATED**rank for rank, w in enumerate(ranked))
    return told


def past(incidents: int, rate: float) -> float:
    """What a node's incidents of 30 days are worth, before their weight."""
    if not incidents:
        return 0.0
    expected = rate / 1000 * 30
    return max(0.0, math.log((incidents + SHAPE) / (expected + SHAPE)))


def cases(data: Rows, horizon: str) -> tuple[NDArray[np.bool_], Floats, list[Cell]]:
    """Outcome, weight in node-days, and cell of all cells whose outcome is known."""
    outcome, weight, cells = _cases(data, horizon)
    return outcome > 0.5, weight * HORIZON_D[horizon], cells


def _cases(data: Rows, horizon: str) -> tuple[Floats, Floats, list[Cell]]:
    which = list(HORIZON_D).index(horizon)
    inside = [i for i, cell in enumerate(data.cells) if cell.failed[which] is not None]
    outcome = np.array([float(bool(data.cells[i].failed[which])) for i in inside])
    per_row = HOUR_S / DAY_S / HORIZON_D[horizon]
    return outcome, data.hours[inside] * per_row, [data.cells[i] for i in inside]


def _design(cells: Sequence[Cell], known: Sequence[Key], fitted: Fitted, rate: float) -> Floats:
    """Columns: one, the past, and of each key the confidences of its findings, halved by rank."""
    columns = {key: 2 + i for i, key in enumerate(known)}
    design = np.zeros((len(cells), 2 + len(known)))
    design[:, 0] = 1.0
    for i, cell in enumerate(cells):
        design[i, 1] = past(cell.incidents, rate)
        ranked = sorted(cell.evidence, key=fitted.weight, reverse=True)
        for rank, evidence in enumerate(ranked):
            for key in known:
                if _fits(evidence, key):
                    design[i, columns[key]] += evidence.confidence * REPEATED**rank
    return design


def _gathered(design: Floats, outcome: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Rows that are alike as one."""
    both = np.column_stack([design.round(6), outcome])
    unique, where = np.unique(both, axis=0, return_inverse=True)
    return unique[:, :-1], unique[:, -1], np.bincount(where.ravel(), weight)


def _fits(evidence: Evidence, key: Key) -> bool:
    return evidence.severity == key[0] and below(evidence.fault, key[1])


def _prior(known: Sequence[Key], assumed: Fitted) -> tuple[Floats, Floats]:
    mean = [assumed.weights[key] - assumed.weights.get(parent(key, known), 0.0) for key in known]
    spread = [SEVERITY_SD if not fault else FAULT_SD for _, fault in known]
    return np.array([0.0, assumed.past, *mean]), np.array([1e3, PAST_SD, *spread])


def parent(key: Key, known: Iterable[Key]) -> Key:
    """The nearest more general key; ("", "") of a severity's own."""
    above = [other for other in known if _above(other, key)]
    return max(above, key=lambda k: len(k[1]), default=("", ""))


def _parents(known: Sequence[Key]) -> list[list[int]]:
    """The columns whose sum is each weight, none of which may be below zero."""
    above = [
        [2 + i for i, (s, f) in enumerate(known) if s == severity and below(fault, f)]
        for severity, fault in known
    ]
    return [[1], *above]


def _whole_weights(beta: Floats, known: Sequence[Key]) -> dict[Key, float]:
    return {
        key: max(0.0, sum(float(beta[i - 2]) for i in columns))
        for key, columns in zip(known, _parents(known)[1:], strict=True)
    }


def newton(
    design: Floats,
    outcome: Floats,
    weight: Floats,
    mean: Floats,
    spread: Floats,
    sums: Sequence[Sequence[int]],
) -> Floats:
    """Most likely coefficients under normal priors, each of some sums of them at least zero.

    A sum that would be below zero is held at zero by a steep penalty, as long as it would be.
    """
    penalty = 1 / spread**2
    beta = mean.copy()
    beta[0] = 0.0 if sums == [] else -5.0
    rows_ = np.zeros((len(sums), len(beta)))
    for i, columns in enumerate(sums):
        rows_[i, columns] = 1.0

    def loss(b: Floats) -> float:
        logit = design @ b
        told = float((weight * (np.logaddexp(0.0, logit) - outcome * logit)).sum())
        short = np.minimum(rows_ @ b, 0.0)
        return told + 0.5 * float((penalty * (b - mean) ** 2).sum() + 1e4 * (short**2).sum())

    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(design @ beta, -35, 35)))
        held = rows_[(rows_ @ beta) < 0]
        slope = design.T @ (weight * (p - outcome)) + penalty * (beta - mean)
        slope += 1e4 * held.T @ (held @ beta)
        curve = (design * (weight * np.maximum(p * (1 - p), 1e-12))[:, None]).T @ design
        step = np.linalg.solve(curve + np.diag(penalty) + 1e4 * held.T @ held, slope)
        size, before = 1.0, loss(beta)
        while size > 1e-6 and loss(beta - size * step) > before:
            size /= 2
        beta = beta - size * step
        if before - loss(beta) < 1e-9 * (1 + abs(before)):
            break
    return beta
