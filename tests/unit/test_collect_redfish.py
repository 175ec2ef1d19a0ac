"""The baseboard controller over Redfish: what it says, and servers that misbehave."""

import ipaddress
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hosts import bmc_redfish as say
from tests.hosts.bmc_redfish import V1, Answers, Json
from tests.unit.collected import events, facts, samples
from tests.unit.machine_copies import copied, put

from bigiron.collect import Seen
from bigiron.collect import redfish_read as read
from bigiron.collect.bmc import SILENT, bmc
from bigiron.collect.redfish import Redfish, discover
from bigiron.collect.redfish_client import (
    ANSWER_BYTES,
    Service,
    Session,
    host_interface,
    service_of,
)
from bigiron.collect.sel import Entry
from bigiron.collect.sel import events as told
from bigiron.errors import NoData, Permanent, Temporary
from bigiron.host import Host
from bigiron.ingest.json_text import JsonMap
from bigiron.model import Device, Event, Note

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SELF = f"{V1}/Chassis/Self"


def served(tmp_path: Path, answers: Answers) -> Host:
    """A host whose service answers so."""
    host = copied("h100x8", tmp_path)
    return answering(host, answers)


def answering(host: Host, answers: Answers) -> Host:
    put(host, "bigiron/redfish.json", json.dumps(answers))
    host.handles.clear()
    host.handles["now"] = lambda: NOW
    return host


def look(host: Host) -> list[Seen]:
    return list(bmc(host))


def change(answers: Answers, path: str, kind: str, index: int, **values: object) -> Answers:
    """One item of a list in a resource, changed."""
    items = answers[path][kind]
    assert isinstance(items, list)
    items[index] = {**items[index], **values}
    return answers


BAD: Json = {"State": "Enabled", "Health": "Critical"}


@pytest.mark.parametrize(
    ("place", "kind", "values", "expected"),
    [
        ("Power", "PowerSupplies", {"Status": BAD}, [("power.psu_failed", "psu1")]),
        (
            "Power",
            "PowerSupplies",
            {"Status": BAD, "LineInputVoltage": 0},
            [("power.supply_lost", "psu1")],
        ),
        (
            "Power",
            "PowerSupplies",
            {"LineInputStatus": "LossOfInput"},
            [("power.supply_lost", "psu1")],
        ),
        ("Power", "PowerSupplies", {"Status": {"State": "Absent"}}, []),
        ("Thermal", "Fans", {"Status": BAD}, [("thermal.fan_failed", "fan:sys_2")]),
        ("Thermal", "Temperatures", {"ReadingCelsius": 101, "UpperThresholdCritical": 100},
         [("thermal.high", "")]),
        ("Thermal", "Temperatures", {"ReadingCelsius": 1, "UpperThresholdCritical": 0}, []),
    ],
)  # fmt: skip
def test_parts_that_are_bad_are_told(
    place: str, kind: str, values: Json, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    host = served(tmp_path, change(say.older(), f"{SELF}/{place}", kind, 1, **values))
    assert events(look(host)) == expected
    assert events(look(host)) == [], "what stands is not told at each look"


def test_a_supply_that_is_not_there_is_not_up(tmp_path: Path) -> None:
    gone = change(
        say.older(), f"{SELF}/Power", "PowerSupplies", 1, Status={"State": "Absent", "Health": None}
    )
    found = samples(look(served(tmp_path, gone)))
    assert found["psu1", "node_psu_up"] == 0.0
    assert ("psu1", "node_psu_power_watts") not in found


def test_redundancy_that_is_lost_is_told(tmp_path: Path) -> None:
    lost = {"State": "Enabled", "Health": "Warning"}
    answers = change(say.older(), f"{SELF}/Power", "Redundancy", 0, Status=lost)
    host = served(tmp_path, answers)
    seen = look(host)
    assert events(seen) == [("power.redundancy_lost", "")]
    assert samples(seen)["bmc:supplies", "node_redundant"] == 0.0


def test_facts_come_at_the_first_look_and_when_they_change(tmp_path: Path) -> None:
    host = served(tmp_path, say.older())
    first = facts(look(host))
    assert first["", "bmc_version"] == "24.01.05"
    assert first["", "firmware_hgx_fw_gpu_sxm_1"] == "96.00.A5.00.01"
    assert [facts(look(host)) for _ in range(6)] == [{}] * 6


def test_supplies_are_parts_with_serial_numbers(tmp_path: Path) -> None:
    seen = look(served(tmp_path, say.older()))
    assert next(one.id for one in seen if isinstance(one, Device)) == "DPS330000"


SENTENCES = [
    ("The power input for power supply 2 is lost.", "power.supply_lost", "psu2"),
    ("Power supply 1 failed.", "power.psu_failed", "psu1"),
    ("Power supply redundancy is lost.", "power.redundancy_lost", ""),
    ("Fan 3 RPM is less than the lower critical threshold.", "thermal.fan_failed", "fan3"),
    ("A fatal error was detected on a component at bus 23 device 0 function 0. PCI",
     "pcie.aer_fatal", ""),
    ("Multi-bit memory errors detected on a memory device at location DIMM_A1.",
     "edac.uncorrectable", ""),
    ("Correctable memory error rate exceeded for DIMM_A1.", "edac.correctable_limit", ""),
    ("The system inlet temperature is greater than the upper critical threshold. critical high",
     "thermal.critical", ""),
    ("CPU 1 has a thermal trip (over-temperature) event.", "thermal.shutdown", ""),
    ("The watchdog timer reset the system. Hard reset", "bmc.watchdog", ""),
]  # fmt: skip


@pytest.mark.parametrize(("message", "code", "device"), SENTENCES)
def test_free_words_of_services_are_understood(message: str, code: str, device: str) -> None:
    entry = read.log_entry(say.entry(message, "Critical"))
    assert entry is not None
    (event,) = told([entry], "sel")
    assert isinstance(event, Event)
    assert (event.code, event.device) == (code, device)
    calm = read.log_entry(say.entry(message, "OK"))
    assert calm is not None
    assert list(told([calm], "sel")) == [], "an entry that is well tells of no fault"


def test_log_entries_are_told_once_page_by_page(tmp_path: Path) -> None:
    answers = say.older()
    log = f"{V1}/Systems/1/LogServices/SEL/Entries"
    failed = say.entry("Power supply 1 failed.", "Critical", Id="2")
    older = say.entry("Fan 2 failed.", "Critical", Id="3", Created="2026-11-29T01:00:00+02:00")
    answers[log] = {
        "Members": [failed],
        "Members@odata.count": 2,
        "Members@odata.nextLink": f"{log}?$skip=1",
    }
    answers[f"{log}?$skip=1"] = {"Members": [older], "Members@odata.nextLink": f"{log}?$skip=1"}
    host = served(tmp_path, answers)
    seen = look(host)
    assert events(seen) == [("thermal.fan_failed", "fan2"), ("power.psu_failed", "psu1")]
    first = next(one for one in seen if isinstance(one, Event))
    assert first.time == datetime(2026, 11, 28, 23, 0, tzinfo=UTC)
    assert events(look(host)) == []


@pytest.mark.parametrize(
    "more", [{"Resolved": True}, {"EntryCode": "Deassert"}, {"EntryCode": "Deasserted"}]
)
def test_what_is_resolved_is_over(more: Json) -> None:
    entry = read.log_entry({**say.entry("Power supply 1 failed.", "Critical"), **more})
    assert entry is not None
    assert entry.over


# --- a real server


class Server(ThreadingHTTPServer):
    """Answers as told; ``behaviour`` is how."""

    daemon_threads = True
    answers: Answers
    behaviour = "well"
    broken = ""
    asked: int

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    """One connection for many questions."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.asked += 1
        how = self.server.behaviour
        if how == "hang":
            time.sleep(30)
        if self.headers["Authorization"] != "Basic cmVhZGVyOnNlY3JldA==":
            self._send(401, b"{}")
        elif how == "refuse":
            self._send(403, b"{}")
        elif how == "rubbish":
            self._send(200, b"<html>\xff\x00 not json")
        elif how == "broken" or self.path == self.server.broken:
            self._send(500, b"{}")
        elif how == "endless":
            self.send_response(200)
            self.end_headers()
            for _ in range(2 * ANSWER_BYTES // 65_536):
                self.wfile.write(b" " * 65_536)
        elif how == "drip":
            self.send_response(200)
            self.end_headers()
            for _ in range(100):
                self.wfile.write(b" ")
                time.sleep(0.05)
        else:
            found = self.server.answers.get(self.path.rstrip("/"))
            self._send(404 if found is None else 200, json.dumps(found).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    made.answers, made.asked = say.newer(), 0
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@contextmanager
def session(server: Server, seconds: float = 5.0, word: str = "secret") -> Iterator[Session]:
    url = f"http://127.0.0.1:{server.server_address[1]}"
    made = Service(url, "reader", word).session(seconds)
    yield made
    made.close()


def test_a_real_server_tells_the_same_as_the_captured_one(server: Server, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("reader\nsecret\n")
    env = {
        "BIGIRON_REDFISH_URL": f"http://127.0.0.1:{server.server_address[1]}",
        "BIGIRON_REDFISH_CREDENTIALS": "/credentials",
    }
    live = Host(root=tmp_path, env=env, handles={"now": lambda: NOW})
    other = copied("gb200x4", tmp_path)
    other.handles["now"] = lambda: NOW
    assert look(live) == look(other)
    first = server.asked
    assert first <= 40
    list(look(live))
    assert server.asked - first <= 20, "what there is was found at the first look"


def test_one_broken_resource_costs_itself_only(server: Server, tmp_path: Path) -> None:
    server.broken = f"{V1}/Chassis/Tray_0/ThermalSubsystem/ThermalMetrics"
    (tmp_path / "credentials").write_text("reader\nsecret\n")
    env = {
        "BIGIRON_REDFISH_URL": f"http://127.0.0.1:{server.server_address[1]}",
        "BIGIRON_REDFISH_CREDENTIALS": "/credentials",
    }
    seen = look(Host(root=tmp_path, env=env))
    assert ("fan0", "node_fan_rpm") in samples(seen)
    assert ("bmc:intake", "node_inlet_temp_celsius") not in samples(seen)
    assert [one.count for one in seen if isinstance(one, Note)] == [1]


@pytest.mark.parametrize("how", ["rubbish", "broken", "endless"])
def test_a_server_that_misbehaves_costs_one_look(server: Server, how: str) -> None:
    server.behaviour = how
    with session(server) as asked, pytest.raises(Temporary):
        asked.get(f"{V1}/")


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_server_that_drags_on_is_left_at_the_deadline(server: Server, how: str) -> None:
    server.behaviour = how
    start = time.monotonic()
    with session(server, 0.5) as asked, pytest.raises(Temporary):
        asked.get(f"{V1}/")
    assert time.monotonic() - start < 3.0


def test_a_wrong_password_is_told_as_that_and_asked_once(server: Server, tmp_path: Path) -> None:
    with session(server, word="wrong") as asked, pytest.raises(Permanent, match="refused"):
        asked.get(f"{V1}/")
    (tmp_path / "credentials").write_text("reader\nwrong\n")
    env = {
        "BIGIRON_REDFISH_URL": f"http://127.0.0.1:{server.server_address[1]}",
        "BIGIRON_REDFISH_CREDENTIALS": "/credentials",
    }
    host = Host(root=tmp_path, env=env)
    assert events(look(host)) == [("bmc.refused", "")]
    assert events(look(host)) == []


def test_nobody_at_home_is_told_when_it_lasts(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("reader\nsecret\n")
    env = {
        "BIGIRON_REDFISH_URL": "http://127.0.0.1:9",
        "BIGIRON_REDFISH_CREDENTIALS": "/credentials",
    }
    host = Host(root=tmp_path, env=env)
    for _ in range(SILENT - 1):
        with pytest.raises(Temporary):
            look(host)
    assert events(look(host)) == [("bmc.not_responding", "")]


def test_a_password_is_in_no_text_of_ours() -> None:
    assert "secret" not in repr(Service("https://x", "reader", "secret"))


@pytest.mark.parametrize(
    ("lines", "env", "error"),
    [
        ("", {}, NoData),
        ("reader\n", {"BIGIRON_REDFISH_URL": "https://bmc"}, Permanent),
        ("reader\nsecret\n", {"BIGIRON_REDFISH_URL": "bmc"}, Permanent),
        ("reader\nsecret\n", {"BIGIRON_REDFISH_URL": "file:///etc/passwd"}, Permanent),
        ("reader\nsecret\n", {}, NoData),
    ],
)
def test_a_service_is_asked_only_where_it_is_configured(
    lines: str, env: dict[str, str], error: type[Exception], tmp_path: Path
) -> None:
    at = tmp_path / "etc/bigiron/redfish.credentials"
    if lines:
        at.parent.mkdir(parents=True)
        at.write_text(lines)
    with pytest.raises(error):
        service_of(Host(root=tmp_path, env=env))


# --- the host interface


def smbios(address: str, port: int = 443, kind: int = 4) -> bytes:
    """An SMBIOS structure of type 42 that tells of Redfish over IP."""
    at = ipaddress.ip_address(address)
    body = bytearray(91)
    body[51] = 1 if at.version == 4 else 2
    body[52 : 52 + len(at.packed)] = at.packed
    body[84:86] = port.to_bytes(2, "little")
    raw = bytearray([42, 0, 1, 0, 0x40, 3, 2, 0, 0, 1, kind, len(body)])
    return bytes(raw + body)


@pytest.mark.parametrize(
    ("raw", "url"),
    [
        (smbios("169.254.1.1"), "https://169.254.1.1:443"),
        (smbios("fe80::1", 8443), "https://[fe80::1]:8443"),
        (smbios("0.0.0.0"), ""),
        (smbios("169.254.1.1", kind=2), ""),
        (smbios("169.254.1.1")[:60], ""),
        (b"", ""),
    ],
)
def test_the_firmware_tells_where_the_service_is(raw: bytes, url: str) -> None:
    assert host_interface(raw) == url


def test_the_host_interface_is_used_without_an_address(tmp_path: Path) -> None:
    at = tmp_path / "sys/firmware/dmi/entries/42-0"
    at.mkdir(parents=True)
    (at / "raw").write_bytes(smbios("169.254.95.118"))
    (tmp_path / "credentials").write_text("reader\nsecret\n")
    host = Host(root=tmp_path, env={"BIGIRON_REDFISH_CREDENTIALS": "/credentials"})
    assert service_of(host).url == "https://169.254.95.118:443"


@given(st.binary(max_size=200), st.binary(max_size=120))
def test_no_structure_breaks_its_reader(raw: bytes, body: bytes) -> None:
    host_interface(raw)
    host_interface(bytes([42, 0, 1, 0, 0x40, 3, 2, 0, 0, 3, 4, len(body)]) + body)


# --- whatever is said

READERS = (
    *(read.thermal, read.power, read.thermal_metrics, read.fan, read.supply, read.environment),
    *(read.sensor, read.manager, read.firmware, read.power_subsystem, read.thermal_subsystem),
)
KEYS = """
Temperatures Fans PowerControl Voltages PowerSupplies Redundancy Name ReadingCelsius Reading Status
ReadingUnits State Health PhysicalContext UpperThresholdCritical SpeedPercent SpeedRPM PowerLimit
TemperatureReadingsCelsius LimitInWatts ReadingType Thresholds Version Id Members Chassis Message
@odata.id Created Severity SensorType EntryCode Resolved LineInputStatus SerialNumber Metrics Links
"""
_LEAF = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.sampled_from(
        ["OK", "Critical", "Absent", "RPM", "Percent", V1, "2026-11-30T06:12:30Z", "x"]
    ),
    st.text(max_size=8),
)
_JSON = st.recursive(
    _LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=6),
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(KEYS.split()), _JSON, max_size=8))
def test_no_resource_breaks_its_reader(found: Json) -> None:
    for reader in READERS:
        list(reader(found))
    entry = read.log_entry(found)
    assert entry is None or isinstance(entry, Entry)


@given(st.dictionaries(st.sampled_from(KEYS.split()), _JSON, max_size=8))
def test_no_service_breaks_a_look(found: Json) -> None:
    asked = 0

    def get(_: str) -> JsonMap:
        nonlocal asked
        asked += 1
        if asked > 2000:
            raise Temporary("enough")
        return {**found, "Chassis": {"@odata.id": "/c"}, "Members": [{"@odata.id": "/m"}, 7]}

    discover(get)
    list(Redfish(lambda: None, get).look(Host(root=Path("/nowhere")), facts=True))
    assert asked <= 2000
