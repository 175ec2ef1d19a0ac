"""Entries of a system event log (SEL) as events of catalogued faults.

The words are those of the IPMI 2.0 sensor types and event offsets (section 42) as ipmitool and
FreeIPMI print them; Redfish services word their entries freely, so the rules look for what both
have in common. What is over (deasserted) and what is part of every day (a boot, a button, a fan
that is there) is passed over; an intrusion switch says nothing of health; what no rule knows is
counted.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

from bigiron.collect import parts
from bigiron.model import Event, Note

TEXT_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: ``sensor`` with its type, ``said`` what happened to it.

    ``time`` is by the controller's clock, None if that was not set. ``over``: it is deasserted.
    """

    id: str
    sensor: str
    said: str
    time: datetime | None = None
    over: bool = False
    severity: str = ""


class Rule(NamedTuple):
    """Patterns that are both to be found; ``kind`` is the device the fault is of."""

    code: str
    sensor: str
    said: str
    kind: str = ""


_SUPPLY = r"power.?suppl|\bpsu|\bps\d|\bpower unit|ps.?redund|pwr.?suppl"
_MEMORY = r"memory|dimm|\bmem\b|\becc\b"
_BUS = r"critical.?int|pci|bus\b|slot"
_TEMP = r"temp|thermal"
_CPU = r"processor|\bcpu|\bp\d\b"
_LOST = r"redundancy (?:is )?(?:lost|degraded)|non-?redundant"
_FAN = r"\bfan|fan\d|cooling|tach|pump"
_DRIVE = r"drive|disk|\bhdd|\bssd|nvme|\bbay"

RULES = (
    Rule("power.redundancy_lost", _SUPPLY, _LOST),
    Rule("power.supply_lost", _SUPPLY, r"\bac\b.{0,20}(?:lost|out.of.range)|input.{0,40}lost|"
          r"lost.{0,20}input|input.{0,20}out.of.range|no input|ac lost", "psu"),
    Rule("power.psu_failed", _SUPPLY, r"failure detected|\bfail(?:ed|ure|s)?\b|predictive|fault|"
          r"config(?:uration)? error|over.?(?:current|temp|voltage)|critical", "psu"),
    Rule("edac.uncorrectable", _MEMORY, r"uncorrectable|multi.?bit|\bparity\b|scrub failed"),
    Rule("edac.correctable_limit", _MEMORY, r"logging limit|correctable.{0,40}(?:limit|threshold|"
          r"rate)|predict"),
    Rule("edac.correctable", _MEMORY, r"correctable|single.?bit"),
    Rule("edac.module_disabled", _MEMORY, r"device disabled|disabled|config(?:uration)? error|"
          r"mapped out|training fail"),
    Rule("thermal.critical", _MEMORY, r"critical over.?temp"),
    Rule("pcie.aer_fatal", _BUS, r"fatal (?:error|nmi)|pci serr|\bserr\b"),
    Rule("pcie.aer_nonfatal", _BUS, r"uncorrectable|pci perr|\bperr\b|bus timeout"),
    Rule("pcie.link_downgraded", _BUS, r"degraded|width|speed"),
    Rule("pcie.aer_correctable", _BUS, r"correctable"),
    Rule("pcie.slot_power", r"slot", r"power.{0,10}(?:off|fault)|fault status"),
    Rule("kernel.nmi", r"critical.?int|nmi", r"nmi|channel check"),
    Rule("thermal.shutdown", r"", r"thermal.?trip"),
    Rule("mce.fatal", _CPU, r"\bierr\b|\bcaterr\b|internal error"),
    Rule("mce.uncorrected", _CPU, r"uncorrectable|machine check exception"),
    Rule("mce.corrected", _CPU, r"correctable machine check|corrected"),
    Rule("thermal.cpu_throttled", _CPU, r"throttl|prochot"),
    Rule("bmc.cpu_failed", _CPU, r"frb\d|bist|startup|config(?:uration)? error|disabled"),
    Rule("thermal.fan_failed", _FAN, r"lower (?:critical|non.recoverable)|fail|fault|stopped|"
          r"below.{0,40}critical|critical from|to (?:critical|non-recoverable)", "fan"),
    Rule("thermal.fan_redundancy_lost", _FAN, _LOST),
    Rule("thermal.critical", _TEMP, r"upper (?:critical|non.recoverable)|above.{0,40}critical|"
          r"over.?temp|to (?:critical|non-recoverable)|critical (?:high|threshold)"),
    Rule("thermal.high", _TEMP, r"upper non.critical|above.{0,40}(?:warning|non.critical)|"
          r"limit exceeded|to non-critical|warning"),
    Rule("power.undervoltage", r"volt|\bvr\b|vcore|rail|\d+v", r"lower (?:critical|non.recover)|"
          r"below.{0,40}critical|under.?voltage"),
    Rule("power.overvoltage", r"volt|\bvr\b|vcore|rail|\d+v", r"upper (?:critical|non.recover)|"
          r"above.{0,40}critical|over.?voltage"),
    Rule("bmc.drive_predicted", _DRIVE, r"predict", "drive"),
    Rule("bmc.drive_fault", _DRIVE, r"drive fault|failed array|critical array|rebuild aborted|"
          r"\bfail(?:ed|ure)?\b|fault", "drive"),
    Rule("bmc.watchdog", r"watchdog", r"hard reset|power (?:down|cycle|off)|expired|os (?:reset|"
          r"shut|power)|bios reset"),
    Rule("kernel.panic", r"os (?:stop|critical|shutdown)|operating system", r"run-?time critical|"
          r"panic|error during system startup"),
    Rule("bmc.log_full", r"event log|\bsel\b|logging", r"(?:log )?(?:area )?(?:almost )?full"),
    Rule("bmc.firmware_error", r"system firm|bios|post", r"error|hang|no (?:usable )?.{0,9}memory|"
          r"corrupt|unrecoverable|fail"),
    Rule("bmc.unhealthy", r"management|controller|bmc\b|battery|microcontroller", r"unavailable|"
          r"off-?line|failure|failed|degraded|\blow\b"),
    Rule("bmc.hardware_error", r"system event|version change|board", r"hardware failure|"
          r"incompatib|unsupported|invalid"),
)  # fmt: skip

_DAILY = (
    r"presen(?:ce|t)|fully redundant|redundancy regained|boot completed|boot initiated|initiated by"
    r"|clock sync|timestamp|button|power (?:off|down|cycle)|s[0-5]/g[0-3]|s0: working|soft-off"
    r"|working|\bok\b|log area|cleared|device (?:installed|enabled|present)|sync|graceful|"
    r"firmware or software change|change detected|transition to (?:ok|running|active|idle)|enabled|"
    r"limit not exceeded|non-critical from more severe|going (?:low|high)|progress|inserted|"
    r"memory initialization|monitor|informational|installed|log(?:ged)? (?:in|out)|restored|entity|"
    r"state (?:de)?asserted|hot spare|timer interrupt|system restart|reconfigured|pxe|fru|ready"
)
_NO_HEALTH = r"intrusion|unplugged from lan|security"
_NUMBERED_PSU = r"(?:psu?|power.?suppl(?:y|ies))[ _#.-]{0,2}(\d\w?)\b"
_NUMBERED_FAN = r"\bfan[ _#.-]?(\d\w{0,2})\b"
_QUIET = frozenset({"ok", "informational", "information"})


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """Compiled when a log is first read: most have nothing to tell."""
    return re.compile(text, re.IGNORECASE)


def code_of(entry: Entry) -> tuple[str, str] | None:
    """The fault an entry tells of and the kind of device; None for none."""
    for rule in RULES:
        if _pattern(rule.sensor).search(entry.sensor) and _pattern(rule.said).search(entry.said):
            return rule.code, rule.kind
    return None


def events(entries: Iterable[Entry], source: str) -> Iterator[Event | Note]:
    """What the entries tell of; one Note counts those that no rule knows."""
    unknown: dict[str, int] = {}
    for entry in entries:
        if entry.over or _pattern(_NO_HEALTH).search(f"{entry.sensor} {entry.said}"):
            continue
        found = code_of(entry)
        known_good = _pattern(_DAILY).search(entry.said) or entry.severity.casefold() in _QUIET
        if found is not None and entry.severity.casefold() not in _QUIET:
            yield _event(entry, *found, source)
        elif not known_good:
            what = f"{entry.sensor}: {entry.said}"[:120]
            if what in unknown or len(unknown) < 20:
                unknown[what] = unknown.get(what, 0) + 1
    for what, count in unknown.items():
        yield Note(source, f"an event log entry that is not understood: {what}", count)


def _event(entry: Entry, code: str, kind: str, source: str) -> Event:
    text = f"{entry.sensor}: {entry.said}"[:TEXT_LIMIT]
    attrs = {"sel": entry.id[:60], "sensor": entry.sensor[:100]}
    device = device_of(entry.sensor, kind)
    return Event("", code, text, device, entry.time, source=source, attrs=attrs)


def device_of(sensor: str, kind: str) -> str:
    """The part that a sensor is of, where its kind of fault is about a part.

    IPMI tools write the type before the name ("Power Supply PSU2 Status"), Redfish services whole
    sentences, of which only a number is taken.
    """
    if kind == "psu":
        found = _pattern(_NUMBERED_PSU).search(sensor)
        return f"psu{found[1].lower()}" if found else _short(sensor, parts.psu)
    if kind == "fan":
        found = _pattern(_NUMBERED_FAN).search(sensor)
        if found:
            return f"fan{found[1].lower()}"
        return _short(re.sub(r"^(?:fan|cooling device) (?=\S)", "", sensor, flags=re.I), parts.fan)
    if kind == "drive":
        name = re.sub(r"^drive slot(?: / bay)? ", "", sensor, flags=re.I)
        return _short(name, parts.sensor)
    return ""


def _short(name: str, of: Callable[[str], str]) -> str:
    return of(name) if len(name) <= 40 else ""


def when(date: str, time: str) -> datetime | None:
    """``11/28/2026`` or ``Nov-28-2026`` or ``2026-11-28`` and ``06:12:30``, as UTC.

    None before 2000: the controller's clock was not set.
    """
    words = f"{date.strip()} {time.strip().removesuffix('UTC').strip()}"
    for form in (
        "%m/%d/%Y %H:%M:%S",
        "%m/%d/%y %H:%M:%S",
        "%b-%d-%Y %H:%M:%S",
        "%Y-%m-%d %H:%M:%S",
    ):
        try:
            # in UTC: the tools are run with TZ=UTC
            found = datetime.strptime(words, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return found if found.year >= 2000 else None
    return None
