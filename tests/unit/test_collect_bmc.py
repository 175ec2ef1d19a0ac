"""The baseboard controller over IPMI: sensors as told, each kind of log entry, a log that moves."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hosts import bmc_ipmi as say
from tests.unit.collected import NAMES, captured, events, facts, golden, samples
from tests.unit.machine_copies import copied, put

from bigiron.collect import Seen, parts
from bigiron.collect.bmc import SILENT, bmc
from bigiron.collect.ipmi import readings
from bigiron.collect.ipmi_text import (
    fields_of,
    freeipmi,
    frus,
    power,
    sel_info,
    sel_list,
    sensors,
)
from bigiron.collect.sel import Entry
from bigiron.collect.sel import events as told
from bigiron.collect.sel_cursor import MOST, Cursor
from bigiron.errors import NoData, Temporary
from bigiron.faults import shipped
from bigiron.host import Host
from bigiron.model import Device, Event, Note

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
IPMI = "bigiron/commands/ipmitool"


def answer(host: Host, command: str, said: str) -> None:
    put(host, f"{IPMI} {command}", said)


def sick(tmp_path: Path, name: str = "a100x8") -> Host:
    host = copied(name, tmp_path)
    host.handles["now"] = lambda: NOW
    return host


def look(host: Host) -> list[Seen]:
    host.handles.setdefault("now", lambda: NOW)
    return list(bmc(host))


@pytest.mark.parametrize("host", [name for name in NAMES if name != "t4x4"])
def test_what_it_says_of_captured_hosts(host: str) -> None:
    golden(lambda one: look(one), "bmc", host)


def test_no_captured_host_has_a_fault_at_any_look() -> None:
    for host in (captured(name) for name in NAMES if name != "t4x4"):
        assert [events(look(host)) for _ in range(7)] == [[]] * 7


@pytest.mark.parametrize("name", ["t4x4", ""])
def test_a_machine_without_a_controller_is_silent(name: str, tmp_path: Path) -> None:
    with pytest.raises(NoData):
        look(captured(name) if name else Host(root=tmp_path))


# --- sensors


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            {"PSU1": "PSU1 Status | B1h | ok | 10.1 | Presence detected, Failure detected"},
            [("power.psu_failed", "psu1")],
        ),
        (
            {"PSU1": "PSU1 Status | B1h | ok | 10.1 | Presence detected, Power Supply AC lost"},
            [("power.supply_lost", "psu1")],
        ),
        (
            {"Redundancy": "PSU Redundancy | CAh | ok | 7.1 | Redundancy Lost"},
            [("power.redundancy_lost", "")],
        ),
        (
            {"x": "FAN Redundancy | CBh | ok | 7.1 | Non-Redundant: Sufficient from Redundant"},
            [("thermal.fan_redundancy_lost", "")],
        ),
        ({"FAN1": "FAN1 | 41h | cr | 29.1 | 0 RPM"}, [("thermal.fan_failed", "fan1")]),
        ({"CPU0": "CPU0 Temp | 0Eh | ucr | 3.1 | 98 degrees C"}, [("thermal.high", "")]),
        ({"CPU0": "CPU0 Temp | 0Eh | lcr | 3.1 | 0 degrees C"}, []),
        ({"P12V": "P12V | 20h | cr | 7.1 | 10.90 Volts"}, [("power.rail", "")]),
    ],
)
def test_sensors_that_are_bad_are_told(
    rows: dict[str, str], expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    host = sick(tmp_path)
    answer(host, "sdr elist all", say.sdr(6, **rows))
    assert events(look(host)) == expected
    assert events(look(host)) == [], "what stands is not told at each look"


def test_a_supply_that_failed_is_no_longer_up(tmp_path: Path) -> None:
    host = sick(tmp_path)
    row = "PSU1 Status | B1h | ok | 10.1 | Presence detected, Failure detected"
    answer(host, "sdr elist all", say.sdr(6, PSU1=row))
    found = samples(look(host))
    assert found["psu1", "node_psu_up"] == 0.0
    assert found["psu0", "node_psu_up"] == 1.0


def test_what_is_no_value_is_none() -> None:
    text = (
        "A | 01h | ns | 7.1 | No Reading\nB | 02h | ok | 7.1 | Disabled\n"
        "C | 03h | ok | 7.1 | 0x80\n"
        "D | na | ok\nE | 05h | ok | 7.1 | \nF | 06h | ok | 7.1 | Not Readable\n"
        "G Temp | 07h | ok | 7.1 | 77 degrees F\nH | 21 degrees C | ok\nrubbish\n||||\n"
    )
    values = {one.name: one.value for one in sensors(text)}
    assert values == {
        "B": None,
        "C": None,
        "D": None,
        "E": None,
        "F": None,
        "G Temp": 25.0,
        "H": 21,
    }
    assert [seen for seen in readings(list(sensors(text))) if isinstance(seen, Event)] == []


def test_a_controller_that_cannot_limit_power_has_no_limit() -> None:
    assert power(say.dcmi_limit(6500, active=False)) == (None, None)
    assert power(say.dcmi_limit(6500, active=True)) == (None, 6500.0)
    assert power(say.dcmi_reading(2875)) == (2875.0, None)
    assert ("", "node_power_cap_watts") not in samples(look(captured("l40sx8")))


def test_supplies_are_parts_with_serial_numbers() -> None:
    seen = [one for one in look(captured("a100x8")) if isinstance(one, Device)]
    assert [(one.name, one.kind, one.id) for one in seen][:2] == [
        ("psu0", "psu", "PS3K00000"),
        ("psu1", "psu", "PS3K00001"),
    ]
    assert facts(look(captured("a100x8")))["", "bmc_version"] == "1.74"


# --- the event log

KINDS = [
    ("Power Supply PSU2 Status | Failure detected () | Asserted", "power.psu_failed", "psu2"),
    ("Power Supply #0xb1 | Predictive failure | Asserted", "power.psu_failed", None),
    ("Power Supply PS1 | Power Supply AC lost | Asserted", "power.supply_lost", "psu1"),
    ("Power Unit PS Redundancy | Redundancy Lost | Asserted", "power.redundancy_lost", ""),
    ("Fan FAN3 | Lower Critical going low  | Asserted | Reading 0 < Threshold 500 RPM",
     "thermal.fan_failed", "fan3"),
    ("Fan Fan_Redundancy | Redundancy Lost | Asserted", "thermal.fan_redundancy_lost", ""),
    ("Temperature Inlet Temp | Upper Critical going high | Asserted", "thermal.critical", ""),
    ("Temperature Inlet Temp | Upper Non-critical going high | Asserted", "thermal.high", ""),
    ("Processor CPU1 | Thermal Trip | Asserted", "thermal.shutdown", ""),
    ("Processor CPU1 | IERR | Asserted", "mce.fatal", ""),
    ("Processor CPU1 | Throttled | Asserted", "thermal.cpu_throttled", ""),
    ("Processor CPU1 | Uncorrectable machine check exception | Asserted", "mce.uncorrected", ""),
    ("Processor CPU1 | FRB2/Hang in POST failure | Asserted", "bmc.cpu_failed", ""),
    ("Memory #0x53 | Correctable ECC | Asserted", "edac.correctable", ""),
    ("Memory DIMM_B1 | Uncorrectable ECC | Asserted", "edac.uncorrectable", ""),
    ("Memory DIMM_B1 | Correctable ECC logging limit reached | Asserted",
     "edac.correctable_limit", ""),
    ("Memory DIMM_B1 | Memory Device Disabled | Asserted", "edac.module_disabled", ""),
    ("Critical Interrupt PCIe Slot7 | Bus Fatal Error | Asserted", "pcie.aer_fatal", ""),
    ("Critical Interrupt #0x80 | PCI SERR () | Asserted", "pcie.aer_fatal", ""),
    ("Critical Interrupt #0x80 | PCI PERR | Asserted", "pcie.aer_nonfatal", ""),
    ("Critical Interrupt #0x80 | Bus Uncorrectable error | Asserted", "pcie.aer_nonfatal", ""),
    ("Critical Interrupt #0x80 | Bus Correctable error | Asserted", "pcie.aer_correctable", ""),
    ("Critical Interrupt #0x80 | Bus Degraded | Asserted", "pcie.link_downgraded", ""),
    ("Critical Interrupt #0x80 | NMI/Diag Interrupt | Asserted", "kernel.nmi", ""),
    ("Slot / Connector PCIe3 | Fault Status | Asserted", "pcie.slot_power", ""),
    ("Voltage P12V | Lower Critical going low | Asserted", "power.undervoltage", ""),
    ("Voltage P12V | Upper Critical going high | Asserted", "power.overvoltage", ""),
    ("Drive Slot / Bay Bay 2 | Drive Fault | Asserted", "bmc.drive_fault", "bmc:bay_2"),
    ("Drive Slot / Bay Bay 2 | Predictive Failure | Asserted", "bmc.drive_predicted", "bmc:bay_2"),
    ("Watchdog2 #0xca | Hard reset | Asserted", "bmc.watchdog", ""),
    ("Watchdog2 #0xca | Timer expired | Asserted", "bmc.watchdog", ""),
    ("OS Stop/Shutdown #0x46 | Run-time critical stop | Asserted", "kernel.panic", ""),
    ("Event Logging Disabled SEL | Log full | Asserted", "bmc.log_full", ""),
    ("System Firmwares #0x0f | No usable system memory | Asserted", "bmc.firmware_error", ""),
    ("Management Subsystem Health BMC | Sensor failure | Asserted", "bmc.unhealthy", ""),
    ("Battery VBAT | Failed | Asserted", "bmc.unhealthy", ""),
    ("System Event #0x83 | Undetermined system hardware failure | Asserted",
     "bmc.hardware_error", ""),
]  # fmt: skip


def entries(*rows: str) -> list[Entry]:
    text = [
        f" {at:3x} | 11/30/2026 | 06:12:{at % 60:02d} UTC | {row}" for at, row in enumerate(rows)
    ]
    return list(sel_list("\n".join(text)))


@pytest.mark.parametrize(("row", "code", "device"), KINDS, ids=[kind[0][:50] for kind in KINDS])
def test_each_kind_of_entry_is_its_fault(row: str, code: str, device: str | None) -> None:
    (event,) = told(entries(row), "sel")
    assert isinstance(event, Event)
    assert event.code == code
    assert code in shipped(), "every code that is told is in the catalogue"
    assert device is None or event.device == device
    assert event.time == datetime(2026, 11, 30, 6, 12, tzinfo=UTC)


@pytest.mark.parametrize("row", [kind[0] for kind in KINDS])
def test_what_is_over_is_not_told(row: str) -> None:
    assert list(told(entries(row.replace("| Asserted", "| Deasserted")), "sel")) == []


@pytest.mark.parametrize(
    "row",
    [
        "Power Supply PSU1 | Presence detected | Asserted",
        "Power Unit PS Redundancy | Fully Redundant | Asserted",
        "Power Unit #0x01 | Power off/down | Asserted",
        "Physical Security #0xaa | General Chassis intrusion () | Asserted",
        "System Event #0x83 | Timestamp Clock Sync | Asserted",
        "OS Boot #0x22 | C: boot completed | Asserted",
        "Button #0x21 | Power Button pressed | Asserted",
        "System ACPI Power State #0x82 | S0/G0: working | Asserted",
        "Event Logging Disabled #0x07 | Log area reset/cleared | Asserted",
        "Temperature CPU0 Temp | Lower Critical going low | Asserted",
        "Memory DIMM_A1 | Presence Detected | Asserted",
        "System Firmwares #0x0f | Memory initialization | Asserted",
        "OS Stop/Shutdown #0x46 | OS graceful shutdown | Asserted",
        "Drive Slot Bay 2 | Drive Present | Asserted",
    ],
)
def test_what_is_part_of_every_day_is_passed_over(row: str) -> None:
    assert list(told(entries(row), "sel")) == []


def test_what_no_rule_knows_is_counted_by_its_words() -> None:
    row = "OEM Flux #0xd0 | Capacitor drained | Asserted"
    (note,) = told(entries(row, row), "sel")
    assert note == Note(
        "sel", "an event log entry that is not understood: OEM Flux #0xd0: Capacitor drained", 2
    )


def test_a_time_that_the_controller_did_not_know_is_left_to_the_agent() -> None:
    text = (
        "   1 |  Pre-Init  |0000000017| Memory DIMM_A1 | Uncorrectable ECC | Asserted\n"
        "   2 | 01/01/1970 | 00:00:59 | Memory DIMM_A1 | Uncorrectable ECC | Asserted\n"
    )
    assert [(one.time, one.sensor) for one in sel_list(text)] == [(None, "Memory DIMM_A1")] * 2


def test_a_log_is_read_when_it_has_moved_and_each_entry_told_once(tmp_path: Path) -> None:
    host = sick(tmp_path)
    assert events(look(host)) == []
    row = "   4 | 11/30/2026 | 06:12:30 UTC | Power Supply PSU2 | Failure detected | Asserted\n"
    answer(host, "sel info", say.sel_info(4, 1, added="11/30/2026 06:12:30"))
    answer(host, "sel elist last 4", say.sel_daily() + row)
    seen = look(host)
    assert events(seen) == [("power.psu_failed", "psu2")]
    assert events(look(host)) == []
    answer(host, "sel elist last 4", say.sel_daily())
    (event,) = [one for one in seen if isinstance(one, Event)]
    assert event.text == "Power Supply PSU2: Failure detected"
    assert event.attrs["sel"] == "4"


def test_the_first_look_goes_a_week_back_and_counts_what_is_older(tmp_path: Path) -> None:
    host = sick(tmp_path)
    rows = (
        "   1 | 01/15/2026 | 06:12:30 UTC | Power Supply PSU1 | Failure detected | Asserted\n"
        "   2 | 11/27/2026 | 06:12:30 UTC | Power Supply PSU2 | Failure detected | Asserted\n"
    )
    answer(host, "sel info", say.sel_info(2, 1))
    answer(host, "sel elist last 2", rows)
    seen = look(host)
    assert events(seen) == [("power.psu_failed", "psu2")]
    assert [one.count for one in seen if isinstance(one, Note)] == [1]


def test_a_log_that_is_cleared_starts_anew() -> None:
    cursor = Cursor(lambda: NOW)
    assert cursor.wanted(200, "a") == 200
    assert cursor.wanted(200, "a") == 0
    assert cursor.wanted(203, "b") == 11
    assert cursor.wanted(1, "c") == 1, "cleared"
    assert cursor.wanted(1, "d") == 1, "cleared and written again"
    assert cursor.wanted(9000, "e") == MOST
    assert cursor.wanted(0, "f") == 0


def test_a_full_log_is_told(tmp_path: Path) -> None:
    host = sick(tmp_path)
    answer(host, "sel info", say.sel_info(3, 100, full=True))
    seen = look(host)
    assert events(seen) == [("bmc.log_full", "")]
    assert samples(seen)["", "node_sel_used_ratio"] == 1.0


# --- a controller that does not answer


def test_a_controller_that_does_not_answer_is_told_when_it_lasts(tmp_path: Path) -> None:
    tool = tmp_path / "ipmitool"
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    tool.chmod(0o755)
    host = Silent(path=f"{tmp_path}:/bin:/usr/bin")
    for _ in range(SILENT - 1):
        with pytest.raises(Temporary):
            look(host)
    assert events(look(host)) == [("bmc.not_responding", "")]
    assert events(look(host)) == [], "what stands is not told at each look"


class Silent(Host):
    """A machine with a driver, whose controller's answers take longer than anybody waits."""

    def glob(self, pattern: str):  # type: ignore[no-untyped-def]
        return iter([pattern] if pattern == "/dev/ipmi0" else [])

    def run(self, argv, *, timeout_s, fine=(0,)):  # type: ignore[no-untyped-def]
        return super().run(argv, timeout_s=min(timeout_s, 0.2), fine=fine)


def test_what_was_read_before_it_fell_silent_is_not_lost(tmp_path: Path) -> None:
    tool = tmp_path / "ipmitool"
    rows = say.sel_daily() + "   4 | 11/30/2026 | 06:12:30 UTC | Memory A1 | Uncorrectable ECC\n"
    tool.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        f"  *elist*last*) cat <<'END'\n{rows}END\n  ;;\n"
        f"  'sel info') cat <<'END'\n{say.sel_info(4, 1)}END\n  ;;\n"
        f"  'sdr elist all') cat <<'END'\n{say.sdr(2)}\nEND\n  ;;\n"
        "  'mc info') exec sleep 60 ;;\n  *) exit 1 ;;\nesac\n"
    )
    tool.chmod(0o755)
    host = Silent(path=f"{tmp_path}:/bin:/usr/bin", handles={"now": lambda: NOW})
    seen: list[Seen] = []
    with pytest.raises(Temporary):
        seen.extend(bmc(host))
    assert samples(seen)["psu0", "node_psu_up"] == 1.0
    assert events(look(host)) == [("edac.uncorrectable", "")], "without facts it answers"


# --- names


@pytest.mark.parametrize(
    ("name", "fan", "psu"),
    [
        ("FAN1", "fan1", None),
        ("Fan 1A Tach", "fan1a", None),
        ("SYS_FAN_3", "fan:sys_3", None),
        ("FAN10 RPM", "fan10", None),
        ("PSU2 Status", None, "psu2"),
        ("PS1 Input Power", None, "psu1"),
        ("Power Supply 2", None, "psu2"),
        ("PSU_3_POUT", None, "psu3"),
    ],
)
def test_parts_are_named_alike(name: str, fan: str | None, psu: str | None) -> None:
    if fan is not None:
        assert parts.fan(name) == fan
        assert not parts.is_psu(name)
    if psu is not None:
        assert parts.psu(name) == psu
        assert parts.is_psu(name)


def test_a_temperature_is_no_supply() -> None:
    assert not any(map(parts.is_psu, ("Temps 1", "GPS2", "Chips_3 Temp", "P12V", "Lamps")))


# --- whatever is said

READERS: tuple[Callable[[str], object], ...] = (
    lambda text: list(readings(list(sensors(text)))),
    lambda text: list(readings(list(freeipmi(text)))),
    lambda text: list(told(sel_list(text), "sel")),
    lambda text: list(frus(text)),
    power,
    sel_info,
    fields_of,
    parts.fan,
    parts.psu,
    parts.sensor,
)
_WORDS = """
PSU1 Status;FAN1;ok;cr;ns;Presence detected;1 RPM;0x1;Asserted;11/30/2026;06:12:30 UTC;Pre-Init;1;ff
-9999999999999 Volts;1e999 C;Redundancy Lost;;Uncorrectable ECC;99 degrees C;";'OK'
"""
_CELL = st.one_of(
    st.sampled_from(_WORDS.strip().replace("\n", ";").split(";")), st.text(max_size=12)
)


@given(
    st.lists(st.lists(_CELL, max_size=8), max_size=6),
    st.sampled_from([" | ", ",", " : "]),
    st.sampled_from(READERS),
)
def test_no_output_breaks_a_reader(
    rows: list[list[str]], between: str, reader: Callable[[str], object]
) -> None:
    reader("\n".join(map(between.join, rows)))


@given(st.text(max_size=400), st.sampled_from(READERS))
def test_no_text_breaks_a_reader(text: str, reader: Callable[[str], object]) -> None:
    reader(text)


def test_a_long_line_costs_little() -> None:
    text = "a" * 200_000
    for reader in READERS:
        reader(text)
        reader(f"1 | {text} | {text} | {text} | {text}")
