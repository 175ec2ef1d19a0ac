"""Failing checks to findings. Only a pass is a pass: skipped is not, and an error says so."""

from collections.abc import Iterable, Iterator, Sequence

from bigiron.detect import Window, detector
from bigiron.detect.claims import INFO, Asks, claim, entry
from bigiron.detect.words import at, device_words, label, sentence
from bigiron.model import (
    ActionKind,
    Blame,
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

NO_ENTRY = "the check gave no reason that is known: its word alone counts"
FAILED = Asks(Severity.CRITICAL, ActionKind.DRAIN, When.JOB_END, why=NO_ENTRY)
WARNED = Asks(Severity.WARNING, ActionKind.CHECK, When.JOB_END, why=NO_ENTRY)
UNTRIED = Asks(
    Severity.WARNING, ActionKind.CHECK, When.JOB_END, Blame.UNKNOWN, "it came to no verdict"
)


@detector()
def checks(window: Window) -> Iterator[Finding]:
    """What active checks (diagnostics, benchmarks) failed."""
    tried: dict[tuple[str, str], list[CheckResult]] = {}
    for result in window.checks:
        if result.status in (CheckStatus.FAIL, CheckStatus.WARN):
            yield _failed(result, window)
        elif result.status is CheckStatus.ERROR and not window.single_look:
            yield _did_not_run([result], window)
        elif result.status is CheckStatus.ERROR:
            tried.setdefault((result.node, result.check), []).append(result)
    for same in tried.values():
        yield _did_not_run(same, window)


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
    who = f"{_device(window, result)}: " if result.device else ""
    verb = "failed" if result.status is CheckStatus.FAIL else "warned"
    told = f" ({label(code)})" if result.code else ""
    text = f"{who}{_said(result.check)} {verb}{told}{_why(result)}"
    otherwise = FAILED if result.status is CheckStatus.FAIL else WARNED
    return claim(
        NAME,
        code,
        Subject(node=result.node, device=result.device),
        (sentence(text), _meaning(result.code)),
        since=result.time,
        evidence=(_evidence(result),),
        asks=otherwise if known is None or _unnamed(code) else _weighed(known, result.status),
    )


def _unnamed(code: str) -> bool:
    """Whether the check gave no reason that is known: then its word alone counts."""
    return code.endswith(".unknown")


def _weighed(known: Fault, status: CheckStatus) -> Asks:
    """What the catalogue asks for. A warning is a warning; a node that failed a test is not fit
    for work until it passes, even where only a setting is wrong.
    """
    if status is CheckStatus.WARN:
        return Asks(Severity.WARNING, ActionKind.CHECK, When.JOB_END, known.blame)
    severity = max(known.severity, Severity.CRITICAL, key=lambda s: s.rank)
    if known.action is ActionKind.NONE:
        return Asks(severity, ActionKind.CHECK, When.JOB_END, known.blame)
    return Asks(severity, known.action, known.when, known.blame)


def _said(check: str) -> str:
    """A check as people call it: ``DCGM test "pcie"`` for ``dcgm.pcie``."""
    family, _, test = check.partition(".")
    if family == "dcgm" and test:
        return f'DCGM test "{test.replace("_", " ")}"'
    return f'check "{check}"'


def _device(window: Window, result: CheckResult) -> str:
    """A part known by its address alone is a GPU: those are what is tested so."""
    kind = "gpu" if ":" in result.device else ""
    return device_words(window, result.node, result.device, kind)


def _why(result: CheckResult) -> str:
    """The check's own reason, unless it only repeats its verdict (``PCIe: Fail``)."""
    text = result.text.strip()
    verdict = text.rpartition(":")[2].strip(" .").lower()
    if not text or verdict in ("fail", "failed", "warn", "warning"):
        return ", giving no reason"
    return f": {text}"


def _did_not_run(results: Sequence[CheckResult], window: Window) -> Finding:
    """A check that came to no verdict; in a single look that is all there will be to know."""
    result = results[0]
    devices = [one.device for one in results if one.device]
    of = f" on {len(devices)} devices ({', '.join(devices)})" if len(devices) > 1 else ""
    if len(devices) == 1:
        of = f" on {_device(window, result)}"
    text = sentence(f"{_said(result.check)} did not run{of}: {result.text or 'no reason given'}")
    return claim(
        NAME,
        f"check.error.{_word(result.check)}",
        Subject(node=result.node, device=result.device if len(results) == 1 else ""),
        (text, "That is no pass: nothing is known until it has run."),
        since=result.time,
        evidence=tuple(_evidence(one) for one in results),
        asks=UNTRIED if window.single_look else INFO,
    )


def _evidence(result: CheckResult) -> Evidence:
    return Evidence("check", result.text[:300], result.time, result.source, metric=result.check)


def _meaning(code: str) -> str:
    known = entry(code) if code else None
    return known.meaning if known is not None else ""


def _word(text: str) -> str:
    return "_".join("".join(c if c.isalnum() else " " for c in text.lower()).split()) or "unnamed"
