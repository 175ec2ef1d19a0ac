"""Burn-in tools that end in a verdict a GPU: gpu-burn and gpu-fryer.

gpu-burn ends with "GPU 0: OK" or "GPU 1: FAULTY" and shows errors on the way; gpu-fryer ends with
"All GPUs seem healthy" or a list of reasons. Without the end there is no pass.
Source: the output of both tools.
"""

import re
from collections.abc import Iterator

from bigiron.ingest import Document, Head, Reader, reader
from bigiron.model import CheckResult, CheckStatus, Observation

_BURN_END = re.compile(r"^\s*GPU (\d+): (OK|FAULTY)\s*$")
_BURN = re.compile(r"\d+ \((\d+) Gflop/s\)")
_BURN_ERRORS = re.compile(
    r"errors:\s*((?:-?\d+|DIED!)(?:\s*\([^)]*\))?(?:\s*-\s*(?:-?\d+|DIED!)(?:\s*\([^)]*\))?)*)"
)
_FRYER = re.compile(r"^\s*GPU #(\d+):\s*([\d.]+)\s*(\w*[Ff][Ll][Oo][Pp]s?/s)")
_FRYER_BAD = re.compile(r"^\s*-\s*GPU (\d+)\s*-?\s*(.*)")
_COULD_NOT = re.compile(
    r"Couldn't init|no CUDA devices|No clients are alive|CUDA_ERROR|panicked at"
)
_PIECE = re.compile(r"\r|(?=\d{1,3}\.\d%\s{1,4}proc'd:)")
"""One report of progress from the next: each overwrites the last, and a pipe may drop the CR."""
_SCALE = {"m": 1e-3, "g": 1.0, "t": 1e3, "p": 1e6}


class GpuBurn:
    """One CheckResult a GPU."""

    def sniff(self, head: Head) -> float:
        """Certain by each tool's own lines."""
        if "proc'd:" in head.text and "Gflop/s" in head.text:
            return 0.95
        fryer = re.search(r"^\s*GPU #\d+:.*flops?/s", head.text, re.MULTILINE | re.IGNORECASE)
        return 0.9 if fryer or "GPUs seem healthy" in head.text else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """GPUs by index; a run that died says so of the node."""
        ends: dict[str, CheckStatus] = {}
        texts: dict[str, str] = {}
        values: dict[str, dict[str, float]] = {}
        healthy, died = False, ""
        for line in document.lines():
            if end := _BURN_END.match(line):
                ends[end[1]] = CheckStatus.PASS if end[2] == "OK" else CheckStatus.FAIL
                texts.setdefault(end[1], end[2])
            elif rate := _FRYER.match(line):
                gflops = float(rate[2]) * _SCALE.get(rate[3][0].casefold(), 1.0)
                values[rate[1]] = {"gflops": gflops}
            elif bad := _FRYER_BAD.match(line):
                ends[bad[1]] = CheckStatus.FAIL
                texts[bad[1]] = bad[2] or "not healthy"
            elif "All GPUs seem healthy" in line:
                healthy = True
            elif _COULD_NOT.search(line):
                died = line.strip()
            for piece in _PIECE.split(line):
                _progress(piece, values, texts)
        yield from _results(document, ends, texts, values, healthy, died)


@reader()
def gpu_burn() -> Reader:
    """gpu-burn and gpu-fryer output."""
    return GpuBurn()


def _progress(line: str, values: dict[str, dict[str, float]], texts: dict[str, str]) -> None:
    for index, rate in enumerate(_BURN.findall(line) if "proc'd" in line else ()):
        kept = values.setdefault(str(index), {})
        kept["gflops"] = float(rate) or kept.get("gflops", 0.0)
    errors = _BURN_ERRORS.search(line)
    if errors is None:
        return
    for index, count in enumerate(re.split(r"\s+-\s+", errors[1])):
        said = count.split()[0]
        if said != "0":
            texts[str(index)] = f"errors: {said}"


def _results(
    document: Document,
    ends: dict[str, CheckStatus],
    texts: dict[str, str],
    values: dict[str, dict[str, float]],
    healthy: bool,
    died: str,
) -> Iterator[CheckResult]:
    for index in sorted({*ends, *values}, key=int):
        status = ends.get(index)
        if status is None:
            status = CheckStatus.PASS if healthy and not died else CheckStatus.ERROR
        rate = values.get(index, {})
        if status is CheckStatus.PASS and rate.get("gflops") == 0:
            status = CheckStatus.ERROR
        text = texts.get(index, "")
        if status is CheckStatus.ERROR:
            told = "" if text == "OK" else text
            text = died or told or "the log holds no verdict, or counts no work"
        yield _check(document, f"gpu{index}", status, text or "healthy", rate)
    if not ends and not values:
        text = died or "the log ends before a verdict"
        yield _check(document, "", CheckStatus.PASS if healthy else CheckStatus.ERROR, text, {})


def _check(
    document: Document, gpu: str, status: CheckStatus, text: str, values: dict[str, float]
) -> CheckResult:
    return CheckResult(
        document.node,
        "gpu_burn",
        status,
        gpu,
        text=f"{gpu} {text}".strip()[:500],
        time=document.now,
        source=document.name,
        values=values,
    )
