"""A growing log followed by a cursor: no line lost or doubled, whatever happens to the file."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigiron.errors import Permanent, Temporary
from bigiron.faults import Catalogue, parse
from bigiron.ingest.kernel_log import KernelLog
from bigiron.ingest.log_follow import LogFile
from bigiron.model import Batch

TOML = Path(__file__).parents[1] / "fixtures" / "kernel_log" / "faults.toml"
READER = KernelLog(Catalogue(*parse(TOML.read_text("utf-8"), "faults.toml")))
NOW = datetime(2026, 3, 10, tzinfo=UTC)


def line(number: int, time: datetime = NOW) -> str:
    """A log line with a fault whose number tells it from all others."""
    return f"{time.isoformat()} n1 kernel: NVRM: Xid (PCI:0000:0b:00): {number}, pid=1\n"


class Log:
    """A log in a folder, its writer and the one that follows it."""

    def __init__(self, folder: Path, **options: int | float | str) -> None:
        self.path = folder / "kern.log"
        self.source = LogFile(self.path, reader=READER, now=lambda: NOW, **options)  # type: ignore[arg-type]
        self.cursor = ""
        self.seen: list[int] = []
        self.notes: list[str] = []
        self._clock_ns = 1_700_000_000_000_000_000

    def write(self, text: str | bytes) -> None:
        with self.path.open("ab") as file:
            file.write(text.encode() if isinstance(text, str) else text)
        self._touch(self.path)

    def _touch(self, path: Path) -> None:
        """Every write a second after the last: a file system's clock may be coarser than a test."""
        self._clock_ns += 1_000_000_000
        os.utime(path, ns=(self._clock_ns, self._clock_ns))

    def poll(self) -> Batch:
        batch, self.cursor = self.source.poll(self.cursor)
        self.seen += [int(event.code.removeprefix("xid.")) for event in batch.events]
        self.notes += [note.what for note in batch.notes]
        return batch

    def rename(self) -> None:
        """Rotate as logrotate does: the oldest moves first."""
        older = sorted(self.path.parent.glob("kern.log.*"), key=lambda p: -int(p.suffix[1:]))
        for path in older:
            path.rename(path.with_suffix(f".{int(path.suffix[1:]) + 1}"))
        self.path.rename(self.path.with_name("kern.log.1"))

    def copytruncate(self) -> None:
        shutil.copyfile(self.path, self.path.with_name("kern.log.1"))
        self._touch(self.path.with_name("kern.log.1"))
        os.truncate(self.path, 0)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_reads_what_is_there_and_then_what_is_new(log: Log) -> None:
    log.write(line(1) + line(2))
    batch = log.poll()
    assert log.seen == [1, 2]
    assert [event.line for event in batch.events] == [1, 2]
    assert batch.time == NOW
    assert batch.events[0].source == str(log.path)
    assert log.poll().events == ()
    log.write(line(3))
    assert [event.line for event in log.poll().events] == [3]
    assert log.seen == [1, 2, 3]


def test_a_line_without_its_end_waits(log: Log) -> None:
    whole = line(1)
    log.write(whole[:40])
    log.poll()
    log.write(whole[40:-1])
    log.poll()
    assert log.seen == []
    log.write("\n")
    log.poll()
    assert log.seen == [1]


def test_the_same_cursor_gives_the_same_batch(log: Log) -> None:
    log.write(line(1))
    log.poll()
    log.write(line(2) + line(3))
    first = log.source.poll(log.cursor)
    again = LogFile(log.path, reader=READER, now=lambda: NOW).poll(log.cursor)
    assert first == again
    assert [event.code for event in first[0].events] == ["xid.2", "xid.3"]


def test_an_absent_file_is_asked_for_again(log: Log) -> None:
    with pytest.raises(Temporary, match="no such file"):
        log.poll()
    log.write(line(1))
    log.poll()
    assert log.seen == [1]


def test_an_absent_folder_is_asked_for_again(tmp_path: Path) -> None:
    with pytest.raises(Temporary):
        LogFile(tmp_path / "nowhere" / "kern.log", reader=READER).poll("")


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="a folder"):
        LogFile(tmp_path, reader=READER).poll("")


def test_a_foreign_cursor_is_refused(log: Log) -> None:
    log.write(line(1))
    with pytest.raises(Permanent, match="not a cursor"):
        log.source.poll("what is this")


def test_rotation_by_renaming_finishes_the_old_file_first(log: Log) -> None:
    log.write(line(1))
    log.poll()
    log.write(line(2) + line(3)[:-1])
    log.rename()
    log.poll()
    assert log.seen == [1, 2]
    log.write(line(4))
    log.poll()
    assert log.seen == [1, 2, 3, 4]
    log.write(line(5))
    log.poll()
    assert log.seen == [1, 2, 3, 4, 5]
    assert log.notes == []


def test_a_writer_that_still_holds_the_renamed_file_loses_nothing(log: Log) -> None:
    log.write(line(1))
    log.poll()
    with log.path.open("a") as held:
        log.rename()
        log.path.touch()
        log.poll()
        held.write(line(2))
    log.poll()
    log.write(line(3))
    log.poll()
    assert log.seen == [1, 2, 3]


def test_several_rotations_between_two_polls(log: Log) -> None:
    log.write(line(1))
    log.poll()
    for number in (2, 4, 6):
        log.write(line(number))
        log.rename()
        log.write(line(number + 1))
    log.poll()
    assert log.seen == [1, 2, 3, 4, 5, 6, 7]


def test_rotation_by_copying_and_emptying(log: Log) -> None:
    log.write(line(1))
    log.poll()
    log.write(line(2))
    log.copytruncate()
    log.poll()
    assert log.seen == [1, 2]
    log.write(line(3))
    log.poll()
    assert log.seen == [1, 2, 3]
    assert log.notes == []


def test_emptied_and_grown_past_the_old_place_before_the_next_poll(log: Log) -> None:
    log.write(line(1))
    log.poll()
    log.write(line(2))
    log.copytruncate()
    log.write("".join(line(number) for number in range(3, 9)))
    log.poll()
    assert log.seen == [1, 2, 3, 4, 5, 6, 7, 8]


def test_what_was_thrown_away_is_told(log: Log) -> None:
    log.write(line(1) + line(2))
    log.poll()
    log.path.unlink()
    log.write(line(3))
    log.poll()
    assert log.seen == [1, 2, 3]
    assert log.notes == ["log replaced before all of it was read"]


def test_a_missing_file_after_it_was_thrown_away(log: Log) -> None:
    log.write(line(1))
    log.poll()
    log.path.unlink()
    with pytest.raises(Temporary):
        log.poll()


def test_other_files_beside_it_are_not_its_past(log: Log) -> None:
    for name in ("kern.log.bak", "kern.logs.1", "other.log.1", "kern.log.1.gz"):
        log.path.with_name(name).write_text(line(9))
    log.write(line(1))
    log.poll()
    assert log.seen == [1]


def test_look_back_of_the_first_start(tmp_path: Path) -> None:
    log = Log(tmp_path, since_s=3600.0)
    log.write(line(1, NOW - timedelta(hours=2)) + line(2, NOW - timedelta(minutes=5)))
    log.poll()
    assert log.seen == [2]
    left = "events from before the first look-back, left out"
    assert log.notes == [left]
    log.write(line(3, NOW - timedelta(hours=3)) + line(4))
    log.poll()
    assert log.seen == [2, 4]
    assert log.notes == [left, left]


def test_lines_without_a_host_are_the_nodes(tmp_path: Path) -> None:
    log = Log(tmp_path, node="n9")
    log.write("[ 1.0] NVRM: Xid (PCI:0000:0b:00): 31, pid=1\n" + line(2))
    assert [event.node for event in log.poll().events] == ["n9", "n1"]


def test_a_backlog_takes_several_polls(tmp_path: Path) -> None:
    log = Log(tmp_path, poll_bytes=200)
    log.write("".join(line(number) for number in range(1, 30)))
    polls = 0
    while log.poll().events:
        polls += 1
    assert log.seen == list(range(1, 30))
    assert polls > 10


def test_a_line_longer_than_a_poll_does_not_stop_it(tmp_path: Path) -> None:
    log = Log(tmp_path, poll_bytes=100)
    log.write(line(1)[:-1] + "x" * 500 + "\n" + line(2))
    for _ in range(20):
        log.poll()
    assert log.seen == [1, 2]


def test_an_endless_line_is_told_once_and_passed_over(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(line(1)[:-1] + "x" * 1_200_000)
    log.poll()
    assert log.seen == [1]
    log.write("y" * 500_000)
    log.poll()
    log.write(line(7)[:-1] + "\n" + line(2))
    assert [event.line for event in log.poll().events] == [2]
    assert log.seen == [1, 2]
    assert log.notes == ["lines longer than 1,048,576 bytes, cut"]


STEPS = st.lists(
    st.sampled_from(["write", "half", "poll", "poll", "lost poll", "rename", "copytruncate"]),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from([90, 1000, 1_000_000]))
def test_whatever_happens_no_line_is_lost_or_doubled(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], poll_bytes: int
) -> None:
    log = Log(tmp_path_factory.mktemp("log"), poll_bytes=poll_bytes)
    written, held, copied = 0, "", False
    log.write(line(0))
    for step in steps:
        if step == "write" or (step == "half" and held):
            log.write(held or line(written := written + 1))
            held = ""
        elif step == "half":
            whole = line(written := written + 1)
            log.write(whole[:30])
            held = whole[30:]
        elif step == "poll":
            log.poll()
        elif step == "lost poll":
            log.source.poll(log.cursor)
        elif not held and log.cursor and log.path.stat().st_size:
            if step == "rename" and not copied:
                log.rename()
            else:
                _drain(log)  # a copy overwrites the one before it, read or not
                log.copytruncate()
                copied = True
            log.write(line(written := written + 1))
    log.write(held or line(written := written + 1))
    _drain(log)
    assert log.seen == list(range(written + 1))
    assert log.notes == []


def _drain(log: Log) -> None:
    while log.poll().events:
        pass


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kern.log")
    with pytest.raises(Permanent, match="no regular file"):
        LogFile(tmp_path / "kern.log").poll("")
