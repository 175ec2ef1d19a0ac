"""How NVIDIA's tools write a value: units, flags, and the many words for "there is none".

``N/A``, ``[Not Supported]`` and their like mean that a part has no such thing: absent is absent.
``ERR!``, ``Unknown Error``, ``GPU is lost`` and ``GPU requires reset`` mean that the driver asked
the part and got no answer: that is something to tell, never a missing value.
"""

import re
from datetime import datetime

from bigiron.ingest import Document

ABSENT = frozenset(
    {
        "",
        "-",
        "--",
        "n/a",
        "na",
        "not available",
        "not found",
        "not supported",
        "not applicable",
        "function not found",
        "insufficient permissions",
        "no permission",
        "insufficient external power",
        "not queried",
        "requested functionality has been deprecated",
        "argument version mismatch",
        "invalid argument",
        "deprecated",
        "unset",
    }
)

_TROUBLE = (
    (re.compile(r"gpu is lost|gpu lost|fallen off", re.IGNORECASE), "nvrm.gpu_lost"),
    (re.compile(r"requires? reset|reset required", re.IGNORECASE), "gpu.recovery_needed"),
    (re.compile(r"^(?:err!?|error|unknown error|timeout|in use)$", re.IGNORECASE), "gpu.unhealthy"),
)

_DIGITS = frozenset("0123456789")
"""What begins with one is a value: the common case, told apart first."""

_NUMBER = re.compile(r"^([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?:([A-Za-z%/]+)(?:\(s\))?)?$")

_SCALE = {
    "": 1.0,
    "%": 0.01,
    "C": 1.0,
    "W": 1.0,
    "mW": 1e-3,
    "x": 1.0,
    "bank": 1.0,
    "banks": 1.0,
    "KiB": 1024.0,
    "MiB": 1024.0**2,
    "GiB": 1024.0**3,
    "MB": 1024.0**2,
    "Hz": 1.0,
    "MHz": 1e6,
    "GHz": 1e9,
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "mV": 1e-3,
    "V": 1.0,
    "B/s": 1.0,
    "KB/s": 1e3,
    "MB/s": 1e6,
    "GB/s": 1e9,
}
"""To base units; "%" becomes a ratio. NVML calls 1024*1024 bytes of memory both MiB and MB."""

_YES = frozenset({"yes", "active", "true", "enabled", "1"})
_NO = frozenset({"no", "not active", "false", "disabled", "0", "none"})

_TIMES = (
    "%a %b %d %H:%M:%S %Y",
    "%Y/%m/%d %H:%M:%S.%f",
    "%Y/%m/%d %H:%M:%S",
    "%Y%m%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S%z",
)


def clean(text: str) -> str:
    """The word itself: without blanks, without the brackets that CSV output puts around it."""
    word = text.strip()
    if word.startswith("[") and word.endswith("]"):
        word = word[1:-1].strip()
    return word.split(" [Deprecated", 1)[0].rstrip()


def absent(text: str) -> bool:
    """Whether this says that the part has no such value."""
    return text[:1] not in _DIGITS and clean(text).lower() in ABSENT


def trouble(text: str) -> str:
    """The fault code if this word says that the part did not answer, else ""."""
    if not text or text[0] in _DIGITS:
        return ""
    word = clean(text)
    return next((code for pattern, code in _TROUBLE if pattern.search(word)), "")


def number(text: str, unit: str = "") -> float | None:
    """The value in base units; ``unit`` holds where the text names none. None if not a number."""
    word = clean(text)
    if word.lower().startswith("0x"):
        try:
            return float(int(word, 16))
        except (ValueError, OverflowError):
            return None
    match = _NUMBER.match(word)
    if match is None:
        return None
    scale = _SCALE.get(match[2] or unit)
    if scale is None:
        return None
    value = float(match[1]) * scale
    return value if abs(value) < float("inf") else None


def flag(text: str) -> float | None:
    """1 or 0 for the words that mean yes or no, else None."""
    word = clean(text).lower()
    if word in _YES:
        return 1.0
    return 0.0 if word in _NO else None


def taken_at(text: str, document: Document) -> datetime | None:
    """The time a tool printed. It names no zone, so the document's own is taken."""
    word = " ".join(text.split())
    for form in _TIMES:
        try:
            time = datetime.strptime(word, form)  # noqa: DTZ007  (the zone is given next)
        except ValueError:
            continue
        return time if time.tzinfo else time.replace(tzinfo=document.now.tzinfo)
    return None
