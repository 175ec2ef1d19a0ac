"""One number for a node: the probability that it fails a job within 24 hours.

**Not yet calibrated.** The base rate is measured (6.5 infrastructure failures per 1,000
node-days on Meta's RSC-1, arXiv 2410.21680); the weights are log-odds chosen so that a fatal
fault means "almost surely" and a warning "several times the base rate". They order nodes; until
they are fitted to a fleet's own outcomes they must not be read as frequencies.
"""

import math
from collections.abc import Iterable

from bigiron.model import Blame, Finding, Severity

BASE_RATE_PER_DAY = 6.5e-3

WEIGHTS = {
    Severity.INFO: 0.0,
    Severity.WARNING: 1.6,
    Severity.CRITICAL: 4.0,
    Severity.FATAL: 8.0,
}
"""Log-odds that one finding of this severity adds."""

REPEATED = 0.5
"""Each further finding of a node adds half of what the one before it did."""


def p_fail_24h(findings: Iterable[Finding]) -> float:
    """The probability, 0..1, rounded to four digits; a group's or a program's fault adds nothing.

    The strongest finding counts in full, each further one half as much as the last: findings of
    one node mostly tell of one cause.
    """
    weights = sorted((weight(finding) for finding in findings), reverse=True)
    log_odds = math.log(BASE_RATE_PER_DAY / (1 - BASE_RATE_PER_DAY))
    log_odds += sum(w * REPEATED**i for i, w in enumerate(weights))
    return round(1 / (1 + math.exp(-log_odds)), 4)


def weight(finding: Finding) -> float:
    """The log-odds that one finding adds."""
    if finding.subject.by or finding.blame is Blame.APPLICATION:
        return 0.0
    return WEIGHTS[finding.severity] * finding.confidence
