"""Verdicts over time: worse at once, better only when it lasts."""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from tests.scenarios.stage import T0, Stage

from bigiron.decide.judge import End, Judging, end
from bigiron.hub.memory import Limits
from bigiron.hub.restore import STANDING, remainder, restore
from bigiron.hub.turn import Settings
from bigiron.model import (
    ActionKind,
    Change,
    CheckResult,
    CheckStatus,
    Finding,
    FindingChange,
    Health,
    Severity,
    Subject,
    Verdict,
)
from bigiron.store.ledger import Ledger
from bigiron.store.turn import Turn

HOUR = 60
"""Minutes."""


def verdict(stage: Stage, node: str = "a1") -> Verdict:
    return stage.standing.verdicts[node]


def crashed_and_back(stage: Stage) -> None:
    """A GPU falls off the bus, and the node boots."""
    stage.happens("a1", "xid.79", "gpu5")
    stage.run(10)
    assert stage.health("a1") is Health.UNHEALTHY
    stage.happens("a1", "kernel.reboot")
    stage.run(1)
    assert stage.open == {}


def suspected() -> Stage:
    """A test finds one GPU a little slow."""
    stage = Stage()
    stage.take(checks=(warned(stage),))
    stage.run(2)
    return stage


def warned(stage: Stage, status: CheckStatus = CheckStatus.WARN) -> CheckResult:
    name = "memory bandwidth"
    return CheckResult("a1", name, status, "gpu3", text="10 % low", time=stage.now)


def test_a_hard_fault_makes_it_unhealthy_at_once() -> None:
    stage = Stage()
    stage.happens("a1", "xid.79", "gpu5")
    stage.run(1)
    assert stage.health("a1") is Health.UNHEALTHY
    assert verdict(stage).p_fail_24h > 0.5


def test_what_made_it_unhealthy_must_be_gone_for_an_hour() -> None:
    stage = Stage()
    crashed_and_back(stage)
    gone = stage.now
    told = verdict(stage)
    assert (told.health, told.findings) == (Health.UNHEALTHY, ())
    assert told.held_until == gone + timedelta(hours=1)
    assert told.because == (
        f"nothing stands against it since {gone:%H:%M} UTC; "
        f"healthy again at {gone + timedelta(hours=1):%H:%M}, if nothing new comes"
    )
    stage.run(HOUR - 1)
    assert stage.health("a1") is Health.UNHEALTHY
    stage.run(1)
    assert stage.health("a1") is Health.HEALTHY
    assert verdict(stage).held_until is None


def test_the_probability_falls_with_the_evidence_and_knows_of_the_incident() -> None:
    stage = Stage()
    stage.run(1)
    base = verdict(stage).p_fail_24h
    crashed_and_back(stage)
    after = verdict(stage)
    assert base <= after.p_fail_24h < 0.1
    assert [one.what for one in after.contributions] == ["base rate", "1 incident in 30 days"]


def test_it_flaps_no_more_than_its_evidence_lasts() -> None:
    stage = Stage()
    crashed_and_back(stage)
    for _ in range(3):
        stage.run(30)
        stage.happens("a1", "xid.79", "gpu5")
        stage.run(1)
        stage.happens("a1", "kernel.reboot")
        stage.run(1)
    told = [v.health for o in stage.outcomes for v in o.verdicts if v.node == "a1"]
    assert set(told) == {Health.UNHEALTHY}


def test_an_hour_longer_or_shorter_is_the_sites_choice() -> None:
    stage = Stage(settings=Settings(judging=Judging(hold_s=0.0)))
    crashed_and_back(stage)
    assert stage.health("a1") is Health.HEALTHY


def test_an_hour_in_which_nothing_is_seen_proves_nothing() -> None:
    stage = Stage()
    stage.says("a1", "", node_load1=3.0)
    crashed_and_back(stage)
    stage.said.clear()
    stage.says("a2", "", node_load1=3.0)
    stage.run(2 * HOUR)
    told = verdict(stage)
    assert (told.health, told.held_until) == (Health.UNHEALTHY, None)
    assert told.because.endswith("it was unhealthy before")
    stage.says("a1", "", node_load1=3.0)
    stage.run(HOUR - 5)
    assert stage.health("a1") is Health.UNHEALTHY
    stage.run(10)
    assert stage.health("a1") is Health.HEALTHY


def test_a_persons_word_needs_no_hour() -> None:
    stage = Stage()
    stage.happens("a1", "xid.79", "gpu5")
    stage.run(10)
    stage.closes(*stage.standing.open)
    stage.run(1)
    assert stage.health("a1") is Health.HEALTHY


def test_a_passed_test_needs_no_hour() -> None:
    stage = suspected()
    assert stage.health("a1") is Health.DEGRADED
    stage.take(checks=(warned(stage, CheckStatus.PASS),))
    stage.run(1)
    assert stage.health("a1") is Health.HEALTHY


def test_a_suspicion_degrades_and_asks_for_a_test_alone() -> None:
    stage = Stage()
    stage.happens("a1", "xid.92", "gpu3")
    stage.run(5)
    assert stage.health("a1") is Health.DEGRADED
    assert [a.kind for a in stage.actions] == [ActionKind.CHECK]
    assert verdict(stage).p_fail_24h < 0.5


def test_a_node_that_is_only_held_is_asked_nothing_of() -> None:
    stage = Stage()
    crashed_and_back(stage)
    asked = len(stage.actions)
    stage.run(HOUR + 5)
    assert len(stage.actions) == asked
    assert stage.standing.actions == {}


def test_what_was_asked_for_is_not_asked_again_while_something_lesser_ends() -> None:
    stage = suspected()
    stage.happens("a1", "xid.79", "gpu5")
    stage.run(5)
    asked = [action.key for action in stage.actions]
    stage.take(checks=(warned(stage, CheckStatus.PASS),))
    stage.run(5)
    assert [action.key for action in stage.actions] == asked


def test_the_lesser_that_still_stands_is_told_while_the_worse_holds() -> None:
    stage = suspected()
    stage.happens("a1", "xid.79", "gpu5")
    stage.run(5)
    stage.happens("a1", "kernel.reboot")
    stage.run(1)
    told = verdict(stage)
    assert told.health is Health.UNHEALTHY
    assert told.findings != ()
    assert "what made it unhealthy is gone since" in told.because
    stage.run(HOUR)
    assert stage.health("a1") is Health.DEGRADED
    assert verdict(stage).held_until is None


@pytest.mark.parametrize("minutes", [1, 30, 59])
def test_trouble_within_the_hour_is_flagged_from_then_on(minutes: int) -> None:
    stage = Stage()
    stage.happens("a1", "xid.79", "gpu5")
    stage.run(1)
    first = stage.standing.flagged["a1"]
    stage.happens("a1", "kernel.reboot")
    stage.run(minutes)
    assert stage.standing.flagged["a1"] == first
    stage.happens("a1", "xid.119", "gpu5")
    stage.run(1)
    assert stage.standing.flagged["a1"] == stage.now


def test_what_a_shared_part_explains_after_all_never_counted() -> None:
    nodes = [f"c{i:02d}" for i in range(24)]
    stage = Stage(nodes, gpus=0)
    for number, node in enumerate(nodes):
        stage.place(node, rack=f"r{number // 8}", leaf=f"leaf{number // 8}")
    stage.run(10)
    stage.happens("c08", "ib.link_down", "ib0")
    stage.run(1)
    assert stage.health("c08") is Health.UNHEALTHY
    for node in nodes[9:16]:
        stage.happens(node, "ib.link_down", "ib0")
    stage.run(1)
    closed = [c for o in stage.outcomes for c in o.changes if c.change is Change.CLOSE]
    assert [end(change) for change in closed] == [End.EXCUSED]
    assert stage.health("c08") is Health.HEALTHY
    assert [one.what for one in verdict(stage, "c08").contributions] == ["base rate"]


@pytest.mark.parametrize(
    ("because", "detector", "how"),
    [
        ("the node booted at 08:10", "fault", End.GONE),
        ("closed by alice: GPU changed", "fault", End.PROVEN),
        ("returned to service by a person", "fault", End.PROVEN),
        ("explained by F000017: leaf_bad of leaf l1", "fault", End.EXCUSED),
        ("it is the program's: see user ann", "fault", End.EXCUSED),
        ("it is part of a rollout", "golden", End.PROVEN),
        ("not so any more since 08:10", "limits", End.GONE),
    ],
)
def test_how_a_finding_ended(because: str, detector: str, how: End) -> None:
    finding = Finding(detector, "f", Severity.CRITICAL, Subject("a1"), T0, ("it broke",))
    assert end(FindingChange(T0, "F1", Change.CLOSE, finding, because)) is how


def test_a_hub_that_starts_again_goes_on_where_it_was(tmp_path: Path) -> None:
    """What is written and read back is what stood, the hold and the incidents included."""
    stage = Stage()
    crashed_and_back(stage)
    with Ledger(tmp_path) as ledger:
        state = {STANDING: remainder(stage.standing)}
        verdicts = tuple(stage.standing.verdicts.values())
        ledger.commit_turn(Turn(stage.now, verdicts=verdicts, detector_state=state))
    with Ledger(tmp_path) as ledger:
        _, standing = restore(ledger, Limits(), stage.now)
    assert standing.past == stage.standing.past != {}
    assert standing.verdicts == stage.standing.verdicts
    stage.standing = msgspec.structs.replace(
        stage.standing, past=standing.past, verdicts=standing.verdicts
    )
    stage.run(HOUR - 1)
    assert stage.health("a1") is Health.UNHEALTHY
    stage.run(1)
    assert stage.health("a1") is Health.HEALTHY
