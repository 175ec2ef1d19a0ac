from datetime import UTC, datetime, timedelta

from bigiron.detect.planned import Away, Calendar, away
from bigiron.model import Maintenance, NodeState

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def work(start_h: float, end_h: float, kind: str = "firmware") -> Maintenance:
    return Maintenance(NOW + start_h * HOUR, NOW + end_h * HOUR, ("a1", "a2"), kind)


def drained(since_h: float, state: str = "drain") -> NodeState:
    return NodeState("a1", state, "board swap", since=NOW + since_h * HOUR)


def test_what_begins_within_planned_work_is_excused_until_it_and_its_grace_are_over() -> None:
    began = NOW - HOUR
    assert Calendar(NOW, [work(-2, 1)], {}).excuses("a1", began) is not None
    assert Calendar(NOW, [work(-2, -0.2)], {}).excuses("a1", began) is not None
    assert Calendar(NOW, [work(-2, -0.9)], {}).excuses("a1", began) is None
    assert Calendar(NOW, [work(-2, 1)], {}).excuses("b9", began) is None


def test_what_began_before_planned_work_is_not_excused_by_it() -> None:
    assert Calendar(NOW, [work(-2, 1)], {}).excuses("a1", NOW - 3 * HOUR) is None


def test_a_drain_does_not_excuse_what_it_was_made_for() -> None:
    states = {"a1": drained(-1)}
    calendar = Calendar(NOW, [], states, away({}, states, NOW))
    assert calendar.excuses("a1", NOW - HOUR) is None
    assert calendar.excuses("a1", NOW - HOUR / 2) is not None


def test_down_is_nobodys_plan() -> None:
    states = {"a1": drained(-1, "down")}
    assert away({}, states, NOW) == {}
    assert Calendar(NOW, [], states).at_work("a1") is None


def test_a_node_that_had_its_turn_is_not_excused_for_the_rest_of_the_window() -> None:
    turns = {"a1": Away(NOW - 2 * HOUR, NOW - 1.5 * HOUR, "work on it")}
    calendar = Calendar(NOW, [work(-3, 2)], {}, turns)
    assert calendar.excuses("a1", NOW - HOUR / 4) is None
    assert calendar.excuses("a2", NOW - HOUR / 4) is not None


def test_a_part_that_breaks_before_the_nodes_turn_is_its_own_fault() -> None:
    calendar = Calendar(NOW, [work(-3, 2)], {})
    assert calendar.excuses("a1", NOW - HOUR, own=True) is None


def test_a_turn_ends_when_the_scheduler_says_so_and_is_remembered_for_a_day() -> None:
    out = away({}, {"a1": drained(-2, "maint")}, NOW - HOUR)
    back = NodeState("a1", "idle", since=NOW - HOUR / 2)
    after = away(out, {"a1": back}, NOW)
    assert after["a1"].until == NOW - HOUR / 2
    assert away(after, {"a1": back}, NOW + 30 * HOUR) == {}
    calendar = Calendar(NOW, [], {"a1": back}, after)
    assert calendar.during("a1", NOW - HOUR)
    assert not calendar.during("a1", NOW + HOUR)


def test_work_that_is_over_is_told_once_its_grace_is() -> None:
    assert Calendar(NOW, [work(-3, -1)], {}).late("a1") is not None
    assert Calendar(NOW, [work(-3, -0.2)], {}).late("a1") is None


def test_a_turn_of_another_day_takes_nothing_from_the_work_of_today() -> None:
    turns = {"a1": Away(NOW - 50 * HOUR, NOW - 49 * HOUR, "work on it")}
    calendar = Calendar(NOW, [work(-3, 2)], {}, turns)
    assert calendar.during("a1", NOW - HOUR)
    assert calendar.during("a1", NOW - 49.5 * HOUR)
    assert not calendar.during("a1", NOW - 10 * HOUR)
    assert calendar.excuses("a1", NOW - HOUR) is not None


def test_how_long_a_turn_is_remembered_is_for_who_asks_to_say() -> None:
    back = {"a1": NodeState("a1", "idle", since=NOW - HOUR)}
    turns = {"a1": Away(NOW - 50 * HOUR, NOW - 49 * HOUR, "work on it")}
    assert away(turns, back, NOW) == {}
    assert away(turns, back, NOW, 3 * 24 * HOUR) == turns
