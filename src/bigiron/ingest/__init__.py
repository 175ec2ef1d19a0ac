"""From what people already run to our nouns.

Two kinds of module live here. A *reader* turns one document (a file, a command's output) into
observations; it is recognised by content. A *source* asks something live (a Prometheus server,
a growing log, a scheduler) and answers with a batch and a cursor to go on from.

A reader never raises on bad content that leaves the rest usable: it yields a ``Note`` that
counts what was skipped. It raises ParseError when nothing of the document can be used. It sets
``node`` to the host's name where the document tells it and to "" where it does not; whoever
asked fills that in. Devices are named ``gpu3``, ``nic0``, ``mlx5_0``, ``nvme1`` where the
document gives the index or name, and by their PCI address (``pci_address``) where it does not.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from typing import BinaryIO, Protocol

from bigiron.model import (
    Batch,
    CheckResult,
    Device,
    Event,
    Fact,
    Job,
    Maintenance,
    Node,
    NodeState,
    Note,
    Observation,
    Sample,
)
from bigiron.registry import Registry

HEAD_BYTES = 65_536
LINE_LIMIT = 1_048_576
"""Longer lines are cut here and counted: no real tool writes them."""


@dataclass(frozen=True, slots=True)
class Document:
    """One thing to read. ``now`` is when it was taken (its mtime): years and ages come from it."""

    name: str
    now: datetime
    open: Callable[[], BinaryIO]
    node: str = ""
    size: int = -1

    @classmethod
    def of(cls, name: str, data: bytes, now: datetime, node: str = "") -> "Document":
        """A document held in memory."""
        return cls(name, now, lambda: BytesIO(data), node, len(data))

    def head(self) -> bytes:
        """The first HEAD_BYTES."""
        with self.open() as file:
            return file.read(HEAD_BYTES)

    def bytes(self, limit: int = 256 * 1024 * 1024) -> bytes:
        """The whole, at most ``limit`` bytes."""
        with self.open() as file:
            return file.read(limit)

    def text(self, limit: int = 256 * 1024 * 1024) -> str:
        """The whole as text; bad UTF-8 is replaced by U+FFFD, NUL bytes are dropped."""
        return self.bytes(limit).decode("utf-8", "replace").replace("\0", "").lstrip("\ufeff")

    def lines(self) -> Iterator[str]:
        """Its lines without their ends; each at most LINE_LIMIT characters."""
        with self.open() as file:
            while line := file.readline(LINE_LIMIT):
                yield line.decode("utf-8", "replace").rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class Head:
    """What a reader may look at to recognise a document."""

    name: str
    data: bytes
    text: str = field(default="")

    @classmethod
    def of(cls, document: Document) -> "Head":
        """The head of a document, decoded once."""
        data = document.head()
        return cls(document.name, data, data.decode("utf-8", "replace").lstrip("\ufeff"))


class Reader(Protocol):
    """A format that can be recognised and read."""

    def sniff(self, head: Head) -> float:
        """How surely this is mine: 0 (not) to 1 (certain)."""

    def read(self, document: Document) -> Iterator[Observation]:
        """Its observations, in the document's order. Raises ParseError if none can be had."""


reader: Registry[[], Reader] = Registry(__name__, "reader")
"""Readers: a function without arguments that returns a Reader, registered by its name."""


class Source(Protocol):
    """Something live that can be asked again and again."""

    name: str
    every_s: float

    def poll(self, cursor: str) -> tuple[Batch, str]:
        """What is new since ``cursor`` ("" at first) and the cursor to go on from.

        A batch and its cursor are committed together, so a poll that is lost is asked again.
        Raises Temporary (asked again later) or Permanent (shown; asked again rarely).
        """


_FIELDS: dict[type[Observation], str] = {
    Node: "nodes",
    Device: "devices",
    Sample: "samples",
    Event: "events",
    Fact: "facts",
    Job: "jobs",
    NodeState: "states",
    CheckResult: "checks",
    Maintenance: "maintenance",
    Note: "notes",
}


def gather(time: datetime, source: str, observations: Iterable[Observation]) -> Batch:
    """Observations as a batch, each kind in the order in which it came."""
    sorted_by: dict[str, list[Observation]] = {name: [] for name in _FIELDS.values()}
    for seen in observations:
        sorted_by[_FIELDS[type(seen)]].append(seen)
    return Batch(time, source, **{name: tuple(every) for name, every in sorted_by.items()})  # type: ignore[arg-type]


_PCI = re.compile(
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<dev>[0-9a-f]{2})(?:\.(?P<fn>[0-7]))?$",
    re.IGNORECASE,
)


def pci_address(text: str) -> str:
    """``0000:9b:00.0`` for any form a tool writes (``9B:00.0``, ``00000000:9B:00``); "" if none.

    The domain is given with four digits, or with eight where it needs them.
    """
    match = _PCI.match(text.strip().removeprefix("PCI:"))
    if match is None:
        return ""
    domain = int(match["domain"] or "0", 16)
    return f"{domain:04x}:{match['bus'].lower()}:{match['dev'].lower()}.{match['fn'] or '0'}"
