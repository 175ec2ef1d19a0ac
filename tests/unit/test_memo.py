"""What is kept between looks is what would be made anew, and no older than what it is made of."""

from datetime import UTC, datetime, timedelta
from statistics import median

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bigiron.detect.at_work import Busy
from bigiron.detect.memo import Memo
from bigiron.hub.columns import Columns
from bigiron.hub.memory import Memory
from bigiron.model import Batch, Event, Job

START = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


def test_an_answer_is_made_again_when_what_it_is_made_of_is_another_object() -> None:
    memo, one, same = Memo(), [1], [1]
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    assert memo.made("count", (one, 3, ("a",)), make) == 1
    assert memo.made("count", (one, 3, ("a",)), make) == 1
    assert memo.made("count", (same, 3, ("a",)), make) == 2
    assert memo.made("count", (same, 4, ("a",)), make) == 3
    assert memo.made("count", (same,), make) == 4
    assert memo.made("other", (same,), make) == 5


def _event(node: str, minutes: float) -> Event:
    return Event(
        node, "xid.79", "NVRM: Xid 79", time=START + timedelta(minutes=minutes), device="gpu0"
    )


def test_a_nodes_events_stay_the_same_object_until_one_is_new_or_gone() -> None:
    memory = Memory()
    memory.take(Batch(START, "log", events=(_event("a", -1), _event("b", -1))))
    before = memory.window(START)
    assert before.of_node is not None
    memory.take(Batch(START, "log", events=(_event("a", 0),)))
    after = memory.window(START)
    assert after.of_node is not None
    assert after.of_node["b"] is before.of_node["b"]
    assert [e.time for e in after.of_node["a"]] == [e.time for e in after.events if e.node == "a"]
    assert len(after.of_node["a"]) == 2
    assert after.memo is before.memo
    late = START + timedelta(days=7, seconds=-30)
    memory.take(Batch(late, "log"))
    assert {n: len(e) for n, e in memory.window(late).events_of().items()} == {"a": 1}


def test_jobs_stay_the_same_object_until_one_changes() -> None:
    memory = Memory()
    job = Job("1", "RUNNING", start=START, nodes=("a",))
    memory.take(Batch(START, "jobs", jobs=(job,)))
    before = memory.window(START).jobs
    memory.take(Batch(START, "jobs", jobs=(Job("1", "RUNNING", start=START, nodes=("a",)),)))
    assert memory.window(START).jobs is before
    memory.take(Batch(START, "jobs", jobs=(Job("1", "COMPLETED", start=START, nodes=("a",)),)))
    assert [job.state for job in memory.window(START).jobs] == ["COMPLETED"]


TOLD = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([1.0, 2.0]), st.booleans()), max_size=12
)


@given(TOLD)
def test_uneven_are_the_nodes_whose_fresh_values_differ(
    told: list[tuple[str, float, bool]],
) -> None:
    columns = Columns(30.0, 3600.0)
    keys = tuple((node, f"gpu{n}") for n, (node, _, _) in enumerate(told))
    times = np.array([100.0 if fresh else 10.0 for _, _, fresh in told])
    columns.take(columns.rows(keys), times, np.array([value for _, value, _ in told]))
    values: dict[str, set[float]] = {}
    for node, value, fresh in told:
        if fresh:
            values.setdefault(node, set()).add(value)
    assert columns.uneven(50.0) == {node for node, of in values.items() if len(of) > 1}
    assert all(columns.newest(key) == value for key, (_, value, _) in zip(keys, told, strict=True))
    assert columns.newest(("z", "gpu0")) is None


VALUES = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.just(np.nan), st.floats(-50, 90))), max_size=30
)


@given(VALUES, st.integers(0, 4))
def test_the_median_of_a_node_is_that_of_its_known_values(
    told: list[tuple[int, float]], more_than: int
) -> None:
    values = np.array([value for _, value in told], np.float64)
    node = np.array([of for of, _ in told], np.intp)
    keys = [(str(of), str(n)) for n, (of, _) in enumerate(told)]
    near = Busy(keys, node, node, values, values, values).near(values, more_than)
    for row, (of, value) in enumerate(told):
        beside = [v for n, v in told if n == of and v == v]
        known = value == value and len(beside) > more_than
        np.testing.assert_array_equal(near[row], median(beside) if known else np.nan)
