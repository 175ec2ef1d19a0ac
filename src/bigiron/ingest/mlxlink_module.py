"""What ``mlxlink -m`` says of a port's module: its faults by lane, its state and its light.

Flags are 0 or 1, one for each lane. Readings stand beside the module's own alarm limits as
"9.2,9.3 [7..11]" and are held against them only while the port is active, since a dark lane of a
port that is down is no news. Loss of signal and transmitter or firmware faults fail; loss of lock
and readings outside their limits warn.
Source: NVIDIA Firmware Tools, mlxlink module info; SFF-8636 and CMIS for the flags.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from bigiron.model import CheckResult, CheckStatus

_FAIL = (
    "Rx LOS",
    "Tx LOS",
    "Tx Fault",
    "Module FW Fault",
    "DataPath FW Fault",
)
_WARN = ("Rx CDR LOL", "Tx CDR LOL", "Tx Adaptive EQ Fault")
_READINGS = ("Temperature", "Voltage", "Bias Current", "Rx Power Current", "Tx Power Current")
_READY = {"ready", "ready state"}
_LIMITS = re.compile(
    r"^(?P<values>[-\d.,\s]{1,200})\[(?P<low>-?[\d.]+)\s?\.\.\s?(?P<high>-?[\d.]+)\]$"
)
_UNIT = re.compile(r"^(?P<name>[^\[]{1,60}?)\s*(?:\[(?P<unit>[^\]]{1,16})\])?$")


def module_checks(
    fields: Mapping[str, str], node: str, module: str, time: datetime, source: str
) -> Iterator[CheckResult]:
    """One result for each kind of trouble the module tells of; none for what it does not tell."""
    known = {_bare(name): (name, value) for name, value in fields.items()}

    def result(check: str, status: CheckStatus, text: str) -> CheckResult:
        return CheckResult(
            node, f"module {check}", status, module, text=text, time=time, source=source
        )

    for names, bad in ((_FAIL, CheckStatus.FAIL), (_WARN, CheckStatus.WARN)):
        for name in names:
            lanes = _lanes(known.get(name, ("", ""))[1])
            if lanes is not None:
                on = [str(lane) for lane, flag in enumerate(lanes, 1) if flag]
                status = bad if on else CheckStatus.PASS
                text = f"{name} on lane {', '.join(on)}" if len(lanes) > 1 else f"{name} set"
                yield result(name, status, text if on else "")
    state = known.get("Module State", ("", ""))[1]
    if state and state != "N/A":
        ready = state.casefold() in _READY
        yield result(
            "state",
            CheckStatus.PASS if ready else CheckStatus.FAIL,
            "" if ready else f"Module State is {state}, not ready",
        )
    if fields.get("State", "").casefold() == "active":
        for name in _READINGS:
            title, value = known.get(name, ("", ""))
            outside = _outside(title, value)
            if outside is not None:
                yield result(name, CheckStatus.WARN if outside else CheckStatus.PASS, outside)


def _bare(name: str) -> str:
    match = _UNIT.match(name)
    return match["name"] if match else name


def _lanes(value: str) -> list[bool] | None:
    """The flag of each lane; None where the module does not have them."""
    parts = [part.strip() for part in value.split(",")]
    return [part == "1" for part in parts] if set(parts) <= {"0", "1"} else None


def _outside(title: str, value: str) -> str | None:
    """Which readings lie outside the module's limits; None where none are told."""
    match = _LIMITS.match(value.strip())
    if match is None:
        return None
    low, high = float(match["low"]), float(match["high"])
    if low >= high:
        return None
    try:
        readings = [float(part) for part in match["values"].split(",") if part.strip()]
    except ValueError:
        return None
    bad = [reading for reading in readings if not low <= reading <= high]
    found = _UNIT.match(title)
    unit = f" {found['unit']}" if found is not None and found["unit"] else ""
    told = ", ".join(f"{reading:g}{unit}" for reading in bad)
    return f"{_bare(title)} {told} is outside its limits {low:g} to {high:g}{unit}" if bad else ""
