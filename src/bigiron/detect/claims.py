"""A claim as the catalogue words it: severity, blame, action, what to look at."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from bigiron.detect import Series, Window
from bigiron.faults import catalogue
from bigiron.model import (
    ActionKind,
    Blame,
    Evidence,
    Fault,
    Finding,
    Severity,
    Subject,
    When,
)


class Asks(NamedTuple):
    """How bad it is and what to do, where the catalogue has no entry or means another case.

    ``why`` says what is other here than the catalogue's entry has in mind.
    """

    severity: Severity
    action: ActionKind = ActionKind.CHECK
    when: When = When.JOB_END
    blame: Blame = Blame.DEVICE
    why: str = ""


INFO = Asks(
    Severity.INFO, ActionKind.NONE, When.NEVER, Blame.UNKNOWN, "it is told, and no node's fault"
)
SUSPECT = Asks(Severity.WARNING, why="a suspicion asks for a test, not for a drain")


def entry(code: str) -> Fault | None:
    """The catalogue's entry of a code or of the nearest more general one; None if it has none."""
    return catalogue().known(code)


def claim(
    detector: str,
    code: str,
    subject: Subject,
    because: Iterable[str],
    *,
    since: datetime | None,
    evidence: Sequence[Evidence] = (),
    confidence: float = 1.0,
    asks: Asks | None = None,
    otherwise: Asks = SUSPECT,
) -> Finding:
    """A finding as bad as the catalogue has it and asking for what it does.

    ``asks`` overrides the catalogue; ``otherwise`` holds where it has no entry.
    """
    known = entry(code)
    if asks is None:
        asks = otherwise
        if known is not None:
            asks = Asks(known.severity, known.action, known.when, known.blame)
    sentences = [text for text in because if text]
    return Finding(
        detector=detector,
        fault=code,
        severity=asks.severity,
        subject=subject,
        since=since,
        because=tuple(sentences),
        confidence=confidence,
        blame=asks.blame,
        action=asks.action,
        when=asks.when,
        evidence=tuple(evidence),
        look=known.look if known is not None else (),
    )


def sampled(
    metric: str, series: Series, text: str, *, peer: float | None = None, unit: str = ""
) -> Evidence:
    """The newest sample of a series as evidence."""
    time = datetime.fromtimestamp(series.times[-1], UTC)
    return Evidence("sample", text, time, metric=metric, value=series.last, peer=peer, unit=unit)


def run_since(series: Series, bad: Sequence[bool]) -> datetime:
    """When the unbroken run of bad samples at the end of a series began."""
    first = len(bad) - 1
    while first > 0 and bad[first - 1]:
        first -= 1
    return datetime.fromtimestamp(series.times[first], UTC)


MIN_SAMPLES = 3
SHARE = 0.6
"""GPUD calls slowdown unhealthy when 0.6 of the minutes of a 10-minute window show it."""


def sustained(series: Series, bad: Sequence[bool], window: Window) -> bool:
    """Whether the newest sample and at least 0.6 of those of ``sustain_s`` are bad.

    It takes three samples that reach back that far, or a single look.
    """
    if not bad or not bad[-1]:
        return False
    if window.single_look:
        return True
    oldest = window.now.timestamp() - window.sustain_s
    recent = [b for t, b in zip(series.times, bad, strict=True) if t >= oldest]
    covered = series.times[0] <= oldest or series.times[-1] - series.times[0] >= window.sustain_s
    return covered and len(recent) >= MIN_SAMPLES and sum(recent) >= SHARE * len(recent)
