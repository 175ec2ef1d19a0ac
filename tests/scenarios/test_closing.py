"""A person's word ends a finding; what comes after it is a new one."""

from datetime import timedelta

import pytest
from tests.scenarios.stage import Stage

from bigiron.faults import shipped
from bigiron.model import Change, FindingChange, Health, NodeState

FOR_A_PERSON = sorted(entry.code for entry in shipped() if entry.clears == "person")


def faults(stage: Stage) -> set[str]:
    return {finding.fault for finding in stage.open.values()}


def closed(stage: Stage) -> list[FindingChange]:
    return [c for o in stage.outcomes for c in o.changes if c.change is Change.CLOSE]


def scheduler(stage: Stage, state: str, by: str = "", reason: str = "") -> None:
    since = stage.now if reason else None
    stage.take(states=(NodeState("a1", state, reason, by, since, stage.now),))


def drained(stage: Stage, by: str = "alice", reason: str = "swap the part") -> None:
    """What Slurm's reader makes of a node that a person drained."""
    scheduler(stage, "drain", by, reason)
    stage.happens("a1", "slurm.node_drain", by=by)


@pytest.mark.parametrize("code", FOR_A_PERSON)
def test_what_waits_for_a_person_ends_by_their_word_and_not_by_time(code: str) -> None:
    stage = Stage()
    stage.happens("a1", code)
    stage.run(2)
    (id_,) = stage.standing.open
    stage.closes(id_)
    stage.run(1)
    assert faults(stage) == set()
    assert [c.because for c in closed(stage)] == ["closed by alice: it was changed"]
    assert stage.health("a1") is Health.HEALTHY


def test_the_old_evidence_opens_nothing_and_newer_evidence_a_new_finding() -> None:
    stage = Stage()
    stage.happens("a1", "mce.fatal")
    stage.run(2)
    assert list(stage.standing.open) == ["F000001"]
    stage.closes("F000001")
    stage.run(1)
    stage.happens("a1", "xid.31", "gpu0")  # the node is looked at anew
    stage.run(5)
    assert "mce.fatal" not in faults(stage)
    again = stage.now
    stage.happens("a1", "mce.fatal")
    stage.run(2)
    (found,) = [h for h in stage.standing.open.values() if h.finding.fault == "mce.fatal"]
    assert found.finding.since == again
    assert found.opened > again
    assert "F000001" not in stage.standing.open


def test_what_a_gauge_still_shows_is_found_again() -> None:
    stage = Stage()
    stage.says("a1", "gpu3", gpu_row_remap_failure=1.0)
    stage.run(3)
    (id_,) = stage.standing.open
    stage.closes(id_)
    stage.run(2)
    assert faults(stage) == {"gpu.row_remap_failure"}
    assert id_ not in stage.standing.open
    stage.says("a1", "gpu3", gpu_row_remap_failure=0.0)
    stage.run(5)
    assert faults(stage) == set()


def test_evidence_between_the_word_and_the_turn_counts_as_new() -> None:
    stage = Stage()
    stage.happens("a1", "mce.fatal")
    stage.run(2)
    stage.closes("F000001", ago_s=30)
    stage.happens("a1", "mce.fatal", ago_s=10)
    stage.run(1)
    assert list(stage.standing.open) == ["F000002"]


def test_a_word_on_what_has_ended_meanwhile_changes_nothing() -> None:
    stage = Stage()
    stage.closes("F000009")
    outcome = stage.run(1)
    assert outcome.changes == ()
    assert outcome.answered == (1,)


def test_a_finding_closed_twice_stays_closed_as_of_the_later_word() -> None:
    stage = Stage()
    for number in (1, 2):
        stage.happens("a1", "mce.fatal")
        stage.run(2)
        stage.closes(f"F00000{number}")
        stage.run(1)
    stage.happens("a1", "xid.31", "gpu0")
    stage.run(2)
    assert "mce.fatal" not in faults(stage)


def test_a_node_that_a_person_puts_back_into_service_has_what_waited_for_them_no_more() -> None:
    stage = Stage()
    stage.happens("a1", "mce.fatal")
    stage.happens("a1", "xid.79", "gpu3")
    stage.run(2)
    drained(stage)
    stage.run(10)
    assert {"mce.fatal", "xid.79"} <= faults(stage)
    scheduler(stage, "idle")
    stage.run(1)
    assert faults(stage) == {"xid.79"}, "a person does not bring a GPU back to the bus"
    because = "returned to service by a person; alice had taken it out: swap the part"
    assert because in [c.because for c in closed(stage)]
    stage.happens("a1", "xid.31", "gpu0")
    stage.run(2)
    assert "mce.fatal" not in faults(stage)


def test_what_led_to_something_that_waits_for_a_person_waits_too() -> None:
    stage = Stage()
    entry = next(e for e in shipped() if e.clears == "person" and e.code.startswith("xid."))
    assert entry.follows, "the test is about a follower"
    stage.happens("a1", entry.follows[0], "gpu3", ago_s=20)
    stage.happens("a1", entry.code, "gpu3", ago_s=10)
    stage.run(2)
    assert len(stage.open) == 1
    drained(stage)
    stage.run(2)
    scheduler(stage, "alloc")
    stage.run(1)
    assert faults(stage) == set()


@pytest.mark.parametrize("code", ["slurm.not_responding", "slurm.node_down"])
def test_what_the_scheduler_took_out_itself_is_no_persons_word(code: str) -> None:
    stage = Stage()
    stage.happens("a1", "mce.fatal")
    stage.run(2)
    scheduler(stage, "down", "slurm", "Not responding")
    stage.happens("a1", code)
    stage.run(5)
    scheduler(stage, "idle")
    stage.run(1)
    assert faults(stage) == {"mce.fatal"}


def test_what_bigiron_drained_is_no_persons_word() -> None:
    stage = Stage()
    stage.happens("a1", "mce.fatal")
    stage.run(2)
    scheduler(stage, "drain", "root", "bigiron: mce.fatal")
    stage.run(5)
    scheduler(stage, "idle")
    stage.run(1)
    assert faults(stage) == {"mce.fatal"}


def test_what_comes_after_the_node_was_last_seen_out_of_service_stays() -> None:
    stage = Stage()
    stage.happens("a1", "mce.fatal")
    drained(stage)
    stage.run(5)
    stage.happens("a1", "mce.fatal")
    stage.take(states=(NodeState("a1", "idle", time=stage.now + timedelta(seconds=30)),))
    stage.run(1)
    assert "mce.fatal" in faults(stage)
