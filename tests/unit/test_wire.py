"""Packets on the wire and in a spool: all comes back, nothing that is damaged or forged does."""

import math
import random
import struct
import zlib
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron import signals, wire
from bigiron.errors import ParseError
from bigiron.model import CheckResult, CheckStatus, Device, Event, Fact, Note, Sample
from bigiron.wire import Lane, Packet, Table, frame, frames, packet, tables

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NODE = "n001"

TEXT = st.text(max_size=12)
EPOCH = datetime(1970, 1, 2, tzinfo=UTC)
TIMES = st.none() | st.integers(0, 7 * 10**9 * 1000).map(lambda ms: EPOCH + timedelta(0, 0, 0, ms))
NODES = st.sampled_from(["", NODE])
VALUES = st.floats(allow_nan=False) | st.integers(-(2**53), 2**53).map(float)
NEAR = st.integers(-(10**6), 10**6).map(lambda ms: NOW + timedelta(milliseconds=ms))
SAMPLES = st.builds(Sample, st.just(""), TEXT, TEXT, VALUES, st.none() | NEAR)
EVENTS = st.builds(
    Event,
    NODES,
    TEXT,
    TEXT,
    TEXT,
    TIMES,
    st.none() | st.floats(0, 1e9),
    TEXT,
    st.integers(0, 2**40),
    st.dictionaries(TEXT, TEXT, max_size=3),
    st.integers(1, 10**9),
)
FACTS = st.builds(
    Fact, NODES, TEXT, TEXT | st.integers(-(2**63), 2**63) | st.booleans() | VALUES, TEXT, TIMES
)
CHECKS = st.builds(
    CheckResult,
    NODES,
    TEXT,
    st.sampled_from(CheckStatus),
    values=st.dictionaries(TEXT, VALUES, max_size=3),
    time=TIMES,
)
PACKETS = st.builds(
    lambda samples, devices, events, facts, checks, notes: made(
        samples, devices=devices, events=events, facts=facts, checks=checks, notes=notes
    ),
    st.lists(SAMPLES, max_size=20),
    st.lists(st.builds(Device, NODES, TEXT, TEXT, TEXT), max_size=4).map(tuple),
    st.lists(EVENTS, max_size=4).map(tuple),
    st.lists(FACTS, max_size=4).map(tuple),
    st.lists(CHECKS, max_size=3).map(tuple),
    st.lists(st.builds(Note, TEXT, TEXT, st.integers(1, 9)), max_size=3).map(tuple),
)


def made(samples: list[Sample] | None = None, **other: object) -> Packet:
    """A packet of samples and whatever else."""
    lists, told = tables(samples or [], NOW)
    fields = {"lists": lists, "tables": told, **other}
    return Packet(1, NODE, "boot.1", Lane.SAMPLES, 7, NOW, "0.1", **fields)  # type: ignore[arg-type]


def sent(one: Packet) -> Packet:
    """What comes out at the other end."""
    (payload,) = frames(frame(one))
    return packet(payload)


def forged(**fields: object) -> bytes:
    """The payload of a packet with these fields, whatever they are."""
    whole = {
        "version": 1,
        "node": NODE,
        "stream": "s",
        "lane": "samples",
        "sequence": 1,
        "time": NOW,
        **fields,
    }
    return zlib.compress(msgspec.msgpack.encode(whole))


@given(PACKETS)
def test_all_comes_back(one: Packet) -> None:
    assert sent(one) == one
    batch = sent(one).batch("agent")
    assert len(batch.events) == len(one.events)
    for kind in (batch.samples, batch.events, batch.facts, batch.checks, batch.devices):
        assert {seen.node for seen in kind} <= {NODE}


@given(st.lists(SAMPLES, max_size=30))
def test_samples_come_back_with_their_times(given_samples: list[Sample]) -> None:
    batch = sent(made(given_samples)).batch("agent")
    got = {(one.device, one.metric, one.time): one.value for one in batch.samples}
    assert got == {(one.device, one.metric, one.time or NOW): one.value for one in given_samples}


def test_what_is_no_number_is_no_sample_and_infinity_is_one() -> None:
    values = (1.0, math.nan, math.inf)
    told = [Sample("", f"gpu{i}", "m", value) for i, value in enumerate(values)]
    assert [(s.device, s.value) for s in sent(made(told)).batch("a").samples] == [
        ("gpu0", 1.0),
        ("gpu2", math.inf),
    ]
    row = Table("m", 0, (None, math.nan, 2.0))
    one = msgspec.structs.replace(made(), lists=(("a", "b", "c"),), tables=(row,))
    assert [s.device for s in sent(one).batch("a").samples] == ["c"]


def test_one_list_of_devices_serves_many_metrics() -> None:
    lists, told = tables(
        [Sample("", f"gpu{g}", f"m{m}", g * m) for m in range(50) for g in range(8)], NOW
    )
    assert len(lists) == 1
    assert len(told) == 50


def busy(metrics: int = 150, gpus: int = 8, lively: int = 60) -> list[Sample]:
    """A working node: sensors in their resolution, clocks, counters of bytes; errors mostly 0."""
    rng = random.Random(1)
    names = sorted(n for n in signals.SIGNALS if n.startswith(("gpu_", "pcie_", "ib_")))[:metrics]
    told = []
    for number, name in enumerate(names):
        for gpu in range(gpus):
            live = (
                float(rng.randint(30, 90)),
                rng.randint(100_000, 700_000) / 1000,
                rng.randint(100, 132) * 15e6,
                rng.randint(0, 100) / 100,
                float(rng.randint(10**9, 10**13)),
            )[number % 5]
            rest = float(rng.choice((0, 0, 0, 1, 17))) if number % 4 == 0 else 0.0
            told.append(Sample("", f"gpu{gpu}", name, live if number < lively else rest))
    return told


def test_a_node_of_eight_gpus_and_150_metrics_is_at_most_5_kb() -> None:
    one = made(busy())
    assert len(one.tables) == 150
    assert len(frame(one)) <= 5_000
    assert len(frame(made(busy(lively=0)))) <= 2_500


@given(PACKETS, st.data())
def test_no_damage_goes_unseen(one: Packet, data: st.DataObject) -> None:
    body = frame(one) + frame(made())
    place = data.draw(st.integers(0, len(body) - 1))
    change = data.draw(st.integers(1, 255))
    damaged = bytearray(body)
    damaged[place] ^= change
    got: list[Packet] = []
    with pytest.raises(ParseError):
        got.extend(map(packet, frames(bytes(damaged))))
    assert got in ([], [one]), "what came before is as it was"


@given(PACKETS, st.data())
def test_a_body_cut_anywhere_gives_what_is_whole(one: Packet, data: st.DataObject) -> None:
    first, body = frame(one), frame(one) + frame(made())
    end = data.draw(st.integers(0, len(body)))
    got: list[Packet] = []
    try:
        got.extend(map(packet, frames(body[:end])))
    except ParseError:
        assert end not in (0, len(first), len(body))
    assert got == [one, made()][: (end >= len(first)) + (end == len(body))]


@given(st.binary(max_size=200))
def test_nothing_else_is_a_packet(body: bytes) -> None:
    for payload in (body, zlib.compress(body)):
        with pytest.raises(ParseError):
            packet(payload)
    try:
        list(frames(body))
    except ParseError:
        return
    assert not body


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | TEXT
        | st.binary(max_size=8),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
        max_leaves=12,
    ),
    st.sampled_from(
        ["version", "node", "time", "lists", "tables", "events", "facts", "devices", "sequence"]
    ),
)  # fmt: skip
def test_a_field_of_anything_is_a_packet_or_none(value: object, name: str) -> None:
    try:
        one = packet(forged(**{name: value}))
    except ParseError:
        return
    one.batch("agent")
    assert sent(one) == one or name in ("tables", "facts")  # NaN is not itself


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"version": 2}, r"packet version 2; known are \(1,\)"),
        ({"version": 2, "lists": "another shape", "lane": 5}, "packet version 2"),
        ({"version": "x"}, "not a packet"),
        ({"lane": "other"}, "not a packet"),
        ({"tables": [["m", 0, [1.0], 0]]}, "does not fit"),
        ({"lists": [["a"]], "tables": [["m", 0, [1.0, 2.0]]]}, "does not fit"),
        ({"lists": [["a"]], "tables": [["m", -1, [1.0]]]}, "does not fit"),
        ({"lists": [["a"]], "tables": [["m", 1, [1.0]]]}, "does not fit"),
        ({"lists": [["a"]], "tables": [["m", 0, [1.0], 2**62]]}, "another year"),
        ({"lists": [["a"]], "tables": [["m", 0, [1.0], -(2**63)]]}, "another year"),
        ({"time": "2026-03-01T00:00:00"}, "without a zone"),
        ({"time": datetime(9999, 12, 31, tzinfo=UTC)}, "out of range"),
        ({"time": datetime(1, 1, 1, tzinfo=UTC)}, "out of range"),
        (
            {"events": [{"node": "", "code": "x", "text": "", "time": "2026-03-01T00:00:00"}]},
            "zone",
        ),
        ({"events": [{"node": "n002", "code": "xid.79", "text": "x"}]}, "speaks for another node"),
        ({"facts": [{"node": "n002", "name": "x", "value": 1}]}, "speaks for another node"),
        ({"devices": [{"node": "n002", "name": "gpu0"}]}, "speaks for another node"),
        ({"checks": [{"node": "n002", "check": "x", "status": "pass"}]}, "speaks for another node"),
    ],
)
def test_what_is_well_formed_and_wrong_is_refused(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ParseError, match=why):
        packet(forged(**fields), "here", 3)


def test_a_field_of_a_newer_agent_is_passed_over() -> None:
    assert packet(forged(something_new={"a": [1]})).node == NODE


@pytest.mark.parametrize("filler", [b"\0", b"\xc0", b"\x90", b"\xa0"])
def test_a_few_bytes_do_not_blow_up(filler: bytes) -> None:
    bomb = zlib.compress(filler * (wire.PACKET_MAX + 2), 9)
    assert len(bomb) < 20_000
    with pytest.raises(ParseError, match=r"of over 8,388,608 bytes"):
        packet(bomb)
    nested = zlib.compress(b"\x81\xa5notes" + b"\x91" * 1_000_000, 9)
    with pytest.raises(ParseError):
        packet(nested)


@pytest.mark.parametrize(
    "head", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"]
)
def test_a_length_that_is_a_lie_takes_no_memory(head: bytes) -> None:
    for name in (b"\xa5lists", b"\xa6events", b"\xa4node"):
        with pytest.raises(ParseError):
            packet(zlib.compress(b"\x81" + name + head))


def test_a_frame_that_says_it_is_long_is_not_waited_for() -> None:
    with pytest.raises(ParseError, match="at most"):
        list(frames(struct.pack(">II", wire.FRAME_MAX + 1, 0)))
    with pytest.raises(ParseError, match="cut short"):
        list(frames(b"\0\0\0"))


def test_something_after_a_packet_is_refused() -> None:
    with pytest.raises(ParseError, match="after the packet"):
        packet(forged() + b"more")


def test_a_packet_that_is_too_large_is_not_made() -> None:
    rng = random.Random(2)
    noise = tuple(Note("a", rng.randbytes(4000).hex()) for _ in range(1300))
    with pytest.raises(ValueError, match="a packet of"):
        frame(made(notes=noise))
    with pytest.raises(ValueError, match="unpacked"):
        frame(made(notes=tuple(Note("a", "x" * 4000) for _ in range(2300))))


def test_words_and_numbers_that_cannot_go_cost_only_themselves() -> None:
    bad = Event("", "kernel.oops", "file \udcff named", time=NOW, attrs={"\udc80": "v"})
    facts = (Fact("", "huge", 2**70), Fact("", "low", -(2**80)), Fact("", "over", 10**400))
    one = sent(made(busy(3), events=(bad,), facts=facts))
    assert one.events[0].text == "file ? named"
    assert one.events[0].time == NOW
    assert [fact.value for fact in one.facts] == [2.0**70, -(2.0**80), math.inf]
    assert len(one.batch("agent").samples) == 24


def test_times_of_other_zones_are_the_same_moments() -> None:
    east = timezone(timedelta(hours=9))
    told = Sample("", "gpu0", "m", 1.0, (NOW + timedelta(seconds=5)).astimezone(east))
    (sample,) = sent(made([told])).batch("agent").samples
    assert sample.time == NOW + timedelta(seconds=5)
