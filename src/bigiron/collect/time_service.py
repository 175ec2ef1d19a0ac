"""What time services say of the clock: ``chronyc -c tracking``, ``ntpq -c rv``."""

import math
import re
from typing import NamedTuple

_VARIABLE = re.compile(r"\b(leap|stratum|refid|offset|sys_jitter)=([^,\s]{1,64})")


class Tracking(NamedTuple):
    """``offset_s`` is positive where the host's clock is ahead; ``reference`` is its source."""

    followed: bool
    offset_s: float | None
    reference: str
    told_by: str


def chrony(text: str) -> Tracking | None:
    """One line of commas (chronyc(1), ``-c``); None where it is no such line.

    Reference id and name, stratum, reference time, system time (seconds that true time is
    ahead: chronyc prints "slow" for what is positive), last and RMS offset ..., leap status.
    """
    for line in text.splitlines()[:20]:
        fields = line.strip().split(",")
        if len(fields) < 14:
            continue
        offset, stratum = _number(fields[4]), _number(fields[2])
        if offset is None or stratum is None:
            continue
        followed = 0 < stratum < 16 and fields[13].strip() != "Not synchronised"
        return Tracking(followed, -offset if offset else 0.0, fields[1][:64], "chronyc tracking")
    return None


def ntpq(text: str) -> Tracking | None:
    """System variables (``ntpq -c rv``); the offset is in milliseconds. None where it is none."""
    found = dict(_VARIABLE.findall(text[:65_536]))
    stratum = _number(found.get("stratum", ""))
    if stratum is None:
        return None
    offset = _number(found.get("offset", ""))
    followed = 0 < stratum < 16 and found.get("leap", "") not in ("11", "3", "leap_alarm")
    away = None if offset is None else -offset / 1000.0
    return Tracking(followed, away, found.get("refid", ""), "ntpq -c rv")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
