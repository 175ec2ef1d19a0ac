"""Jobs from sacct, scontrol, squeue and JSON, and the rest of Slurm's text."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader
from bigiron.ingest.slurm_jobs import SacctTable
from bigiron.ingest.slurm_json import SlurmJson
from bigiron.ingest.slurm_misc import ControllerText, NodeHistory
from bigiron.ingest.slurm_queue import ScontrolJobs, SqueueTable
from bigiron.model import Event, Fact, Job, Maintenance, Node, NodeState, Note, Observation, Sample

FIXTURES = Path(__file__).parents[1] / "fixtures" / "slurm"
NOW = datetime(2026, 5, 11, 6, 0, tzinfo=UTC)


def read(reader: Reader, name: str) -> list[Observation]:
    document = Document.of(name, (FIXTURES / name).read_bytes(), NOW)
    assert reader.sniff(Head.of(document)) > 0.5
    return list(reader.read(document))


def sacct(text: str | bytes) -> list[Observation]:
    data = text if isinstance(text, bytes) else text.encode()
    return list(SacctTable().read(Document.of("sacct", data, NOW)))


def jobs(observations: list[Observation]) -> list[Job]:
    return [o for o in observations if isinstance(o, Job)]


def notes(observations: list[Observation]) -> dict[str, int]:
    return {o.what: o.count for o in observations if isinstance(o, Note)}


def utc(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2026, 5, day, hour, minute, tzinfo=UTC)


def test_sacct_keeps_every_attempt_with_its_number() -> None:
    found = jobs(read(SacctTable(), "sacct.txt"))
    assert [(job.id, job.state, job.restarts) for job in found] == [
        ("6001", "COMPLETED", 0),
        ("6002", "NODE_FAIL", 0),
        ("6002", "FAILED", 1),
        ("6003", "CANCELLED", 0),
    ]
    assert found[1].nodes == ("gpu02", "gpu03")
    assert found[1].gpus == 16
    assert (found[2].exit_code, found[2].reason) == (9, "NonZeroExitCode")
    assert (found[3].signal, found[3].reason) == (15, "cancelled by 4002")


def test_sacct_puts_a_name_with_the_delimiter_together() -> None:
    assert {job.name for job in jobs(read(SacctTable(), "sacct.txt"))} == {
        "train",
        "big | run",
        "notebook",
    }


def test_sacct_midnight_and_a_job_of_no_length() -> None:
    found = jobs(read(SacctTable(), "sacct.txt"))
    assert found[0].start == utc(10)
    assert (found[3].start, found[3].end) == (utc(11), utc(11))


def test_sacct_running_pending_and_steps() -> None:
    seen = sacct(
        "JobID|State|Start|End|NodeList|Restarts\n"
        "41_7|RUNNING|2026-05-10T00:00:00|Unknown|n[1-2]|3\n"
        "41_7.batch|RUNNING|2026-05-10T00:00:00|Unknown|n1|\n"
        "41_7.extern|RUNNING|2026-05-10T00:00:00|Unknown|n[1-2]|\n"
        "41_[8-20%4]|PENDING|Unknown|Unknown|None assigned|0\n"
        "50+1|TIMEOUT|2026-05-10T00:00:00|2026-05-10T01:00:00|n3|0\n"
    )
    found = jobs(seen)
    assert [(j.id, j.state, j.end, len(j.nodes), j.restarts) for j in found] == [
        ("41_7", "RUNNING", None, 2, 3),
        ("41_[8-20%4]", "PENDING", None, 0, 0),
        ("50+1", "TIMEOUT", utc(10, 1), 1, 0),
    ]
    assert notes(seen)["job steps: the job's own row tells its outcome"] == 2


def test_sacct_a_line_break_in_a_field_is_one_record() -> None:
    seen = sacct(
        "JobID|#Comment|#State|#SubmitLine|#NodeList\n"
        "1|#ok|#COMPLETED|#sbatch a|#n1\n"
        "2|#first\nsecond\nthird|#FAILED|#srun x \n |#n2\n"
        "3|#a \\n b|#COMPLETED|#sbatch c|#n3\n"
    )
    assert [(j.id, j.state, j.nodes) for j in jobs(seen)] == [
        ("1", "COMPLETED", ("n1",)),
        ("2", "FAILED", ("n2",)),
        ("3", "COMPLETED", ("n3",)),
    ]
    assert notes(seen) == {}


def test_sacct_a_cut_row_does_not_swallow_the_next() -> None:
    seen = sacct("JobID|State|NodeList\n1|COMPLETED|n1\n2|FAI\n3|FAILED|n3\n4|COMPL")
    assert [job.id for job in jobs(seen)] == ["1", "3"]
    assert notes(seen) == {"sacct rows that do not fit their header": 2}


def test_sacct_broken_utf8_and_bad_node_lists_are_counted() -> None:
    seen = sacct(b"JobID|JobName|State|NodeList\n1|caf\xe9|COMPLETED|n1\n2|x|FAILED|n[1-\n")
    assert [(job.id, job.name) for job in jobs(seen)] == [("1", "caf�")]
    assert notes(seen) == {"sacct rows that do not fit their header": 1}


def test_sacct_times_with_a_zone_are_converted_without_a_note() -> None:
    seen = sacct("JobID|State|Start\n1|RUNNING|2026-05-10T02:00:00+02:00\n")
    assert jobs(seen)[0].start == utc(10)
    assert notes(seen) == {}


def test_sacct_old_gres_column_counts_gpus() -> None:
    found = jobs(sacct("JobID|State|AllocGRES|AllocTRES\n1|FAILED|gpu:4|cpu=1,node=1\n"))
    assert found[0].gpus == 4


def test_sacct_trailing_delimiter_and_repeated_header() -> None:
    header = "JobIDRaw|State|NodeList|"
    found = jobs(sacct(f"{header}\n1|FAILED|n1|\n{header}\n2|COMPLETED|n2|\n"))
    assert [job.id for job in found] == ["1", "2"]


@pytest.mark.parametrize("text", ["", "JobID|Elapsed\n1|3\n", "JobID|State\nxx|yy\n"])
def test_sacct_without_a_usable_header_or_row_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        sacct(text)


def test_sacct_an_empty_table_is_no_error() -> None:
    assert sacct("JobID|State|NodeList\n") == []


def test_sacct_endless_fragments_stay_bounded() -> None:
    seen = sacct("JobID|State|NodeList\n" + "fragment of a comment\n" * 40_000 + "1|FAILED|n1\n")
    assert [job.id for job in jobs(seen)] == ["1"]
    assert notes(seen)["sacct rows that do not fit their header"] >= 1


FREE = st.text(st.characters(exclude_characters="|\r\n\0", exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.tuples(FREE, FREE), min_size=1, max_size=8))
def test_sacct_reads_back_any_names_with_line_breaks(names: list[tuple[str, str]]) -> None:
    rows = "".join(
        f"{number}|{first}\n{second}|COMPLETED|n{number}\n"
        for number, (first, second) in enumerate(names, 1)
    )
    found = jobs(sacct(f"JobID|JobName|State|NodeList\n{rows}"))
    assert [job.id for job in found] == [str(number) for number in range(1, len(names) + 1)]


@given(st.binary(max_size=300))
def test_sacct_survives_any_bytes_under_a_header(data: bytes) -> None:
    try:
        seen = sacct(b"JobID|State|NodeList|End\n" + data)
    except ParseError:
        return
    assert all(isinstance(o, Job | Note) for o in seen)


def test_sacct_reads_a_long_history_quickly() -> None:
    row = "|u1|FAILED|1:0|2026-05-10T02:00:00|2026-05-10T03:00:00|2026-05-10T04:00:00|n[01-16]\n"
    header = "JobIDRaw|User|State|ExitCode|Submit|Start|End|NodeList\n"
    data = (header + "".join(f"{number}{row}" for number in range(20_000))).encode()
    document = Document.of("sacct", data, NOW)
    begin = time.process_time()
    count = sum(isinstance(o, Job) for o in SacctTable().read(document))
    assert count == 20_000
    assert time.process_time() - begin < 2.0  # a tenth of the speed aimed at


@pytest.mark.parametrize("name", ["jobs.txt", "jobs_oneline.txt"])
def test_scontrol_jobs_in_both_forms(name: str) -> None:
    found = jobs(read(ScontrolJobs(), name))
    assert [(j.id, j.state, j.name, j.gpus, j.restarts) for j in found] == [
        ("7001", "RUNNING", "pre train | v2", 24, 2),
        ("7002", "NODE_FAIL", "eval", 4, 0),
        ("7003", "PENDING", "waits", 0, 0),
    ]
    assert found[0].nodes == ("gpu01", "gpu05", "gpu06")
    assert found[0].end is None
    assert (found[0].user, found[0].account) == ("carol", "llm")
    assert found[1].end == utc(11, 0, 31)
    assert (found[2].start, found[2].reason) == (None, "Resources")


def test_squeue_right_aligned() -> None:
    found = jobs(read(SqueueTable(), "squeue_default.txt"))
    assert [(j.id, j.state, j.name, j.nodes) for j in found] == [
        ("7003_[1-", "PENDING", "my waits", ()),
        ("7001", "RUNNING", "pre trai", ("gpu01", "gpu05", "gpu06")),
    ]
    assert found[0].reason == "Resources"


def test_json_of_22_05_gives_wait_statuses() -> None:
    seen = read(SlurmJson(), "jobs_v0038.json")
    found = jobs(seen)
    assert [(j.id, j.exit_code, j.signal, j.gpus) for j in found] == [
        ("7001", 0, 0, 24),
        ("7004", 3, 0, 0),
    ]
    assert found[0].end is None
    assert notes(seen) == {"entries of Slurm's JSON that could not be read": 1}


def test_json_of_25_05_gives_lists_and_objects() -> None:
    found = jobs(read(SlurmJson(), "jobs_v0043.json"))
    assert [(j.id, j.state, j.signal, j.gpus) for j in found] == [
        ("7006", "CANCELLED", 15, 4),
        ("7007", "PENDING", 0, 0),
    ]
    assert found[0].restarts == 1
    assert (found[1].start, found[1].end) == (None, None)


def test_json_of_slurmdb() -> None:
    job = jobs(read(SlurmJson(), "slurmdb_jobs.json"))[0]
    assert (job.state, job.signal, job.gpus, job.user) == ("OUT_OF_MEMORY", 9, 16, "erin")
    assert job.nodes == ("gpu02", "gpu03")
    assert job.end is not None
    assert job.start is not None
    assert (job.end - job.start).total_seconds() == 60


def test_only_maintenance_reservations_are_planned_work() -> None:
    seen = read(ControllerText(), "reservations.txt")
    assert [o for o in seen if isinstance(o, Maintenance)] == [
        Maintenance(utc(14, 6), utc(14, 10), ("gpu05", "gpu06", "gpu07", "gpu08"), "cdu_service")
    ]


def test_topology_tells_the_leaf() -> None:
    leaves = {o.name: o.leaf for o in read(ControllerText(), "topology.txt") if isinstance(o, Node)}
    assert leaves == {"gpu01": "leaf1", "gpu02": "leaf1", "gpu03": "leaf2", "gpu04": "leaf2"}


def test_config_and_sdiag() -> None:
    facts = {o.name: o.value for o in read(ControllerText(), "config.txt") if isinstance(o, Fact)}
    assert facts["slurm_version"] == "23.11.4"
    assert facts["slurm_SlurmdTimeout"] == "300 sec"
    assert "slurm_HealthCheckProgram" not in facts
    found = {
        o.metric: o.value for o in read(ControllerText(), "sdiag.txt") if isinstance(o, Sample)
    }
    assert found["slurm_dbd_agent_queue_length"] == 1201
    assert found["slurm_jobs_pending"] == 17


def test_node_history_has_an_end_only_where_the_node_came_back() -> None:
    seen = read(NodeHistory(), "events.txt")
    told = [(o.node, o.state, o.time) for o in seen if isinstance(o, NodeState)]
    assert told == [
        ("gpu03", "down", utc(3, 10)),
        ("gpu03", "resume", utc(3, 11)),
        ("gpu04", "drain", utc(4, 10)),
        ("gpu04", "down", utc(4, 12)),
        ("gpu04", "resume", utc(4, 13)),
        ("gpu05", "drain", utc(5, 10)),
    ]
    codes = [(o.node, o.code) for o in seen if isinstance(o, Event)]
    assert codes == [
        ("gpu03", "slurm.not_responding"),
        ("gpu04", "slurm.node_drain"),
        ("gpu04", "slurm.node_down"),
        ("gpu05", "slurm.gres_missing"),
    ]


def test_node_history_as_a_table_under_a_ruler() -> None:
    text = (
        "   Cluster        NodeName           TimeStart             TimeEnd  State Reason\n"
        "---------- --------------- ------------------- ------------------- ------ ------\n"
        "        c1           gpu03 2026-05-03T10:00:00             Unknown  DOWN* Not re\n"
    )
    reader = NodeHistory()
    document = Document.of("events", text.encode(), NOW)
    assert reader.sniff(Head.of(document)) > 0.5
    states = [o for o in reader.read(document) if isinstance(o, NodeState)]
    assert [(o.node, o.state, o.time) for o in states] == [("gpu03", "down", utc(3, 10))]


def test_squeue_left_aligned() -> None:
    text = (
        "JOBID     NAME                STATE               NODELIST            TRES_ALLOC\n"
        "7001      my train            RUNNING             gpu[01-02]          gres/gpu=16\n"
    )
    found = jobs(list(SqueueTable().read(Document.of("squeue", text.encode(), NOW))))
    assert [(j.name, j.nodes, j.gpus) for j in found] == [("my train", ("gpu01", "gpu02"), 16)]


def test_sinfo_that_was_made_to_print_json_lines() -> None:
    text = (
        '{"s": "mixed", "mem": 1, "n": "gpu01", "p": "a"}\n'
        '{"s": "mixed", "mem": 1, "n": "gpu01", "p": "b"}\n'
        '{"s": "down*", "mem": 1, "n": "gpu02", "p": "a"}\n'
        '{"s": "idle", "mem"\n'
    )
    document = Document.of("sinfo", text.encode(), NOW)
    assert SlurmJson().sniff(Head.of(document)) > 0.5
    seen = list(SlurmJson().read(document))
    assert {o.node: o.state for o in seen if isinstance(o, NodeState)} == {
        "gpu01": "alloc",
        "gpu02": "down",
    }
    assert notes(seen) == {"lines that are not nodes": 1}
