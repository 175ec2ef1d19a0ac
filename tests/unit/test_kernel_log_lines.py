"""What stands before a message, in every form, and back again."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.ingest import log_json, log_times
from bigiron.ingest.log_lines import LogLine, Prefixes

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
MESSAGE = "NVRM: Xid (PCI:0000:0b:00): 79, GPU has fallen off the bus."


def parse(text: str, now: datetime = NOW) -> LogLine:
    return Prefixes(now).parse(text)


JULY = datetime(2026, 7, 2, 7, 10, 2, tzinfo=UTC)
WINTER = datetime(2026, 1, 21, 4, 41, 44, tzinfo=UTC)

FORMS: dict[str, tuple[str, str, datetime | None, float | None, str]] = {
    "kmsg": ("4,1227,437812449932,-;{}", "", None, 437812.449932, ""),
    "kmsg with a caller": ("4,1227,437812449932,c,caller=T104;{}", "", None, 437812.449932, ""),
    "dmesg": ("[ 1108.858286] {}", "", None, 1108.858286, ""),
    "dmesg, no space": ("[1234567.000001] {}", "", None, 1234567.000001, ""),
    "dmesg with a caller": ("[    0.500000][    T0] {}", "", None, 0.5, ""),
    "dmesg -d": ("[ 1108.858286 <    0.000010>] {}", "", None, 1108.858286, ""),
    "dmesg -r": ("<6>[ 1108.858286] {}", "", None, 1108.858286, ""),
    "dmesg -T": ("[Thu Jul  2 07:10:02 2026] {}", "", JULY, None, ""),
    "dmesg iso": (
        "2026-01-21T04:41:44,285060+00:00 {}",
        "",
        WINTER + timedelta(microseconds=285060),
        None,
        "",
    ),
    "dmesg -x": ("kern  :warn  : [ 1108.858286] {}", "", None, 1108.858286, ""),
    "dmesg -x iso": (
        "kern  :err   : 2026-01-21T04:41:44,285060-04:00 {}",
        "",
        WINTER + timedelta(hours=4, microseconds=285060),
        None,
        "",
    ),
    "journalctl short": ("Jul 02 07:10:02 n17 kernel: {}", "n17", JULY, None, "kernel"),
    "journalctl short-precise": (
        "Jul 02 07:10:02.500000 n17 kernel: {}",
        "n17",
        JULY + timedelta(microseconds=500000),
        None,
        "kernel",
    ),
    "journalctl short-iso": (
        "2026-07-02T09:10:02+0200 n17 kernel: {}",
        "n17",
        JULY,
        None,
        "kernel",
    ),
    "journalctl short-monotonic": (
        "[ 1108.858286] n17 kernel: {}",
        "n17",
        None,
        1108.858286,
        "kernel",
    ),
    "syslog with uptime": (
        "Jul  2 07:10:02 n17.example.org kernel: [680001.100000] {}",
        "n17.example.org",
        JULY,
        680001.1,
        "kernel",
    ),
    "syslog with priority": ("<4>Jul  2 07:10:02 n17 kernel: {}", "n17", JULY, None, "kernel"),
    "rsyslog rfc3339": ("2026-07-02T07:10:02.000000Z n17 kernel: {}", "n17", JULY, None, "kernel"),
    "rfc5424": ("<4>1 2026-07-02T07:10:02Z n17 kernel - - - {}", "n17", JULY, None, "kernel"),
    "rfc5424 with data": (
        '<4>1 2026-07-02T07:10:02Z n17 kernel 7 - [a@1 k="v \\] w"][b@1 x="y"] {}',
        "n17",
        JULY,
        None,
        "kernel",
    ),
    "containerd": ("2026-07-02T07:10:02.000000000Z stdout F {}", "", JULY, None, ""),
    "containerd around dmesg -T": (
        "2026-07-03T00:00:00.000000001Z stderr F [Thu Jul  2 07:10:02 2026] {}",
        "",
        JULY,
        None,
        "",
    ),
    "container json": (
        '{{"log":"{}\\n","stream":"stdout","time":"2026-07-02T07:10:02Z"}}',
        "",
        JULY,
        None,
        "",
    ),
    "recording": (
        "2026-07-02T07:10:02.000000+00:00 n17 kernel: {}",
        "n17",
        JULY,
        None,
        "kernel",
    ),
    "host and kernel only": ("n17 kernel: {}", "n17", None, None, "kernel"),
    "kernel and uptime": ("kernel: [ 16450076.435595] {}", "", None, 16450076.435595, "kernel"),
    "kernel twice": ("kernel: Jul 02 07:10:02 kernel: {}", "", JULY, None, "kernel"),
    "coloured": ("\x1b[32m[ 1108.858286] \x1b[0m{}", "", None, 1108.858286, ""),
    "bare": ("{}", "", None, None, ""),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_message_host_and_both_clocks(form: str) -> None:
    template, host, time, uptime_s, program = FORMS[form]
    text = template.format(MESSAGE)
    prefixes = Prefixes(NOW)
    found = log_json.parse(text, prefixes) if text.startswith("{") else prefixes.parse(text)
    assert found is not None
    assert (found.message, found.host, found.time, found.uptime_s, found.program) == (
        MESSAGE,
        host,
        time,
        uptime_s,
        program,
    )


def test_program_and_pid_of_a_syslog_tag() -> None:
    found = parse("Jul 02 07:10:02 n17 systemd-networkd[801]: ib3: lost carrier")
    assert (found.program, found.pid, found.message) == (
        "systemd-networkd",
        "801",
        "ib3: lost carrier",
    )


def test_fabric_manager_line_gives_level_and_time() -> None:
    found = parse("[Feb 25 2026 13:59:45] [ERROR] [tid 1803] detected NVSwitch fatal error 1")
    assert found.message == "detected NVSwitch fatal error 1"
    assert (found.level, found.program) == ("ERROR", "fabricmanager")
    assert found.time == datetime(2026, 2, 25, 13, 59, 45, tzinfo=UTC)
    assert not found.zoned


@pytest.mark.parametrize(
    "text",
    [
        "nvme nvme0: I/O tag 1 (2016) opcode 0x2 QID 0 timeout, reset controller",
        "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 0 timed out",
        "EDAC MC0: 1 CE memory read error",
        "amdgpu 0000:03:00.0: amdgpu: ring gfx timeout",
    ],
)
def test_a_message_that_looks_like_host_and_tag_stays_whole(text: str) -> None:
    found = parse(f"2026-07-02T07:10:02.123456+00:00 {text}")
    assert (found.message, found.host) == (text, "")


def test_repeated_message_is_unpacked_and_counted() -> None:
    found = parse("Jul 02 07:10:02 n1 kernel: message repeated 5 times: [ nvme nvme0: gone]")
    assert (found.message, found.times) == ("nvme nvme0: gone", 5)


def test_kmsg_escapes_are_undone() -> None:
    assert parse("6,1,2,-;tab\\x09and \\xe9").message == "tab\tand \xe9"


@pytest.mark.parametrize(
    ("stamp", "now", "expected"),
    [
        ("Dec 31 23:00:00", "2026-01-01T01:00:00", "2025-12-31T23:00:00"),
        ("Jan  1 00:30:00", "2026-01-01T01:00:00", "2026-01-01T00:30:00"),
        ("Feb 29 10:00:00", "2026-03-01T00:00:00", "2024-02-29T10:00:00"),
        ("Jan  1 03:00:00", "2025-12-31T19:00:00", "2025-12-31T19:00:00"),
        ("Jun 30 23:59:60", "2026-07-01T00:00:00", "2026-06-30T23:59:59"),
    ],
)
def test_year_is_the_latest_that_is_not_ahead(stamp: str, now: str, expected: str) -> None:
    found = parse(f"{stamp} n1 kernel: x", datetime.fromisoformat(f"{now}+00:00"))
    assert found.time == datetime.fromisoformat(f"{expected}+00:00")


def test_impossible_stamps_are_part_of_the_message() -> None:
    for text in (
        "Feb 31 10:00:00 n1 kernel: x",
        "2026-13-01T00:00:00Z n1 kernel: x",
        "0001-01-01T00:00:00+23:59 n1 kernel: x",
    ):
        assert parse(text).message == text


@pytest.mark.parametrize("digits", range(1, 10))
def test_fractions_of_any_length(digits: int) -> None:
    found = log_times.iso("2026-07-02T07:10:02." + "1234567891"[:digits] + "Z")
    assert found == (JULY.replace(microsecond=int("123456"[:digits].ljust(6, "0"))), True)


def test_clocks_without_a_zone_are_told() -> None:
    assert not parse("Jul 02 07:10:02 n1 kernel: x").zoned
    assert not parse("[Thu Jul  2 07:10:02 2026] x").zoned
    assert not parse("2026-07-02T07:10:02 n1 kernel: x").zoned
    assert parse("[Thu Jul  2 07:10:02 UTC 2026] x").zoned
    assert parse("[ 1.5] x").zoned


TIMES = st.integers(0, 10 * 365 * 86_400 * 1_000_000).map(
    lambda us: datetime(2016, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
)
ZONES = st.integers(-12 * 4, 14 * 4).map(lambda quarter: timezone(timedelta(minutes=15 * quarter)))
HOSTS = st.from_regex(r"[a-z][a-z0-9-]{0,20}[a-z0-9]", fullmatch=True).filter(
    lambda host: host not in ("nvme", "amdgpu")
)
UPTIMES_US = st.integers(0, 10**13)
WORDS = st.from_regex(r"[A-Za-z][\w ,:()=.'<>-]{0,60}[\w.)]", fullmatch=True).filter(
    lambda text: (
        parse(text).message == text and parse(f"2026-07-02T07:10:02Z {text}").message == text
    )
)


def _iso(time: datetime, zone: timezone, host: str, message: str) -> str:
    return f"{time.astimezone(zone).isoformat(timespec='microseconds')} {host} kernel: {message}"


def _comma(time: datetime, zone: timezone, host: str, message: str) -> str:  # noqa: ARG001
    stamp = time.astimezone(zone).isoformat(timespec="microseconds").replace(".", ",")
    return f"kern  :info  : {stamp} {message}"


def _rfc5424(time: datetime, zone: timezone, host: str, message: str) -> str:
    return f"<4>1 {time.astimezone(zone).isoformat()} {host} kernel - - - {message}"


def _container(time: datetime, zone: timezone, host: str, message: str) -> str:  # noqa: ARG001
    return f"{time.isoformat().replace('+00:00', 'Z')} stdout F {message}"


def _journal(time: datetime, zone: timezone, host: str, message: str) -> str:  # noqa: ARG001
    return msgspec.json.encode(
        {
            "MESSAGE": list(message.encode()),
            "_HOSTNAME": host,
            "__REALTIME_TIMESTAMP": str(round(time.timestamp() * 1e6)),
        }
    ).decode()


@pytest.mark.parametrize("write", [_iso, _comma, _rfc5424, _container, _journal])
@given(time=TIMES, zone=ZONES, host=HOSTS, message=WORDS)
def test_what_is_written_with_a_wall_clock_is_read_back(
    write: Callable[[datetime, timezone, str, str], str],
    time: datetime,
    zone: timezone,
    host: str,
    message: str,
) -> None:
    text = write(time, zone, host, message)
    prefixes = Prefixes(NOW)
    found = log_json.parse(text, prefixes) if text.startswith("{") else prefixes.parse(text)
    assert found is not None
    assert found.message == message
    assert found.time is not None
    assert abs(found.time - time) < timedelta(microseconds=2)
    assert found.host in (host, "")


@given(uptime_us=UPTIMES_US, host=HOSTS, message=WORDS)
def test_what_is_written_with_the_kernels_clock_is_read_back(
    uptime_us: int, host: str, message: str
) -> None:
    stamp = f"[{uptime_us // 1_000_000:5d}.{uptime_us % 1_000_000:06d}]"
    for text in (
        f"{stamp} {message}",
        f"<3>{stamp} {message}",
        f"{stamp} {host} kernel: {message}",
        f"6,17,{uptime_us},-;{message}",
    ):
        found = parse(text)
        assert found.message == message
        assert found.uptime_s == pytest.approx(uptime_us / 1e6)


@given(st.text(max_size=300))
def test_any_text_is_a_line(text: str) -> None:
    assert parse(text).times >= 1
    log_json.parse(text, Prefixes(NOW))


@given(
    st.dictionaries(
        st.sampled_from(
            ["MESSAGE", "log", "time", "stream", "_HOSTNAME", "__REALTIME_TIMESTAMP", "_BOOT_ID"]
        ),
        st.one_of(st.none(), st.text(), st.integers(), st.lists(st.integers(-5, 300))),
    )
)
def test_any_record_is_read_or_refused(record: dict[str, object]) -> None:
    found = log_json.parse(msgspec.json.encode(record).decode(), Prefixes(NOW))
    assert found is None or isinstance(found.message, str)
