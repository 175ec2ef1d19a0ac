"""The text of nccl-tests and rccl-tests (``all_reduce_perf`` and its sisters).

Verdict: an NCCL, RCCL or CUDA failure, or an output that ends before its summary, is an error;
wrong values are a failure; a bus bandwidth of zero is an error, for then nothing crossed a link
(a run of one rank). Source: nccl-tests' PERFORMANCE.md and its output.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bigiron.ingest import Document, Head, Reader, reader
from bigiron.model import CheckResult, CheckStatus, Observation

_RANK = re.compile(r"^#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S+)\s+device\s+\d+")
_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\w+)\s+(\w+)\s+(.*)$")
_OUT_OF_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)\s*(\w+)")
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*([\d.]+|-?nan)")
_NAME = re.compile(r"#\s*(?:Collective test starting|Collective test concluded)\s*:\s*(\w+)")
_FAILURE = re.compile(
    r"(?:Test )?(?:NCCL|RCCL|CUDA|HIP) failure|unhandled (?:system|cuda|hip) error"
    r"|NCCL WARN .*error|Test failure|\bnccl\w+Error\b",
    re.IGNORECASE,
)
_LIMIT = 200_000


@dataclass(slots=True)
class _Run:
    hosts: dict[str, None] = field(default_factory=dict)
    ranks: int = 0
    rows: int = 0
    busbw: float = 0.0
    size: float = 0.0
    wrong: int = 0
    bounds: str = ""
    average: float | None = None
    failure: str = ""
    name: str = ""


class NcclTests:
    """One CheckResult a run."""

    def sniff(self, head: Head) -> float:
        """Certain where its header or its summary stands."""
        if (
            re.search(r"^# nThread\s+\d+ nGpus", head.text, re.M)
            or "# Avg bus bandwidth" in head.text
        ):
            return 0.95
        if "algbw" in head.text and "busbw" in head.text:
            return 0.8
        failed = re.search(r"Test (?:NCCL|RCCL) failure", head.text)
        return 0.7 if failed else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """One result for each run in the document; each begins with its ``# nThread`` line."""
        run, begun = _Run(), False
        for line in document.lines():
            if re.match(r"^#\s*nThread\s+\d+", line):
                if begun:
                    yield _result(document, run)
                run, begun = _Run(name=run.name if not begun else ""), True
            _take(run, line)
        yield _result(document, run)


@reader()
def nccl_tests() -> Reader:
    """nccl-tests and rccl-tests output."""
    return NcclTests()


def _take(run: _Run, line: str) -> None:
    if rank := _RANK.match(line):
        run.ranks += 1
        if len(run.hosts) < _LIMIT:
            run.hosts[rank[2]] = None
    elif bounds := _OUT_OF_BOUNDS.search(line):
        run.bounds = bounds[2].upper()
        run.wrong = max(run.wrong, int(bounds[1]))
    elif average := _AVERAGE.search(line):
        run.average = float(average[1])
    elif named := _NAME.search(line):
        run.name = named[1]
    elif _FAILURE.search(line):
        run.failure = run.failure or line.strip()
    elif row := _ROW.match(line):
        _row(run, float(row[1]), row[5].split())


def _row(run: _Run, size: float, cells: list[str]) -> None:
    """Columns: [root] time algbw busbw wrong, out of place and then in place."""
    if len(cells) % 4 == 1:
        cells = cells[1:]
    if len(cells) not in (4, 8):
        return
    run.rows += 1
    for start in range(0, len(cells), 4):
        try:
            busbw = float(cells[start + 2])
        except ValueError:
            continue
        if busbw > run.busbw:
            run.busbw, run.size = busbw, size
        wrong = cells[start + 3]
        # Old versions print the largest error (1e-07) here, new ones a count of wrong values.
        if wrong.isdigit():
            run.wrong = max(run.wrong, int(wrong))


def _verdict(run: _Run) -> tuple[CheckStatus, str]:
    if run.failure:
        return CheckStatus.ERROR, run.failure
    if run.wrong or run.bounds in {"FAILED", "FAIL"}:
        return CheckStatus.FAIL, f"{run.wrong} wrong values: data was corrupted"
    if run.average is None or not run.rows:
        return CheckStatus.ERROR, f"ended after {run.rows} sizes, before its summary"
    if not run.average > 0:
        return CheckStatus.ERROR, "bus bandwidth is zero: nothing crossed a link"
    text = f"average bus bandwidth {run.average:g} GB/s, most {run.busbw:g} GB/s"
    return CheckStatus.PASS, f"{text} at {run.size:.0f} bytes, {run.ranks} ranks"


def _result(document: Document, run: _Run) -> CheckResult:
    status, text = _verdict(run)
    hosts = list(run.hosts)
    values = {"busbw_max_gb_per_s": run.busbw, "size_bytes": run.size, "ranks": float(run.ranks)}
    if run.average is not None and math.isfinite(run.average):
        values["busbw_avg_gb_per_s"] = run.average
    node = document.node
    if not node and len(hosts) == 1 and hosts[0] not in {"localhost", "hostname"}:
        node = hosts[0]
    if len(hosts) > 1:
        text += f"; nodes {' '.join(hosts[:8])}{' ...' if len(hosts) > 8 else ''}"
    check = f"nccl-tests {run.name}".strip()
    return CheckResult(
        node,
        check,
        status,
        text=text[:500],
        time=document.now,
        source=document.name,
        values=values,
    )
