"""Captures and bug reports taken apart; no cut and no noise ends in a traceback."""

import gzip
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigiron.errors import ParseError
from bigiron.faults import catalogue
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.model import (
    CheckResult,
    CheckStatus,
    Device,
    Event,
    Fact,
    Node,
    Note,
    Observation,
    Sample,
)
from bigiron.signals import SIGNALS

FIXTURES = Path(__file__).parent.parent / "fixtures" / "nvidia"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
OURS = sorted(p.name for p in reader if p.name.startswith(("nvidia_", "dcgmi_")))
FILES = {path.name: path.read_bytes() for path in sorted(FIXTURES.iterdir())}


def best(document: Document) -> Reader:
    head = Head.of(document)
    readers = [(reader[name].run().sniff(head), name) for name in OURS]
    return reader[max(readers)[1]].run()


def read(name: str, data: bytes | None = None) -> list[Observation]:
    document = Document.of(name, FILES[name] if data is None else data, NOW)
    return list(best(document).read(document))


def test_a_capture_is_read_part_by_part_under_one_name() -> None:
    seen = read("bundle.txt")
    found = [o for o in seen if isinstance(o, Device)]
    assert [(d.name, d.bus, d.model) for d in found] == [("gpu0", "0000:9b:00.0", "NVIDIA L40S")]
    values = [(o.device, o.metric, o.value) for o in seen if isinstance(o, Sample)]
    assert ("gpu0", "gpu_temp_celsius", 66.0) in values
    assert ("gpu0", "gpu_processes", 2.0) in values
    assert ("gpu0", "gpu_power_watts", 312.0) in values
    unread = [o for o in seen if isinstance(o, Note)]
    assert [(o.count, "plain list of fields" in o.what) for o in unread] == [(1, True)]


def test_a_bug_report_gives_kernel_log_and_failures_on_one_device() -> None:
    seen = read("bug-report.log")
    assert [o.name for o in seen if isinstance(o, Node)] == ["gpu-a17"]
    told = {(o.code, o.device, o.node) for o in seen if isinstance(o, Event)}
    assert ("nvrm.gpu_lost", "gpu3", "gpu-a17") in told
    assert ("xid.79", "gpu3", "gpu-a17") in told
    xid = next(o for o in seen if isinstance(o, Event) and o.code == "xid.79")
    lines = FILES["bug-report.log"].decode().splitlines()
    assert "Xid" in lines[xid.line - 1]


def test_a_gzipped_bug_report_is_unpacked_even_when_cut() -> None:
    packed = gzip.compress(FILES["bug-report.log"])
    halves = [gzip.compress(part) for part in (FILES["bug-report.log"][:900],)]
    assert any(isinstance(o, Event) and o.code == "xid.79" for o in read("r.log.gz", packed))
    seen = read("r.log.gz", halves[0] + gzip.compress(FILES["bug-report.log"][900:])[:-20])
    assert any(isinstance(o, Note) and "cut short" in o.what for o in seen)


def checked(data: bytes, format_: str) -> Iterator[Observation]:
    document = Document.of("cut", data, NOW)
    yield from reader[format_].run().read(document)


def format_of(name: str) -> str:
    head = Head.of(Document.of(name, FILES[name], NOW))
    return max((reader[one].run().sniff(head), one) for one in OURS)[1]


FORMATS = {name: format_of(name) for name in FILES}


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.floats(0, 1))
def test_a_document_cut_anywhere_is_read_or_refused(name: str, share: float) -> None:
    data = FILES[name][: int(len(FILES[name]) * share)]
    whole = list(checked(FILES[name], FORMATS[name]))
    try:
        seen = list(checked(data, FORMATS[name]))
    except ParseError:
        return
    assert len(seen) <= len(whole) + 5
    assert _passes(seen) <= _passes(whole)


def _passes(seen: list[Observation]) -> set[tuple[str, str]]:
    results = [o for o in seen if isinstance(o, CheckResult)]
    return {(o.check, o.device) for o in results if o.status is CheckStatus.PASS}


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_damaged_bytes_never_end_in_a_traceback(name: str, data: st.DataObject) -> None:
    damaged = bytearray(FILES[name])
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        seen = list(checked(bytes(damaged), FORMATS[name]))
    except ParseError:
        return
    assert all(o.value == o.value for o in seen if isinstance(o, Sample))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(OURS), st.text(max_size=400))
def test_any_text_is_read_or_refused(format_: str, text: str) -> None:
    try:
        seen = list(checked(text.encode("utf-8", "surrogatepass"), format_))
    except ParseError:
        return
    assert all(isinstance(o, Observation) for o in seen)


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_observation_is_in_the_catalogues(name: str) -> None:
    for one in read(name):
        if isinstance(one, Event | CheckResult) and one.code:
            assert catalogue().find(one.code)
        if isinstance(one, Sample):
            assert one.metric in SIGNALS
            assert abs(one.value) < 1e18
            assert one.device
        if isinstance(one, Fact):
            assert one.value != ""


HOSTILE = {
    "blanks": " " * 300_000 + "x",
    "links": "GPU 0: X (UUID: GPU-1)\n Link 0: a" + " " * 300_000 + "\n" * 3,
    "prompts": ("$ nvidia-smi " + " " * 20_000 + "x\n") * 50,
    "commands": "nvidia-smi " * 30_000,
    "bars": "|" * 300_000 + "\n| Diagnostic | Result |\n" + "|" + " " * 300_000 + "x\n",
    "brackets": '{"DCGM Diagnostic": [' + "[{" * 100_000,
    "header": "index, temperature.gpu\n" + "[" * 200_000 + "\n" + "1, 2\n" * 20_000,
    "rules": ("_" * 30 + "\nStart of NVIDIA bug report log file\n") * 5_000,
    "tree": "+---+\n| NVLINK Error Counts |\n+===+===+\n" + "| -> x | 1 |\n" * 20_000,
    "xml": "<nvidia_smi_log>" + "<a>x</a>" * 100_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    document = Document.of("hostile", text.encode(), NOW)
    head = Head.of(document)
    began = time.process_time()
    for format_ in OURS:
        assert 0 <= reader[format_].run().sniff(head) <= 1
        try:
            assert len(list(reader[format_].run().read(document))) < 200_000
        except ParseError:
            continue
    assert time.process_time() - began < 20
