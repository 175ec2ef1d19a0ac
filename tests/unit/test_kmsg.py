"""/dev/kmsg followed: nothing missed, nothing twice, what was lost counted, floods survived."""

import os
import socket
import time
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.collected import HOSTS, golden
from tests.unit.kmsg_fake import BOOT, OTHER_BOOT, FakeRing, follower, machine

from bigiron.collect import Seen
from bigiron.collect.kmsg import TELL_S, Kmsg
from bigiron.collect.kmsg_clock import KernelClock
from bigiron.collect.kmsg_judge import CAP
from bigiron.collect.kmsg_lines import Lines, unfinished
from bigiron.collect.kmsg_ring import KEEP_RECORDS, Device, record
from bigiron.errors import NoData, Permanent, Temporary
from bigiron.host import Host
from bigiron.ingest import Document
from bigiron.ingest.kernel_log import shipped
from bigiron.model import Event, Fact, Note

XID = (
    "NVRM: Xid (PCI:0000:{bus}:00): 79, pid='<unknown>', name=<unknown>, "
    "GPU has fallen off the bus."
)
AER = (
    "pcieport 0000:00:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
)
QUIET = "br-1: port 2(veth3) entered forwarding state"
KMSG_HOSTS = tuple(sorted(path.parents[1].name for path in HOSTS.glob("*/dev/kmsg")))


def events(seen: list[Seen]) -> list[Event]:
    return [one for one in seen if isinstance(one, Event)]


def drained(kmsg: Kmsg, cursor: str = "") -> tuple[list[Event], str]:
    """All events up to the ring's end."""
    told: list[Event] = []
    while True:
        seen, after = kmsg.poll(cursor, 0.0)
        told += events(seen)
        if after == cursor:
            return told, cursor
        cursor = after


def once(host: Host) -> list[Seen]:
    """One look at a captured ring."""
    return Kmsg(host).poll("", 0.0)[0]


@pytest.mark.parametrize("name", KMSG_HOSTS)
def test_what_it_says_of_captured_hosts(name: str) -> None:
    golden(once, "kmsg", name)


def test_there_are_captured_rings_of_every_vendor() -> None:
    assert {"h100x8", "mi300xx8", "cpu-only"} <= set(KMSG_HOSTS)


def test_a_machine_without_a_ring_has_no_data(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        Kmsg(machine(tmp_path))


def test_an_event_is_what_the_reader_of_logs_makes_of_the_line(tmp_path: Path) -> None:
    ring = FakeRing()
    ring.write(XID.format(bus="9b"), priority=4, us=206_764_307)
    (event,), cursor = drained(follower(tmp_path, ring))
    text = ring.records[0]
    (read,) = [
        one
        for one in shipped().read(Document.of("/dev/kmsg", text, datetime.now(UTC)))
        if isinstance(one, Event)
    ]
    assert event.attrs == {**read.attrs, "level": "warn"}
    assert (event.code, event.device, event.text) == (read.code, "0000:9b:00.0", read.text)
    assert (event.uptime_s, event.line, cursor) == (206.764307, 0, f"kmsg:{BOOT}:1")


def test_what_a_program_wrote_says_so(tmp_path: Path) -> None:
    ring = FakeRing()
    ring.write(XID.format(bus="9b"), priority=(1 << 3) | 2)
    (event,), _ = drained(follower(tmp_path, ring))
    assert (event.attrs["facility"], event.attrs["level"]) == ("user", "crit")


def test_escaped_bytes_and_messages_of_several_lines_are_read(tmp_path: Path) -> None:
    ring = FakeRing()
    ring.write(QUIET)
    ring.write(r"something\x0a" + XID.format(bus="1b").replace("Xid", r"\x58id"), us=5_000_000)
    ring.write(r"nothing\x0a\x0a" + XID.format(bus="2b") + r"\x0a\x09 tail", us=6_000_000)
    ring.write(XID.format(bus="3b"))
    told, cursor = drained(follower(tmp_path, ring))
    assert [(one.line, one.device, one.uptime_s) for one in told][-2:] == [
        (2, "0000:2b:00.0", 6.0),
        (3, "0000:3b:00.0", 0.003),
    ]
    assert cursor.endswith(":4")


def test_a_dictionary_names_the_part_where_the_words_do_not(tmp_path: Path) -> None:
    ring = FakeRing()
    ring.write("AER: Corrected error received\n SUBSYSTEM=pci\n DEVICE=+pci:0000:41:00.0", 4)
    ring.write(f"{XID.format(bus='9b')}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:1c.0", 4)
    ring.write(f"{QUIET}\n SUBSYSTEM=net\n DEVICE=n8")
    told, cursor = drained(follower(tmp_path, ring))
    assert told[-1].device == "0000:9b:00.0", "the words go first"
    assert cursor.endswith(":3")
    found = record(ring.records[0])
    assert found is not None
    assert (found.told(b"DEVICE"), found.told(b"NONE")) == ("+pci:0000:41:00.0", "")


def test_fragments_of_a_line_are_put_together(tmp_path: Path) -> None:
    ring = FakeRing()
    begin, end = XID.format(bus="9b").split(" 79,")
    ring.write(begin, flags="c,caller=T7")
    ring.write("another's", flags="c,caller=T8")
    ring.write(QUIET)
    ring.write(f" 79,{end}", flags="+,caller=T7")
    ring.write("and its end", flags="+,caller=T8")
    ring.write(QUIET)
    (event,), cursor = drained(follower(tmp_path, ring))
    assert (event.code, event.line, cursor) == ("xid.79", 0, f"kmsg:{BOOT}:6")


def test_the_beginning_of_a_line_waits_for_its_end_and_not_for_long(tmp_path: Path) -> None:
    ring = FakeRing()
    begin, end = XID.format(bus="9b").split(" 79,")
    ring.write(begin, flags="c")
    kmsg = follower(tmp_path, ring)
    seen, cursor = kmsg.poll("", 0.0)
    assert (events(seen), cursor) == ([], "")
    ring.write(f" 79,{end}", flags="+")
    ring.write(QUIET)
    seen, cursor = kmsg.poll(cursor, 0.0)
    assert [one.code for one in events(seen)] == ["xid.79"]
    ring.write(XID.format(bus="1b"), flags="c")
    until = time.monotonic() + 5
    told: list[Event] = []
    while not told and time.monotonic() < until:
        seen, cursor = kmsg.poll(cursor, 0.05)
        told += events(seen)
    assert [one.device for one in told] == ["0000:1b:00.0"]
    assert unfinished([b"6,1,1,-;a\n", b"6,2,1,+;b\n"]) == 0


@given(
    st.lists(st.sampled_from(["fault", "quiet", "lines"]), max_size=40),
    st.lists(st.integers(0, 12), max_size=12),
)
def test_restarts_anywhere_miss_nothing_and_tell_nothing_twice(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], steps: list[int]
) -> None:
    root, ring = tmp_path_factory.mktemp("kmsg"), FakeRing()
    told: list[int] = []
    cursor, kmsg, at = "", follower(root, ring), 0
    for number, step in enumerate([*steps, len(kinds)]):
        for kind in kinds[at : at + step]:
            fault = XID.format(bus=f"{16 + ring.end:02x}")
            ring.write({"quiet": QUIET, "lines": rf"a\x0a{fault}"}.get(kind, fault))
        at += step
        seen, after = kmsg.poll(cursor, 0.0)
        if number % 3 != 2:  # else: killed before what it told was kept
            told += [one.line for one in events(seen)]
            cursor = after
        kmsg = follower(root, ring)
    rest, _ = drained(follower(root, ring), cursor)
    wanted = [number for number, kind in enumerate(kinds[:at]) if kind != "quiet"]
    assert sorted([*told, *(one.line for one in rest)]) == wanted


@given(
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=8),
)
def test_every_record_was_judged_or_is_counted_as_lost(
    tmp_path_factory: pytest.TempPathFactory, size: int, turns: list[tuple[int, bool]]
) -> None:
    root, ring = tmp_path_factory.mktemp("kmsg"), FakeRing(size)
    cursor, kmsg, lost, lines = "", follower(root, ring), 0, 0
    ring.write(QUIET)
    _, cursor = kmsg.poll(cursor, 0.0)
    for count, restart in turns:
        for _ in range(count):
            ring.write(AER)
        if restart:
            kmsg = follower(root, ring)
        kmsg._unread._told_at = -TELL_S  # what is lost is told at once
        seen, cursor = kmsg.poll(cursor, 0.0)
        for one in events(seen):
            if one.code == "kernel.log_lost":
                lost += int(one.attrs["lost"])
            else:
                lines += one.count
    assert lost + lines == sum(count for count, _ in turns)


def test_lost_records_are_told_with_their_number(tmp_path: Path) -> None:
    ring = FakeRing(10)
    ring.write(QUIET)
    kmsg = follower(tmp_path, ring)
    _, cursor = kmsg.poll("", 0.0)
    for _ in range(35):
        ring.write(QUIET)
    seen, cursor = kmsg.poll(cursor, 0.0)
    (event,) = events(seen)
    assert (event.code, event.attrs["lost"]) == ("kernel.log_lost", "25")
    assert event.text == "25 kernel messages were overwritten before they could be read"
    for _ in range(12):
        ring.write(QUIET)
    seen, _ = kmsg.poll(cursor, 0.0)
    assert events(seen) == [], "a ring that runs over again and again is not told each time"
    assert follower(tmp_path, FakeRing()).poll("", 0.0)[0] == []


def test_a_new_boot_is_read_from_its_beginning(tmp_path: Path) -> None:
    ring = FakeRing(5)
    for _ in range(20):
        ring.write(QUIET)
    _, cursor = follower(tmp_path, ring).poll("", 0.0)
    ring.reboot()
    for bus in range(10, 17):
        ring.write(XID.format(bus=bus))
    host = machine(tmp_path, OTHER_BOOT)
    seen, after = Kmsg(host, open_ring=ring.open).poll(cursor, 0.0)
    assert len(events(seen)) == 5
    assert after == f"kmsg:{OTHER_BOOT}:7"
    assert [one.count for one in seen if isinstance(one, Note)] == [2]


def test_a_cursor_that_is_none_or_past_the_end_begins_anew_and_says_so(tmp_path: Path) -> None:
    ring = FakeRing()
    ring.write(XID.format(bus="9b"))
    for cursor in ("journal:s=1;i=2", "kmsg:", "\0", f"kmsg:{BOOT}:5000"):
        kmsg = follower(tmp_path, ring)
        seen, after = kmsg.poll(cursor, 0.0)
        more, after = kmsg.poll(after, 0.0) if after == "" else ([], after)
        assert [one.code for one in events([*seen, *more])] == ["xid.79"], cursor
        assert [one for one in seen if isinstance(one, Note)], cursor
        assert after == f"kmsg:{BOOT}:1"


def test_an_older_cursor_is_gone_back_to(tmp_path: Path) -> None:
    ring = FakeRing()
    kmsg = follower(tmp_path, ring)
    ring.write(XID.format(bus="1b"))
    _, first = kmsg.poll("", 0.0)
    ring.write(XID.format(bus="2b"))
    told, _ = kmsg.poll(first, 0.0)
    assert kmsg.poll(first, 0.0)[0] == told
    assert [one.device for one in events(told)] == ["0000:2b:00.0"]


def test_what_fails_half_way_is_told_again(tmp_path: Path) -> None:
    ring = FakeRing()
    ring.write("Linux version 6.8.0 (x)")
    for number in range(300):
        ring.write(XID.format(bus=f"{16 + number % 200:02x}"))
    kmsg = follower(tmp_path, ring)
    reads = iter(range(1_000_000))

    def fails() -> None:
        if next(reads) == 303:  # while what was read is judged
            raise OSError(5, "Input/output error")

    ring.on_read = fails
    with pytest.raises(Temporary, match="Input/output"):
        kmsg.poll("", 0.0)
    seen, cursor = kmsg.poll("", 0.0)
    assert sum(one.count for one in events(seen)) == 301
    assert [one.value for one in seen if isinstance(one, Fact)] == ["6.8.0"]
    assert (ring.opened, cursor) == (2, f"kmsg:{BOOT}:301")


def test_a_storm_is_few_events_and_every_line_counts(tmp_path: Path) -> None:
    ring = FakeRing()
    for number in range(2000):
        ring.write(f"NVRM: Xid (PCI:0000:9b:00): 31, pid={number}, name=a, Ch 7")
        ring.write(AER)
    kmsg = follower(tmp_path, ring)
    seen, cursor = kmsg.poll("", 0.0)
    told = events(seen)
    assert len(told) <= 2 * CAP + 2
    for code in ("xid.31", "pcie.aer_correctable"):
        assert sum(one.count for one in told if one.code == code) == 2000
    for _ in range(50):
        ring.write(AER)
    seen, cursor = kmsg.poll(cursor, 0.0)
    assert [one.count for one in events(seen)] == [50], "while it storms, one a poll"
    ring.write(AER)
    (event,), cursor = drained(kmsg, cursor)
    assert event.count == 1


@pytest.mark.parametrize("speed", [1, 3])
def test_a_fault_in_a_flood_is_found_while_the_ring_holds_it(tmp_path: Path, speed: int) -> None:
    ring = FakeRing(4096)
    ring.write(QUIET)
    kmsg = follower(tmp_path, ring)
    _, cursor = kmsg.poll("", 0.0)
    for _ in range(4000):
        ring.write(QUIET)
    at = ring.write(XID.format(bus="9b"))

    reads = iter(range(1_000_000))

    def flood() -> None:
        """For each line that is read so many are written, ten reads' at once."""
        if next(reads) % 10 == 0 and ring.end < 60_000:
            for _ in range(10 * speed):
                ring.write(QUIET)

    ring.on_read = flood
    told, _ = drained(kmsg, cursor)
    found = [one.line for one in told if one.code == "xid.79"]
    lost = [one for one in told if one.code == "kernel.log_lost"]
    assert (found == [at], bool(lost)) == ((True, False) if speed == 1 else (False, True))


def test_lines_are_read_ahead_while_others_are_judged(tmp_path: Path) -> None:
    ring = FakeRing(1000)
    for number in range(900):
        ring.write(f"NVRM: Xid (PCI:0000:9b:00): 31, pid={number}, name=a, Ch 7")
    kmsg = follower(tmp_path, ring)
    judged = kmsg._judge._take

    def slow(*hit: object) -> None:
        """Each line takes as long to judge as two take to come."""
        for _ in range(2):
            ring.write(QUIET)
        judged(*hit)  # type: ignore[arg-type]

    kmsg._judge._take = slow  # type: ignore[method-assign, assignment]
    told, _ = drained(kmsg)
    assert {one.code for one in told} == {"xid.31"}, "nothing was lost"
    assert ring.end == 2700


def test_what_is_read_ahead_is_bounded(tmp_path: Path) -> None:
    ring = FakeRing()
    for _ in range(KEEP_RECORDS + 20_000):
        ring.write(QUIET)
    kmsg = follower(tmp_path, ring)
    kmsg.poll("", 0.0)
    assert kmsg._ring is not None
    assert len(kmsg._ring) <= KEEP_RECORDS
    ring = FakeRing()
    for _ in range(4000):
        ring.write("x" * 8000)
    kmsg = follower(tmp_path, ring)
    kmsg._ring.fill()  # type: ignore[union-attr]
    assert len(kmsg._ring) * 8000 < 17_000_000  # type: ignore[arg-type]


def test_times_are_those_of_the_wall_clock(tmp_path: Path) -> None:
    now = [1_800_000_000.0, 5_000.0, 5_000.0]
    clock = KernelClock(lambda: (now[0], now[1], now[2]))
    ring = FakeRing()
    ring.write(XID.format(bus="9b"), us=4_000_000_000)
    kmsg = follower(tmp_path, ring, clock)
    seen, cursor = kmsg.poll("", 0.0)
    assert events(seen)[0].time == datetime.fromtimestamp(1_799_999_000, UTC)
    now[0] += 86_400  # somebody sets the clock
    ring.write(XID.format(bus="9b"), us=4_999_000_000)
    seen, cursor = kmsg.poll(cursor, 0.0)
    assert events(seen)[0].time == datetime.fromtimestamp(1_800_086_399, UTC)
    now[2] += 3600  # and the machine slept
    ring.write(XID.format(bus="9b"), us=5_001_000_000)
    seen, _ = kmsg.poll(cursor, 0.0)
    assert events(seen)[0].time == datetime.fromtimestamp(1_800_086_400, UTC), (
        "never later than now"
    )
    (note,) = [one for one in seen if isinstance(one, Note)]
    assert note.what.startswith("slept for 3,600 s since boot")


def test_a_line_that_was_written_just_now_ties_the_clocks_together() -> None:
    clock = KernelClock(lambda: (1_800_000_000.0, 1_000_000.0, 1_000_000.0))
    clock.look(999_900_000_000)  # the kernel's own clock is 100 s behind after eleven days
    assert clock.wall(999_900.0) == datetime.fromtimestamp(1_800_000_000, UTC)
    clock.look(5_000_000)  # far off: not a line of now
    assert clock.wall(999_890.0) == datetime.fromtimestamp(1_799_999_990, UTC)
    assert clock.wall(-1e18) is None


def test_one_record_a_read_from_an_open_file(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    kmsg = Kmsg(machine(tmp_path), open_ring=lambda _: Device(os.dup(ours.fileno())))
    theirs.send(b"4,17,1000,-;" + XID.format(bus="9b").encode() + b"\n")
    start = time.monotonic()
    seen, cursor = kmsg.poll("", 5.0)
    assert [one.code for one in events(seen)] == ["xid.79"]
    assert time.monotonic() - start < 2
    start = time.monotonic()
    assert kmsg.poll(cursor, 0.05) == ([], f"kmsg:{BOOT}:18")
    assert 0.04 < time.monotonic() - start < 2
    kmsg.close()
    ours.close()
    theirs.close()


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_no_record_breaks_it(tmp_path_factory: pytest.TempPathFactory, raws: list[bytes]) -> None:
    ring = FakeRing()
    for raw in raws:
        ring.records[ring.end] = raw or b"\n"
        ring.end += 1
    drained(follower(tmp_path_factory.mktemp("kmsg"), ring))


RECORDS = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 1, 2, 5]),
        st.sampled_from([b"-", b"-", b"-", b"c", b"+", b"c,caller=T1", b"+,caller=T1", b""]),
        st.sampled_from([b"NVRM: Xid (PCI:0000:9b:00): 79, x", rb"a\x0a\x0ab", b"\n A=b", b""]),
    ),
    max_size=30,
).map(
    lambda made: [
        b"6,%d,%d,%s;%s\n" % (at, at, made[place][1], made[place][2])
        for place, at in enumerate(accumulate(step for step, _, _ in made))
    ]
)
"""Records as the kernel gives them, with gaps."""


@given(RECORDS)
def test_lines_keep_the_numbers_of_their_records(raws: list[bytes]) -> None:
    lines = Lines(None)
    lines.take(raws)
    for run in lines.runs:
        assert len(run.lines) == len(run.raws)
        assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in run.lines)
        for number, raw in enumerate(run.raws, run.first):
            assert raw.split(b",")[1] == b"%d" % number


@given(st.integers(0, 9), st.lists(st.sampled_from([QUIET, AER, "", "a,b;c"]), max_size=9))
def test_plain_records_all_at_once_are_the_same_as_one_by_one(first: int, said: list[str]) -> None:
    raws = [f"6,{at},1,-;{text}\n".encode() for at, text in enumerate(said, first)]
    for expected in (None, first, first + 1, 0):
        at_once, each = Lines(expected), Lines(expected)
        at_once.take(raws)
        each._each(raws)
        assert at_once == each
    assert not Lines(first + 1)._plain(raws) or not raws


def test_the_real_ring_where_this_machine_lets_us() -> None:
    try:
        kmsg = Kmsg(Host())
    except (NoData, Permanent) as error:
        pytest.skip(f"no ring to read here: {error}")
    told, cursor = drained(kmsg)
    assert all(one.time is not None and one.time <= datetime.now(UTC) for one in told)
    assert drained(Kmsg(Host()), cursor)[0] == []
    kmsg.close()
