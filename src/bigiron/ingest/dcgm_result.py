"""One result of a DCGM diagnostic: its word to a status, its warnings to codes.

Only the word "Pass" is a pass. "Not Run", an unknown word or none is an error: the test said
nothing about the part.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bigiron.faults import catalogue
from bigiron.ingest import Document
from bigiron.ingest.dcgm_errors import (
    MEMORY_ALLOC,
    MEMORY_ALLOC_HOST,
    by_test,
    by_text,
    fault_code,
)
from bigiron.model import CheckResult, CheckStatus

TEXT_LIMIT = 500
VALUES_LIMIT = 64

_WORDS = {
    "pass": CheckStatus.PASS,
    "passed": CheckStatus.PASS,
    "fail": CheckStatus.FAIL,
    "failed": CheckStatus.FAIL,
    "warn": CheckStatus.WARN,
    "warning": CheckStatus.WARN,
    "skip": CheckStatus.SKIP,
    "skipped": CheckStatus.SKIP,
}

_GROUPS = {
    "gpu": "gpu",
    "gpu_i": "gpu",
    "cpu": "cpu",
    "cpu_core": "cpu_core",
    "nvswitch": "nvswitch",
    "switch": "nvswitch",
    "connectx": "nic",
}

_MEASURE = re.compile(
    r"(?:GPU \d+\s+)?(?P<what>[A-Za-z][A-Za-z0-9 _/-]{2,60}?)\s*:\s+(?P<value>-?\d+(?:\.\d+)?)\s*"
    r"(?P<unit>GB/s|MB/s|us|ms|W|C|GFLOPS|%)?(?:\s|$)"
)


_GPU = re.compile(r"\bGPU\s?(\d{1,4})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Warn:
    """One warning of a result; ``number`` is DCGM's error number where it is told."""

    text: str
    number: int | None = None


@dataclass(slots=True)
class Result:
    """What one test said about some devices ("" is the node)."""

    test: str
    word: str
    devices: Sequence[str] = ("",)
    warnings: list[Warn] = field(default_factory=list)
    info: list[str] = field(default_factory=list)


def status(word: str) -> CheckStatus:
    """The status a result word stands for; an error for any word that is not known."""
    return _WORDS.get(word.strip().lower().replace("_", " "), CheckStatus.ERROR)


def check_name(test: str) -> str:
    """``dcgm.row_remap`` from any shown name of a test."""
    return "dcgm." + (re.sub(r"[^a-z0-9]+", "_", test.strip().lower()).strip("_") or "diag")


def device(group: str, number: object) -> str:
    """``gpu3`` for an entity of a group; "" for none."""
    kind = _GROUPS.get(group.strip().lower(), re.sub(r"\W+", "_", group.strip().lower()))
    digits = str(number)
    return f"{kind}{int(digits)}" if digits.isdecimal() and len(digits) < 9 and kind else ""


def check_results(document: Document, result: Result) -> Iterator[CheckResult]:
    """A CheckResult for each device, with the code of the worst of its warnings.

    One test has one result a device: a later run then replaces it as a whole.
    """
    judged = _judged(result)
    for name in result.devices:
        warnings = [w for w in result.warnings if _about(w, name, result.devices)]
        if result.warnings and not warnings and judged is not CheckStatus.PASS:
            continue  # one result for several GPUs whose warnings all name another
        coded = [(_code(result, one, judged), one.text) for one in warnings or [Warn("")]]
        coded.sort(key=lambda pair: -_rank(pair[0]))
        yield CheckResult(
            node=document.node,
            check=check_name(result.test),
            status=judged,
            device=name,
            code=coded[0][0],
            text=_text(result, "; ".join(text for _, text in coded if text), judged),
            source=document.name,
            values=_values(result.info),
        )


def _rank(code: str) -> int:
    """How bad the catalogue says a code is; -1 for none."""
    try:
        return catalogue().find(code).severity.rank if code else -1
    except KeyError:
        return -1


def _judged(result: Result) -> CheckStatus:
    """The status of its word, lowered where its own warnings contradict a pass.

    DCGM 4.5 lets a memory test pass that could not allocate memory: that is no result at all.
    """
    judged = status(result.word)
    if judged is CheckStatus.PASS and result.warnings:
        numbers = {warning.number for warning in result.warnings}
        if numbers & {MEMORY_ALLOC, MEMORY_ALLOC_HOST}:
            return CheckStatus.ERROR
        return CheckStatus.WARN
    return judged


def _about(warning: Warn, name: str, devices: Sequence[str]) -> bool:
    """Whether a warning may be about this device: it names it, or none of the result's."""
    named = {f"gpu{int(number)}" for number in _GPU.findall(warning.text)}
    return name in named or not named & set(devices)


def _code(result: Result, warning: Warn, judged: CheckStatus) -> str:
    if judged is CheckStatus.PASS:
        return ""
    number = warning.number
    if number is None and warning.text:
        number = by_text(warning.text)
    if number is None and judged in (CheckStatus.FAIL, CheckStatus.WARN):
        number = by_test(result.test)
    if number is not None and number > 0:
        return fault_code(number)
    return "dcgm.unknown" if judged in (CheckStatus.FAIL, CheckStatus.WARN) else ""


def _text(result: Result, message: str, judged: CheckStatus) -> str:
    said = " ".join(message.split())[:TEXT_LIMIT]
    if judged is CheckStatus.ERROR:
        word = result.word.strip() or "no result"
        passed = status(result.word) is CheckStatus.PASS
        why = "passed, yet inconclusive" if passed else f"did not come to a result ({word})"
        return f"{result.test} {why}: {said}" if said else f"{result.test} {why}"
    return said or f"{result.test}: {result.word.strip()}"


def _values(info: Sequence[str]) -> Mapping[str, float]:
    """Measured numbers in a test's remarks, by name with the unit last."""
    values: dict[str, float] = {}
    for line in info[:VALUES_LIMIT]:
        for match in _MEASURE.finditer(line[:TEXT_LIMIT]):
            name = re.sub(r"[^a-z0-9]+", "_", match["what"].lower()).strip("_")
            unit = (match["unit"] or "").lower().replace("/", "_per_").replace("%", "percent")
            if len(values) < VALUES_LIMIT:
                values[f"{name}_{unit}" if unit else name] = float(match["value"])
    return values
