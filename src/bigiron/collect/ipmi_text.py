"""What ``ipmitool`` and ``ipmi-sensors`` print, read tolerantly.

A sensor may say ``no reading``, ``ns`` (no sensor), ``Disabled``, ``N/A``, a state in hexadecimal
digits, or a number with its unit; none of the former is a value.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from bigiron.collect.sel import Entry, when

LINE_LIMIT = 20_000
_NUMBER = re.compile(r"^\s*(-?\d{1,12}(?:\.\d{1,9})?)(?![\d.xX])\s*(.*)$")
_UNITS = {"percent": "%", "unspecified %": "%", "w": "Watts", "v": "Volts"}
_DATE = re.compile(r"^(?:\d{1,2}/\d{1,2}/\d{2,4}|\w{3}-\d{1,2}-\d{4})$")
_CLOCK = re.compile(r"^\d{1,2}:\d{2}:\d{2}")
_WATTS = re.compile(r"^\s*(Instantaneous power reading|Power Limit)\s*:\s*(\d{1,7})\b", re.M)
_FIELD = re.compile(r"^\s*([A-Za-z#%][^:]{0,60}?)\s*:\s?(.*?)\s*$")
_FRU = re.compile(r"^FRU Device Description\s*:\s*(.*?)(?:\s*\(ID \d+\))?\s*$")


class Reading(NamedTuple):
    """``value`` in ``unit`` (C, RPM, Volts, Watts, Amps, %) or None; ``states`` in words.

    ``bad``: the controller itself calls it critical.
    """

    name: str
    value: float | None
    unit: str
    states: str
    bad: bool


def sensors(text: str) -> Iterator[Reading]:
    """``ipmitool sdr elist`` (name, number, status, entity, reading), ``sdr`` (three columns)."""
    for line in text.splitlines()[:LINE_LIMIT]:
        fields = [field.strip() for field in line.split("|")]
        if len(fields) not in (3, 5) or not fields[0]:
            continue
        status, said = (fields[2], fields[4]) if len(fields) == 5 else (fields[2], fields[1])
        status = status.casefold()
        if status in ("ns", "na", "us"):
            continue
        yield _reading(fields[0], said, bad=status in ("cr", "nr", "lcr", "lnr", "ucr", "unr"))


def freeipmi(text: str) -> Iterator[Reading]:
    """``ipmi-sensors --comma-separated-output``: ID, name, type, state, reading, units, event.

    The column State is there with ``--output-sensor-state``.
    """
    for line in text.splitlines()[:LINE_LIMIT]:
        row = line[:1000].split(",")
        if len(row) not in (6, 7) or not row[0].strip().isdigit():
            continue
        state, (value, unit, event) = (row[3] if len(row) == 7 else ""), row[-3:]
        states = "" if event.strip(" '") in ("OK", "N/A", "") else event.replace("'", "")
        number = _reading(row[1].strip(), f"{value} {unit}", bad=state == "Critical")
        yield number._replace(states=states or number.states)


def _reading(name: str, said: str, *, bad: bool) -> Reading:
    found = _NUMBER.match(said)
    if found is None:
        absent = said.casefold().startswith(("no reading", "disabled", "not readable", "n/a", "0x"))
        return Reading(name, None, "", "" if absent else said, bad)
    value = float(found[1])
    unit = found[2].strip()
    lower = unit.casefold()
    if lower in ("degrees c", "c"):
        unit = "C"
    elif lower in ("degrees f", "f"):
        value, unit = (value - 32.0) / 1.8, "C"
    else:
        unit = _UNITS.get(lower, unit)
    return Reading(name, value if math.isfinite(value) else None, unit[:20], "", bad)


def power(text: str) -> tuple[float | None, float | None]:
    """Watts drawn and allowed, of ``ipmitool dcmi power reading`` or ``get_limit``.

    A limit that is not active is none.
    """
    found = {match[1]: float(match[2]) for match in _WATTS.finditer(text[:65_536])}
    active = re.search(r"No Active Power Limit|not active", text, re.IGNORECASE) is None
    limit = found.get("Power Limit") if active else None
    return found.get("Instantaneous power reading"), limit


class Log(NamedTuple):
    """``ipmitool sel info``: how many entries, the share of room used, when one was last added."""

    entries: int
    used: float | None
    added: str
    full: bool


def sel_info(text: str) -> Log | None:
    """None where it is no such output."""
    fields = fields_of(text)
    entries = fields.get("entries", "")
    if not (entries.isascii() and entries.isdecimal() and len(entries) < 9):
        return None
    percent = _NUMBER.match(fields.get("percent used", "").removesuffix("%"))
    used = float(percent[1]) / 100.0 if percent else None
    return Log(
        *(int(entries), used, fields.get("last add time", "")[:60]),
        fields.get("overflow", "").casefold() == "true",
    )


def fields_of(text: str) -> dict[str, str]:
    """``Name : value`` lines, names in lower case; the first of a name counts."""
    found: dict[str, str] = {}
    for line in text.splitlines()[:2000]:
        match = _FIELD.match(line)
        if match:
            found.setdefault(match[1].casefold(), match[2])
    return found


def sel_list(text: str) -> Iterator[Entry]:
    """``ipmitool sel elist``: id, date, time, sensor, event, direction."""
    for line in text.splitlines()[:LINE_LIMIT]:
        fields = [field.strip() for field in line.split("|")]
        if len(fields) < 4 or not re.fullmatch(r"[0-9a-fA-F]{1,8}", fields[0]):
            continue
        rest, time = fields[1:], None
        if _DATE.match(rest[0]) and len(rest) > 2 and _CLOCK.match(rest[1]):
            time, rest = when(rest[0], rest[1][:8]), rest[2:]
        elif rest[0].startswith("Pre-Init") or not rest[0]:
            rest = rest[2:] if len(rest) > 2 and rest[1].isdecimal() else rest[1:]
        if not rest:
            continue
        direction = next((f for f in rest[2:] if f in ("Asserted", "Deasserted")), "")
        said = rest[1] if len(rest) > 1 else ""
        said = said.replace("()", "").strip()
        extra = [f for f in rest[2:] if f not in ("Asserted", "Deasserted")]
        said = " ".join([said, *extra]) if extra else said
        yield Entry(fields[0].lower(), rest[0], said, time, direction == "Deasserted")


class Fru(NamedTuple):
    """A replaceable part that tells its maker's data."""

    name: str
    maker: str
    model: str
    serial: str


def frus(text: str) -> Iterator[Fru]:
    """``ipmitool fru print``: parts with a serial number."""
    name, fields = "", {}
    for line in [*text.splitlines()[:LINE_LIMIT], "FRU Device Description : "]:
        head = _FRU.match(line)
        if head is None:
            match = _FIELD.match(line)
            if match:
                fields[match[1].casefold()] = match[2][:80]
            continue
        serial = fields.get("product serial") or fields.get("board serial") or ""
        if name and serial:
            maker = fields.get("product manufacturer") or fields.get("board mfg") or ""
            model = fields.get("product part number") or fields.get("board part number") or ""
            yield Fru(name, maker, model or fields.get("product name", ""), serial)
        name, fields = head[1], {}
