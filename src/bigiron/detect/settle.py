"""What is wrong now against what stood before: findings opened, updated and closed.

Silence is not recovery. A finding closes only if its detector said so (``Recovery``), or if the
detector ran, no longer claims it, and could see all that it reads of that subject for
``close_after_s``. A detector that reads no metrics (``reads=()``) is never closed by silence.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from bigiron.detect import Window
from bigiron.model import Change, Finding, FindingChange, Recovery

_NUMBER = re.compile(r"\d+(?:[.:,-]\d+)*")

CONFIDENCE_STEP = 0.1
"""A smaller change of confidence is not worth an update."""


CLOSE_BY_FAULT_S = {
    "gpu.pcie_gen": 86_400.0,
    "gpu.slow_clock": 43_200.0,
    "gpu.hot": 43_200.0,
}


CLOSE_BY_DETECTOR_S = {"golden": 0.0}
"""A fact is told once and does not flicker: the right one again is the end of it."""


class Open(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding that stands: since when, and since when its detector sees it gone."""

    finding: Finding
    opened: datetime
    clear_since: datetime | None = None


class Pending(msgspec.Struct, frozen=True):
    """A claim not yet believed: when it was first and last made."""

    first: datetime
    last: datetime


class Rules(msgspec.Struct, frozen=True):
    """How long a claim must hold before it opens, and be gone before it closes.

    ``open_after_s`` is by detector; a detector not named opens at once (most look at a stretch
    of time themselves). ``close_by_fault_s`` holds for faults that only show at work: an idle
    GPU is neither slow nor well. ``gap_s`` is how long a claim may be absent and still count as
    held.
    """

    open_after_s: Mapping[str, float] = {}
    close_after_s: float = 120.0
    close_by_fault_s: Mapping[str, float] = msgspec.field(
        default_factory=lambda: dict(CLOSE_BY_FAULT_S)
    )
    close_by_detector_s: Mapping[str, float] = msgspec.field(
        default_factory=lambda: dict(CLOSE_BY_DETECTOR_S)
    )
    gap_s: float = 120.0
    most_open: int = 100_000


class Docket(msgspec.Struct, frozen=True, omit_defaults=True):
    """The findings that stand, by id (``F000017``), and the claims not yet believed, by key."""

    open: dict[str, Open] = {}
    pending: dict[str, Pending] = {}
    next_id: int = 1


def settle(
    docket: Docket,
    claims: Iterable[Finding],
    recoveries: Iterable[Recovery],
    window: Window,
    *,
    reads: Mapping[str, tuple[str, ...]],
    rules: Rules,
) -> tuple[Docket, list[FindingChange]]:
    """The docket after these claims, and what changed. ``reads`` names the detectors that ran."""
    now = window.now
    by_key: dict[str, Finding] = {}
    for claim in claims:
        known = by_key.get(claim.key)
        if known is None or _stronger(claim, known):
            by_key[claim.key] = claim
    recovered = {r.key: r.because for r in recoveries}
    standing: dict[str, Open] = {}
    changes: list[FindingChange] = []
    for id_, held in docket.open.items():
        same = by_key.pop(held.finding.key, None)
        after, change = _follow(id_, held, same, recovered, window, reads, rules)
        if after is not None:
            standing[id_] = after
        if change is not None:
            changes.append(change)
    pending, opening = _believe(docket.pending, by_key, now, rules)
    next_id = docket.next_id
    for finding in opening[: max(0, rules.most_open - len(standing))]:
        id_ = f"F{next_id:06d}"
        next_id += 1
        standing[id_] = Open(finding, now)
        changes.append(FindingChange(now, id_, Change.OPEN, finding, _first(finding)))
    return Docket(standing, pending, next_id), changes


def _follow(
    id_: str,
    held: Open,
    claim: Finding | None,
    recovered: Mapping[str, str],
    window: Window,
    reads: Mapping[str, tuple[str, ...]],
    rules: Rules,
) -> tuple[Open | None, FindingChange | None]:
    """What becomes of one standing finding."""
    finding, now = held.finding, window.now
    if claim is not None:
        since = min(filter(None, (finding.since, claim.since)), default=None)
        claim = msgspec.structs.replace(claim, since=since)
        if not _differs(finding, claim):
            return Open(finding, held.opened), None
        change = FindingChange(now, id_, Change.UPDATE, claim, _first(claim))
        return Open(claim, held.opened), change
    if finding.key in recovered:
        return None, FindingChange(now, id_, Change.CLOSE, finding, recovered[finding.key])
    metrics = reads.get(finding.detector)
    if not metrics or not window.observed(finding.subject, metrics_of(finding, metrics)):
        return held, None
    clear_since = held.clear_since or now
    close_after_s = rules.close_by_detector_s.get(finding.detector, rules.close_after_s)
    close_after_s = rules.close_by_fault_s.get(finding.fault, close_after_s)
    if now - clear_since < timedelta(seconds=close_after_s):
        return Open(finding, held.opened, clear_since), None
    because = f"not so any more since {clear_since:%Y-%m-%d %H:%M:%S}"
    return None, FindingChange(now, id_, Change.CLOSE, finding, because)


def metrics_of(finding: Finding, metrics: tuple[str, ...]) -> tuple[str, ...]:
    """The metrics that must be seen again before this finding may close.

    A detector may read many; a finding rests on those its evidence names.
    """
    named = tuple(sorted({e.metric for e in finding.evidence if e.metric in metrics}))
    return named or metrics


def _believe(
    pending: Mapping[str, Pending], claims: Mapping[str, Finding], now: datetime, rules: Rules
) -> tuple[dict[str, Pending], list[Finding]]:
    """The new claims that have held long enough, and those still to wait for."""
    waiting: dict[str, Pending] = {}
    opening: list[Finding] = []
    for key, claim in claims.items():
        before = pending.get(key)
        lapsed = before is None or now - before.last > timedelta(seconds=rules.gap_s)
        first = now if before is None or lapsed else before.first
        if now - first >= timedelta(seconds=rules.open_after_s.get(claim.detector, 0.0)):
            opening.append(claim)
        else:
            waiting[key] = Pending(first, now)
    gap = timedelta(seconds=rules.gap_s)
    waiting |= {k: p for k, p in pending.items() if k not in claims and now - p.last <= gap}
    return waiting, opening


def _differs(old: Finding, new: Finding) -> bool:
    """Whether there is anything new to tell."""
    return (
        old.severity is not new.severity
        or _shape(old) != _shape(new)
        or old.action is not new.action
        or old.when is not new.when
        or old.subject.members != new.subject.members
        or abs(old.confidence - new.confidence) >= CONFIDENCE_STEP
    )


def _shape(finding: Finding) -> tuple[str, ...]:
    """Its sentences without their numbers: a count or a temperature that moves is no news."""
    return tuple(_NUMBER.sub("0", text) for text in finding.because)


def _stronger(one: Finding, other: Finding) -> bool:
    return (one.severity.rank, one.confidence) > (other.severity.rank, other.confidence)


def _first(finding: Finding) -> str:
    return finding.because[0] if finding.because else finding.fault
