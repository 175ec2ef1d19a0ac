"""A log's bytes in blocks of whole lines, and in each block the lines worth reading.

Nearly all lines of a kernel log mean nothing. So a whole block is searched at once for the
literals that a line of interest must contain, and only around a hit are line ends looked for.
With RE2 (the ``google-re2`` package) that is one pass of an automaton over the block whatever
the number of literals; without it each literal is searched for by itself, which finds no less
and is slower (bench/kernel_log.py measures both).
"""

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import NamedTuple, Protocol

from bigiron.ingest import LINE_LIMIT
from bigiron.ingest.log_literals import Gate

CHUNK_BYTES = 4 * 1024 * 1024


class Block(NamedTuple):
    """Whole lines, each but perhaps the last with its end; ``line`` numbers the first from 1.

    ``size`` is how many bytes of the file they stand for, ``cut`` how many lines among them were
    cut to ``LINE_LIMIT``.
    """

    data: bytes
    line: int
    size: int
    cut: int = 0


class Readable(Protocol):
    """Something bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes; none at the end."""


def blocks(
    file: Readable,
    chunk_bytes: int = CHUNK_BYTES,
    *,
    line_limit: int = LINE_LIMIT,
    first_line: int = 1,
    last: bool = True,
) -> Iterator[Block]:
    """A file's lines in blocks of about ``chunk_bytes``; memory is that plus one line.

    ``last`` says that a final line without an end is a line too.
    """
    cutter = _Cutter(line_limit, first_line)
    while chunk := file.read(chunk_bytes):
        yield from cutter.feed(chunk)
    if last:
        yield from cutter.finish()


class _Cutter:
    """Joins chunks into whole lines and cuts off what is too long."""

    def __init__(self, limit: int, first_line: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._held = 0
        self._dropped = 0
        self._line = first_line

    def feed(self, chunk: bytes) -> Iterator[Block]:
        end = chunk.rfind(b"\n") + 1
        if end == 0:
            self._hold(chunk)
            return
        first = chunk.find(b"\n") + 1
        if self._pieces:
            self._hold(chunk[:first])
            yield self._block(b"".join(self._pieces), self._dropped)
            self._pieces, self._held, self._dropped = [], 0, 0
        else:
            first = 0
        if first < end:
            yield self._block(chunk[first:end], 0)
        if end < len(chunk):
            self._hold(chunk[end:])

    def finish(self) -> Iterator[Block]:
        if self._pieces:
            yield self._block(b"".join(self._pieces), self._dropped)
            self._pieces = []

    def _hold(self, piece: bytes) -> None:
        """Keep a part of an unfinished line, never more than the limit and its end."""
        room = max(0, self._limit + 1 - self._held)
        kept = piece[:room]
        self._dropped += len(piece) - len(kept)
        self._pieces.append(kept)
        self._held += len(kept)

    def _block(self, data: bytes, dropped: int) -> Block:
        line, size = self._line, len(data) + dropped
        data, cut = _cut(data, self._limit)
        if dropped and not data.endswith(b"\n"):
            data += b"\n"
        self._line += max(1, data.count(b"\n"))
        return Block(data, line, size, cut)


def _cut(data: bytes, limit: int) -> tuple[bytes, int]:
    """The same lines, none longer than ``limit`` without its end, and how many were cut."""
    pos, start, cut = 0, 0, 0
    kept: list[bytes] = []
    while len(data) - pos > limit:
        end = data.rfind(b"\n", pos, pos + limit + 1)
        if end >= 0:
            pos = end + 1
            continue
        kept.append(data[start : pos + limit])
        cut += 1
        end = data.find(b"\n", pos + limit)
        start = pos = end if end >= 0 else len(data)
        if end >= 0:
            pos = end + 1
    if not cut:
        return data, 0
    kept.append(data[start:])
    return b"".join(kept), cut


class Prefilter(Protocol):
    """Finds where in a block one of its literals stands."""

    def positions(self, block: bytes) -> Iterator[int]:
        """Ascending; at least one in every line that contains a literal."""


def prefilter(gates: Iterable[Gate]) -> Prefilter:
    """The fastest one that this installation has."""
    gates = tuple(gates)
    try:
        return Re2Prefilter(gates)
    except ImportError:
        return FindPrefilter(gates)


def literals(gates: Iterable[Gate]) -> list[bytes]:
    """What the gates look for, without what contains another one of them."""
    every = {text.encode() for gate in gates for text in gate.any_of}
    kept: list[bytes] = []
    for text in sorted(every, key=lambda text: (len(text), text)):
        if not any(map(text.__contains__, kept)):
            kept.append(text)
    return kept


class Re2Prefilter:
    """One automaton for all gates. Raises ImportError where ``google-re2`` is missing."""

    def __init__(self, gates: Iterable[Gate]) -> None:
        re2 = import_module("re2")
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1  # bytes, whatever they mean
        options.never_capture = True
        gates = tuple(gates)
        single = [gate for gate in gates if not gate.before and not gate.after]
        paired = [
            rb"[^\n]*".join(_any(part) for part in (gate.before, gate.any_of, gate.after) if part)
            for gate in gates
            if gate.before or gate.after
        ]
        alone = sorted({text.encode() for gate in single for text in gate.any_of})
        self._pattern = re2.compile(b"|".join([*map(re.escape, alone), *paired]), options)

    def positions(self, block: bytes) -> Iterator[int]:
        """Every match, in order."""
        for found in self._pattern.finditer(block):
            yield found.start()


class FindPrefilter:
    """One search for each literal, merged: needs nothing but Python."""

    def __init__(self, gates: Iterable[Gate]) -> None:
        self._literals = tuple(literals(gates))

    def positions(self, block: bytes) -> Iterator[int]:
        """At most one position a line and literal, in order."""
        found: set[int] = set()
        for literal in self._literals:
            pos = block.find(literal)
            while pos >= 0:
                found.add(pos)
                end = block.find(b"\n", pos)
                pos = block.find(literal, end) if end >= 0 else -1
        yield from sorted(found)


def _any(texts: Iterable[str]) -> bytes:
    return b"(?:" + b"|".join(re.escape(text.encode()) for text in texts) + b")"


def hits(block: Block, search: Prefilter) -> Iterator[tuple[int, bytes, int]]:
    """The lines with a literal: number, bytes without the end, where the next line starts."""
    data = block.data
    line, counted, next_start = block.line, 0, 0
    for pos in search.positions(data):
        if pos < next_start:
            continue
        start = data.rfind(b"\n", next_start, pos) + 1 or next_start
        end = data.find(b"\n", pos)
        if end < 0:
            end = len(data)
        line += data.count(b"\n", counted, start)
        counted = start
        next_start = end + 1
        yield line, data[start:end], next_start
