"""Findings to verdicts: how a node stands now, and because of what."""

from collections.abc import Mapping
from datetime import datetime

from bigiron.decide.hazard import p_fail_24h
from bigiron.model import Blame, Finding, Health, Severity, Verdict

BLIND = frozenset({"node.missing", "node.exporter_down"})
"""Faults that say nothing is seen of the node: what stands then is not known."""

ELSEWHERE = frozenset({Blame.APPLICATION, Blame.FACILITY})
"""Whose faults show on a node and are not the node's."""

CONFIDENT = 0.5
"""A critical claim below this confidence only degrades."""

P_STEP = 0.02
"""A smaller change of the probability is not worth a new verdict."""


def judge(
    node: str, findings: Mapping[str, Finding], now: datetime, *, seen: bool = True
) -> Verdict:
    """The verdict on a node from its open findings by id. ``seen`` is False if nothing is known.

    Info findings, a group's findings and what is the fault of a program or of the
    building never lower a node. A node of
    which nothing is seen is unknown, never healthy; but what was worse before still stands.
    """
    counted = {
        id_: f
        for id_, f in sorted(findings.items())
        if not f.subject.by and f.blame not in ELSEWHERE
    }
    worst = max((_health(f) for f in counted.values()), key=lambda h: h.rank, default=None)
    blind = not seen or any(f.fault in BLIND for f in counted.values())
    health = worst or Health.HEALTHY
    if blind and health.rank < Health.UNKNOWN.rank:
        health = Health.UNKNOWN
    ids = tuple(id_ for id_, f in counted.items() if f.severity is not Severity.INFO)
    because = _because(counted, health, seen)
    return Verdict(now, node, health, p_fail_24h(counted.values()), ids, because)


def differs(old: Verdict | None, new: Verdict) -> bool:
    """Whether the verdict says something new; a node never judged and healthy says nothing."""
    if old is None:
        return new.health is not Health.HEALTHY
    return (
        old.health is not new.health
        or old.findings != new.findings
        or abs(old.p_fail_24h - new.p_fail_24h) >= P_STEP
    )


def _health(finding: Finding) -> Health:
    if finding.fault in BLIND:
        return Health.UNKNOWN
    if finding.severity is Severity.INFO:
        return Health.HEALTHY
    if finding.severity is Severity.WARNING or finding.confidence < CONFIDENT:
        return Health.DEGRADED
    return Health.UNHEALTHY


def _because(findings: Mapping[str, Finding], health: Health, seen: bool) -> str:
    if health is Health.HEALTHY:
        return ""
    at_fault = sorted(
        (f for f in findings.values() if _health(f) is not Health.HEALTHY),
        key=lambda f: (-f.severity.rank, f.key),
    )
    if not at_fault:
        return "nothing is seen of it" if not seen else ""
    first = at_fault[0]
    text = first.because[0] if first.because else first.fault
    more = len(at_fault) - 1
    return f"{text} (and {more} more)" if more else text
