"""What Redfish resources say: DMTF schemas Thermal, Power, and their newer subsystems.

Each function takes one resource as JSON and is content with any part of it missing.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from bigiron.collect import Seen, parts
from bigiron.collect.sel import Entry
from bigiron.ingest.json_text import JsonMap, at, mapping, number, objects, text
from bigiron.model import Device, Event, Fact, Sample

_GONE = frozenset({"Absent", "Disabled", "UnavailableOffline", "Deferring"})
_INTAKE = frozenset({"Intake", "CoolantSupply"})
SOURCE = "redfish"


def thermal(found: JsonMap) -> Iterator[Seen]:
    """``Thermal``: temperatures and fans."""
    for one in objects(found.get("Temperatures")):
        if _there(one):
            name, context = _name(one), text(one.get("PhysicalContext"))
            limit = number(one.get("UpperThresholdCritical"))
            yield from _temperature(name, number(one.get("ReadingCelsius")), context, limit)
    for one in objects(found.get("Fans")):
        percent = text(one.get("ReadingUnits")).casefold() == "percent"
        reading = number(one.get("Reading"))
        yield from _fan(one, None if percent else reading, reading if percent else None)
    yield from _redundancies(found.get("Redundancy"), fans=True)


def thermal_metrics(found: JsonMap) -> Iterator[Seen]:
    """``ThermalMetrics``: temperatures only."""
    intake = number(at(found, "TemperatureSummaryCelsius", "Intake", "Reading"))
    if intake is not None:
        yield Sample("", "bmc:intake", "node_inlet_temp_celsius", intake)
    for one in objects(found.get("TemperatureReadingsCelsius")):
        name = text(one.get("DeviceName")) or text(one.get("DataSourceUri")).rpartition("/")[2]
        context = text(one.get("PhysicalContext"))
        yield from _temperature(name, number(one.get("Reading")), context, None)


def fan(found: JsonMap) -> Iterator[Seen]:
    """A member of ``Fans``."""
    speed = mapping(found.get("SpeedPercent"))
    yield from _fan(found, number(speed.get("SpeedRPM")), number(speed.get("Reading")))


def power(found: JsonMap) -> Iterator[Seen]:
    """``Power``: consumption, limit, rails, supplies, redundancy."""
    for index, one in enumerate(objects(found.get("PowerControl"))):
        if index:
            break  # the first is the chassis, those that follow its parts
        yield from _watts(number(one.get("PowerConsumedWatts")))
        limit = number(at(one, "PowerLimit", "LimitInWatts"))
        if limit is not None and limit > 0:
            yield Sample("", "", "node_power_cap_watts", limit)
    for one in objects(found.get("Voltages")):
        volts = number(one.get("ReadingVolts"))
        if _there(one) and volts is not None:
            yield Sample("", parts.sensor(_name(one)), "node_rail_volts", volts)
    for one in objects(found.get("PowerSupplies")):
        yield from supply(one)
    yield from _redundancies(found.get("Redundancy"), fans=False)


def power_subsystem(found: JsonMap) -> Iterator[Seen]:
    """``PowerSubsystem``: redundancy of the supplies."""
    yield from _redundancies(found.get("PowerSupplyRedundancy"), fans=False)


def thermal_subsystem(found: JsonMap) -> Iterator[Seen]:
    """``ThermalSubsystem``: redundancy of the fans."""
    yield from _redundancies(found.get("FanRedundancy"), fans=True)


def supply(found: JsonMap) -> Iterator[Seen]:
    """A power supply, of either kind of resource: its state, its output, what it is."""
    name = _name(found)
    device = parts.psu(name)
    state, health = text(at(found, "Status", "State")), text(at(found, "Status", "Health"))
    line = text(found.get("LineInputStatus"))
    lost = line in ("LossOfInput", "OutOfRange")
    volts = number(found.get("LineInputVoltage"))
    failed = health == "Critical" and not lost
    if state == "Absent":
        yield Sample("", device, "node_psu_up", 0.0)
        return
    yield Sample("", device, "node_psu_up", float(not (lost or failed)))
    output = number(found.get("PowerOutputWatts"))
    output = number(found.get("LastPowerOutputWatts")) if output is None else output
    if output is not None:
        yield Sample("", device, "node_psu_power_watts", output)
    if lost or failed:
        code = "power.supply_lost" if lost or volts == 0 else "power.psu_failed"
        said = f"{name}: {line or 'health'} {health}".strip()[:200]
        yield Event("", code, said, device, source=SOURCE)
    serial = text(found.get("SerialNumber"))
    if serial:
        model, maker = text(found.get("Model")), text(found.get("Manufacturer"))
        yield Device("", device, "psu", serial, "", model, maker)
    firmware = text(found.get("FirmwareVersion"))
    if firmware:
        yield Fact("", "firmware_version", firmware, device)


def supply_metrics(name: str, found: JsonMap) -> Iterator[Seen]:
    """``PowerSupplyMetrics`` of the supply of this name."""
    output = number(at(found, "OutputPowerWatts", "Reading"))
    if output is not None:
        yield Sample("", parts.psu(name), "node_psu_power_watts", output)


def environment(found: JsonMap) -> Iterator[Seen]:
    """``EnvironmentMetrics`` of a chassis that is the node."""
    yield from _watts(number(at(found, "PowerWatts", "Reading")))
    mode = text(at(found, "PowerLimitWatts", "ControlMode"))
    limit = number(at(found, "PowerLimitWatts", "SetPoint"))
    if limit is not None and limit > 0 and mode != "Disabled":
        yield Sample("", "", "node_power_cap_watts", limit)


def sensor(found: JsonMap) -> Iterator[Seen]:
    """A member of ``Sensors``."""
    reading, name = number(found.get("Reading")), _name(found)
    if reading is None or not _there(found):
        return
    match text(found.get("ReadingType")):
        case "Temperature":
            limit = number(at(found, "Thresholds", "UpperCritical", "Reading"))
            yield from _temperature(name, reading, text(found.get("PhysicalContext")), limit)
        case "Voltage" if not parts.is_psu(name):
            yield Sample("", parts.sensor(name), "node_rail_volts", reading)
        case "Rotational":
            yield Sample("", parts.fan(name), "node_fan_rpm", reading)


def manager(found: JsonMap) -> Iterator[Seen]:
    """The controller itself: firmware and health."""
    version = text(found.get("FirmwareVersion"))
    if version:
        yield Fact("", "bmc_version", version)
    health = text(at(found, "Status", "Health"))
    if health == "Critical":
        yield Event("", "bmc.unhealthy", f"{_name(found)}: health {health}", source=SOURCE)


def firmware(found: JsonMap) -> Iterator[Fact]:
    """A member of ``FirmwareInventory``."""
    version = text(found.get("Version"))
    name = parts.slug(text(found.get("Id")) or _name(found))
    if version and name:
        yield Fact("", f"firmware_{name}", version)


def log_entry(found: JsonMap) -> Entry | None:
    """An entry of a log service; what is resolved is over."""
    said = text(found.get("Message"))
    if not said:
        return None
    sensor = text(found.get("SensorType")) or text(found.get("OemSensorType")) or said
    number_ = text(found.get("SensorNumber"))
    origin = text(at(found, "Links", "OriginOfCondition", "@odata.id")).rpartition("/")[2]
    words = " ".join(word for word in (sensor, origin or (number_ and f"#{number_}")) if word)
    time = when(text(found.get("EventTimestamp")) or text(found.get("Created")))
    over = text(found.get("EntryCode")) in ("Deassert", "Deasserted") or (
        found.get("Resolved") is True
    )
    id_ = text(found.get("Id"))
    return Entry(id_, words[:200], said[:500], time, over, text(found.get("Severity")))


def when(said: str) -> datetime | None:
    """``2026-11-28T06:12:30+00:00`` in UTC; None for no time, and before 2000 (never set)."""
    try:
        found = datetime.fromisoformat(said)
        found = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return found if found.year >= 2000 else None


def _temperature(
    name: str, celsius: float | None, context: str, limit: float | None
) -> Iterator[Seen]:
    if celsius is None:
        return
    inlet = context in _INTAKE or (not context and parts.is_inlet(name))
    metric = "node_inlet_temp_celsius" if inlet else "node_hwmon_temp_celsius"
    yield Sample("", parts.sensor(name), metric, celsius)
    if limit is not None and 30.0 < limit <= celsius:
        said = f"{name} reads {celsius:g} C; its critical limit is {limit:g} C"
        yield Event("", "thermal.high", said, source=SOURCE, attrs={"sensor": name})


def _fan(found: JsonMap, rpm: float | None, percent: float | None) -> Iterator[Seen]:
    if not _there(found):
        return
    name = text(found.get("FanName")) or _name(found)
    device = parts.fan(name)
    if rpm is not None:
        yield Sample("", device, "node_fan_rpm", rpm)
    if percent is not None:
        yield Sample("", device, "node_fan_ratio", percent / 100.0)
    if text(at(found, "Status", "Health")) == "Critical":
        yield Event("", "thermal.fan_failed", f"{name}: health Critical", device, source=SOURCE)


def _redundancies(found: object, *, fans: bool) -> Iterator[Seen]:
    groups = [one for one in objects(found) if _there(one)]
    kept = [one for one in groups if text(at(one, "Status", "Health"))]
    if not kept:
        return
    lost = [one for one in kept if text(at(one, "Status", "Health")) != "OK"]
    yield Sample("", f"bmc:{'fans' if fans else 'supplies'}", "node_redundant", float(not lost))
    for one in lost[:1]:
        code = "thermal.fan_redundancy_lost" if fans else "power.redundancy_lost"
        what = "fans" if fans else "power supplies"
        said = f"redundancy of the {what}: {text(at(one, 'Status', 'Health'))}"
        yield Event("", code, said, source=SOURCE)


def _watts(watts: float | None) -> Iterator[Sample]:
    if watts is not None:
        yield Sample("", "", "node_power_watts", watts)


def _there(found: JsonMap) -> bool:
    return text(at(found, "Status", "State")) not in _GONE


def _name(found: JsonMap) -> str:
    name = text(found.get("Name")) or text(found.get("MemberId")) or text(found.get("Id"))
    return name[:100]
