"""Shapes that tools write now and then: a ping, a table of reasons only, a report's own date."""

import json
from datetime import UTC, datetime

import pytest

from bigiron.ingest import Document, Head, Reader, reader
from bigiron.ingest.dcgm_errors import NAMES, by_text
from bigiron.model import CheckResult, CheckStatus, Event, Observation, Sample

NOW = datetime(2026, 11, 30, tzinfo=UTC)
RULE = "_" * 44


def read(format_: str, text: str) -> list[Observation]:
    document = Document.of("unseen", text.encode(), NOW)
    found: Reader = reader[format_].run()
    assert found.sniff(Head.of(document)) >= 0.3
    return list(found.read(document))


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [("UP", CheckStatus.PASS, ""), ("DOWN", CheckStatus.FAIL, "slurm.controller_down")],
)
def test_a_ping_tells_of_the_controller(said: str, status: CheckStatus, code: str) -> None:
    text = json.dumps(
        {
            "pings": [{"hostname": "ctl-1", "pinged": said, "latency": 900, "mode": "primary"}],
            "meta": {"slurm": {"release": "24.05.3"}},
        }
    )
    (result,) = (o for o in read("slurm_json", text) if isinstance(o, CheckResult))
    assert (result.node, result.status, result.code) == ("ctl-1", status, code)


@pytest.mark.parametrize("word", ["throttle", "event"])
def test_a_table_of_clock_reasons_alone_is_known(word: str) -> None:
    text = (
        f"index, clocks_{word}_reasons.active, clocks_{word}_reasons.hw_thermal_slowdown\n"
        "0, 0x0000000000000001, Not Active\n"
        "1, 0x0000000000000048, Active\n"
    )
    masks = {
        s.device: s.value
        for s in read("nvidia_smi_csv", text)
        if isinstance(s, Sample) and s.metric == "gpu_clock_event_reasons"
    }
    assert masks == {"gpu0": 0x1, "gpu1": 0x48}


@pytest.mark.parametrize(
    ("date", "hour"),
    [
        ("Date: Tue Mar  5 09:00:00 UTC 2024", 8),
        ("Date: Tue Mar  5 09:00:00 AM CET 2024", 8),
        ("Date: yesterday", 8),
    ],
)
def test_a_bug_reports_own_date_tells_its_logs_year(date: str, hour: int) -> None:
    text = (
        f"{RULE}\n\nStart of NVIDIA bug report log file.  Please include this file\n\n{date}\n"
        f"uname: Linux gpu042 5.15.0-91-generic x86_64\n\n{RULE}\n\njournalctl -b -0:\n\n"
        "Mar 05 08:40:01 gpu042 kernel: NVRM: Xid (PCI:0000:5e:00): 79, pid=1, GPU has fallen "
        f"off the bus.\n\n{RULE}\n"
    )
    (event,) = (o for o in read("nvidia_bug_report", text) if isinstance(o, Event))
    assert event.time is not None
    assert event.time.year == (2024 if "2024" in date else 2026)
    assert event.time.hour == hour


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("A pending retired page has been detected on GPU 3.", "PENDING_PAGE_RETIREMENTS"),
        ("GPU 3 Detected a DBE. Drain the GPU and reset it.", "VOLATILE_DBE_DETECTED"),
    ],
)
def test_dcgm_messages_without_a_number(message: str, name: str) -> None:
    number = by_text(message)
    assert number is not None
    assert NAMES[number] == name
