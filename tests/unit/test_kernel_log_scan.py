"""Blocks of whole lines whatever the chunks, and the lines worth reading in them."""

from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.faults import Catalogue, parse
from bigiron.ingest.log_events import Knowledge
from bigiron.ingest.log_literals import Gate
from bigiron.ingest.log_scan import (
    Block,
    FindPrefilter,
    Prefilter,
    Re2Prefilter,
    blocks,
    hits,
    literals,
    prefilter,
)

TOML = Path(__file__).parents[1] / "fixtures" / "kernel_log" / "faults.toml"
KNOWLEDGE = Knowledge(Catalogue(*parse(TOML.read_text("utf-8"), "faults.toml")))
GATES = (Gate(("needle", "pin")), Gate(("hay",), after=("stack",)))


def searches() -> list[Prefilter]:
    pytest.importorskip("re2")
    return [Re2Prefilter(GATES), FindPrefilter(GATES)]


def whole(data: bytes, limit: int) -> tuple[list[tuple[int, bytes]], int]:
    """What blocks must amount to: numbered lines, each cut, and how many were."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return [(i, line[:limit]) for i, line in enumerate(lines, 1)], sum(
        len(line) > limit for line in lines
    )


def taken(parts: list[Block]) -> tuple[list[tuple[int, bytes]], int]:
    lines: list[tuple[int, bytes]] = []
    for part in parts:
        every = part.data.split(b"\n")
        if every[-1] == b"":
            every.pop()
        lines += list(enumerate(every, part.line))
    return lines, sum(part.cut for part in parts)


@given(
    st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n\n", b"defghijk", b"\r\n"]), max_size=30),
    st.integers(1, 12),
    st.integers(1, 40),
)
def test_blocks_are_the_files_lines_whatever_the_chunk(
    pieces: list[bytes], limit: int, chunk: int
) -> None:
    data = b"".join(pieces)
    parts = list(blocks(BytesIO(data), chunk, line_limit=limit))
    assert taken(parts) == whole(data, limit)
    assert sum(part.size for part in parts) == len(data)


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"defghijk", b"xyz\n"]), max_size=20),
    st.integers(1, 40),
)
def test_an_unfinished_line_is_left(pieces: list[bytes], chunk: int) -> None:
    data = b"".join(pieces)
    parts = list(blocks(BytesIO(data), chunk, last=False))
    assert sum(part.size for part in parts) == data.rfind(b"\n") + 1


def test_a_line_of_a_hundred_megabytes_is_cut_and_counted() -> None:
    class Endless:
        """Forty bytes of a line, then a hundred megabytes more of it, then another line."""

        def __init__(self) -> None:
            self._chunks = [b"needle " * 6, *[b"x" * 1_000_000] * 100, b"\nneedle\n"]

        def read(self, size: int, /) -> bytes:
            assert size > 0
            return self._chunks.pop(0) if self._chunks else b""

    parts = list(blocks(Endless(), 1_000_000))
    assert [(part.line, part.cut) for part in parts] == [(1, 1), (2, 0)]
    assert sum(len(part.data) for part in parts) < 1_100_000
    assert sum(part.size for part in parts) == 100_000_042 + 8


def test_both_prefilters_find_the_lines() -> None:
    data = b"hay\nneedle and needle\n\nhay in a stack\nstack of hay\r\npin"
    found = [list(hits(Block(data, 7, len(data)), search)) for search in searches()]
    exact = [(number, raw) for number, raw, _ in found[0]]
    assert exact == [(8, b"needle and needle"), (10, b"hay in a stack"), (12, b"pin")]
    assert {(number, raw) for number, raw, _ in found[1]} >= set(exact)


def test_where_the_next_line_starts() -> None:
    data = b"a needle\nnext\npin"
    found = list(hits(Block(data, 1, len(data)), FindPrefilter(GATES)))
    assert [(number, data[after:]) for number, _, after in found] == [(1, b"next\npin"), (3, b"")]


@given(
    st.lists(
        st.sampled_from([b"needle", b"hay", b"stack", b"\n", b"pi", b"n", b" ", b"\xff", b"\0"]),
        max_size=40,
    ).map(b"".join)
)
def test_without_re2_no_less_is_found(data: bytes) -> None:
    fast, plain = (list(hits(Block(data, 1, len(data)), search)) for search in searches())
    assert set(fast) <= set(plain)
    lines = data.split(b"\n")
    for number, raw, _ in plain:
        assert lines[number - 1] == raw
    must = {i for i, line in enumerate(lines, 1) if b"needle" in line or b"pin" in line}
    assert must <= {number for number, _, _ in fast}


def test_a_literal_within_another_is_enough() -> None:
    assert literals([Gate(("needle", "need")), Gate(("needles",))]) == [b"need"]


def test_prefilter_of_a_catalogue_finds_its_words() -> None:
    search = prefilter(KNOWLEDGE.gates)
    data = b"quiet\nx: Xid (PCI\nwatchdog: BUG: soft lockup - CPU#1\n"
    assert [number for number, _, _ in hits(Block(data, 1, len(data)), search)] == [2, 3]
