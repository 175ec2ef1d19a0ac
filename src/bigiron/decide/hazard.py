"""One number for a node: how likely it fails a job within 24 hours, and within 7 days.

The probability that a job which runs on the node from now on and for so long fails of it: because
the node is broken already, or because it breaks. Its log-odds are a sum: those of a node of which
nothing is known, and what each piece of evidence adds to them. The weights are data
(``hazard_weights``), fitted and calibrated by ``tools/study_hazard.py``.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from bigiron.decide.hazard_weights import Weights
from bigiron.model import Blame, Contribution, Finding

BASE = "base rate"
"""What the contribution is called that any node has."""

REPEATED = 0.5
"""Each further finding of a node adds half of what it would alone: they mostly tell of one cause,
and what is told twice must not count twice."""


class Chance(NamedTuple):
    """The probabilities, 0..1, to four digits, and the log-odds they are the sum of."""

    p_24h: float
    p_7d: float
    contributions: tuple[Contribution, ...]


def chance(
    findings: Mapping[str, Finding], weights: Weights, *, sku: str = "", incidents: int = 0
) -> Chance:
    """How likely a node fails, from its open findings by id and its ``incidents`` that are over.

    The strongest finding counts in full, each further one half as much as the one before it. No
    evidence lowers a probability, and that for 7 days is never below that for 24 hours.
    """
    told = [_base(weights, sku)]
    if incidents:
        told.append(_past(weights, sku, incidents))
    told += _findings(findings, weights)
    p_24h = _probability(sum(one.log_odds_24h for one in told))
    p_7d = _probability(sum(one.log_odds_7d for one in told))
    return Chance(p_24h, max(p_24h, p_7d), tuple(told))


def weight(finding: Finding, weights: Weights) -> tuple[float, float]:
    """The log-odds that a finding adds by itself, for 24 h and 7 d.

    A group's finding adds nothing to a node, nor does what is the fault of a program.
    """
    if finding.subject.by or finding.blame is Blame.APPLICATION:
        return 0.0, 0.0
    day, week = weights.of(finding.fault, finding.severity)
    return day * finding.confidence, week * finding.confidence


def _base(weights: Weights, sku: str) -> Contribution:
    base = weights.base
    more = math.log(base.sku.get(sku, base.rate) / base.rate)
    return Contribution(
        BASE, _rounded(_logit(base.p_24h) + more), _rounded(_logit(base.p_7d) + more)
    )


def _past(weights: Weights, sku: str, incidents: int) -> Contribution:
    past, base = weights.past, weights.base
    expected = base.sku.get(sku, base.rate) / 1000 * past.days
    more = max(0.0, math.log((incidents + past.shape) / (expected + past.shape)))
    what = f"{incidents} incident{'s' * (incidents > 1)} in {past.days:g} days"
    return Contribution(what, _rounded(past.w_24h * more), _rounded(past.w_7d * more))


def _findings(findings: Mapping[str, Finding], weights: Weights) -> list[Contribution]:
    alone = {id_: weight(finding, weights) for id_, finding in sorted(findings.items())}
    day = _halved({id_: both[0] for id_, both in alone.items()})
    week = _halved({id_: both[1] for id_, both in alone.items()})
    told = [Contribution(id_, day[id_], week[id_]) for id_, both in alone.items() if any(both)]
    return sorted(told, key=lambda one: -one.log_odds_24h)


def _halved(alone: Mapping[str, float]) -> dict[str, float]:
    ranked = sorted(alone, key=lambda id_: -alone[id_])
    return {id_: _rounded(alone[id_] * REPEATED**rank) for rank, id_ in enumerate(ranked)}


def _rounded(log_odds: float) -> float:
    return round(log_odds, 4)


def _logit(p: float) -> float:
    return math.log(p / (1 - p))


def _probability(log_odds: float) -> float:
    return round(1 / (1 + math.exp(-log_odds)), 4)
