"""Failing checks to findings. Only a pass is a pass: skipped is not, and an error says so."""

from collections.abc import Iterable, Iterator

from bigiron.detect import Window, detector
from bigiron.detect.claims import INFO, Asks, claim, entry
from bigiron.detect.words import at, device_words, label
from bigiron.model import (
    ActionKind,
    CheckResult,
    CheckStatus,
    Evidence,
    Fault,
    Finding,
    Recovery,
    Severity,
    Subject,
    When,
)

NAME = "checks"

FAILED = Asks(Severity.CRITICAL, ActionKind.DRAIN, When.JOB_END)
WARNED = Asks(Severity.WARNING, ActionKind.CHECK, When.JOB_END)


@detector()
def checks(window: Window) -> Iterator[Finding]:
    """What active checks (diagnostics, benchmarks) failed."""
    for result in window.checks:
        if result.status in (CheckStatus.FAIL, CheckStatus.WARN):
            yield _failed(result, window)
        elif result.status is CheckStatus.ERROR:
            yield _did_not_run(result)


def recoveries(standing: Iterable[Finding], window: Window) -> Iterator[Recovery]:
    """The standing findings whose check has passed since; a skip or an error ends nothing."""
    passed = {(r.node, r.device, r.check): r for r in window.checks if r.status is CheckStatus.PASS}
    ran = {(r.node, r.device, r.check) for r in window.checks if r.status is not CheckStatus.ERROR}
    for finding in standing:
        if finding.detector != NAME or not finding.evidence:
            continue
        key = (finding.subject.node, finding.subject.device, finding.evidence[0].metric)
        result = passed.get(key)
        if result is not None:
            when = f" at {at(result.time)}" if result.time is not None else ""
            yield Recovery(finding.key, f"{result.check} passed{when}")
        elif finding.fault.startswith("check.error") and key in ran:
            yield Recovery(finding.key, f"{key[2]} ran")


def _failed(result: CheckResult, window: Window) -> Finding:
    code = result.code or f"check.{_word(result.check)}"
    known = entry(code) if result.code else None
    who = device_words(window, result.node, result.device) if result.device else "the host"
    name = f"{result.check} ({label(code)})" if result.code else result.check
    verb = "failed" if result.status is CheckStatus.FAIL else "warned"
    otherwise = FAILED if result.status is CheckStatus.FAIL else WARNED
    return claim(
        NAME,
        code,
        Subject(node=result.node, device=result.device),
        (f"{who}: {name} {verb}: {result.text or 'no reason given'}.", _meaning(result.code)),
        since=result.time,
        evidence=(_evidence(result),),
        asks=otherwise if known is None or _unnamed(code) else _weighed(known, result.status),
    )


def _unnamed(code: str) -> bool:
    """Whether the check gave no reason that is known: then its word alone counts."""
    return code.endswith(".unknown")


def _weighed(known: Fault, status: CheckStatus) -> Asks:
    """What the catalogue asks for: a warning is a warning, and a failure at least one."""
    if status is CheckStatus.FAIL and known.severity is not Severity.INFO:
        return Asks(known.severity, known.action, known.when, known.blame)
    return Asks(Severity.WARNING, ActionKind.CHECK, When.JOB_END, known.blame)


def _did_not_run(result: CheckResult) -> Finding:
    return claim(
        NAME,
        f"check.error.{_word(result.check)}",
        Subject(node=result.node, device=result.device),
        (f"{result.check} did not run: {result.text or 'no reason given'}. That is no pass.",),
        since=result.time,
        evidence=(_evidence(result),),
        asks=INFO,
    )


def _evidence(result: CheckResult) -> Evidence:
    return Evidence("check", result.text[:300], result.time, result.source, metric=result.check)


def _meaning(code: str) -> str:
    known = entry(code) if code else None
    return known.meaning if known is not None else ""


def _word(text: str) -> str:
    return "_".join("".join(c if c.isalnum() else " " for c in text.lower()).split()) or "unnamed"
