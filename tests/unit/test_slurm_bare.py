"""Slurm's lists without a header are known by their words alone, and nothing else is."""

from datetime import UTC, datetime

import pytest

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head
from bigiron.ingest.slurm_bare import slurm_bare
from bigiron.model import Job, NodeState, Note, Observation

NOW = datetime(2026, 11, 30, tzinfo=UTC)
NODES = "gpu001,idle\ngpu002,drained*\ngpu003,down*\ngpu[004-005],mixed\ngpu001,idle\n"
JOBS = "81001,RUNNING\n81002_4,NODE_FAIL\n81003,CONFIGURING\n81004,CANCELLED\n"
OBJECTS = (
    '{"a": "physics", "id": 71001, "state": "RUNNING", "p": "gpu", "cpu": 8}\n'
    '{"a": "physics", "id": 71002, "state": "PENDING", "p": "gpu", "cpu": 8}\n'
    "# written by a cron job\n"
    '{"a": "physics", "id": 71003, "state": "PENDING", "p": "gpu", "cpu": xx}\n'
    '{"a": "physics", "id": none, "state": "PENDING"}\n'
)


def sniff(text: str) -> float:
    return slurm_bare().sniff(Head.of(Document.of("x", text.encode(), NOW)))


def read(text: str) -> list[Observation]:
    assert sniff(text) >= 0.3
    return list(slurm_bare().read(Document.of("x", text.encode(), NOW)))


@pytest.mark.parametrize("delimiter", [",", "|", " ", "\t"])
def test_nodes_and_their_states_each_once(delimiter: str) -> None:
    states = [o for o in read(NODES.replace(",", delimiter)) if isinstance(o, NodeState)]
    assert [(s.node, s.state) for s in states] == [
        ("gpu001", "idle"),
        ("gpu002", "drain"),
        ("gpu003", "down"),
        ("gpu004", "alloc"),
        ("gpu005", "alloc"),
    ]


def test_jobs_and_their_states() -> None:
    jobs = [o for o in read(JOBS) if isinstance(o, Job)]
    assert [(j.id, j.state) for j in jobs] == [
        ("81001", "RUNNING"),
        ("81002_4", "NODE_FAIL"),
        ("81003", "CONFIGURING"),
        ("81004", "CANCELLED"),
    ]


def test_jobs_as_objects_even_where_a_field_is_no_json() -> None:
    seen = read(OBJECTS)
    jobs = [o for o in seen if isinstance(o, Job)]
    assert [(j.id, j.state, j.account, j.partition) for j in jobs] == [
        ("71001", "RUNNING", "physics", "gpu"),
        ("71002", "PENDING", "physics", "gpu"),
        ("71003", "PENDING", "physics", "gpu"),
    ]
    assert [n.count for n in seen if isinstance(n, Note)] == [1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpu001,idle\n",
        "name,state\nalpha,happy\nbeta,sad\ngamma,fine\n",
        "20,mixed\n9,idle\n1,allocated\n2,drained*\n",
        "8001,LISTEN\n8002,LISTEN\n8003,CLOSED\n",
        "CPU,idle\nhello world\nthis is text\nmore text\n",
    ],
)
def test_other_lists_are_left_alone(text: str) -> None:
    assert sniff(text) == 0.0


def test_a_list_of_nothing_is_refused() -> None:
    with pytest.raises(ParseError, match="no node or job"):
        list(slurm_bare().read(Document.of("x", b"a b c d\n", NOW)))
