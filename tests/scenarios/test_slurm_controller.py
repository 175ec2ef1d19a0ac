"""A Slurm controller that does not answer is told, and its host is no worse for it."""

import json

from tests.scenarios.stage import Stage

from bigiron.ingest import Document
from bigiron.ingest.slurm_json import SlurmJson
from bigiron.model import ActionKind, Blame, CheckResult, CheckStatus, Health, Severity


def pings(stage: Stage, **said: str) -> None:
    """What ``scontrol ping --json`` answers, read and taken."""
    told = [{"hostname": host, "pinged": word, "mode": "primary"} for host, word in said.items()]
    document = Document.of("ping.json", json.dumps({"pings": told}).encode(), stage.now)
    results = tuple(r for r in SlurmJson().read(document) if isinstance(r, CheckResult))
    assert len(results) == len(said)
    stage.take(checks=results)
    stage.run()


def test_a_dead_controller_is_told_and_no_node_is_taken_out() -> None:
    stage = Stage(("a1", "a2"))
    pings(stage, a1="DOWN", a2="UP")
    finding = stage.open["slurm.controller_down a1"]
    assert (finding.severity, finding.blame) == (Severity.CRITICAL, Blame.FACILITY)
    assert finding.action not in (ActionKind.DRAIN, ActionKind.DRAIN_NOW, ActionKind.REBOOT)
    stage.run(60)
    assert stage.actions == []
    assert {stage.health("a1"), stage.health("a2")} == {Health.HEALTHY}


def test_it_is_over_when_the_controller_answers_again() -> None:
    stage = Stage(("a1",))
    pings(stage, a1="DOWN")
    pings(stage, a1="UP")
    assert stage.open == {}


def test_the_hosts_own_fault_still_counts() -> None:
    stage = Stage(("a1",))
    pings(stage, a1="DOWN")
    stage.happens("a1", "xid.79", "gpu5")
    stage.run()
    assert stage.health("a1") is Health.UNHEALTHY


def test_a_check_of_the_same_name_that_passed_tells_nothing() -> None:
    stage = Stage(("a1",))
    pings(stage, a1="UP")
    assert stage.open == {}
    assert [c.status for c in stage.memory.window(stage.now).checks] == [CheckStatus.PASS]
