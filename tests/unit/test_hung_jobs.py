"""From flight recorder dumps and job output to the ranks a hung job waits for."""

import json
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.analyze.hang import Cause, Hang, blame
from bigiron.errors import ParseError
from bigiron.faults import catalogue
from bigiron.ingest import Document, Head, plain_pickle
from bigiron.ingest.flight_recorder import flight_recorder
from bigiron.ingest.training_log import training_log
from bigiron.model import Blame, Event, Fact, Observation

TOOLS = Path(__file__).parent.parent / "fixtures" / "tools"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
PAIRS = {"0": [0, 1, 2, 3], "5": [0, 1], "6": [2, 3]}


def dump(
    rank: int, pending: list[tuple[str, int]], done: int = 10, groups: dict[str, list[int]] = PAIRS
) -> dict[str, Any]:
    """One rank's dump: groups, the last completed collective, and those it waits in."""
    mine = {name: ranks for name, ranks in groups.items() if rank in ranks}
    last = {name: max([s for g, s in pending if g == name], default=done) for name in mine}
    local = {name: str(i) for i, name in enumerate(mine)}
    return {
        "version": "2.9",
        "nccl_version": "2.27.3",
        "pg_config": {
            name: {"name": name, "desc": f"group_{name}", "ranks": str(ranks)}
            for name, ranks in mine.items()
        },
        "pg_status": {
            local[name]: {
                "last_enqueued_collective": last[name],
                "last_started_collective": -1,
                "last_completed_collective": done,
            }
            for name in mine
        },
        "entries": [
            {
                "pg_id": int(local[group]),
                "process_group": (group, f"group_{group}"),
                "collective_seq_id": seq,
                "profiling_name": "nccl:all_reduce",
                "state": "scheduled",
                "retired": False,
                "is_p2p": False,
            }
            for group, seq in pending
        ],
    }


def facts_of(dumps: dict[int, dict[str, Any]], form: str = "pickle") -> list[Fact]:
    facts: list[Fact] = []
    for rank, value in dumps.items():
        data = pickle.dumps(value, 2) if form == "pickle" else json.dumps(value).encode()
        document = Document.of(f"nccl_trace_rank_{rank}", data, NOW, node=f"n{rank}")
        assert flight_recorder().sniff(Head.of(document)) >= 0.9
        facts += [x for x in flight_recorder().read(document) if isinstance(x, Fact)]
    return facts


def ranks(hang: Hang) -> list[int]:
    return [suspect.rank for suspect in hang.suspects]


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_the_rank_that_waits_for_nobody_is_to_blame(form: str) -> None:
    # 3 never came: 2 waits for it in group 6, and 0 and 1 wait for both in group 0.
    dumps = {
        0: dump(0, [("0", 11)]),
        1: dump(1, [("0", 11)]),
        2: dump(2, [("6", 11)]),
        3: dump(3, []),
    }
    hang = blame(facts_of(dumps, form))
    assert (hang.cause, hang.blame, ranks(hang)) == (Cause.MISSING, Blame.UNKNOWN, [3])
    assert hang.suspects[0].node == "n3"
    assert hang.suspects[0].waited_by == (0, 1, 2)
    assert "group_6" in hang.suspects[0].because


def test_a_rank_without_a_dump_is_to_blame_and_told_to_have_none() -> None:
    hang = blame(
        facts_of({0: dump(0, [("0", 11)]), 1: dump(1, [("0", 11)]), 2: dump(2, [("0", 11)])})
    )
    assert ranks(hang) == [3]
    assert hang.absent == (3,)
    assert "left no dump" in hang.suspects[0].because


def test_all_entered_and_none_left_suspects_the_network() -> None:
    hang = blame(facts_of({rank: dump(rank, [("0", 11)]) for rank in range(4)}))
    assert (hang.cause, hang.blame, ranks(hang)) == (Cause.STUCK_INSIDE, Blame.LINK, [])


def test_ranks_that_wait_for_one_another_are_the_programs_fault() -> None:
    groups = {"1": [0, 1], "2": [0, 1]}
    dumps = {
        0: dump(0, [("1", 11)], groups=groups),
        1: dump(1, [("2", 11)], groups=groups),
    }
    hang = blame(facts_of(dumps))
    assert (hang.cause, hang.blame, ranks(hang)) == (Cause.CIRCLE, Blame.APPLICATION, [0, 1])


def test_nothing_pending_is_no_hang() -> None:
    assert blame(facts_of({rank: dump(rank, []) for rank in range(4)})).cause is Cause.NONE
    assert blame([]).cause is Cause.NONE
    assert blame([Fact("n", "driver_version", "1")]).ranks == 0


def test_the_rank_is_told_by_its_groups_and_else_by_the_files_name() -> None:
    value = dump(2, [])
    document = Document.of("renamed_77", pickle.dumps(value, 2), NOW)
    facts = [x for x in flight_recorder().read(document) if isinstance(x, Fact)]
    assert facts[0].value == 77  # ranks 2 and 3 are in the same groups: the name decides
    alone = {"pg_config": {"9": {"ranks": "[5]"}}, "pg_status": {}, "entries": [], "version": "2.9"}
    told = list(flight_recorder().read(Document.of("renamed_77", pickle.dumps(alone, 2), NOW)))
    assert [x.value for x in told if isinstance(x, Fact) and x.name == "fr_rank"] == [5]


def test_a_dump_of_nobody_is_refused() -> None:
    with pytest.raises(ParseError, match="which rank"):
        list(flight_recorder().read(Document.of("dump", b'{"pg_config": {}, "version": "2"}', NOW)))
    with pytest.raises(ParseError, match="neither"):
        list(flight_recorder().read(Document.of("dump_1", b'{"version": "2"}', NOW)))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(value=PLAIN, protocol=st.integers(0, 5))
def test_plain_pickles_of_every_protocol_are_read(value: object, protocol: int) -> None:
    try:
        expected = pickle.loads(pickle.dumps(value, protocol))  # noqa: S301
        assert plain_pickle.load(pickle.dumps(value, protocol), "x") == expected
    except ParseError:
        # Protocols 0 and 1 write True as an integer with a leading zero or a call: refused.
        assert protocol < 2


class _Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path.unlink, (Path("/nonexistent"),))


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(_Evil(), 2),
        pickle.dumps(_Evil(), 4),
        pickle.dumps({1, 2}, 2),
        b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00idtR.",
        b"\x80\x02}(K\x01u.",
        b"\x80\x02a.",
        b"\x80\x02(.",
        b"\x80\x02]",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"",
    ],
)
def test_a_pickle_that_does_more_than_build_values_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError, match="plain values"):
        plain_pickle.load(data, "x")


def test_a_huge_memo_index_costs_nothing() -> None:
    assert plain_pickle.load(b"\x80\x02]r\xff\xff\xff\x7f.", "x") == []


@given(cut=st.integers(0, 600), flip=st.integers(0, 600), byte=st.integers(0, 255))
def test_a_damaged_dump_is_read_or_refused(cut: int, flip: int, byte: int) -> None:
    data = bytearray(pickle.dumps(dump(1, [("0", 11), ("5", 11)]), 2))
    data[flip % len(data)] = byte
    document = Document.of("dump_1", bytes(data[: len(data) - cut]), NOW)
    refused = False
    found: list[Observation] = []
    try:
        found = list(flight_recorder().read(document))
    except ParseError:
        refused = True
    assert refused or any(isinstance(x, Fact) for x in found)


def test_job_output_becomes_one_event_a_kind() -> None:
    document = Document.of("train.log", (TOOLS / "training.log").read_bytes(), NOW)
    assert training_log().sniff(Head.of(document)) >= 0.7
    found = [x for x in training_log().read(document) if isinstance(x, Event)]
    assert [(x.code, x.count) for x in found] == [
        ("nccl.timeout", 2),
        ("nccl.error", 2),
        ("cuda.uncorrectable_ecc", 1),
        ("cuda.program_error", 1),
        ("cuda.out_of_memory", 1),
        ("app.loss_not_finite", 1),
    ]
    timeout, error = found[0], found[1]
    assert timeout.attrs == {"seq": "78", "op": "BROADCAST", "ran_ms": "600096", "ranks": "1,2"}
    assert timeout.time == datetime(2026, 11, 3, 4, 11, 1, 61727, tzinfo=UTC)
    assert (error.node, error.device) == ("gpu041", "gpu3")
    assert all(catalogue().get(x.code) is not None for x in found)


def test_a_kernel_log_is_left_to_its_own_reader() -> None:
    line = b"Nov  3 04:11:01 gpu041 kernel: python3[99]: WorkNCCL segfault at 0\n"
    assert training_log().sniff(Head.of(Document.of("x", line, NOW))) <= 0.2


def test_watchdog_of_last_december_read_in_january() -> None:
    line = (
        b"[rank1]:[E1231 23:59:59.5 P.cpp:1] [Rank 1] Watchdog caught collective operation timeout:"
        b" WorkNCCL(SeqNum=1, OpType=ALLREDUCE)\n"
    )
    january = datetime(2027, 1, 2, tzinfo=UTC)
    (event,) = [
        x for x in training_log().read(Document.of("x", line, january)) if isinstance(x, Event)
    ]
    assert event.time == datetime(2026, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)
