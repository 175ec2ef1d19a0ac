"""``nvbandwidth`` as JSON (``-j``) and as text.

In JSON numbers are strings, cells off the diagonal of what was measured are "N/A", and each test
has a status word. A test that passed but measured zero anywhere, or nothing at all, is an error:
nothing was moved. "Waived" means that the machine cannot run it and is skipped; "Not Run" and
whatever else is no result are errors. Source: nvbandwidth's README and DCGM's plugin around it.
"""

import re
from collections.abc import Iterator, Sequence

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, reader
from bigiron.ingest.json_text import JsonMap
from bigiron.model import CheckResult, CheckStatus, Fact, Observation

_STATUS = {
    "passed": CheckStatus.PASS,
    "pass": CheckStatus.PASS,
    "failed": CheckStatus.FAIL,
    "fail": CheckStatus.FAIL,
    "waived": CheckStatus.SKIP,
}
_RUNNING = re.compile(r"^\s*Running\s+(\w+)\.")
_SUM = re.compile(r"^\s*SUM\s+(\w+)\s+([-+.\deE]+|nan)")
_ROW = re.compile(r"^\s*\d+\s+((?:N/A|[-\d.]+)(?:\s+(?:N/A|[-\d.]+))*)\s*$")
_ERROR = re.compile(r"\bERROR\b|\[?CUDA_ERROR|Invalid value|CUDA error", re.IGNORECASE)


class Nvbandwidth:
    """One CheckResult a test; values hold the smallest, the largest and the sum."""

    def sniff(self, head: Head) -> float:
        """Certain by its own name with its own words."""
        if json_text.has_keys(head, "nvbandwidth"):
            return 0.95
        text = "nvbandwidth Version" in head.text or re.search(
            r"^\s*SUM \w+_memcpy_", head.text, re.M
        )
        return 0.95 if text else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Tests in the order in which they ran."""
        head = Head.of(document)
        if head.text.lstrip().startswith(("{", "[")) or json_text.has_keys(head, "nvbandwidth"):
            yield from _from_json(document)
        else:
            yield from _from_text(document)


@reader()
def nvbandwidth() -> Reader:
    """nvbandwidth results, JSON or text."""
    return Nvbandwidth()


def _from_json(document: Document) -> Iterator[Observation]:
    found = json_text.mapping(json_text.mapping(json_text.load(document)).get("nvbandwidth"))
    if not found:
        raise ParseError(document.name, 0, "nothing under nvbandwidth")
    driver = json_text.text(found.get("Driver Version"))
    if driver:
        yield Fact(document.node, "driver_version", driver, time=document.now)
    error = json_text.text(found.get("error"))
    if error:
        yield _check(document, "nvbandwidth", CheckStatus.ERROR, error, {})
    cases = list(json_text.objects(found.get("testcases")))
    for case in cases:
        yield _case(document, case)
    if not cases and not error:
        yield _check(document, "nvbandwidth", CheckStatus.ERROR, "no test ran", {})


def _case(document: Document, case: JsonMap) -> CheckResult:
    name = json_text.text(case.get("name")) or "?"
    word = json_text.text(case.get("status"))
    cells = [
        cell
        for row in json_text.sequence(case.get("bandwidth_matrix"))
        for cell in json_text.sequence(row)
    ]
    values = {
        key: number
        for key in ("sum", "min", "max", "average")
        if (number := json_text.number(case.get(key))) is not None
    }
    status = _STATUS.get(word.casefold(), CheckStatus.ERROR)
    return _judged(document, name, status, word or "no status", cells, values)


def _judged(
    document: Document,
    name: str,
    status: CheckStatus,
    word: str,
    cells: Sequence[object],
    values: dict[str, float],
) -> CheckResult:
    numbers = [n for cell in cells if (n := json_text.number(cell)) is not None]
    if numbers:
        values = {**values, "min": min(numbers), "max": max(numbers)}
    text = word
    if status is CheckStatus.PASS and not numbers and not values.get("sum"):
        status, text = CheckStatus.ERROR, f"{word}, but nothing was measured"
    elif status is CheckStatus.PASS and min([*numbers, *values.values()]) <= 0:
        status, text = CheckStatus.ERROR, f"{word}, but a measured value is zero"
    elif numbers:
        text = f"{word}, {min(numbers):g} to {max(numbers):g}"
    return _check(document, f"nvbandwidth {name}", status, text, values)


def _from_text(document: Document) -> Iterator[Observation]:
    name, cells, bad, tests = "", list[object](), "", 0
    for line in document.lines():
        if running := _RUNNING.match(line):
            if name:
                yield _unfinished(document, name, bad)
            name, cells, bad, tests = running[1], [], "", tests + 1
        elif total := _SUM.match(line):
            number = json_text.number(total[2])
            values = {} if number is None else {"sum": number}
            yield _judged(document, total[1], CheckStatus.PASS, "ran", cells, values)
            name, cells, tests = "", [], tests + 1
        elif row := _ROW.match(line):
            cells += row[1].split()
        elif "Waived" in line and name:
            text = "waived: this machine cannot run it"
            yield _check(document, f"nvbandwidth {name}", CheckStatus.SKIP, text, {})
            name = ""
        elif _ERROR.search(line):
            bad = line.strip()
    if name or bad or not tests:
        yield _unfinished(document, name, bad)


def _unfinished(document: Document, name: str, bad: str) -> CheckResult:
    check = f"nvbandwidth {name}".strip()
    text = bad or "the log ends before its result"
    return _check(document, check, CheckStatus.ERROR, text, {})


def _check(
    document: Document, check: str, status: CheckStatus, text: str, values: dict[str, float]
) -> CheckResult:
    return CheckResult(
        document.node,
        check,
        status,
        text=text[:500],
        time=document.now,
        source=document.name,
        values=values,
    )
