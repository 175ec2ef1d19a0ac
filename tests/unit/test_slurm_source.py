"""The live source, with executables of our own in place of Slurm's."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bigiron.errors import Permanent, Temporary
from bigiron.host import Host
from bigiron.ingest.slurm import SlurmSource

FIXTURES = Path(__file__).parents[1] / "fixtures" / "slurm"
SYSTEM = "/usr/bin:/bin"
NOW = datetime(2026, 5, 11, 6, 0, tzinfo=UTC)


def source(folder: str, *, history_s: float = 86_400, jobs: bool = True) -> SlurmSource:
    host = Host(path=f"{FIXTURES / folder}:{SYSTEM}")
    return SlurmSource(host, history_s=history_s, jobs=jobs, timeout_s=10, now=lambda: NOW)


def test_a_poll_holds_nodes_maintenance_topology_and_jobs() -> None:
    batch, cursor = source("bin").poll("")
    assert {state.node: state.state for state in batch.states}["gpu03"] == "down"
    assert {node.name: node.leaf for node in batch.nodes if node.leaf}["gpu04"] == "leaf2"
    assert [work.kind for work in batch.maintenance] == ["cdu_service"]
    assert [(job.id, job.state) for job in batch.jobs] == [
        ("7001", "RUNNING"),
        ("6001", "COMPLETED"),
        ("6002", "NODE_FAIL"),
        ("6002", "FAILED"),
        ("6003", "CANCELLED"),
    ]
    running = batch.jobs[0]
    assert (running.gpus, running.restarts, running.name) == (24, 2, "pre train | v2")
    assert cursor == NOW.isoformat()
    assert all(event.line == 0 for event in batch.events)
    assert "times without a zone, read as UTC" not in {note.what for note in batch.notes}


def test_a_node_list_that_squeue_cut_is_counted_not_read() -> None:
    batch, _ = source("bin").poll("")
    assert "7009" not in {job.id for job in batch.jobs}
    assert {note.what: note.count for note in batch.notes} == {
        "squeue rows that could not be read": 1
    }


def test_history_is_read_day_by_day_and_only_what_is_new() -> None:
    polled = source("bin", history_s=2 * 86_400)
    first, cursor = polled.poll("")
    assert cursor == (NOW - timedelta(days=1)).isoformat()
    assert [job.id for job in first.jobs[1:]] == ["6001"]
    second, cursor = polled.poll(cursor)
    assert cursor == NOW.isoformat()
    assert [job.id for job in second.jobs[1:]] == ["6001", "6002", "6002", "6003"]
    third, _ = polled.poll(cursor)
    assert [job.id for job in third.jobs[1:]] == []


def test_without_accounting_the_controllers_memory_is_read() -> None:
    batch, cursor = source("bin_no_accounting").poll("")
    assert [(job.id, job.state) for job in batch.jobs] == [
        ("7001", "RUNNING"),
        ("7002", "NODE_FAIL"),
    ]
    assert cursor == NOW.isoformat()


def test_jobs_can_be_left_out() -> None:
    batch, cursor = source("bin", jobs=False).poll("")
    assert batch.jobs == ()
    assert cursor == ""
    assert batch.states


def test_a_controller_that_is_away_is_temporary() -> None:
    with pytest.raises(Temporary, match="Unable to contact"):
        source("bin_away").poll("")


def test_no_slurm_is_permanent() -> None:
    with pytest.raises(Permanent, match="scontrol: not installed"):
        SlurmSource(Host(path=str(FIXTURES / "nowhere"))).poll("")


def test_the_same_state_gives_the_same_events_again() -> None:
    polled = source("bin")
    assert polled.poll("")[0].events == polled.poll("")[0].events


def test_a_hanging_command_is_given_up(tmp_path: Path) -> None:
    slow = tmp_path / "scontrol"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    hanging = SlurmSource(Host(path=f"{tmp_path}:{SYSTEM}"), timeout_s=0.3)
    with pytest.raises(Temporary, match=r"no answer in 0\.3 s"):
        hanging.poll("")
