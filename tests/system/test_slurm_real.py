"""The live source against a real Slurm of virtual nodes."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from tests.system.slurm_cluster import SlurmCluster, unusable, wait_for

from bigiron.errors import Temporary
from bigiron.ingest.slurm import SlurmSource
from bigiron.model import Batch, Job

REQUIRED = bool(os.environ.get("BIGIRON_REQUIRE_SERVERS"))
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(bool(unusable()) and not REQUIRED, reason=unusable() or "-"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with SlurmCluster(nodes=5, fewer={"n5": 7}) as running:
        yield running


def poll(cluster: SlurmCluster) -> Batch:
    return SlurmSource(cluster.host).poll("")[0]


def states(batch: Batch) -> dict[str, str]:
    return {state.node: state.state for state in batch.states}


def job(batch: Batch, identity: str) -> Job | None:
    return next((job for job in batch.jobs if job.id == identity), None)


def test_sees_nodes_with_their_gpus(cluster: SlurmCluster) -> None:
    batch = poll(cluster)
    assert {node.name: node.sku for node in batch.nodes}["n1"] == "h100x8"
    assert [node.name for node in batch.nodes] == cluster.names
    versions = {str(f.value) for f in batch.facts if f.name == "slurm_version"}
    assert len(versions) == 1


def test_sees_a_missing_gpu_as_hardware(cluster: SlurmCluster) -> None:
    batch = poll(cluster)
    event = next(event for event in batch.events if event.node == "n5")
    assert event.code == "slurm.gres_missing"
    assert event.attrs["found"] == "7"
    assert event.attrs["suspect"] == "hardware"
    assert states(batch)["n5"] == "drain"


def test_sees_an_operators_drain_with_its_reason_and_time(cluster: SlurmCluster) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    cluster.run("scontrol", "update", "nodename=n1", "state=drain", "reason=swap dimm A3 [t=7]")
    batch = poll(cluster)
    state = next(state for state in batch.states if state.node == "n1")
    assert (state.state, state.reason) == ("drain", "swap dimm A3 [t=7]")
    assert state.since is not None
    assert before <= state.since <= datetime.now(UTC)
    assert [e.code for e in batch.events if e.node == "n1"] == ["slurm.node_drain"]
    cluster.run("scontrol", "update", "nodename=n1", "state=resume")
    wait_for("resume", lambda: states(poll(cluster))["n1"] == "idle")
    assert not [e for e in poll(cluster).events if e.node == "n1"]


def test_sees_a_node_set_down(cluster: SlurmCluster) -> None:
    cluster.run("scontrol", "update", "nodename=n2", "state=down", "reason=board on fire")
    batch = poll(cluster)
    assert states(batch)["n2"] == "down"
    event = next(event for event in batch.events if event.node == "n2")
    assert (event.code, event.text) == ("slurm.node_down", "board on fire")
    cluster.run("scontrol", "update", "nodename=n2", "state=resume")


def test_sees_a_running_job_and_then_its_end(cluster: SlurmCluster) -> None:
    identity = cluster.submit("sleep 2; exit 3", "--nodes=2", "--gres=gpu:4", "--job-name=a b|c")
    wait_for("running", lambda: job(poll(cluster), identity) is not None)
    running = job(poll(cluster), identity)
    assert running is not None
    assert (running.state, running.end, running.gpus) == ("RUNNING", None, 8)
    assert len(running.nodes) == 2
    assert running.name == "a b|c"
    assert states(poll(cluster))[running.nodes[0]] == "alloc"

    def ended() -> bool:
        found = job(poll(cluster), identity)
        return found is not None and found.state == "FAILED"

    wait_for("end", ended)
    over = job(poll(cluster), identity)
    assert over is not None
    assert over.exit_code == 3
    assert (over.start, over.nodes) == (running.start, running.nodes)
    assert over.end is not None


def test_sees_planned_maintenance(cluster: SlurmCluster) -> None:
    cluster.run(
        "scontrol",
        "create",
        "reservation",
        "reservationname=psu",
        "starttime=now+3600",
        "duration=30",
        "users=root",
        "flags=maint,ignore_jobs",
        "nodes=n[3-4]",
    )
    found = poll(cluster).maintenance
    assert [(work.kind, work.nodes) for work in found] == [("psu", ("n3", "n4"))]
    assert (found[0].end - found[0].start).total_seconds() == 1800
    cluster.run("scontrol", "delete", "reservationname=psu")


def test_sees_a_node_that_stopped_answering(cluster: SlurmCluster) -> None:
    cluster.stop_node("n4")
    wait_for("down", lambda: states(poll(cluster))["n4"] == "down", timeout_s=60)
    codes = [event.code for event in poll(cluster).events if event.node == "n4"]
    assert codes == ["slurm.not_responding"]


def test_a_controller_that_is_away_is_temporary() -> None:
    with SlurmCluster(nodes=1) as cluster:
        cluster.stop_node("slurmctld")
        with pytest.raises(Temporary, match="scontrol"):
            poll(cluster)
