"""What the scheduler says of a node, and takes back."""

from datetime import timedelta

import pytest
from tests.scenarios.stage import Stage

from bigiron.detect.scheduler import SLURM_ENDS
from bigiron.model import Health, Maintenance, NodeState, Severity


def faults(stage: Stage) -> set[str]:
    """The faults that stand."""
    return {finding.fault for finding in stage.open.values()}


def slurm(stage: Stage, state: str, *flags: str) -> None:
    """What Slurm says of the node at this look."""
    stage.take(states=(NodeState("a1", state, time=stage.now, flags=flags),))


@pytest.mark.parametrize("code", sorted(SLURM_ENDS))
def test_slurms_complaint_closes_when_the_node_serves_again(code: str) -> None:
    stage = Stage()
    stage.happens("a1", code)
    slurm(stage, "down", "DOWN")
    stage.run(5)
    assert faults(stage) == {code}
    slurm(stage, "idle", "IDLE")
    stage.run(1)
    assert faults(stage) == set()
    stage.run(60)
    assert stage.health("a1") is Health.HEALTHY


def test_that_a_node_restarted_by_itself_stays_known_when_it_serves_again() -> None:
    stage = Stage()
    stage.happens("a1", "slurm.reboot")
    slurm(stage, "idle", "IDLE")
    stage.run(5)
    assert faults(stage) == {"slurm.reboot"}


def test_a_fault_of_the_node_itself_is_not_closed_by_what_slurm_says() -> None:
    stage = Stage()
    stage.happens("a1", "xid.79", "gpu3")
    slurm(stage, "alloc", "ALLOCATED")
    stage.run(5)
    assert faults(stage) == {"xid.79"}


def test_what_kubernetes_says_of_the_node_does_not_close_slurms_complaint() -> None:
    stage = Stage()
    stage.happens("a1", "slurm.not_responding")
    slurm(stage, "idle", "Ready=True")
    stage.run(5)
    assert faults(stage) == {"slurm.not_responding"}


def test_a_condition_closes_when_kubernetes_no_longer_has_it() -> None:
    stage = Stage()
    stage.facts("a1", k8s_troubles="k8s.gpu_unhealthy@gpu3,k8s.pressure")
    stage.happens("a1", "k8s.pressure", condition="DiskPressure")
    stage.happens("a1", "k8s.gpu_unhealthy", "gpu3", condition="GpuHealth")
    stage.run(5)
    assert faults(stage) == {"k8s.pressure", "k8s.gpu_unhealthy"}
    stage.facts("a1", k8s_troubles="k8s.gpu_unhealthy@gpu3")
    stage.run(1)
    assert faults(stage) == {"k8s.gpu_unhealthy"}


def test_what_an_event_object_told_is_not_closed_by_the_nodes_conditions() -> None:
    stage = Stage()
    stage.happens("a1", "k8s.npd_condition", reason="TemporaryThing")
    stage.facts("a1", k8s_troubles="")
    stage.run(5)
    assert faults(stage) == {"k8s.npd_condition"}


def test_planned_work_takes_a_node_away_and_what_is_so_after_it_is_a_fault() -> None:
    stage = Stage()
    stage.take(maintenance=(Maintenance(stage.now, stage.now + timedelta(hours=1), ("a1",)),))
    stage.happens("a1", "slurm.node_down")
    slurm(stage, "down", "DOWN")
    stage.run(60)
    assert stage.health("a1") is Health.HEALTHY
    stage.run(180)
    assert [f.severity for f in stage.open.values()] == [Severity.CRITICAL]
