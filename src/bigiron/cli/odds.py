"""What a node's chance to fail is made of, as lines that align."""

import math
from collections.abc import Iterator

from bigiron.model import Contribution
from bigiron.store.reading import Why
from bigiron.words import chance

HEADERS = ("log-odds of failing", "24 h", "7 d", "")
TOGETHER = "together"


def odds(found: Why) -> Iterator[str]:
    """A header, the base rate, what each piece of evidence adds, and the sum; none without any."""
    verdict = found.node.verdict
    if verdict is None or len(verdict.contributions) < 2:
        return
    base, *more = verdict.contributions
    rows = [HEADERS, _row(base.what, base, _of(base))]
    faults = {reason.row.id: reason.row.finding for reason in found.reasons}
    for one in more:
        finding = faults.get(one.what)
        what = f"{one.what} {finding.fault} ({finding.severity})" if finding else one.what
        rows.append(_row(what, one, f"{_times(one.log_odds_24h)} the odds of failing in a day"))
    total = Contribution(
        TOGETHER,
        sum(one.log_odds_24h for one in verdict.contributions),
        sum(one.log_odds_7d for one in verdict.contributions),
    )
    both = f"{chance(verdict.p_fail_24h)} in a day, {chance(verdict.p_fail_7d)} in a week"
    rows.append(_row(TOGETHER, total, both))
    wide = max(len(row[0]) for row in rows)
    for what, day, week, told in rows:
        yield f"{what:<{wide}}  {day:>6}  {week:>6}  {told}".rstrip()


def _row(what: str, one: Contribution, told: str) -> tuple[str, str, str, str]:
    return what, f"{one.log_odds_24h:+.2f}", f"{one.log_odds_7d:+.2f}", told


def _of(base: Contribution) -> str:
    day, week = (1 / (1 + math.exp(-x)) for x in (base.log_odds_24h, base.log_odds_7d))
    return (
        f"of nodes like it that show nothing {chance(day)} fail in a day, {chance(week)} in a week"
    )


def _times(log_odds: float) -> str:
    times = math.exp(log_odds)
    return f"{float(f'{times:.2g}'):,.0f} times" if times >= 9.95 else f"{times:.1f} times"
