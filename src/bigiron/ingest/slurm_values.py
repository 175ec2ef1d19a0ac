"""How Slurm writes times, numbers, resources and exit codes, in every version since 20.11.

Text tools write local time without a zone; whoever runs them sets TZ=UTC, and so it is read.
JSON writes seconds since 1970. A number is plain in 20.11 to 22.05 and an object
``{"set": true, "infinite": false, "number": 7}`` from 23.02 (API v0.0.39) on.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

ABSENT = frozenset(
    {
        "",
        "(null)",
        "null",
        "None",
        "none",
        "N/A",
        "n/a",
        "n/s",
        "Unknown",
        "UNKNOWN",
        "None assigned",
    }
)

NO_ZONE = "times without a zone, read as UTC"

_GRES_GPU = re.compile(
    r"(?:^|,)(?:gres[:/])?gpu(?::(?P<kind>[^:=,(]*[A-Za-z][^:=,(]*))?[:=](?P<count>\d+)(?![\w.])"
)
_TRES_TOTAL = re.compile(r"(?:^|,)gres/gpu=(\d+)")
_TRES_TYPED = re.compile(r"(?:^|,)gres/gpu:[^=,]+=(\d+)")


def text_or_empty(value: object) -> str:
    """The value as text, "" for any of Slurm's ways to say that there is none."""
    if value is None:
        return ""
    text = str(value).strip()
    return "" if text in ABSENT else text


def time_of(text: str) -> datetime | None:
    """``2026-11-30T15:06:31`` (UTC unless it names an offset), a date, or None if it is no time."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def has_zone(text: str) -> bool:
    """Whether a time names its offset; False also for what is no time."""
    return len(text) > 10 and (text[-1] == "Z" or "+" in text[10:] or "-" in text[10:])


def number(value: object) -> int | None:
    """A JSON number, plain or as an object; None if unset, infinite or not a number."""
    if isinstance(value, dict):
        if value.get("infinite") or not value.get("set", True):
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) < 2**63 else None


def epoch(value: object) -> datetime | None:
    """Seconds since 1970 as JSON gives them; 0 is "never"."""
    seconds = number(value)
    if not seconds or not 0 < seconds < 4_102_444_800:  # 2100: beyond lies INFINITE
        return None
    return datetime.fromtimestamp(seconds, UTC)


def words(value: object) -> tuple[str, ...]:
    """A state as JSON gives it: one string (20.11 to 22.05) or a list (23.02 on)."""
    if isinstance(value, str):
        return tuple(value.replace("+", " ").split())
    if isinstance(value, list):
        return tuple(str(word) for word in value)
    return ()


def first_of(record: dict[str, Any], *keys: str) -> Any:
    """The first of these keys that the record has; versions renamed some."""
    for key in keys:
        if key in record:
            return record[key]
    return None


@lru_cache(maxsize=16384)
def tres_gpus(text: str) -> int:
    """GPUs in a TRES list (``cpu=8,gres/gpu=4,gres/gpu:h100=4``): the total, else the types'."""
    total = _TRES_TOTAL.search(text)
    if total is not None:
        return int(total[1])
    return sum(int(count) for count in _TRES_TYPED.findall(text))


@lru_cache(maxsize=4096)
def gres_gpus(text: str) -> tuple[int, str]:
    """GPUs and their type in ``gpu:h100:8(S:0-1)``; types are joined by ``+``, "" if untyped.

    The ``no_consume`` form and other resources (shard, mps, nic) beside it are passed over.
    """
    count, kinds = 0, []
    for match in _GRES_GPU.finditer(text.replace(":no_consume", "")):
        count += int(match["count"])
        if match["kind"] and match["kind"] not in kinds:
            kinds.append(match["kind"])
    return count, "+".join(kinds)


def asked_gpus(per_job: str, per_node: str, nodes: int) -> int:
    """GPUs of a job as it asked for them, where accounting does not track gres/gpu.

    ``gres:gpu:8`` (to 22.05) or ``gres/gpu:8`` (since), for the job or for each node.
    """
    for text, times in ((per_job, 1), (per_node, nodes)):
        count = gres_gpus(text.replace("gres:", "").replace("gres/", ""))[0]
        if count:
            return count * times
    return 0


@lru_cache(maxsize=4096)
def exit_of(text: str) -> tuple[int, int]:
    """Exit code and signal of sacct's ``CODE:SIGNAL``; zeros if there is none."""
    code, _, signal = text.partition(":")
    return (int(code) if code.isdigit() else 0), (int(signal) if signal.isdigit() else 0)


def exit_of_json(value: object) -> tuple[int, int]:
    """Exit code and signal of any API version.

    Up to 22.05 the controller gives wait(2)'s status word; slurmdbd and 23.02 on give an object
    with ``return_code`` and ``signal`` (``signal_id`` before 23.11, ``id`` since).
    """
    if isinstance(value, dict) and ("return_code" in value or "signal" in value):
        signal = value.get("signal")
        found = number(first_of(signal, "id", "signal_id")) if isinstance(signal, dict) else None
        return number(value.get("return_code")) or 0, found or 0
    status = number(value)
    if status is None:
        return 0, 0
    return (status >> 8) & 0xFF, status & 0x7F
