"""The reader of kernel logs: whole documents to events, facts and notes."""

from collections import Counter
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigiron.faults import Catalogue, parse
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.kernel_log import KernelLog
from bigiron.ingest.log_scan import FindPrefilter
from bigiron.model import Event, Fact, Note, Observation

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kernel_log"
NOW = datetime(2026, 3, 10, tzinfo=UTC)
FAULTS = Catalogue(*parse((FIXTURES / "faults.toml").read_text("utf-8"), "faults.toml"))
LOG = KernelLog(FAULTS)
XID = "NVRM: Xid (PCI:0000:0b:00): 45, pid=7, name=train, Ch 00000008"


def document(name: str) -> Document:
    return Document.of(name, (FIXTURES / name).read_bytes(), NOW)


def read(data: bytes | Document, log: KernelLog = LOG) -> list[Observation]:
    return list(log.read(data if isinstance(data, Document) else Document.of("log", data, NOW)))


def events(data: bytes | Document, log: KernelLog = LOG) -> list[Event]:
    return [seen for seen in read(data, log) if isinstance(seen, Event)]


def notes(data: bytes | Document, log: KernelLog = LOG) -> dict[str, int]:
    return {seen.what: seen.count for seen in read(data, log) if isinstance(seen, Note)}


def facts(data: bytes | Document) -> list[tuple[str, str, str, object]]:
    return [(f.node, f.device, f.name, f.value) for f in read(data) if isinstance(f, Fact)]


def test_hosts_of_one_file_are_told_apart() -> None:
    found = events(document("two_hosts.syslog"))
    assert [(e.node, e.code, e.device, e.count, e.line) for e in found] == [
        ("gpu-a02", "xid.79", "0000:ab:00.0", 1, 4),
        ("gpu-a02", "nvrm.fallen_off", "0000:ab:00.0", 1, 5),
        ("gpu-a01", "ib.health_compromised", "0000:5e:00.0", 1, 7),
        ("gpu-a01", "ib.link_down", "ib3", 1, 8),
        ("gpu-a01", "kernel.soft_lockup", "", 4, 9),
        ("gpu-a02", "kernel.reboot", "", 1, 10),
    ]
    assert found[0].time == datetime(2026, 2, 27, 23, 59, 58, tzinfo=UTC)
    assert found[0].uptime_s == pytest.approx(812345.100009)
    assert found[0].source == "two_hosts.syslog"
    assert found[3].attrs["program"] == "systemd-networkd"


def test_what_people_typed_is_not_a_fault_and_zones_are_asked_for() -> None:
    assert notes(document("two_hosts.syslog")) == {
        "no time zone given: UTC assumed": 1,
        "lines that only quote a fault (sudo, audit and the like)": 1,
    }


def test_gpu_identity_is_a_fact_of_its_address() -> None:
    assert facts(document("two_hosts.syslog")) == [
        ("gpu-a02", "0000:ab:00.0", "uuid", "GPU-51c0ffee-1111-2222-3333-444455556666"),
        ("gpu-a02", "0000:ab:00.0", "serial", "1650099887766"),
        ("gpu-a01", "", "hostname", "gpu-a01"),
        ("gpu-a02", "", "hostname", "gpu-a02"),
    ]


def test_each_boot_is_one_event_with_the_time_of_its_first_line() -> None:
    found = events(document("boots.journal"))
    assert [(e.code, e.line, e.node) for e in found] == [
        ("kernel.reboot", 1, "gpu-b07"),
        ("xid.119", 4, "gpu-b07"),
        ("kernel.reboot", 5, "gpu-b07"),
    ]
    assert found[0].time == datetime(2026, 2, 10, 6, tzinfo=UTC)
    assert found[2].time == datetime(2026, 2, 11, 9, 41, 30, tzinfo=UTC)
    assert found[2].attrs == {"boot_id": "a0b1c2d3e4f5061728394a5b6c7d8e9f"}
    assert ("gpu-b07", "", "kernel", "6.8.0-55-generic") in facts(document("boots.journal"))
    assert ("gpu-b07", "", "driver_version", "570.124.06") in facts(document("boots.journal"))


def test_a_boot_mark_at_the_end_still_counts() -> None:
    found = events(b"-- Reboot --\n")
    assert [(e.code, e.node, e.time) for e in found] == [("kernel.reboot", "", None)]


def test_a_crash_dump_is_put_in_order_and_belongs_to_an_earlier_boot() -> None:
    found = events(document("crash.pstore"))
    assert [(e.code, e.line) for e in found] == [("xid.62", 8), ("kernel.panic", 4)]
    assert all(e.attrs["earlier_boot"] == "yes" for e in found)
    assert facts(document("crash.pstore")) == []


def test_two_dumps_of_one_name_stay_apart() -> None:
    one = (FIXTURES / "crash.pstore").read_bytes()
    found = events(one + one)
    assert [e.code for e in found] == ["xid.62", "kernel.panic"] * 2
    assert [e.line for e in found] == [8, 4, 16, 12]


def test_fabric_managers_own_log() -> None:
    found = events(document("fabricmanager.log"))
    assert [(e.code, e.device) for e in found] == [
        ("fm.nvswitch_nonfatal", "0000:07:00.0"),
        ("fm.error", ""),
    ]
    assert found[0].attrs["link"] == "33"
    assert found[0].time == datetime(2026, 3, 3, 8, 15, 12, tzinfo=UTC)


def test_journal_export_with_bytes_nulls_and_a_new_boot() -> None:
    found = events(document("export.journal.json"))
    assert [(e.code, e.node) for e in found] == [
        ("xid.94", "gpu-c3"),
        ("xid.79", "gpu-c3"),
        ("kernel.reboot", "gpu-c3"),
        ("kernel.hung_task", "gpu-c3"),
    ]
    assert found[0].time == datetime(2026, 3, 1, 0, 0, 0, 123456, tzinfo=UTC)
    assert found[0].uptime_s == pytest.approx(899.000001)
    assert found[2].attrs["boot_id"].startswith("9999")


def test_other_json_is_counted_not_read() -> None:
    data = b'{"line": "' + XID.encode() + b'"}\n{"broken": "' + XID.encode()
    assert events(data) == []
    assert notes(data) == {"JSON lines that are no log records": 2}


def test_a_kmsg_records_dictionary_is_not_a_message() -> None:
    data = b"3,1,5000000,-;nvme nvme1: I/O tag 2 timeout\n SUBSYSTEM=nvme\n X=soft lockup\n"
    found = events(data)
    assert [(e.code, e.device, e.uptime_s, e.time) for e in found] == [
        ("nvme.timeout", "nvme1", 5.0, None)
    ]


def test_bad_bytes_nuls_and_carriage_returns_cost_nothing() -> None:
    data = b"\xef\xbb\xbf\0\0\0[ 5.0] NVRM: Xid (PCI:0000:0b:00): 31, \xff\xfe odd\r\n[ 6.0] x\r\n"
    found = events(data)
    assert [(e.code, e.uptime_s) for e in found] == [("xid.31", 5.0)]
    assert "\ufffd" in found[0].text
    assert not found[0].text.endswith("\r")


def test_an_unreadable_xid_is_noted() -> None:
    assert notes(b"NVRM: Xid (PCI:0000:0b:00): abc, pid=4\n") == {
        "Xid lines whose number cannot be read": 1
    }


def test_a_line_too_long_is_cut_and_noted() -> None:
    data = b"[ 1.0] " + XID.encode() + b" " + b"x" * 1_100_000 + b"\n[ 2.0] " + XID.encode()
    assert [e.line for e in events(data)] == [1, 2]
    assert all(len(e.text) <= 2000 for e in events(data))
    assert notes(data) == {"lines longer than 1,048,576 bytes, cut": 1}


def test_a_storm_is_counted_to_the_last_one() -> None:
    log = KernelLog(FAULTS, storm_cap=10)
    line = "[ {}.0] " + XID + "\n"
    other = "[ 5.5] NVRM: Xid (PCI:0000:0c:00): 45, pid=7, name=train, Ch 00000008\n"
    data = ("".join(line.format(i) for i in range(1, 1001)) + other).encode()
    found = events(data, log)
    assert Counter({e.device: e.count for e in found[-2:]})["0000:0b:00.0"] == 991
    assert sum(e.count for e in found if e.device == "0000:0b:00.0") == 1000
    assert sum(e.count for e in found if e.device == "0000:0c:00.0") == 1
    assert len(found) == 11
    assert found[-1].line == 1000
    assert found[-1].uptime_s == 1000.0
    assert list(notes(data, log).values()) == [991]


def test_repeats_within_a_storm_are_counted_too() -> None:
    log = KernelLog(FAULTS, storm_cap=2)
    line = b"Mar  1 00:00:00 n1 kernel: message repeated 3 times: [ " + XID.encode() + b"]\n"
    assert sum(e.count for e in events(line * 5, log)) == 15


def test_every_chunk_size_tells_the_same() -> None:
    data = b"".join(path.read_bytes() for path in sorted(FIXTURES.glob("*.*")))
    whole = read(data)
    assert len(whole) > 20
    for size in [*range(1, 90), 127, 128, 1000, len(data) - 1, len(data), len(data) + 1]:
        assert read(data, KernelLog(FAULTS, search=LOG.search, chunk_bytes=size)) == whole, size


def test_without_re2_the_same_is_told() -> None:
    plain = KernelLog(FAULTS, search=FindPrefilter(LOG.knowledge.gates))
    for path in FIXTURES.iterdir():
        assert read(path.read_bytes(), plain) == read(path.read_bytes())


def test_a_document_is_streamed() -> None:
    largest = 0

    class Watched(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            nonlocal largest
            assert size is not None
            largest = max(largest, size)
            return super().read(size)

    data = (b"[ 1.0] quiet\n" * 1000 + b"[ 2.0] " + XID.encode() + b"\n") * 50
    log = KernelLog(FAULTS, chunk_bytes=10_000)
    found = list(log.read(Document("log", NOW, lambda: Watched(data))))
    assert sum(isinstance(seen, Event) for seen in found) == 50
    assert largest == 10_000


@pytest.mark.parametrize(
    ("name", "low"),
    [
        ("two_hosts.syslog", 0.75),
        ("boots.journal", 0.9),
        ("crash.pstore", 0.9),
        ("fabricmanager.log", 0.9),
        ("export.journal.json", 0.7),
    ],
)
def test_logs_are_recognised(name: str, low: float) -> None:
    assert LOG.sniff(Head.of(document(name))) >= low


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\nworld\n",
        '{"line": "NVRM: Xid (PCI:0000:0b:00): 45"}\n{"line": "x"}\n',
        '{"schemaVersion": 1, "gpus": []}',
        '[\n {"a": "BUG: soft lockup"}\n]',
        '# HELP up x\n# TYPE up gauge\nup{job="a"} 1\nDCGM_FI_DEV_XID_ERRORS{gpu="0"} 79\n',
        "timestamp, name, temperature.gpu\n2026/03/01 00:00:00.000, NVIDIA H100, 45\n",
        "time,node,state\n2026-03-01T00:00:00Z,n1,idle\n2026-03-01T00:01:00Z,n2,idle\n",
        "JobID|User|State|Start\n17|trainer|FAILED|2026-03-01T00:00:00\n",
        "NodeName=n1 Arch=x86_64 CoresPerSocket=32\n   State=IDLE+DRAIN\n",
        '<?xml version="1.0" ?>\n<nvidia_smi_log>\n</nvidia_smi_log>\n',
        "apiVersion: v1\ndata:\n  rules.json: |\n    {\n"
        '      "reason": "FilesystemIsReadOnly",\n'
        '      "pattern": "Remounting filesystem read-only"\n    }\n',
        "package main\n\nfunc TestPanic() {\n"
        '\tline := "Kernel panic - not syncing: hung_task: blocked tasks",\n'
        "\tif got(line) {\n\t}\n}\n",
    ],
)
def test_other_tools_outputs_are_not_logs(text: str) -> None:
    assert LOG.sniff(Head("x", text.encode(), text)) == 0.0


def test_bare_messages_that_mean_a_fault_are_probably_a_log() -> None:
    for text in (XID, f' * "{XID}"', "BUG: soft lockup - CPU#1 stuck for 22s!", "NVRM: hello"):
        assert LOG.sniff(Head("x", text.encode(), text)) == 0.6


def test_the_reader_is_registered_with_the_shipped_catalogue() -> None:
    shipped = reader["kernel_log"].run()
    found = [
        seen
        for seen in shipped.read(Document.of("x", b"[ 1.0] " + XID.encode(), NOW))
        if isinstance(seen, Event)
    ]
    assert [e.code for e in found] == ["xid.45"]


PIECES = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [
            b"\n",
            b"[ 1.0] ",
            XID.encode(),
            b"Xid (",
            b"-- Boot 0123456789abcdef0123456789abcdef --\n",
            b"Panic#1 Part2\n",
            b'{"MESSAGE":[',
            b"soft lockup",
            b"GPU at PCI:",
            b"Linux version 6.1\n",
            b"Mar  1 00:00:00 n1 kernel: ",
        ]
    ),
)


@settings(max_examples=200)
@given(st.lists(PIECES, max_size=25).map(b"".join), st.integers(1, 64))
def test_any_bytes_are_read_whatever_the_chunks(data: bytes, chunk: int) -> None:
    LOG.sniff(Head("x", data, data.decode("utf-8", "replace")))
    assert read(data, KernelLog(FAULTS, search=LOG.search, chunk_bytes=chunk)) == read(data)


@given(st.integers(0, 9999), st.integers(0, 255), st.sampled_from(["kmsg", "iso", "dmesg"]))
def test_an_event_written_as_a_line_is_read_back(number: int, bus: int, form: str) -> None:
    message = f"NVRM: Xid (PCI:0000:{bus:02x}:00): {number}, pid=1, name=a, words"
    line = {
        "kmsg": f"3,9,{number}000001,-;{message}",
        "iso": f"2026-03-01T00:00:{number % 60:02d}.000001+00:00 n1 kernel: {message}",
        "dmesg": f"[{number:5d}.000001] {message}",
    }[form]
    (found,) = events(line.encode())
    assert found.text == message
    assert found.code == f"xid.{number}"
    assert found.device == f"0000:{bus:02x}:00.0"
