"""A link that goes down as a job of its node dies; what else a job may die of."""

from datetime import timedelta

import pytest
from tests.scenarios.stage import Stage

from bigiron.model import ActionKind, Job, Severity

NODES = ("a1", "a2", "a3")


def ended(stage: Stage, state: str, after_s: float) -> Job:
    start, end = stage.now - timedelta(hours=2), stage.now + timedelta(seconds=after_s)
    return Job("77", state, start=start, end=end, nodes=NODES)


def flapped(state: str, after_s: float) -> Stage:
    """One flap of a link of a2, and a job on it that ends so long after it."""
    stage = Stage(NODES)
    stage.run(5)
    stage.happens("a2", "ib.link_down", "ib3")
    stage.happens("a2", "ib.link_up", "ib3")
    stage.take(jobs=(ended(stage, state, after_s),))
    stage.run(5)
    return stage


def test_a_flap_that_a_job_did_not_survive_asks_for_a_test_of_the_link() -> None:
    stage = flapped("FAILED", 40)
    assert list(stage.open) == ["ib_link_down a2/ib3"]
    finding = stage.open["ib_link_down a2/ib3"]
    assert (finding.severity, finding.action) == (Severity.WARNING, ActionKind.CHECK)
    assert "job 77 died" in finding.because[0]


@pytest.mark.parametrize(
    ("state", "after_s"),
    [("NODE_FAIL", 40), ("COMPLETED", 40), ("CANCELLED", 40), ("FAILED", 900), ("FAILED", -60)],
)
def test_a_job_that_a_node_failed_or_that_ended_otherwise_says_nothing_of_the_link(
    state: str, after_s: float
) -> None:
    assert flapped(state, after_s).open == {}
