"""The log of AMD's ROCm Validation Suite (``rvs -r N``, ``rvs -c FILE``).

Lines read ``[RESULT] [uptime] [action] ...``. A GPU is named by its KFD id (42583); the lines of
the bandwidth modules tell which PCI address that is, and without them the device is called
``kfd42583``. Source: the [RESULT] formats of the suite's user guide.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, pci_address, reader
from bigiron.model import CheckResult, CheckStatus, Note, Observation

_LINE = re.compile(r"\[(RESULT|ERROR)\s*\]\s*\[[\d. ]+\]\s*(?:\[([^\]]*)\])?\s*(.*)")
_MODULE = re.compile(r"Module name\s*:\s*(\w+)")
_GPU = re.compile(r"\[?GPU::\s*(?:\d+\s*-\s*)?(\d+)")
_GPU_BUS = re.compile(r"GPU::\s*\d+\s*-\s*(\d+)\s*-\s*([0-9a-fA-F:.]+)\]")
_VERDICT = re.compile(r"\b(?:pass|met)\s*:\s*(true|false)\b|\bpeqt\s+(true|false)\b", re.IGNORECASE)
_MEM = re.compile(r"\bmem\s+Test\s+(\d+)\s*:\s*(PASS|FAIL)", re.IGNORECASE)
_VIOLATION = re.compile(r"\bgm\s+(\d+)\s+(\w+)\s+violations\s+(\d+)")
_OWN_NAME = re.compile(r"(smqt|gpup|gm|babel|mem|peqt)\b(?:\s+(\d+)\b)?")
_BANDWIDTH = re.compile(r"([\d.]+)\s*GBps\b")
_GFLOPS = re.compile(r"\bGFLOPS\s+([\d.]+)")
_POWER = re.compile(r"Power\(W\)\s+([\d.]+)")
_MAX_RUNS = 20_000
_WORST = (CheckStatus.PASS, CheckStatus.WARN, CheckStatus.ERROR, CheckStatus.FAIL)


@dataclass(slots=True)
class _Run:
    """One action on one GPU ("" is the whole node)."""

    module: str
    verdicts: list[CheckStatus] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    said: str = ""

    def judge(self, verdict: CheckStatus, said: str) -> None:
        """Keep the worst verdict and the line it stands in."""
        if not self.verdicts or _WORST.index(verdict) > max(map(_WORST.index, self.verdicts)):
            self.said = said
        self.verdicts = [max([*self.verdicts, verdict], key=_WORST.index)]


@dataclass(slots=True)
class _Log:
    runs: dict[tuple[str, str], _Run] = field(default_factory=dict)
    buses: dict[str, str] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    action: str = ""
    module: str = ""
    lines: int = 0
    dropped: int = 0


class Rvs:
    """One CheckResult for each action and GPU."""

    def sniff(self, head: Head) -> float:
        """Certain where a [RESULT] line names a module of the suite."""
        if "[RESULT]" not in head.text:
            return 0.0
        return 0.95 if _MODULE.search(head.text) or _VERDICT.search(head.text) else 0.4

    def read(self, document: Document) -> Iterator[Observation]:
        """Actions in the order in which they began."""
        log = _Log()
        for line in document.lines():
            match = _LINE.search(line)
            if match:
                log.lines += 1
                _take(log, match[1], (match[2] or "").strip(), match[3].strip())
        if not log.lines:
            raise ParseError(document.name, 0, "no [RESULT] line of rvs")
        for (action, gpu), run in log.runs.items():
            yield _result(document, log, action, gpu, run)
        if log.dropped:
            yield Note(document.name, "rvs: results beyond the limit", log.dropped)


@reader()
def rvs() -> Reader:
    """Log of the ROCm Validation Suite."""
    return Rvs()


def _take(log: _Log, kind: str, action: str, said: str) -> None:
    if "Action name" in said:
        log.action = said.split(":", 1)[-1].strip()
        return
    named = _MODULE.search(said)
    if named:
        log.module = log.modules[log.action] = named[1]
        return
    action = action or log.action
    for gpu, bus in _GPU_BUS.findall(said):
        log.buses[gpu] = pci_address(bus) or log.buses.get(gpu, "")
    gpu, own = "", _OWN_NAME.match(said)
    if own:
        # Some modules write their own name here and no "Module name" line above.
        log.modules[action], gpu = own[1], own[2] or ""
    if kind == "ERROR":
        _run(log, action, gpu).judge(CheckStatus.ERROR, said)
        return
    _measure(log, action, gpu, said)


def _measure(log: _Log, action: str, gpu: str, said: str) -> None:
    found = _GPU.search(said)
    gpu = found[1] if found else gpu
    if bandwidth := _BANDWIDTH.search(said):
        _bandwidth(_run(log, action, gpu), float(bandwidth[1]), said)
    elif gflops := _GFLOPS.search(said):
        _most(_run(log, action, gpu), "gflops", float(gflops[1]))
    elif power := _POWER.search(said):
        _most(_run(log, action, gpu), "power_w", float(power[1]))
    elif "Start of GPU ramp up" in said or "Starting the Babel" in said:
        _run(log, action, gpu)
    if violation := _VIOLATION.search(said):
        bad = int(violation[3]) > 0
        _run(log, action, gpu).judge(CheckStatus.FAIL if bad else CheckStatus.PASS, said)
    if memory := _MEM.search(said):
        passed = memory[2].upper() == "PASS"
        _run(log, action, gpu).judge(CheckStatus.PASS if passed else CheckStatus.FAIL, said)
    if verdict := _VERDICT.search(said):
        passed = (verdict[1] or verdict[2]).casefold() == "true"
        run = _run(log, action, gpu)
        # smqt compares the BIOS's address mapping with the test's own file: a setting, no part.
        failed = CheckStatus.WARN if run.module == "smqt" else CheckStatus.FAIL
        run.judge(CheckStatus.PASS if passed else failed, said)


def _bandwidth(run: _Run, gb_per_s: float, said: str) -> None:
    low = run.values.get("bandwidth_gb_per_s")
    run.values["bandwidth_gb_per_s"] = gb_per_s if low is None else min(low, gb_per_s)
    run.judge(CheckStatus.PASS if gb_per_s > 0 else CheckStatus.ERROR, said)


def _most(run: _Run, name: str, value: float) -> None:
    run.values[name] = max(run.values.get(name, 0.0), value)


def _run(log: _Log, action: str, gpu: str) -> _Run:
    key = (action, gpu)
    run = log.runs.get(key)
    if run is None:
        run = _Run(log.modules.get(action, log.module))
        if len(log.runs) < _MAX_RUNS:
            log.runs[key] = run
        else:
            log.dropped += 1
    return run


def _result(document: Document, log: _Log, action: str, gpu: str, run: _Run) -> CheckResult:
    status = run.verdicts[0] if run.verdicts else CheckStatus.ERROR
    device = log.buses.get(gpu) or (f"kfd{gpu}" if gpu else "")
    text = f"{action}: {run.said or 'began, and the log holds no verdict'}"
    return CheckResult(
        document.node,
        f"rvs {run.module}".strip(),
        status,
        device,
        text=text[:500],
        time=document.now,
        source=document.name,
        values=run.values,
    )
