"""A port that the log and its counters know by two names is one port, and its trouble one."""

import pytest
from tests.scenarios.stage import Stage

from bigiron.detect.same_port import pairs
from bigiron.model import Change


def goes_down(stage: Stage, log: str, counter: str, times: int, minutes_apart: float) -> None:
    """Down and up again, told by the log at once and by the counter a minute later."""
    for _ in range(times):
        key = ("a1", counter, "ib_link_downed_total")
        stage.said[key] = stage.said.get(key, 0.0) + 1
        stage.happens("a1", "ib.link_down", log, ago_s=2)
        stage.happens("a1", "ib.link_up", log)
        stage.run(minutes_apart)


def ready(*ports: str) -> Stage:
    stage = Stage()
    for port in ports:
        stage.says("a1", port, ib_link_downed_total=4.0, ib_state=1.0)
    stage.run(2)
    return stage


def test_a_fact_that_ties_the_names_makes_them_one() -> None:
    stage = ready("mlx5_7")
    stage.facts("a1", "mlx5_7", netdev="ib7")
    goes_down(stage, "ib7", "mlx5_7", 4, 10)
    assert list(stage.open) == ["ib.flap a1/mlx5_7"]


def test_what_came_under_the_logs_name_before_the_fact_did_is_the_same_port() -> None:
    stage = ready("mlx5_7")
    goes_down(stage, "ib7", "mlx5_7", 2, 10)
    stage.facts("a1", "mlx5_7", netdev="ib7")
    assert {e.device for e in stage.memory.events()} == {"mlx5_7"}


def test_where_nothing_ties_them_the_times_do() -> None:
    stage = ready("mlx5_7", "mlx5_1")
    goes_down(stage, "ib7", "mlx5_7", 3, 10)
    assert list(stage.open) == ["ib.flap a1/ib7"]
    p_fail = stage.standing.verdicts["a1"].p_fail_24h
    goes_down(stage, "ib7", "mlx5_7", 5, 10)
    assert list(stage.open) == ["ib.flap a1/ib7"]
    assert stage.standing.verdicts["a1"].p_fail_24h == p_fail
    assert stage.changes(Change.OPEN) == ["ib.flap"]


def test_once_known_as_one_they_stay_so_when_the_log_misses_a_line() -> None:
    stage = ready("mlx5_7")
    goes_down(stage, "ib7", "mlx5_7", 3, 10)
    stage.said["a1", "mlx5_7", "ib_link_downed_total"] += 1
    stage.run(10)
    assert list(stage.open) == ["ib.flap a1/ib7"]


def test_two_ports_that_flap_are_two() -> None:
    stage = ready("mlx5_7", "mlx5_1")
    for _ in range(3):
        goes_down(stage, "ib7", "mlx5_7", 1, 10)
        goes_down(stage, "ib1", "mlx5_1", 1, 10)
    assert sorted(stage.open) == ["ib.flap a1/ib1", "ib.flap a1/ib7"]


def test_a_log_and_a_counter_that_tell_of_different_times_tell_of_two_ports() -> None:
    stage = ready("mlx5_7", "mlx5_1")
    for _ in range(3):
        stage.happens("a1", "ib.link_down", "ib3", ago_s=2)
        stage.happens("a1", "ib.link_up", "ib3")
        stage.run(10)
        stage.said["a1", "mlx5_1", "ib_link_downed_total"] += 1
        stage.run(10)
    assert sorted(stage.open) == ["ib.flap a1/ib3", "ib.flap a1/mlx5_1"]


@pytest.mark.parametrize("tied", [True, False])
def test_a_port_that_stays_down_is_told_once_and_is_well_when_the_log_says_so(tied: bool) -> None:
    stage = ready("mlx5_7", "mlx5_1")
    if tied:
        stage.facts("a1", "mlx5_7", netdev="ib7")
    stage.happens("a1", "ib.link_down", "ib7", ago_s=5)
    stage.says("a1", "mlx5_7", ib_state=0.0)
    stage.run(5)
    assert list(stage.open) == [f"ib.link_down a1/{'mlx5_7' if tied else 'ib7'}"]
    stage.happens("a1", "ib.link_up", "ib7")
    stage.says("a1", "mlx5_7", ib_state=1.0)
    stage.run(3)
    assert stage.open == {}


def test_a_port_that_went_down_without_a_line_is_told_by_its_state() -> None:
    stage = ready("mlx5_7", "mlx5_1")
    stage.happens("a1", "ib.link_down", "ib1")
    stage.run(10)
    stage.says("a1", "mlx5_7", ib_state=0.0)
    stage.run(5)
    assert sorted(stage.open) == ["ib.link_down a1/ib1", "nic.down a1/mlx5_7"]


def test_names_are_paired_one_to_one_the_closest_first() -> None:
    logged = {"ib1": (100.0, 500.0), "ib2": (110.0, 505.0)}
    counted = {"mlx5_a": (130.0, 530.0), "mlx5_b": (118.0, 512.0), "mlx5_c": (130.0, 900.0)}
    assert pairs(logged, counted) == {"mlx5_b": "ib2", "mlx5_a": "ib1"}
    assert pairs({}, counted) == {}
    assert pairs(logged, {"mlx5_a": ()}) == {}
