"""Copy tests in text: CUDA's ``bandwidthTest`` and SuperBench's ``gpu_copy``.

Source: the output of both; ``gpu_copy`` prints a name and GB/s a line.
"""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.model import CheckResult, CheckStatus, Observation

_TEST = re.compile(r"^(bandwidthTest-[\w-]+), Bandwidth = ([\d.]+) GB/s, .*?Size = (\d+) bytes")
_TABLE = re.compile(r"^\s*(\d+)\s+([\d.]+)\s*$")
_TABLE_TITLE = re.compile(r"^\s*((?:Host|Device) to (?:Host|Device) Bandwidth)")
_COPY = re.compile(r"^((?:cpu|gpu)\w*_(?:to|and)_(?:cpu|gpu)\w*_by_(?:sm|dma)\w*)\s+([-+.\deE]+)$")
_RESULT = re.compile(r"^\s*Result = (PASS|FAIL)")
_FAILURE = re.compile(r"CUDA error|cudaError|error code", re.IGNORECASE)
_BEGUN = re.compile(r"^\[CUDA Bandwidth Test\]")
_MAX_VALUES = 512


class CopyBandwidth:
    """One CheckResult a kind of copy, or one for the whole of gpu_copy."""

    def sniff(self, head: Head) -> float:
        """Certain by the line's form."""
        if "[CUDA Bandwidth Test]" in head.text or "bandwidthTest-" in head.text:
            return 0.95
        return 0.9 if re.search(_COPY.pattern, head.text, re.MULTILINE) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Results in order of their first line."""
        best: dict[str, tuple[float, float]] = {}
        copies: dict[str, float] = {}
        title, failure, begun, verdict = "", "", False, ""
        for line in document.lines():
            if test := _TEST.match(line):
                best[test[1]] = (float(test[3]), float(test[2]))
            elif (copy := _COPY.match(line)) and len(copies) < _MAX_VALUES:
                copies[copy[1]] = float(copy[2])
            elif named := _TABLE_TITLE.match(line):
                title = named[1]
            elif title and (row := _TABLE.match(line)):
                best[f"bandwidthTest {title}"] = (float(row[1]), float(row[2]))
            elif end := _RESULT.match(line):
                verdict = end[1]
            elif _FAILURE.search(line):
                failure = failure or line.strip()
            begun = begun or bool(_BEGUN.match(line))
        if not (best or copies or begun or failure):
            raise ParseError(document.name, 0, "no copy bandwidth in this text")
        yield from _results(document, best, copies, failure, verdict)


@reader()
def copy_bandwidth() -> Reader:
    """bandwidthTest and gpu_copy output."""
    return CopyBandwidth()


def _results(
    document: Document,
    best: dict[str, tuple[float, float]],
    copies: dict[str, float],
    failure: str,
    verdict: str,
) -> Iterator[CheckResult]:
    for name, (size, rate) in best.items():
        status, text = _judged(rate, failure, verdict)
        values = {"bandwidth_gb_per_s": rate, "size_bytes": size}
        yield _check(document, name, status, f"{text} at {size:.0f} bytes", values)
    if copies:
        status, text = _judged(min(copies.values()), failure, verdict)
        yield _check(document, "gpu_copy", status, f"{len(copies)} copies, least {text}", copies)
    if not best and not copies:
        text = failure or "the log ends before its first result"
        yield _check(document, "bandwidthTest", CheckStatus.ERROR, text, {})


def _judged(rate: float, failure: str, verdict: str) -> tuple[CheckStatus, str]:
    if failure:
        return CheckStatus.ERROR, failure
    if verdict == "FAIL":
        return CheckStatus.FAIL, f"{rate:g} GB/s, Result = FAIL"
    status = CheckStatus.PASS if rate > 0 else CheckStatus.ERROR
    return status, f"{rate:g} GB/s"


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
