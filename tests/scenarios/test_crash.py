"""Nodes that start again unasked, and clocks that are set."""

import pytest
from tests.scenarios.stage import T0, Stage

from bigiron.model import NodeState

UP_S = T0.timestamp() - 86_400.0


def served(booted_s: float = UP_S) -> Stage:
    """A node that the scheduler counts on, heard for ten minutes."""
    stage = Stage()
    stage.says("a1", "", node_boot_time_seconds=booted_s)
    stage.take(states=(NodeState("a1", "alloc", time=stage.now, flags=("ALLOCATED",)),))
    stage.run(10)
    return stage


def test_a_node_that_started_again_unasked_has_crashed() -> None:
    stage = served()
    stage.silent("a1")
    stage.run(3)
    stage.says("a1", "", node_load1=1.0, node_boot_time_seconds=stage.now.timestamp())
    stage.run(2)
    assert [f.fault for f in stage.open.values()] == ["node_crash"]


@pytest.mark.parametrize("by_s", [600.0, 7200.0, 86_400.0 * 300, -7200.0])
def test_a_clock_that_is_set_is_no_crash(by_s: float) -> None:
    """The boot time is the time less the uptime: it moves with the clock."""
    stage = served()
    stage.says("a1", "", node_boot_time_seconds=UP_S + by_s)
    stage.run(5)
    assert stage.open == {}


@pytest.mark.parametrize("booted_s", [-1.0, 0.0, 1.7e12, 1e18])
def test_a_boot_time_that_cannot_be_stops_nothing(booted_s: float) -> None:
    stage = served()
    stage.says("a1", "", node_boot_time_seconds=booted_s)
    outcome = stage.run(5)
    assert outcome.notes == ()
    assert stage.open == {}
