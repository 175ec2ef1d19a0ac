"""Kernel messages where /dev/kmsg is closed: journald, else a log file; the same events."""

import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.collect import Seen
from bigiron.collect.journal import LINE_BYTES, Journal
from bigiron.collect.kernel_feed import LogFeed, kernel_feed, once
from bigiron.collect.kmsg import Kmsg
from bigiron.errors import NoData, Permanent, Temporary
from bigiron.host import Host
from bigiron.model import Event, Note

XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
SYSTEM = "/usr/bin:/bin"
BOOTS = ("7c0ae7be2d4b4cb2bccf85cccb813ad1", "11111111222243338444555555555555")


def entry(number: int, message: str, boot: str = BOOTS[0]) -> str:
    said = {
        "__CURSOR": f"s=1;i={number}",
        "__REALTIME_TIMESTAMP": str(1_800_000_000_000_000 + number),
        "_SOURCE_MONOTONIC_TIMESTAMP": str(number * 1000),
        "_BOOT_ID": boot,
        "_HOSTNAME": "elsewhere",
        "_TRANSPORT": "kernel",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": message,
    }
    return msgspec.json.encode(said).decode()


def journalctl(folder: Path, entries: list[str], then: str = "exec sleep 60") -> Host:
    """A host whose journalctl prints what comes after its cursor, as the real one does."""
    (folder / "entries").write_text("".join(f"{one}\n" for one in entries))
    (folder / "journalctl").write_text(
        "#!/bin/sh\n"
        'for word; do case "$word" in\n'
        '--after-cursor=*) after="${word#--after-cursor=}";; esac; done\n'
        f'echo "$*" >> {folder}/asked\n'
        'if [ "$after" = bad ]; then echo "Failed to seek to cursor: Invalid" >&2; exit 1; fi\n'
        f'awk -v after="\\"$after\\"" \'after == "\\"\\"" || on {{ print; next }} '
        f"index($0, after) {{ on = 1 }}' {folder}/entries\n"
        f"{then}\n"
    )
    (folder / "journalctl").chmod(0o755)
    return Host(path=f"{folder}:{SYSTEM}")


def events(seen: list[Seen]) -> list[Event]:
    return [one for one in seen if isinstance(one, Event)]


def all_of(feed: Journal, cursor: str, wanted: int) -> tuple[list[Event], str]:
    """Poll until so many events came."""
    told: list[Event] = []
    until = time.monotonic() + 20
    while len(told) < wanted and time.monotonic() < until:
        seen, cursor = feed.poll(cursor, 1.0)
        told += events(seen)
    return told, cursor


def test_the_journal_is_read_from_its_cursor(tmp_path: Path) -> None:
    host = journalctl(tmp_path, [entry(1, "quiet"), entry(2, XID), entry(3, "quiet")])
    feed = Journal(host)
    (event,), cursor = all_of(feed, "", 1)
    assert (event.node, event.code, event.device) == ("", "xid.79", "0000:9b:00.0")
    assert event.time == datetime.fromtimestamp(1_800_000_000.000002, UTC)
    assert event.uptime_s == 0.002
    while cursor != "journal:s=1;i=3":
        _, cursor = feed.poll(cursor, 1.0)
    feed.close()
    asked = (tmp_path / "asked").read_text()
    assert "--boot" in asked
    assert "_TRANSPORT=kernel" in asked


def test_a_restart_goes_on_where_it_was_also_into_the_boot_before(tmp_path: Path) -> None:
    entries = [entry(1, XID), entry(2, XID), entry(3, "Linux version 6.8.0 (x)", BOOTS[1])]
    feed = Journal(journalctl(tmp_path, entries))
    told, _ = all_of(feed, "journal:s=1;i=1", 2)
    feed.close()
    assert [one.code for one in told] == ["xid.79", "kernel.reboot"]


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.data())
def test_restarts_anywhere_miss_nothing(
    tmp_path_factory: pytest.TempPathFactory, faults: list[bool], data: st.DataObject
) -> None:
    entries = [
        entry(number, XID.replace("9b", f"{16 + number:02x}") if fault else "quiet")
        for number, fault in enumerate(faults, 1)
    ]
    cut = data.draw(st.integers(1, len(faults)))
    host = journalctl(tmp_path_factory.mktemp("journal"), entries, then="exit 0")
    feed = Journal(host)
    told, _ = (
        all_of(feed, f"journal:s=1;i={cut}", sum(faults[cut:])) if any(faults[cut:]) else ([], "")
    )
    feed.close()
    assert len(told) == sum(faults[cut:])


def test_a_cursor_that_the_journal_has_forgotten_is_let_go(tmp_path: Path) -> None:
    feed = Journal(journalctl(tmp_path, [entry(1, XID)]))
    cursor, seen = "journal:bad", list[Seen]()
    until = time.monotonic() + 20
    while not events(seen) and time.monotonic() < until:
        more, cursor = feed.poll(cursor, 1.0)
        seen += more
    feed.close()
    assert [one.code for one in events(seen)] == ["xid.79"]
    assert any("Failed to seek" in one.what for one in seen if isinstance(one, Note))
    assert cursor == "journal:s=1;i=1"


def test_a_cursor_of_the_ring_is_told_and_passed_over(tmp_path: Path) -> None:
    feed = Journal(journalctl(tmp_path, [entry(1, XID)]))
    seen, cursor = feed.poll("kmsg:7c0a:5", 5.0)
    feed.close()
    assert [one.code for one in events(seen)] == ["xid.79"]
    assert isinstance(seen[0], Note)
    assert cursor == "journal:s=1;i=1"


def test_a_journal_that_ends_is_loud(tmp_path: Path) -> None:
    feed = Journal(journalctl(tmp_path, [], then="echo no rights >&2; exit 1"))
    with pytest.raises(Temporary, match="journalctl ended: no rights"):
        all_of(feed, "", 1)
    with pytest.raises(NoData):
        Journal(Host(path=str(tmp_path / "nothing"))).poll("", 0.0)


def test_a_line_without_end_is_passed_over_and_the_next_ones_are_read(tmp_path: Path) -> None:
    long = "x" * (LINE_BYTES + 200_000)
    feed = Journal(journalctl(tmp_path, [entry(1, long), "not json", "[]", entry(2, XID)]))
    (event,), cursor = all_of(feed, "", 1)
    feed.close()
    assert event.code == "xid.79"
    assert cursor == "journal:s=1;i=2"


def test_a_storm_in_the_journal_is_few_events(tmp_path: Path) -> None:
    entries = [entry(number, XID) for number in range(1, 3001)]
    feed = Journal(journalctl(tmp_path, entries))
    total, cursor, polls, count = 0, "", 0, 0
    until = time.monotonic() + 20
    while total < 3000 and time.monotonic() < until:
        seen, cursor = feed.poll(cursor, 1.0)
        total += sum(one.count for one in events(seen))
        count, polls = count + len(events(seen)), polls + 1
    feed.close()
    assert total == 3000
    assert count <= 11 * polls


def log(root: Path, lines: list[str], path: str = "var/log/kern.log") -> Host:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines))
    name = root / "proc/sys/kernel/hostname"
    name.parent.mkdir(parents=True, exist_ok=True)
    name.write_text("n01\n")
    return Host(root=root)


def test_a_log_file_is_followed_and_other_hosts_lines_are_left_out(tmp_path: Path) -> None:
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S+00:00}"
    host = log(tmp_path, [f"{now} {name} kernel: {XID}" for name in ("n01.site", "n02")])
    feed = kernel_feed(host)
    assert isinstance(feed, LogFeed)
    seen, cursor = feed.poll("", 0.0)
    assert [(one.node, one.code) for one in events(seen)] == [("", "xid.79")]
    assert any(
        one.what.startswith("events and facts of other") for one in seen if isinstance(one, Note)
    )
    with (tmp_path / "var/log/kern.log").open("a") as file:
        file.write(f"{now} n01 kernel: {XID}\n")
    seen, cursor = LogFeed(host, "/var/log/kern.log").poll(cursor, 0.0)
    assert len(events(seen)) == 1
    seen, _ = feed.poll("journal:x", 0.0)
    assert len(events(seen)) == 2


def test_one_look_reads_all_there_is(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    quiet = "".join(f"6,{n},{n},-;br-1: port 2 entered forwarding state\n" for n in range(9000))
    (tmp_path / "dev/kmsg").write_text(f"{quiet}4,9000,9000,-;{XID}\n")
    assert [one.line for one in events(once(Host(root=tmp_path)))] == [9000]
    host = log(
        tmp_path / "other", [f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S+00:00} n01 kernel: {XID}"]
    )
    assert len(events(once(host))) == 1


def test_the_ring_goes_first_and_nothing_at_all_has_no_data(tmp_path: Path) -> None:
    with pytest.raises(NoData, match="no kernel log"):
        kernel_feed(Host(root=tmp_path))
    log(tmp_path, [])
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_text(f"4,1,1000,-;{XID}\n")
    assert isinstance(kernel_feed(Host(root=tmp_path)), Kmsg)
    (tmp_path / "dev/kmsg").unlink()
    (tmp_path / "dev/kmsg").mkdir()
    (tmp_path / "var/log/journal/abc").mkdir(parents=True)
    assert isinstance(kernel_feed(Host(root=tmp_path)), Journal)
    (tmp_path / "var/log/journal/abc").rmdir()
    (tmp_path / "var/log/kern.log").unlink()
    with pytest.raises(Permanent, match="kmsg"):
        kernel_feed(Host(root=tmp_path))
