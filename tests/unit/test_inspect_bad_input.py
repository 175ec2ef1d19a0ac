"""Whatever a person hands over: no traceback, no hang, bounded memory, and a note that says why."""

import bz2
import gzip
import io
import json
import lzma
import os
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigiron.cli.report import show
from bigiron.hub.documents import Documents
from bigiron.hub.inspect import Report, inspect
from bigiron.hub.recognise import read_one
from bigiron.ingest import Document, Head, Reader
from bigiron.model import Event, Note, Observation

LOST = b"NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=python3, GPU has fallen off the bus.\n"
LINE = b"Mar  2 16:24:18 g1 kernel: " + LOST
MAX_KB = 300_000
MAX_S = 10.0


def look(*paths: Path, now: datetime | None = None) -> Report:
    return inspect([str(path) for path in paths], Documents(), now)


def told(report: Report) -> str:
    return "\n".join(f"{note.source}: {note.what}" for note in report.notes)


def faults(report: Report) -> list[str]:
    return [f"{f.fault} {f.subject.key}" for d in report.diagnoses for f in d.findings]


# --- bytes


def test_broken_utf8_costs_its_characters_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_bytes(b"\xff\xfe\x80\n" + LINE + b"\xc3\x28 \x00 tail\xed\xa0\n")
    assert faults(look(tmp_path / "kern.log")) == ["xid.79 g1/0000:9b:00.0"]


def test_binary_and_empty_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "nothing").touch()
    report = look(tmp_path)
    assert report.exit_code == 3
    assert "core: binary: not recognised" in told(report)
    assert "nothing: empty" in told(report)


def test_a_proxys_error_page_is_called_one(tmp_path: Path) -> None:
    page = "<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1>nginx</body></html>"
    (tmp_path / "metrics.prom").write_text(page)
    report = look(tmp_path)
    assert report.exit_code == 3
    assert "an HTML page, perhaps a proxy's error page" in told(report)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=600), st.sampled_from(sorted(["", "{", "<", "NVRM: Xid (", "[RESULT]"])))
def test_no_bytes_break_it(data: bytes, head: str) -> None:
    report = inspect(["-"], Documents(stdin=lambda: io.BytesIO(head.encode() + data)))
    assert report.exit_code in (0, 1, 2, 3)
    assert not [note for note in report.notes if "failed" in note.what]


# --- packed


def test_a_log_in_every_packing_is_read(tmp_path: Path) -> None:
    for name, packed in (
        ("a.gz", gzip.compress(LINE)),
        ("b.bz2", bz2.compress(LINE)),
        ("c.xz", lzma.compress(LINE)),
    ):
        (tmp_path / name).write_bytes(packed)
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr("var/log/kern.log", LINE)
    report = look(tmp_path)
    assert report.notes == () or all("zone" in note.what for note in report.notes)
    assert [seen.format for seen in report.seen] == ["kernel_log"] * 4


def test_an_archive_cut_off_gives_what_it_still_holds(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in (("kern.log", LINE * 50), ("big", os.urandom(200_000))):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    (tmp_path / "bundle.tgz").write_bytes(out.getvalue()[:100_000])
    report = look(tmp_path / "bundle.tgz")
    assert faults(report) == ["xid.79 g1/0000:9b:00.0"]
    assert "cut off or damaged" in told(report)


def test_archives_nested_without_end_are_given_up(tmp_path: Path) -> None:
    data = LINE
    for _ in range(12):
        data = gzip.compress(data)
    (tmp_path / "deep.gz").write_bytes(data)
    report = look(tmp_path / "deep.gz")
    assert report.exit_code == 3
    assert "archives nested deeper than 8 are not opened" in told(report)


# --- the file system


def test_a_directory_loop_is_entered_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "kern.log").write_bytes(LINE)
    (tmp_path / "in" / "again").symlink_to(tmp_path)
    report = look(tmp_path)
    assert faults(report) == ["xid.79 g1/0000:9b:00.0"]
    assert "a directory loop, not entered again" in told(report)


def test_what_cannot_be_read_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_bytes(LINE)
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    (tmp_path / "ring").symlink_to(tmp_path / "ring")
    (tmp_path / "memory").symlink_to("/proc/self/mem")  # opens, and fails when it is read
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        report = look(tmp_path)
    assert faults(report) == ["xid.79 g1/0000:9b:00.0"]
    notes = {Path(note.source).name: note.what for note in report.notes}
    assert notes["dangling"] == "cannot be read: No such file or directory"
    assert notes["ring"] == "cannot be read: Too many levels of symbolic links"
    assert notes["memory"].startswith("cannot be read: ")
    assert notes["pipe"].startswith("not a regular file")
    assert notes["sock"].startswith("not a regular file")


# --- numbers and clocks


def test_numbers_that_are_none_accuse_nobody(tmp_path: Path) -> None:
    (tmp_path / "m.prom").write_text(
        "# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
        'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",Hostname="g1"} NaN\n'
        'DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-2",Hostname="g1"} +Inf\n'
        'DCGM_FI_DEV_GPU_TEMP{gpu="2",UUID="GPU-3",Hostname="g1"} -Inf\n'
        'DCGM_FI_DEV_GPU_TEMP{gpu="3",UUID="GPU-4",Hostname="g1"} 9223372036854775794\n'
        "# TYPE DCGM_FI_DEV_ROW_REMAP_FAILURE gauge\n"
        'DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="0",UUID="GPU-1",Hostname="g1"} NaN\n'
    )
    report = look(tmp_path / "m.prom")
    assert (report.exit_code, faults(report)) == (0, [])


def test_a_series_told_twice_is_one(tmp_path: Path) -> None:
    sample = 'DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="0",UUID="GPU-1",Hostname="g1"} 1\n'
    page = "# TYPE DCGM_FI_DEV_ROW_REMAP_FAILURE gauge\n" + sample * 5
    (tmp_path / "m.prom").write_text(page)
    assert faults(look(tmp_path / "m.prom")) == ["gpu.row_remap_failure g1/gpu0"]


def test_clocks_that_disagree_lose_nothing(tmp_path: Path) -> None:
    now = datetime(2026, 3, 2, 12, tzinfo=UTC)
    ahead = (now + timedelta(days=400)).isoformat()
    (tmp_path / "ahead.log").write_bytes(f"{ahead} g1 kernel: ".encode() + LOST)
    (tmp_path / "uptime.log").write_bytes(b"[  77.5] g2 kernel: " + LOST)
    old = LINE.replace(b"g1", b"g3")
    (tmp_path / "old.log").write_bytes(old)
    os.utime(tmp_path / "old.log", (0, 0))
    report = look(tmp_path, now=now)
    assert sorted(faults(report)) == [f"xid.79 g{n}/0000:9b:00.0" for n in (1, 2, 3)]


# --- readers that fail


class Broken:
    """A reader that is sure of everything and breaks where it is told to."""

    def __init__(self, at: str) -> None:
        self._at = at

    def sniff(self, head: Head) -> float:
        if self._at == "sniff":
            raise ZeroDivisionError(head.name)
        return 1.0

    def read(self, document: Document) -> Iterator[Observation]:
        yield Event("g9", "xid.31", "one before it broke", source=document.name)
        raise RecursionError("too\ndeep")


class Whole:
    """One that knows it less surely and reads it."""

    def sniff(self, head: Head) -> float:
        return 0.5 if head.data else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        yield Event("g9", "xid.79", "read", source=document.name)


def _read(*known: tuple[str, Reader]) -> tuple[list[Observation], list[str]]:
    notes: list[Note] = []
    document = Document.of("x.log", b"x", datetime(2026, 1, 1, tzinfo=UTC))
    reading = read_one(document, known, notes)
    assert reading is not None
    return reading.observations, [note.what for note in notes]


def test_a_reader_that_breaks_off_keeps_what_it_read() -> None:
    seen, notes = _read(("broken", Broken("read")), ("whole", Whole()))
    assert [o.code for o in seen if isinstance(o, Event)] == ["xid.31"]
    assert notes == ["reader broken failed on it: RecursionError: too deep"]


def test_a_reader_that_fails_to_recognise_leaves_it_to_the_others() -> None:
    seen, notes = _read(("broken", Broken("sniff")), ("whole", Whole()))
    assert [o.code for o in seen if isinstance(o, Event)] == ["xid.79"]
    assert notes == ["reader broken failed on it: ZeroDivisionError: x.log"]


# --- size, each in a process of its own


TOLD = """
import re, sys
from bigiron.cli import main
try:
    main()
finally:
    with open("/proc/self/status") as status:
        print("VmHWM", re.search(r"VmHWM:\\s+(\\d+)", status.read())[1])
"""
"""Runs the command and tells its own peak: what the parent held before exec is not counted."""


def _run(path: Path) -> tuple[int, str, float, int]:
    """Exit code, output, seconds and the most memory in KB of `bigiron inspect PATH`."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", TOLD, "inspect", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    text, _, peak = done.stdout.decode().rpartition("VmHWM")
    return done.returncode, text, time.monotonic() - began, int(peak)


MB = 1 << 20
LONG = {
    "letters": (b"", b"a", b"", 3),
    "kernel log": (LINE.rstrip(), b"x", b"", 2),
    "JSON": (b'{"smartctl": {}, "device": "', b"y", b'"}', 3),
    "exporter page": (
        b'# TYPE DCGM_FI_DEV_GPU_TEMP gauge\nDCGM_FI_DEV_GPU_TEMP{gpu="',
        b"0",
        b"",
        3,
    ),
    "XML": (b"<?xml version='1.0'?><nvidia_smi_log><timestamp>", b"1", b"", 3),
    "table": (b"JobID|State|User|", b"z", b"", 3),
}


@pytest.mark.parametrize("form", LONG)
def test_one_line_of_100_mb_is_bounded(tmp_path: Path, form: str) -> None:
    head, fill, tail, code = LONG[form]
    path = tmp_path / "long"
    with path.open("wb") as file:
        file.write(head)
        for _ in range(100):
            file.write(fill * MB)
        file.write(tail)
    returned, text, seconds, peak_kb = _run(path)
    assert (returned, "Traceback" in text) == (code, False)
    assert (seconds < MAX_S, peak_kb < MAX_KB) == (True, True), (seconds, peak_kb)


def test_a_bomb_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(400):
            file.write(bytes(MB))
    returned, text, seconds, peak_kb = _run(path)
    assert returned == 3
    assert "expands more than 400 times: the rest is cut" in text
    assert (seconds < 2 * MAX_S, peak_kb < MAX_KB) == (True, True), (seconds, peak_kb)


def test_a_thousand_files_are_read_in_one_go(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"g{number:03d}.log").write_bytes(LINE.replace(b"g1", b"g%03d" % number))
    returned, text, seconds, peak_kb = _run(tmp_path)
    assert returned == 2
    assert "read 1,000 files: kernel_log" in text
    assert (seconds < 3 * MAX_S, peak_kb < MAX_KB) == (True, True), (seconds, peak_kb)


def test_a_pipe_that_closes_early_is_no_error(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"g{number:03d}.log").write_bytes(LINE.replace(b"g1", b"g%03d" % number))
    script = f"{sys.executable} -m bigiron inspect {tmp_path} | head -1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"g000  unhealthy")


def test_control_characters_of_a_log_reach_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kern.log").write_bytes(LINE.rstrip() + b"\x1b]0;own\x07\xff\n")
    report = look(tmp_path)
    show(report)
    text = capsys.readouterr().out
    assert "\ufffd]0;own\ufffd\ufffd" in text
    assert not any(c in text for c in "\x1b\x07")
    done = subprocess.run(
        [sys.executable, "-m", "bigiron", "inspect", "--json", str(tmp_path)],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert json.loads(done.stdout)["exit_code"] == 2
