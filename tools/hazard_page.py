"""The figures of the hazard's study, and its weights as a file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import hazard_fit as hf
import numpy as np
from hazard_fit import Fitted, Floats, Key
from hazard_rows import HORIZON_D, Cell, History
from numpy.typing import NDArray

from bigiron.analyze import hazard_model as hm

DRAWS = 200
TOP = 0.05
BINS = 10
SAME = 0.1
"""A weight that differs less from the more general one is not told apart."""
DAYS = {"24h": "24 h", "7d": "7 d"}


@dataclass(frozen=True, slots=True)
class Test:
    """Cases that no model had seen when it spoke of them; ``weight`` in node-days."""

    failed: NDArray[np.bool_]
    weight: Floats
    down: NDArray[np.bool_]
    evident: NDArray[np.bool_]
    node: NDArray[np.int64]
    group: NDArray[np.int64]
    p: Floats
    fixed: Floats

    def of(self, inside: NDArray[np.bool_]) -> "Test":
        """Some of the cases."""
        names = ("failed", "weight", "down", "evident", "node", "group", "p", "fixed")
        return Test(*(getattr(self, name)[inside] for name in names))


@dataclass(frozen=True, slots=True)
class Study:
    """Everything that was fitted. ``rate`` is the fleet's the weights are to be given for."""

    histories: Sequence[History]
    observed: float
    rate: float
    known: Mapping[Key, tuple[int, int]]
    models: Mapping[str, tuple[Fitted, float, float]]
    tests: Mapping[str, Test]


Part = tuple[NDArray[np.bool_], Floats, list[Cell], Floats, Floats]


def test(parts: Sequence[Part]) -> Test:
    """The cases of all groups together."""
    cells = [cell for part in parts for cell in part[2]]
    _, node = np.unique([cell.node for cell in cells], return_inverse=True)
    return Test(
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.array([cell.down for cell in cells]),
        np.array([bool(cell.evidence) for cell in cells]),
        node,
        np.repeat(np.arange(len(parts)), [len(part[2]) for part in parts]),
        *(_p(np.concatenate([part[i] for part in parts])) for i in (3, 4)),
    )


def weights(study: Study, title: str, date: str) -> str:
    """The text of hazard.toml."""
    day, week = (study.models[horizon][0] for horizon in HORIZON_D)
    more = float(np.log(study.rate / study.observed))
    p_24h, p_7d = (float(_p(np.array(one.base + more))) for one in (day, week))
    lines = [
        "# Written by tools/study_hazard.py; see docs/studies/hazard.md. Log-odds; n: findings of",
        "# this kind, failed: those that came with a failure or within 7 days of one.",
        "",
        "[source]",
        f'title = "{title}"',
        f'date = "{date}"',
        f"node_days = {sum(h.node_days for h in study.histories):.0f}",
        f"failures = {sum(h.failures for h in study.histories)}",
        "",
        "[base]",
        f"rate = {study.rate:.4g}",
        f"p_24h = {p_24h:.4g}",
        f"p_7d = {max(p_24h, p_7d):.4g}",
        "",
        "[past]",
        f"shape = {hf.SHAPE}",
        f"w_24h = {day.past:.2f}",
        f"w_7d = {week.past:.2f}",
    ]
    for key, (n, failed) in _told(study):
        severity, fault = key
        lines += ["", "[[weight]]", f'severity = "{severity}"']
        lines += [f'fault = "{fault}"'] if fault else []
        lines += [f"w_24h = {day.weights[key]:.2f}", f"w_7d = {week.weights[key]:.2f}"]
        lines += [f"n = {n}", f"failed = {failed}"]
    return "\n".join(lines) + "\n"


def figures(study: Study) -> list[str]:
    """The page."""
    node_days = sum(h.node_days for h in study.histories)
    failures = sum(h.failures for h in study.histories)
    names = ", ".join(h.name for h in study.histories)
    lines = [
        f"{len(study.histories)} recordings ({names}), {node_days:,.0f} node-days, {failures} "
        f"failures ({study.observed:.2f} per 1,000 node-days).",
        "",
    ]
    for horizon, told in study.tests.items():
        lines += [f"### Within {DAYS[horizon]}", "", *_summary(told), ""]
        lines += [*_reliability(told), ""]
        _, slope, shift = study.models[horizon]
        lines += [f"Platt's slope {slope:.2f}, shift {shift:+.2f}.", ""]
    return [*lines, "### Weights", "", *_table(study)]


def _summary(told: Test) -> Iterator[str]:
    yield (
        "| node-days | n | that end in failure | by | AUC | in the top 5 % | Brier | calibration "
        "error |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    well = told.of(~told.down)
    base = np.full(len(well.p), (well.weight * well.failed).sum() / well.weight.sum())
    cases = (
        ("all", "fitted", told, told.p),
        ("not yet failed", "fitted", well, well.p),
        ("not yet failed", "fixed weights", well, well.fixed),
        ("not yet failed", "one rate for all", well, base),
    )
    for which, by, some, p in cases:
        n, bad = some.weight.sum(), (some.weight * some.failed).sum()
        yield f"| {which} | {n:,.0f} | {bad:,.1f} | {by} | " + " | ".join(_scores(some, p)) + " |"


def _scores(told: Test, p: Floats) -> list[str]:
    """AUC, capture, Brier and calibration error with intervals from draws of whole nodes."""
    rng = np.random.default_rng(17)
    nodes = 1 + int(told.node.max())

    def of(weight: Floats) -> tuple[float, float, float, float]:
        brier = float((weight * (p - told.failed) ** 2).sum() / weight.sum())
        error = _error(bins(told.failed, p, weight))
        return *_ranking(told, p, weight), brier, error

    value = of(told.weight)
    drawn = (np.bincount(rng.integers(0, nodes, nodes), minlength=nodes) for _ in range(DRAWS))
    draws = np.array([of(told.weight * times[told.node]) for times in drawn])
    low, high = np.nanquantile(draws, (0.025, 0.975), axis=0)
    digits = (3, 3, 5, 5)
    return [
        f"{v:.{d}f} [{a:.{d}f}, {b:.{d}f}]"
        for v, a, b, d in zip(value, low, high, digits, strict=True)
    ]


def _ranking(told: Test, p: Floats, weight: Floats) -> tuple[float, float]:
    """AUC and capture of each recording by itself, then together.

    Each was judged by a model of its own, whose base says how often the *others* failed: pooled,
    a recording with few failures would rank above one with many.
    """
    area = pairs = top = failures = 0.0
    for group in np.unique(told.group):
        inside = told.group == group
        failed, score, w = told.failed[inside], p[inside], weight[inside]
        bad, good = float((w * failed).sum()), float((w * ~failed).sum())
        if bad and good:
            area += bad * good * hm.auc(failed, score, w)
            pairs += bad * good
            top += bad * capture(failed, score, TOP, w)
            failures += bad
    return (area / pairs, top / failures) if pairs else (float("nan"), float("nan"))


def bins(failed: NDArray[np.bool_], p: Floats, weight: Floats) -> list[tuple[float, float, float]]:
    """(node-days, predicted, observed) of about tenths; what is predicted alike stays together."""
    levels, where = np.unique(p.round(6), return_inverse=True)
    n = np.bincount(where, weight)
    bad = np.bincount(where, weight * failed)
    tenth = np.minimum(((np.cumsum(n) - n / 2) / n.sum() * BINS).astype(int), BINS - 1)
    told = []
    for number in np.unique(tenth[n > 0]):
        inside = (tenth == number) & (n > 0)
        total = n[inside].sum()
        predicted = (n * levels)[inside].sum() / total
        told.append((float(total), float(predicted), float(bad[inside].sum() / total)))
    return told


def capture(failed: NDArray[np.bool_], p: Floats, share: float, weight: Floats) -> float:
    """Share of all failures in the top share of node-days; of equals, their part of those left."""
    levels, where = np.unique(-p.round(6), return_inverse=True)
    n = np.bincount(where, weight)
    bad = np.bincount(where, weight * failed)
    room = np.clip(share * n.sum() - (np.cumsum(n) - n), 0.0, n)
    part = np.divide(room, n, out=np.zeros(len(levels)), where=n > 0)
    return float((part * bad).sum() / bad.sum()) if bad.sum() else float("nan")


def _error(told: Sequence[tuple[float, float, float]]) -> float:
    total = sum(n for n, _, _ in told)
    return sum(n * abs(p - seen) for n, p, seen in told) / total if total else 0.0


def _reliability(told: Test) -> Iterator[str]:
    yield "Predicted against observed; what is predicted alike stays together."
    yield ""
    yield "| node-days | n | predicted | observed |"
    yield "|---|---|---|---|"
    for name, some in (
        ("nothing stands against the node", told.of(~told.evident)),
        ("something does", told.of(told.evident)),
    ):
        for n, predicted, observed in bins(some.failed, some.p, some.weight):
            yield f"| {name} | {n:,.1f} | {predicted:.4f} | {observed:.4f} |"


def _table(study: Study) -> Iterator[str]:
    day, week = (study.models[horizon][0] for horizon in HORIZON_D)
    yield "| evidence | findings | with a failure | log-odds 24 h | log-odds 7 d |"
    yield "|---|---|---|---|---|"
    yield f"| a node of which nothing is known | | | {day.base:.2f} | {week.base:.2f} |"
    one = hf.past(1, study.observed)
    yield f"| an incident in 30 days | | | {one * day.past:+.2f} | {one * week.past:+.2f} |"
    for key, (n, failed) in _told(study):
        what = f"{key[0]}, `{key[1]}`" if key[1] else f"{key[0]}, any other"
        both = f"{day.weights[key]:+.2f} | {week.weights[key]:+.2f}"
        yield f"| {what} | {n} | {failed} | {both} |"


def _told(study: Study) -> Iterator[tuple[Key, tuple[int, int]]]:
    """The weights that differ from the more general ones."""
    kept: list[Key] = []
    for key in sorted(study.known, key=lambda k: len(k[1])):
        above = hf.parent(key, kept)
        models = (model.weights for model, _, _ in study.models.values())
        if above not in kept or any(abs(w[key] - w[above]) >= SAME for w in models):
            kept.append(key)
    order = {severity: rank for rank, severity in enumerate(hf.SEVERITIES)}
    for key in sorted(kept, key=lambda k: (order[k[0]], k[1])):
        yield key, study.known[key]


def _p(logit: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(logit, -35, 35))), np.float64)
