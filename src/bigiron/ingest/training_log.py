"""A training job's own text output: NCCL time-outs and errors, CUDA errors, a loss that is NaN.

Thousands of ranks say the same, so alike lines become one Event with a count and the ranks that
said it. Source: the messages of PyTorch's ProcessGroupNCCL, of NCCL's WARN level and of CUDA's
cudaGetErrorString.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bigiron.ingest import Document, Head, Reader, reader
from bigiron.model import Event, Note, Observation

_WATCHDOG = re.compile(
    r"[Ww]atchdog caught collective operation timeout: \w+\((?:SeqNum=(\d{1,18}), )?"
    r"OpType=(\w{1,40})(?:.{0,300}?\bran for (\d{1,12}) milliseconds)?"
)
_RANK = re.compile(r"\[[Rr]ank ?(\d{1,7})\]|\bRank (\d{1,7})\b")
_NCCL = re.compile(
    r"(?:(?P<host>[\w.-]{1,80}):\d+:\d+ )?(?:\[(?P<device>\d{1,3})\] )?NCCL WARN (?P<text>.{1,300})"
)
_NCCL_ERROR = re.compile(
    r"ncclRemoteError|ncclSystemError|ncclInternalError|ncclUnhandledCudaError"
    r"|unhandled (?:system|cuda) error|remote process exited or there was a network error"
)
_CUDA = re.compile(r"(?:CUDA|HIP) (?:runtime )?error: (?P<text>[^\n\r]{1,200})")
_OUT_OF_MEMORY = re.compile(r"CUDA out of memory|OutOfMemoryError|HIP out of memory")
_NOT_FINITE = re.compile(
    r"\b(?:loss|grad(?:ient)?[_ ]norm)(?: is|\s?[:=])\s{0,8}[-+]?(?:nan|inf(?:inity)?)\b",
    re.IGNORECASE,
)
_CUDA_CODES = (
    ("uncorrectable ECC", "cuda.uncorrectable_ecc"),
    ("uncorrectable NVLink", "cuda.nvlink_error"),
    ("no CUDA-capable device", "cuda.device_lost"),
    ("unable to determine the device handle", "cuda.device_lost"),
    ("the launch timed out", "cuda.device_lost"),
    ("GPU is lost", "cuda.device_lost"),
    ("all CUDA-capable devices are busy", "cuda.device_lost"),
    ("out of memory", "cuda.out_of_memory"),
    ("illegal memory access", "cuda.program_error"),
    ("illegal instruction", "cuda.program_error"),
    ("misaligned address", "cuda.program_error"),
    ("device-side assert", "cuda.program_error"),
    ("invalid device function", "cuda.program_error"),
    ("invalid argument", "cuda.program_error"),
    ("unspecified launch failure", "cuda.program_error"),
)
_GLOG = re.compile(r"\[?[EWIF](\d{1,2})(\d{2}) (\d{2}):(\d{2}):(\d{2})\.(\d{1,9})")
_ISO = re.compile(r"(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2})")
_NEEDS = (
    "NCCL",
    "nccl",
    "CUDA",
    "HIP ",
    "OutOfMemory",
    "atchdog",
    "network error",
    "unhandled",
    "nan",
    "NaN",
    "NAN",
    "inf",
    "Inf",
)
"""One of these stands in every line that tells a failure; looking for them is quick."""
_LIMIT = 10_000
_MARKS = re.compile(
    r"WorkNCCL|ProcessGroupNCCL|NCCL (?:WARN|INFO)|torch\.distributed|torchrun|\[rank ?\d+\]"
    r"|CUDA error: |CUDA out of memory|iteration\s+\d+/\s*\d+|\bstep[ :=]+\d+.{0,80}\bloss\b"
)


@dataclass(slots=True)
class _Said:
    """Lines that say the same."""

    text: str
    line: int
    time: datetime | None
    attrs: dict[str, str]
    count: int = 0
    ranks: dict[int, None] = field(default_factory=dict)


_Key = tuple[str, str, str, str]
"""Code, node, device and what makes lines alike."""


class TrainingLog:
    """One Event for each kind of failure a job's output tells."""

    def sniff(self, head: Head) -> float:
        """Likely where lines of PyTorch or NCCL stand; a kernel log has better claims."""
        found = len(set(_MARKS.findall(head.text)))
        if not found or " kernel: " in head.text:
            return 0.2 if found else 0.0
        return 0.85 if found > 1 else 0.7

    def read(self, document: Document) -> Iterator[Observation]:
        """Events in the order of their first line."""
        said: dict[_Key, _Said] = {}
        dropped = 0
        for number, line in enumerate(document.lines(), 1):
            if not any(word in line for word in _NEEDS):
                continue
            found = _found(document, line[:4096])
            if found is None:
                continue
            key, text, attrs = found
            entry = said.get(key)
            if entry is None and len(said) >= _LIMIT:
                dropped += 1
                continue
            if entry is None:
                entry = said[key] = _Said(text, number, _time(document, line), attrs)
            entry.count += 1
            rank = _RANK.search(line)
            if rank and len(entry.ranks) < _LIMIT:
                entry.ranks[int(rank[1] or rank[2])] = None
        yield from _events(document, said)
        if dropped:
            yield Note(document.name, "training log: failures beyond the limit", dropped)


@reader()
def training_log() -> Reader:
    """Text output of a training job (PyTorch, NCCL, CUDA errors)."""
    return TrainingLog()


_Found = tuple[_Key, str, dict[str, str]]


def _found(document: Document, line: str) -> _Found | None:
    if match := _WATCHDOG.search(line):
        seq, operation, ran = match[1] or "?", match[2], match[3]
        waited = f" after {int(ran) / 1000:g} s" if ran else ""
        attrs = {"seq": seq, "op": operation} | ({"ran_ms": ran} if ran else {})
        text = f"collective {operation} #{seq} timed out{waited}"
        return ("nccl.timeout", document.node, "", f"{operation} {seq}"), text, attrs
    if match := _NCCL.search(line):
        device = f"gpu{int(match['device'])}" if match["device"] else ""
        text = match["text"].strip()
        alike = re.sub(r"\d+|0x[0-9a-f]+", "#", text)[:120]
        key = ("nccl.error", match["host"] or document.node, device, alike)
        return key, f"NCCL: {text}", {}
    if match := _CUDA.search(line):
        text = match["text"].strip()
        code = next((c for words, c in _CUDA_CODES if words.casefold() in text.casefold()), None)
        key = (code or "cuda.unknown", document.node, "", text[:80])
        return key, f"CUDA error: {text}", {}
    return _plainly(document, line)


def _plainly(document: Document, line: str) -> _Found | None:
    """Failures told by a phrase alone."""
    for pattern, code in (
        (_OUT_OF_MEMORY, "cuda.out_of_memory"),
        (_NCCL_ERROR, "nccl.error"),
        (_NOT_FINITE, "app.loss_not_finite"),
    ):
        if match := pattern.search(line):
            alike = match[0] if code == "nccl.error" else ""
            return (code, document.node, "", alike), line.strip()[:300], {}
    return None


def _events(document: Document, said: dict[_Key, _Said]) -> Iterator[Event]:
    for (code, node, device, _), entry in said.items():
        ranks = sorted(entry.ranks)
        attrs, text = dict(entry.attrs), entry.text
        if ranks:
            attrs["ranks"] = ",".join(map(str, ranks[:256]))
            shown = ", ".join(map(str, ranks[:16])) + (" ..." if len(ranks) > 16 else "")
            text += f" (ranks {shown})"
        yield Event(
            node,
            code,
            text[:500],
            device,
            entry.time,
            source=document.name,
            line=entry.line,
            attrs=attrs,
            count=entry.count,
        )


def _time(document: Document, line: str) -> datetime | None:
    """The line's own time, taken as UTC; torch writes month and day without a year."""
    try:
        if iso := _ISO.search(line[:200]):
            return datetime.fromisoformat(iso[1]).replace(tzinfo=UTC)
        if glog := _GLOG.search(line[:200]):
            month, day, hour, minute, second = (int(part) for part in glog.groups()[:5])
            micro = int(glog[6].ljust(6, "0")[:6])
            year = document.now.year
            found = datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)
            ahead = (found - document.now).days > 1
            return found.replace(year=year - 1) if ahead else found
    except ValueError:
        return None
    return None
