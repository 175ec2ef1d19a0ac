"""AMD's GPU field health check: the terminal log of ``agfhc`` and its results.json.

The log shows "PASS: hbm_bw-1-1 [...]" a test, a summary of counts and the return code by name;
results.json holds a recipe and a list of tests with a result each. A run that executed no test,
or whose return code is missing, is an error and never a pass.
Source: AMD Instinct customer acceptance guide, AGFHC validation.
"""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, reader
from bigiron.model import CheckResult, CheckStatus, Observation

_TEST = re.compile(r"^\s*(PASS|FAIL|SKIP|ERROR|ABORT)\w*\s*:\s*([A-Za-z]\w*(?:-\d+)*)(.*)")
_COUNTS = re.compile(
    r"Tests:\s*(\d+)\s+Total,\s*(\d+)\s+Executed,\s*(\d+)\s+Skipped", re.IGNORECASE
)
_CODE = re.compile(r"return code\s+(AGFHC_\w+)\s*\[(-?\d+)\]", re.IGNORECASE)
_UNABLE = re.compile(r"unable to run(?: AGFHC)?|AGFHC unable to run", re.IGNORECASE)
_STATUS = {
    "pass": CheckStatus.PASS,
    "passed": CheckStatus.PASS,
    "success": CheckStatus.PASS,
    "fail": CheckStatus.FAIL,
    "failed": CheckStatus.FAIL,
    "failure": CheckStatus.FAIL,
    "skip": CheckStatus.SKIP,
    "skipped": CheckStatus.SKIP,
}


class Agfhc:
    """One CheckResult a test, and one for the run as a whole."""

    def sniff(self, head: Head) -> float:
        """Certain where its name stands beside a result."""
        if json_text.has_keys(head, "recipe", "tests") and '"result"' in head.text:
            return 0.85
        if "AGFHC" in head.text or "agfhc" in head.text:
            found = (
                _TEST.search(head.text) or _CODE.search(head.text) or "Executing tests" in head.text
            )
            return 0.9 if found or _UNABLE.search(head.text) else 0.2
        return 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Tests in order, then the run."""
        if document.head().lstrip().startswith((b"{", b"[")):
            yield from _from_json(document)
        else:
            yield from _from_log(document)


@reader()
def agfhc() -> Reader:
    """Results of AMD's GPU field health check."""
    return Agfhc()


def _from_json(document: Document) -> Iterator[Observation]:
    for run in json_text.objects(json_text.load(document)):
        recipe = json_text.text(run.get("recipe")) or "run"
        tests = list(json_text.objects(run.get("tests")))
        for test in tests:
            word = json_text.text(test.get("result") or test.get("status"))
            name = json_text.text(test.get("name") or test.get("test")) or "?"
            yield _check(document, name, _status(word), f"{word or 'no result'} (recipe {recipe})")
        word = json_text.text(run.get("overall_result"))
        status = _status(word) if tests else CheckStatus.ERROR
        yield _check(document, recipe, status, f"{len(tests)} tests, {word or 'no result'}")


def _from_log(document: Document) -> Iterator[Observation]:
    counts = code = unable = None
    seen = 0
    for line in document.lines():
        if test := _TEST.match(line):
            seen += 1
            name = re.sub(r"(-\d+)+$", "", test[2])
            yield _check(document, name, _status(test[1]), line.strip())
        counts = _COUNTS.search(line) or counts
        code = _CODE.search(line) or code
        unable = _UNABLE.search(line) or unable
    if not (seen or counts or code or unable):
        raise ParseError(document.name, 0, "no test, summary or return code of agfhc")
    executed = int(counts[2]) if counts else seen
    if unable:
        yield _check(document, "run", CheckStatus.ERROR, "unable to run on this GPU")
    elif code is None:
        yield _check(document, "run", CheckStatus.ERROR, "the log ends before the return code")
    elif int(code[2]) != 0:
        yield _check(document, "run", CheckStatus.FAIL, f"return code {code[1]} [{code[2]}]")
    elif not executed:
        yield _check(document, "run", CheckStatus.ERROR, "no test was executed")
    else:
        yield _check(document, "run", CheckStatus.PASS, f"{executed} tests, {code[1]}")


def _status(word: str) -> CheckStatus:
    return _STATUS.get(word.casefold(), CheckStatus.ERROR)


def _check(document: Document, name: str, status: CheckStatus, text: str) -> CheckResult:
    return CheckResult(
        document.node,
        f"agfhc {name}",
        status,
        text=text[:500],
        time=document.now,
        source=document.name,
    )
