"""What is common to every way Slurm tells of a job: its states, and one job of JSON."""

import re
from typing import Any

from bigiron.errors import ParseError
from bigiron.ingest.slurm_values import (
    epoch,
    exit_of_json,
    first_of,
    number,
    text_or_empty,
    tres_gpus,
    words,
)
from bigiron.model import Job
from bigiron.nodesets import unfold

BASE_STATES = frozenset(
    [
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "REQUEUED",
    ]
)
LIVE_STATES = frozenset({"PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "STAGE_OUT"})
"""In these an end is only what the time limit allows, so it is not taken."""

_COMPACT = {
    "BF": "BOOT_FAIL",
    "CA": "CANCELLED",
    "CD": "COMPLETED",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "DL": "DEADLINE",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING",
    "PR": "PREEMPTED",
    "R": "RUNNING",
    "RD": "RESV_DEL_HOLD",
    "RF": "REQUEUE_FED",
    "RH": "REQUEUE_HOLD",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "S": "SUSPENDED",
    "SE": "SPECIAL_EXIT",
    "SI": "SIGNALING",
    "SO": "STAGE_OUT",
    "ST": "STOPPED",
    "TO": "TIMEOUT",
}
_STATE = re.compile(r"[A-Z][A-Z_]*")


def state_and_reason(text: str) -> tuple[str, str]:
    """``("CANCELLED", "cancelled by 1000")`` for ``CANCELLED by 1000``; ("", "") if no state."""
    first, _, rest = text.strip().partition(" ")
    first = first.partition("+")[0]
    if not _STATE.fullmatch(first):
        return "", ""
    return _COMPACT.get(first, first), (f"cancelled {rest}" if rest.startswith("by ") else "")


def state_of_words(found: tuple[str, ...]) -> str:
    """The base state among a job's state words (``["RUNNING", "COMPLETING"]``)."""
    names = [state_and_reason(word)[0] for word in found]
    return next((name for name in names if name in BASE_STATES), names[0] if names else "")


def job_of_json(record: dict[str, Any]) -> Job | None:
    """A job of the controller's or slurmdbd's JSON, any version; None if it has no id or state.

    Raises ParseError on a malformed node list.
    """
    identity = number(record.get("job_id"))
    times = record.get("time")
    nested = times if isinstance(times, dict) else {}
    state, reason = _state(record)
    if identity is None or not state:
        return None
    code, signal = exit_of_json(record.get("exit_code"))
    end = epoch(first_of(nested, "end") if nested else record.get("end_time"))
    start = epoch(first_of(nested, "start") if nested else record.get("start_time"))
    return Job(
        id=str(identity),
        state=state,
        user=text_or_empty(first_of(record, "user_name", "user")) or _of_association(record),
        name=text_or_empty(record.get("name")),
        account=text_or_empty(record.get("account")),
        partition=text_or_empty(record.get("partition")),
        submit=epoch(first_of(nested, "submission") if nested else record.get("submit_time")),
        start=None if state == "PENDING" else start,
        end=None if state in LIVE_STATES else end,
        exit_code=code,
        signal=signal,
        nodes=unfold(text_or_empty(record.get("nodes"))),
        gpus=_gpus(record),
        restarts=number(record.get("restart_cnt")) or 0,
        reason=reason,
    )


def _state(record: dict[str, Any]) -> tuple[str, str]:
    nested = record.get("state")
    if isinstance(nested, dict):
        return state_of_words(words(nested.get("current"))), text_or_empty(nested.get("reason"))
    found = words(first_of(record, "job_state", "state"))
    return state_of_words(found), text_or_empty(record.get("state_reason"))


def _of_association(record: dict[str, Any]) -> str:
    association = record.get("association")
    return text_or_empty(association.get("user")) if isinstance(association, dict) else ""


def _gpus(record: dict[str, Any]) -> int:
    text = record.get("tres_alloc_str")
    if isinstance(text, str):
        return tres_gpus(text)
    tres = record.get("tres")
    allocated = tres.get("allocated") if isinstance(tres, dict) else None
    counts: dict[str, int] = {}
    for entry in allocated if isinstance(allocated, list) else ():
        if isinstance(entry, dict) and entry.get("type") == "gres":
            counts[str(entry.get("name"))] = number(entry.get("count")) or 0
    if "gpu" in counts:
        return counts["gpu"]
    return sum(count for name, count in counts.items() if name.startswith("gpu:"))


def nodes_or_none(text: str) -> tuple[str, ...] | None:
    """The nodes of a list, None if it is malformed (the row is then counted, not read)."""
    try:
        return unfold(text)
    except ParseError:
        return None
