"""What an agent and a hub say to each other: packets of observations, framed, compressed.

A packet is what one agent saw at one time. Samples go as tables (one metric of many devices), so
that a packet is small by itself and needs no table agreed before. A frame is

    length (uint32, big-endian) | CRC-32 of the payload (uint32) | payload (zlib of MessagePack)

and lies on the agent's disk as it goes over the wire. Several frames in a row are a body.

A packet is told apart by (node, stream, lane, sequence): a *stream* is one boot and one life of
the spool, a *lane* one of the spool's two queues (events and facts before samples), and within a
lane the sequence only grows. Whoever has taken a sequence has taken all before it.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeVar

import msgspec

from bigiron.errors import ParseError
from bigiron.model import Batch, CheckResult, Device, Event, Fact, Note, Sample

VERSIONS = (1,)
"""Of the packets that are understood here; an agent sends the newest that the hub knows too."""

MEDIA_TYPE = "application/vnd.bigiron.packets"
FRAME_MAX = 4 * 1024 * 1024
"""Bytes of a frame's payload, compressed."""
PACKET_MAX = 64 * 1024 * 1024
"""Bytes of a packet, unpacked: what a few bytes may not blow up to."""
LEVEL = 6
_HEAD = struct.Struct(">II")

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
            if value is not None
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


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Packet)


def tables(
    samples: Iterable[Sample], time: datetime
) -> tuple[tuple[tuple[str, ...], ...], tuple[Table, ...]]:
    """Samples as lists of device names and tables that point to them; a device once in a table.

    ``time`` is the packet's; samples without a time of their own are of then.
    """
    grouped: dict[tuple[str, int], dict[str, float]] = {}
    for sample in samples:
        after = 0 if sample.time is None else _after_ms(time, sample.time)
        grouped.setdefault((sample.metric, after), {})[sample.device] = sample.value
    lists: dict[tuple[str, ...], int] = {}
    made = tuple(
        Table(metric, lists.setdefault(tuple(row), len(lists)), tuple(row.values()), after)
        for (metric, after), row in grouped.items()
    )
    return tuple(lists), made


def frame(packet: Packet) -> bytes:
    """A packet as it lies on disk and goes over the wire. Raises ValueError: too large."""
    data = zlib.compress(_ENCODER.encode(packet), LEVEL)
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
    """What a frame's payload holds. Raises ParseError, also for a version not understood."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(payload, PACKET_MAX)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise ParseError(source, number, f"a packet cut short, or of over {PACKET_MAX:,} bytes")
        told = _DECODER.decode(data)
    except (zlib.error, msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise ParseError(source, number, f"not a packet: {error}") from error
    if told.version not in VERSIONS:
        raise ParseError(source, number, f"packet version {told.version}; known are {VERSIONS}")
    if any(
        not 0 <= table.devices < len(told.lists)
        or len(told.lists[table.devices]) != len(table.values)
        for table in told.tables
    ):
        raise ParseError(source, number, "a table does not fit its devices")
    return told


def _of(node: str, told: Sequence[T]) -> tuple[T, ...]:
    return tuple(one if one.node else msgspec.structs.replace(one, node=node) for one in told)


def _after(time: datetime, ms: int) -> datetime:
    return time if not ms else (time + timedelta(milliseconds=ms)).astimezone(UTC)


def _after_ms(time: datetime, of: datetime) -> int:
    return round((of - time).total_seconds() * 1000)
