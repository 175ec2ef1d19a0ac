"""A baseboard controller asked in band over IPMI: ``ipmitool``, else FreeIPMI's ``ipmi-sensors``.

Only where the kernel's driver is there (``/dev/ipmi0``). A controller answers slowly, and
the driver polls for it: a look that took long is not repeated at each turn.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic

from bigiron.collect import Seen, parts
from bigiron.collect.ipmi_text import (
    Reading,
    fields_of,
    freeipmi,
    frus,
    power,
    sel_info,
    sel_list,
    sensors,
)
from bigiron.collect.sel import Entry
from bigiron.collect.sel_cursor import Cursor, cursor
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.model import Device, Event, Fact, Note, Sample

DEVICE = "/dev/ipmi0"
SLOW_S = 5.0
SLOW_EVERY = 5
TIMEOUT_S = 20.0
_FREEIPMI = (
    *("ipmi-sensors", "--comma-separated-output", "--no-header-output"),
    *("--output-sensor-state", "--ignore-not-available-sensors"),
)


@dataclass(slots=True)
class Ipmi:
    """What is kept between looks: how long sensors took, and where in the log one stands."""

    host: Host
    cursor: Cursor
    turn: int = 0
    slow: bool = False
    absent: set[str] = field(default_factory=set)

    def sensors(self) -> Iterator[Seen]:
        """Readings, the power drawn and the limit on it."""
        self.turn += 1
        if self.slow and self.turn % SLOW_EVERY:
            return
        start = monotonic()
        found = self._readings()
        self.slow = monotonic() - start > SLOW_S
        yield from readings(found)
        drawn, _ = power(self._said("ipmitool", "dcmi", "power", "reading"))
        if drawn is not None and not any(name == "node_power_watts" for name in _names(found)):
            yield Sample("", "", "node_power_watts", drawn)

    def facts(self) -> Iterator[Seen]:
        """Firmware, the power limit, and the parts that tell a serial number."""
        about = fields_of(self._said("ipmitool", "mc", "info"))
        if revision := about.get("firmware revision"):
            yield Fact("", "bmc_version", revision[:60])
        _, limit = power(self._said("ipmitool", "dcmi", "power", "get_limit"))
        if limit is not None:
            yield Sample("", "", "node_power_cap_watts", limit)
        for part in frus(self._said("ipmitool", "fru", "print")):
            if parts.is_psu(part.name):
                name = parts.psu(part.name)
                yield Device("", name, "psu", part.serial, "", part.model, part.maker)

    def log(self) -> Iterator[Entry | Event | Note | Sample]:
        """Entries since the last look, and whether the log is full."""
        info = sel_info(self._said("ipmitool", "sel", "info"))
        if info is None:
            return
        if info.used is not None:
            yield Sample("", "", "node_sel_used_ratio", info.used)
        if info.full or (info.used is not None and info.used >= 1.0):
            text = f"the event log of the BMC is full ({info.entries} entries): it takes no more"
            yield Event("", "bmc.log_full", text, source="ipmitool sel info")
        count = self.cursor.wanted(info.entries, info.added)
        if count:
            text = self._must("ipmitool", "sel", "elist", "last", str(count))
            yield from self.cursor.new(list(sel_list(text)))

    def _readings(self) -> list[Reading]:
        try:
            return list(sensors(self._must("ipmitool", "sdr", "elist", "all")))
        except NoData:
            return list(freeipmi(self._must(*_FREEIPMI)))

    def _said(self, *argv: str) -> str:
        """A command's output; nothing where it is not there or this controller cannot."""
        name = " ".join(argv)
        if name in self.absent:
            return ""
        try:
            return self.host.run(argv, timeout_s=TIMEOUT_S)
        except (NoData, Permanent):
            self.absent.add(name)
            return ""

    def _must(self, *argv: str) -> str:
        return self.host.run(argv, timeout_s=TIMEOUT_S)


def readings(found: list[Reading]) -> Iterator[Seen]:
    """Samples, and what the controller itself calls bad."""
    for one in found:
        name = one.name
        supply = parts.is_psu(name)
        yield from _sample(one, supply=supply)
        if supply and one.states:
            yield from supply_state(name, one.states)
        elif "redundan" in f"{name} {one.states}".casefold():
            yield from redundancy(name, one.states)
        if one.bad and one.value is not None:
            yield from _bad(one)


def _names(found: list[Reading]) -> Iterator[str]:
    for one in found:
        yield from (seen.metric for seen in _sample(one, supply=parts.is_psu(one.name)))


def _sample(one: Reading, *, supply: bool) -> Iterator[Sample]:
    value, name = one.value, one.name
    if value is None:
        return
    match one.unit:
        case "C" if parts.is_inlet(name):
            yield Sample("", parts.sensor(name), "node_inlet_temp_celsius", value)
        case "C":
            yield Sample("", parts.sensor(name), "node_hwmon_temp_celsius", value)
        case "RPM":
            yield Sample("", parts.fan(name), "node_fan_rpm", value)
        case "%" if "fan" in name.casefold() or "pwm" in name.casefold():
            yield Sample("", parts.fan(name), "node_fan_ratio", value / 100.0)
        case "Volts" if not supply:
            yield Sample("", parts.sensor(name), "node_rail_volts", value)
        case "Watts" if supply and "in" not in parts.slug(name).split("_"):
            yield Sample("", parts.psu(name), "node_psu_power_watts", value)
        case "Watts" if not supply and is_total(name):
            yield Sample("", "", "node_power_watts", value)


def is_total(name: str) -> bool:
    """Whether a sensor in watts is the whole node's: ``Pwr Consumption``, ``Total_Power``."""
    word = parts.slug(name)
    return word in ("pwr_consumption", "total_power", "sys_power", "system_power", "power_meter")


def supply_state(name: str, states: str) -> Iterator[Seen]:
    """``Presence detected, Failure detected`` of one supply."""
    device, low = parts.psu(name), states.casefold()
    if "redundan" in low or "redundan" in name.casefold():
        yield from redundancy(name, states)
        return
    lost = "ac lost" in low or "input lost" in low or "out-of-range" in low
    failed = "failure detected" in low or "predictive failure" in low or "config error" in low
    absent = "absent" in low or "not present" in low
    if not (lost or failed or absent or "presence detected" in low or "present" in low):
        return
    yield Sample("", device, "node_psu_up", float(not (lost or failed or absent)))
    if lost or failed:
        code = "power.supply_lost" if lost else "power.psu_failed"
        yield Event("", code, f"{name}: {states}"[:300], device, source="ipmitool sdr")


def redundancy(name: str, states: str) -> Iterator[Seen]:
    """``Fully Redundant``, ``Redundancy Lost`` ... of supplies or fans."""
    low = states.casefold()
    whole = "fully redundant" in low
    if not whole and "redundan" not in low:
        return
    fans = "fan" in name.casefold() or "cool" in name.casefold()
    kind = "fans" if fans else "supplies"
    yield Sample("", f"bmc:{kind}", "node_redundant", float(whole))
    if not whole:
        code = "thermal.fan_redundancy_lost" if fans else "power.redundancy_lost"
        yield Event("", code, f"{name}: {states}"[:300], source="ipmitool sdr")


def _bad(one: Reading) -> Iterator[Event]:
    """Beyond a critical threshold by the controller's own word; which of two it does not say."""
    value, name = one.value or 0.0, one.name
    said = f"{name} reads {value:g} {one.unit}, beyond its critical threshold"
    if one.unit == "RPM":
        yield Event("", "thermal.fan_failed", said, parts.fan(name), source="ipmitool sdr")
    elif one.unit == "C" and value > 30.0:
        yield Event("", "thermal.high", said, source="ipmitool sdr", attrs={"sensor": name})
    elif one.unit == "Volts":
        yield Event("", "power.rail", said, source="ipmitool sdr", attrs={"sensor": name})


def ipmi(host: Host) -> Ipmi:
    """IPMI on this host. Raises NoData: there is no driver."""
    if not any(True for _ in host.glob(DEVICE)):
        raise NoData("no IPMI driver")
    return host.held("ipmi", lambda: Ipmi(host, cursor(host)))
