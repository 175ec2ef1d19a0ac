"""What an agent and a hub say to each other: packets of observations, framed, compressed.

A packet is what one agent saw at one time. Samples go as tables (one metric of many devices), so
that a packet is small by itself and needs no table agreed before. A frame is

    length (uint32, big-endian) | CRC-32 of the payload (uint32) | payload (zlib of MessagePack)

and lies on the agent's disk as it goes over the wire. Several frames in a row are a body.

A packet is told apart by (node, stream, lane, sequence): a *stream* is one boot and one life of
the spool, a *lane* one of the spool's two queues (events and facts before samples), and within a
lane the sequence only grows. Whoever has taken a sequence has taken all before it.
"""

import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from bigiron.errors import ParseError
from bigiron.model import Batch, CheckResult, Device, Event, Fact, Note, Sample

VERSIONS = (1,)
"""Of the packets that are understood here; an agent sends the newest that the hub knows too."""

MEDIA_TYPE = "application/vnd.bigiron.packets"
FRAME_MAX = 4 * 1024 * 1024
"""Bytes of a frame's payload, compressed."""
PACKET_MAX = 8 * 1024 * 1024
"""Bytes of a packet, unpacked: what a few bytes may not blow up to. As objects they are
twenty times as much at most (tables without values)."""
LEVEL = 6
AFTER_MS_MAX = 366 * 86_400_000
"""A spool holds days; a sample further from its packet's time than this is of no time at all."""
YEARS = range(1970, 2200)
"""A clock without a battery begins in 1970."""
_HEAD = struct.Struct(">II")
_EXACT = 2.0**53

T = TypeVar("T", Device, Event, Fact, CheckResult)


class Lane(StrEnum):
    """The two queues of a spool: what must not be lost, and what may be when room runs out."""

    EVENTS = "events"
    SAMPLES = "samples"


class Table(msgspec.Struct, frozen=True, array_like=True):
    """One metric of some devices; ``devices`` is a number in the packet's lists of names.

    ``after_ms`` is when it was read, from the packet's time. None is no value.
    """

    metric: str
    devices: int
    values: tuple[float | None, ...]
    after_ms: int = 0


class Packet(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one agent saw; ``time`` and all times in it are by the node's own clock.

    What has no node of its own in it is of this one. ``agent`` is the agent's version.
    """

    version: int
    node: str
    stream: str
    lane: Lane
    sequence: int
    time: datetime
    agent: str = ""
    lists: tuple[tuple[str, ...], ...] = ()
    tables: tuple[Table, ...] = ()
    devices: tuple[Device, ...] = ()
    events: tuple[Event, ...] = ()
    facts: tuple[Fact, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    notes: tuple[Note, ...] = ()

    def batch(self, source: str) -> Batch:
        """The same as a batch of the hub; what has no node of its own is of this one."""
        samples = tuple(
            Sample(self.node, device, table.metric, value, _after(self.time, table.after_ms))
            for table in self.tables
            for device, value in zip(self.lists[table.devices], table.values, strict=True)
            if value is not None and value == value
        )
        return Batch(
            self.time,
            source,
            devices=_of(self.node, self.devices),
            samples=samples,
            events=_of(self.node, self.events),
            facts=_of(self.node, self.facts),
            checks=_of(self.node, self.checks),
            notes=self.notes,
        )


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hub's answer: the newest sequence it has taken of each lane, for good.

    ``time`` is the hub's clock; ``wait_s`` how long it would rather not be asked again.
    """

    taken: dict[str, int]
    time: datetime
    versions: tuple[int, ...] = VERSIONS
    wait_s: float = 0.0


class _Version(msgspec.Struct):
    version: int


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Packet)
_VERSION_DECODER = msgspec.msgpack.Decoder(_Version)


def tables(
    samples: Iterable[Sample], time: datetime
) -> tuple[tuple[tuple[str, ...], ...], tuple[Table, ...]]:
    """Samples as lists of device names and tables that point to them; a device once in a table.

    ``time`` is the packet's; samples without a time of their own are of then. What is no number is
    no sample; whole numbers go as such, which is what most are.
    """
    grouped: dict[tuple[str, int], dict[str, float]] = {}
    for sample in samples:
        if sample.value != sample.value:
            continue
        after = 0 if sample.time is None else _after_ms(time, sample.time)
        grouped.setdefault((sample.metric, after), {})[sample.device] = sample.value
    lists: dict[tuple[str, ...], int] = {}
    made = tuple(
        Table(
            metric,
            lists.setdefault(tuple(row), len(lists)),
            tuple(map(_short, row.values())),
            after,
        )
        for (metric, after), row in grouped.items()
    )
    return tuple(lists), made


def frame(packet: Packet) -> bytes:
    """A packet as it lies on disk and goes over the wire. Raises ValueError: too large.

    Text that is no UTF-8 (names of files) and numbers that are too large for it go as nearly as can
    be: one word may not cost the whole packet.
    """
    try:
        plain = _ENCODER.encode(packet)
    except (UnicodeEncodeError, OverflowError):
        plain = _ENCODER.encode(_plain(msgspec.to_builtins(packet, builtin_types=(datetime,))))
    if len(plain) > PACKET_MAX:
        raise ValueError(f"a packet of {len(plain):,} bytes unpacked; at most {PACKET_MAX:,}")
    data = zlib.compress(plain, LEVEL)
    if len(data) > FRAME_MAX:
        raise ValueError(f"a packet of {len(data):,} bytes; at most {FRAME_MAX:,}")
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def frames(body: bytes, source: str = "body") -> Iterator[bytes]:
    """The payloads of frames in a row, each checked. Raises ParseError at the first bad one."""
    view, at, number = memoryview(body), 0, 0
    while at < len(view):
        number += 1
        if len(view) - at < _HEAD.size:
            raise ParseError(source, number, "a frame's head is cut short")
        length, crc = _HEAD.unpack_from(view, at)
        at += _HEAD.size
        if length > FRAME_MAX:
            raise ParseError(source, number, f"a frame of {length:,} bytes; at most {FRAME_MAX:,}")
        payload = bytes(view[at : at + length])
        if len(payload) < length or zlib.crc32(payload) != crc:
            raise ParseError(source, number, "a frame is cut short or damaged")
        at += length
        yield payload


def packet(payload: bytes, source: str = "body", number: int = 0) -> Packet:
    """What a frame's payload holds. Raises ParseError, also for a version not understood.

    What comes out has all its times in UTC and within reason, and speaks for its own node only.
    """
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(payload, PACKET_MAX)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise ParseError(source, number, f"a packet cut short, or of over {PACKET_MAX:,} bytes")
        if unpacker.unused_data:
            raise ParseError(source, number, "something after the packet")
        version = _VERSION_DECODER.decode(data).version
        if version not in VERSIONS:
            raise ParseError(source, number, f"packet version {version}; known are {VERSIONS}")
        told = _DECODER.decode(data)
    except (zlib.error, msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ParseError(source, number, f"not a packet: {error}") from error
    problem = _problem(told)
    if problem:
        raise ParseError(source, number, problem)
    return told


def _problem(told: Packet) -> str:
    """Why a packet that is well formed cannot be used; "" if it can."""
    if any(
        not 0 <= table.devices < len(told.lists)
        or len(told.lists[table.devices]) != len(table.values)
        for table in told.tables
    ):
        return "a table does not fit its devices"
    if any(abs(table.after_ms) > AFTER_MS_MAX for table in told.tables):
        return "a table of another year than its packet"
    timed: tuple[Event | Fact | CheckResult, ...] = (*told.events, *told.facts, *told.checks)
    times = (told.time, *(one.time for one in timed if one.time is not None))
    if any(time.tzinfo is None or time.year not in YEARS for time in times):
        return "a time without a zone, or out of range"
    nodes = {*(one.node for one in timed), *(one.node for one in told.devices)}
    if nodes - {"", told.node}:
        return f"{told.node or 'a node'} speaks for another node"
    return ""


def _short(value: float) -> float:
    """A whole number as one: a zero takes one byte instead of nine."""
    return whole if abs(value) <= _EXACT and value == (whole := int(value)) else value


def _plain(value: Any) -> Any:
    """The same of what can be encoded: a ? for half a character, floats for huge numbers."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_plain(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case int() if not -(2**63) <= value < 2**64:
            return float(value) if abs(value) < 1e300 else math.inf if value > 0 else -math.inf
    return value


def _of(node: str, told: Sequence[T]) -> tuple[T, ...]:
    return tuple(one if one.node else msgspec.structs.replace(one, node=node) for one in told)


def _after(time: datetime, ms: int) -> datetime:
    return time if not ms else (time + timedelta(milliseconds=ms)).astimezone(UTC)


def _after_ms(time: datetime, of: datetime) -> int:
    return round((of - time).total_seconds() * 1000)
