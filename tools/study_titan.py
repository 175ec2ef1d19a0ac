"""Ranking Titan's GPUs by hazard, walking forward. `python tools/study_titan.py [FOLDER]`.

FOLDER holds gc_full.csv.gz of OLCF's TitanGPULife; without it, ../shared/data/public/titan beside
the checkout.
"""

import sys
from dataclasses import dataclass

import numpy as np
import study_page
from titan_history import PERIOD_D, Flags, Floats, History, Ints

from bigiron.analyze import hazard_model as hm

COMMAND = "python tools/study_titan.py"
FOLDS = 16
HORIZON = 3
"""Periods of 30 days."""

SURVIVORS_KEPT = 0.05
HALF_LIFE = 12
"""Periods after which a row counts half: hazards drift, and a year takes in every season."""

TOP = 0.05
DRAWS = 200


@dataclass(frozen=True, slots=True)
class Fold:
    """One test date: the parts at risk, what the model said and what became of them."""

    day: str
    part: Ints
    score: Floats
    calibrated: Floats
    failed: Flags
    known: Flags
    weight: Floats
    history: Floats
    age: Floats
    model: hm.Hazard


def main() -> int:
    """Write the figures into docs/studies/titan.md."""
    history = History(study_page.data("titan"))
    last = len(history.grid) - HORIZON
    tests = range(last, 0, -HORIZON)[:FOLDS]
    folds = [_fold(history, period) for period in reversed(tests)]
    study_page.write("studies/titan.md", COMMAND, _page(folds))
    return 0


def _fold(history: History, test: int) -> Fold:
    model = _fitted(history, test)
    rows = history.rows[test]
    logit = model.logit(rows.features)
    became = history.outcome(test, HORIZON)
    slope, intercept = _calibration(history, model, test)
    own = rows.features[:, history.names.index("own events, ever")]
    age = rows.features[:, history.names.index("age")]
    calibrated = hm.within(slope * logit + intercept, HORIZON)
    return Fold(
        history.day(test),
        rows.part,
        logit,
        calibrated,
        became.failed,
        became.known,
        became.weight,
        own,
        age,
        model,
    )


def _fitted(history: History, test: int) -> hm.Hazard:
    """Fitted to the periods that had ended by then; most survivors left out, the rest weighted."""
    rng = np.random.default_rng(test)
    features, failed, weight = [], [], []
    for period in range(test):
        rows = history.rows[period]
        kept = rows.failed | (rng.random(len(rows.part)) < SURVIVORS_KEPT)
        sampled = np.where(rows.failed, 1.0, 1.0 / SURVIVORS_KEPT)
        features.append(rows.features[kept])
        failed.append(rows.failed[kept])
        weight.append((rows.watched * sampled)[kept] * 0.5 ** ((test - period) / HALF_LIFE))
    return hm.fit(
        np.concatenate(features), np.concatenate(failed), np.concatenate(weight), history.names
    )


def _calibration(history: History, model: hm.Hazard, test: int) -> tuple[float, float]:
    """Slope and intercept from the last quarter before the test date, one period at a time."""
    recent = [history.rows[period] for period in range(max(0, test - HORIZON), test)]
    logit = np.concatenate([model.logit(rows.features) for rows in recent])
    return hm.platt(np.concatenate([rows.failed for rows in recent]), logit)


def _page(folds: list[Fold]) -> list[str]:
    failures = sum(int(f.failed.sum()) for f in folds)
    lost = sum(int((~f.known).sum()) for f in folds)
    cases = sum(len(f.part) for f in folds)
    lines = [
        f"{len(folds)} test dates {HORIZON * PERIOD_D:.0f} days apart ({folds[0].day} to "
        f"{folds[-1].day}), {cases:,} GPUs at risk in all, {failures:,} with a double-bit error or "
        f"off the bus within {HORIZON * PERIOD_D:.0f} days, {lost:,} taken out before without "
        "either (their outcome is not known).",
        "",
        "| ranking by | AUC | failures in the top 5 % | AUC, taken out = survived | "
        "top 5 %, taken out = survived |",
        "|---|---|---|---|---|",
    ]
    for name, scores in (
        ("hazard model", [f.score for f in folds]),
        ("age alone", [f.age for f in folds]),
        ("own past events alone", [f.history for f in folds]),
    ):
        lines.append(f"| {name} | " + " | ".join(_figures(folds, scores)) + " |")
    lines += ["", *_by_fold(folds), "", *_calibrated(folds), "", *_weights(folds[-1].model)]
    return lines


def _figures(folds: list[Fold], scores: list[Floats]) -> list[str]:
    """Means over the test dates, with 95 % intervals from draws of whole GPUs."""
    everyone = [np.ones(len(f.part)) for f in folds]
    weighted = [f.weight for f in folds]
    rng = np.random.default_rng(17)
    parts = 1 + max(int(f.part.max()) for f in folds)
    drawn = [np.bincount(rng.integers(0, parts, parts), minlength=parts) for _ in range(DRAWS)]
    told = []
    for weights in (weighted, everyone):
        value = _mean(folds, scores, weights)
        draws = np.array(
            [
                _mean(folds, scores, [w * d[f.part] for f, w in zip(folds, weights, strict=True)])
                for d in drawn
            ]
        )
        low, high = np.quantile(draws, (0.025, 0.975), axis=0)
        told += [f"{v:.3f} [{a:.3f}, {b:.3f}]" for v, a, b in zip(value, low, high, strict=True)]
    return told


def _mean(folds: list[Fold], scores: list[Floats], weights: list[Floats]) -> tuple[float, float]:
    of = list(zip(folds, scores, weights, strict=True))
    area = [hm.auc(f.failed, s, w) for f, s, w in of]
    top = [hm.capture(f.failed, s, TOP, w) for f, s, w in of]
    return float(np.mean(area)), float(np.mean(top))


def _by_fold(folds: list[Fold]) -> list[str]:
    lines = [
        "| test date | at risk | failed in 90 d | outcome not known | AUC | top 5 % | expected |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {f.day} | {len(f.part):,} | {int(f.failed.sum())} | {int((~f.known).sum()):,} | "
        f"{hm.auc(f.failed, f.score, f.weight):.3f} | "
        f"{hm.capture(f.failed, f.score, TOP, f.weight):.3f} | {f.calibrated.sum():.0f} |"
        for f in folds
    ]
    return lines


def _calibrated(folds: list[Fold]) -> list[str]:
    failed = np.concatenate([f.failed[f.known] for f in folds])
    p = np.concatenate([f.calibrated[f.known] for f in folds])
    bins = hm.reliability(failed, p)
    lines = [
        f"Calibration of the 90-day probability over all test dates (n = {len(p):,}, outcome "
        f"known): mean predicted {p.mean():.4f}, observed {failed.mean():.4f}, calibration error "
        f"{hm.calibration_error(bins):.4f}.",
        "",
        "| tenth | predicted | observed |",
        "|---|---|---|",
    ]
    rows = enumerate(bins, 1)
    return lines + [f"| {i} | {b.predicted:.4f} | {b.observed:.4f} |" for i, b in rows]


def _weights(model: hm.Hazard) -> list[str]:
    order = sorted(zip(model.names, model.weights, strict=True), key=lambda one: -abs(one[1]))
    told = ", ".join(f"{name} {weight:+.2f}" for name, weight in order[:12])
    return [f"Largest weights at the last test date (log-odds per standard deviation): {told}."]


if __name__ == "__main__":
    sys.exit(main())
