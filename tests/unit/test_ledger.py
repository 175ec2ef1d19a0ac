import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from bigiron.errors import NoData, Permanent, Temporary
from bigiron.model import (
    Action,
    ActionKind,
    Batch,
    Change,
    CheckResult,
    CheckStatus,
    Device,
    Event,
    Evidence,
    Fact,
    FactValue,
    Finding,
    FindingChange,
    Health,
    Job,
    Maintenance,
    Mode,
    Node,
    NodeState,
    Note,
    Severity,
    Subject,
    Verdict,
    When,
)
from bigiron.store import known, schema
from bigiron.store.database import FILE, open_to_write
from bigiron.store.ledger import Ledger
from bigiron.store.reading import Reading
from bigiron.store.turn import Meter, Turn

T0 = datetime(2026, 3, 4, 5, 6, 7, 890123, tzinfo=UTC)


def event(line: int, text: str = "NVRM: Xid: 79", node: str = "n1") -> Event:
    return Event(
        node,
        "xid.79",
        text,
        device="gpu3",
        time=T0 + timedelta(seconds=line),
        source="kern.log",
        line=line,
        attrs={"pid": "7"},
    )


def finding(node: str = "n1", severity: Severity = Severity.CRITICAL) -> Finding:
    return Finding(
        "fault",
        "xid.79",
        severity,
        Subject(node, "gpu3"),
        T0,
        ("the GPU fell off the bus",),
        evidence=(Evidence("event", "NVRM: Xid: 79", T0, "kern.log", 1),),
    )


def change(id_: str, what: Change, found: Finding, because: str = "", at: int = 0) -> FindingChange:
    return FindingChange(T0 + timedelta(seconds=at), id_, what, found, because)


def action(held: str = "", kind: ActionKind = ActionKind.DRAIN) -> Action:
    return Action(T0, "n1", kind, Mode.SHADOW, "xid 79", ("F000001",), When.NOW, "n1|drain", held)


def verdict(p: float = 0.9, because: str = "off the bus", at: int = 0) -> Verdict:
    time = T0 + timedelta(seconds=at)
    return Verdict(time, "n1", Health.UNHEALTHY, p, ("F000001",), because)


def recall(ledger: Ledger, now: datetime, days: float) -> Batch:
    """All that is recalled, once the folds are as of now."""
    ledger.commit_turn(Turn(now, folded=True))
    return ledger.recall(now, days)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path) as opened:
        yield opened


def test_a_turn_is_found_again_by_a_ledger_opened_anew(tmp_path: Path) -> None:
    batch = Batch(
        T0,
        "kern.log",
        nodes=(Node("n1", rack="r1"),),
        devices=(Device("n1", "gpu3", "gpu", id="GPU-1"),),
        events=(event(1), event(2)),
        facts=(Fact("n1", "ecc_mode", True, "gpu3"), Fact("n1", "driver_version", "570.1")),
        jobs=(Job("12", "RUNNING", nodes=("n1", "n2"), start=T0),),
        states=(NodeState("n1", "drain", "disk", flags=("IDLE", "DRAIN")),),
        checks=(CheckResult("n1", "memory", CheckStatus.FAIL, "gpu3", time=T0),),
        maintenance=(Maintenance(T0, T0 + timedelta(hours=2), ("n1",), "firmware"),),
    )
    with Ledger(tmp_path) as first:
        first.commit_turn(
            Turn(
                T0,
                [batch],
                {"kern.log": "120"},
                [change("F000001", Change.OPEN, finding())],
                [verdict()],
                [action()],
                {"drift": b"\x00\x01"},
            )
        )
    with Ledger(tmp_path) as again:
        assert again.cursors() == {"kern.log": "120"}
        recalled = recall(again, T0 + timedelta(hours=1), 7.0)
        assert recalled.nodes == batch.nodes
        assert recalled.devices == batch.devices
        assert recalled.events == batch.events
        assert {(f.name, f.value) for f in recalled.facts} == {
            ("ecc_mode", True),
            ("driver_version", "570.1"),
        }
        assert recalled.jobs == batch.jobs
        assert recalled.states == batch.states
        assert recalled.checks == batch.checks
        assert recalled.maintenance == batch.maintenance
        assert [c.finding for c in again.open_findings()] == [finding()]
        assert again.last_finding() == 1
        assert again.verdicts() == {"n1": verdict()}
        assert again.detector_state() == {"drift": b"\x00\x01"}


def test_the_same_line_is_stored_once_however_often_it_is_read(ledger: Ledger) -> None:
    batch = Batch(T0, "kern.log", events=(event(1), event(2), event(1)))
    ledger.commit_turn(Turn(T0, [batch]))
    later = Batch(T0 + timedelta(hours=1), "kern.log", events=(event(2), event(3)))
    fresh, repeated = ledger.unseen(later)
    assert (fresh.events, repeated) == ((event(3),), 1)
    ledger.commit_turn(Turn(T0, [later, later]))
    with Reading(ledger.path.parent) as reading:
        assert reading.events() == [event(1), event(2), event(3)]


def test_unseen_drops_what_one_batch_says_twice(ledger: Ledger) -> None:
    fresh, repeated = ledger.unseen(Batch(T0, events=(event(1), event(1), event(2))))
    assert (fresh.events, repeated) == ((event(1), event(2)), 1)


def test_facts_and_states_are_written_only_when_they_change(ledger: Ledger) -> None:
    def say(ecc: FactValue, state: str, at: int) -> None:
        facts = (Fact("n1", "ecc_mode", ecc, "gpu3"),)
        time = T0 + timedelta(seconds=at)
        ledger.commit_turn(Turn(time, [Batch(time, facts=facts, states=(NodeState("n1", state),))]))

    for at, (ecc, state) in enumerate([(True, "idle"), (True, "idle"), (1, "idle"), (1, "down")]):
        say(ecc, state, at)
    with Reading(ledger.path.parent) as reading:
        assert reading.count("fact_history") == 2
        assert reading.count("facts") == 1
        moments = [(m.what, m.text) for m in reading.timeline("n1")]
    assert moments == [
        ("scheduler", "idle"),
        ("fact", "ecc_mode = true"),
        ("fact", "ecc_mode = 1"),
        ("scheduler", "down"),
    ]


def test_an_empty_field_never_erases_what_is_known_of_a_node(ledger: Ledger) -> None:
    ledger.commit_turn(Turn(T0, [Batch(T0, nodes=(Node("n1", rack="r1", sku="a"),))]))
    ledger.commit_turn(Turn(T0, [Batch(T0, nodes=(Node("n1", sku="b"),))]))
    assert recall(ledger, T0, 1).nodes == (Node("n1", rack="r1", sku="b"),)


def test_a_finding_opens_is_updated_and_closes_under_one_id(ledger: Ledger) -> None:
    worse = finding(severity=Severity.FATAL)
    for at, (what, found, because) in enumerate(
        [
            (Change.OPEN, finding(), "seen"),
            (Change.UPDATE, worse, "worse"),
            (Change.CLOSE, worse, "rebooted"),
        ]
    ):
        ledger.commit_turn(Turn(T0, changes=[change("F000001", what, found, because, at)]))
    assert ledger.open_findings() == []
    with Reading(ledger.path.parent) as reading:
        assert reading.findings() == []
        (row,) = reading.findings(closed=True)
        assert (row.finding, row.because) == (worse, "rebooted")
        assert (row.opened, row.closed) == (T0, T0 + timedelta(seconds=2))
        assert [c.change for c in reading.changes("F000001")] == [*Change]


def test_the_same_claim_cannot_stand_twice(ledger: Ledger) -> None:
    ledger.commit_turn(Turn(T0, changes=[change("F000001", Change.OPEN, finding())]))
    with pytest.raises(Permanent, match="UNIQUE"):
        ledger.commit_turn(
            Turn(T0, cursors={"a": "1"}, changes=[change("F000002", Change.OPEN, finding())])
        )
    assert ledger.cursors() == {}, "a turn that fails leaves nothing behind"


def test_the_number_of_the_last_finding_outlives_its_finding(ledger: Ledger) -> None:
    found = finding()
    ledger.commit_turn(Turn(T0, changes=[change("F000041", Change.OPEN, found)]))
    ledger.commit_turn(Turn(T0, changes=[change("F000041", Change.CLOSE, found)]))
    assert ledger.last_finding() == 41


def test_an_action_asked_for_twice_is_kept_once_and_a_held_one_apart(ledger: Ledger) -> None:
    for one in (action("budget"), action("budget"), action(), action()):
        ledger.commit_turn(Turn(T0, actions=[one]))
    with Reading(ledger.path.parent) as reading:
        assert reading.actions() == [action("budget"), action()]
    assert ledger.actions_of(["n1"]) == [action("budget"), action()]
    assert ledger.actions_of([]) == []


def test_a_verdict_that_says_the_same_is_not_written_again(ledger: Ledger) -> None:
    for at, one in enumerate([verdict(0.9), verdict(0.90001, at=5), verdict(0.5, at=9)]):
        ledger.commit_turn(Turn(T0 + timedelta(seconds=at), verdicts=[one]))
    with Reading(ledger.path.parent) as reading:
        assert reading.count("verdict_history") == 2
        assert reading.nodes()[0].verdict == verdict(0.5, at=9)


def test_notes_are_counted_and_too_many_kinds_are_counted_together(
    ledger: Ledger,
) -> None:
    many = tuple(Note("log", f"odd line {n}") for n in range(known.NOTES_KEPT + 5))
    ledger.commit_turn(
        Turn(T0, [Batch(T0, notes=(Note("log", "cut", 3), Note("log", "cut"), *many))])
    )
    with Reading(ledger.path.parent) as reading:
        notes = {(source, what): count for source, what, count in reading.notes(20_000)}
    assert notes["log", "cut"] == 4
    assert notes["log", known.OTHER_NOTES] == 6
    assert len(notes) == known.NOTES_KEPT + 1


def test_prune_removes_old_history_and_never_what_stands(ledger: Ledger) -> None:
    old, young = T0, T0 + timedelta(days=500)
    facts = (Fact("n1", "kernel", "6.1"),)
    ledger.commit_turn(Turn(old, [Batch(old, events=(event(1),), facts=facts)]))
    ledger.commit_turn(Turn(young, [Batch(young, events=(event(2),))]))
    assert ledger.prune(young, keep_days=400) == 2
    assert recall(ledger, young, 600).events == (event(2),)
    assert [f.value for f in recall(ledger, young, 600).facts] == ["6.1"]


def test_events_of_open_findings_are_recalled_however_old(ledger: Ledger) -> None:
    batch = Batch(T0, events=(event(1), event(2, node="n2")))
    ledger.commit_turn(Turn(T0, [batch], changes=[change("F000001", Change.OPEN, finding())]))
    assert recall(ledger, T0 + timedelta(days=30), 7).events == (event(1),)


def test_events_that_no_fold_has_seen_are_told_apart(ledger: Ledger) -> None:
    ledger.commit_turn(Turn(T0, [Batch(T0, events=(event(1),))], folded=True))
    ledger.commit_turn(Turn(T0, [Batch(T0, events=(event(2),))]))
    assert ledger.recall(T0, 7).events == (event(1),)
    assert ledger.events_not_folded() == [event(2)]


def test_why_leads_from_the_action_to_the_raw_line(ledger: Ledger) -> None:
    batch = Batch(T0, nodes=(Node("n1"),), events=(event(1), event(2, "NVRM: Xid: 79 again")))
    ledger.commit_turn(
        Turn(
            T0,
            [batch],
            changes=[change("F000001", Change.OPEN, finding())],
            verdicts=[verdict()],
            actions=[action()],
        )
    )
    with Reading(ledger.path.parent) as reading:
        why = reading.why("n1")
        assert why.actions == (action(),)
        (reason,) = why.reasons
        assert reason.evidence[0].text == "NVRM: Xid: 79"
        assert [e.text for e in reason.events] == ["NVRM: Xid: 79 again"]
        with pytest.raises(NoData, match="n9"):
            reading.why("n9")


def test_events_are_found_by_code_node_and_time(ledger: Ledger) -> None:
    other = Event("n2", "xid.7", "other", time=T0, source="b", line=1)
    ledger.commit_turn(Turn(T0, [Batch(T0, events=(event(1), other))]))
    with Reading(ledger.path.parent) as reading:
        assert reading.events(code="xid.7") == [other]
        assert len(reading.events(code="xid")) == 2
        assert reading.events(nodes=["n2"]) == [other]
        assert reading.events(since=T0 + timedelta(days=1)) == []


def test_meters_hold_the_newest_word(ledger: Ledger) -> None:
    ledger.commit_turn(Turn(T0, meters=[Meter("turn_s", 1.0), Meter("turn_s", 2.0)]))
    ledger.commit_turn(Turn(T0 + timedelta(seconds=1), meters=[Meter("turn_s", 3.0)]))
    with Reading(ledger.path.parent) as reading:
        assert reading.meters() == [(Meter("turn_s", 3.0), T0 + timedelta(seconds=1))]


def test_the_ledger_is_read_while_it_is_written(ledger: Ledger) -> None:
    with Reading(ledger.path.parent) as reading:
        assert reading.count("events") == 0
        ledger.commit_turn(Turn(T0, [Batch(T0, events=(event(1),))]))
        assert reading.count("events") == 1


def test_a_closed_ledger_can_be_read(tmp_path: Path) -> None:
    Ledger(tmp_path).close()
    with Reading(tmp_path) as reading:
        assert reading.nodes() == []


def test_no_ledger_is_said_so_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(NoData, match=str(tmp_path / FILE)):
        Reading(tmp_path)


def test_another_programs_database_is_left_alone_and_named(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "ledger.sqlite") as other:
        other.execute("CREATE TABLE nodes (song TEXT)")
    with pytest.raises(Permanent, match="another program's database"):
        Ledger(tmp_path)
    with sqlite3.connect(tmp_path / "ledger.sqlite") as other:
        tables = other.execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("nodes",)]


def test_a_damaged_ledger_is_named(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.commit_turn(Turn(T0, [Batch(T0, events=tuple(map(event, range(1, 400))))]))
    data = bytearray((tmp_path / FILE).read_bytes())
    data[8192:60_000] = b"\xa5" * (60_000 - 8192)
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(Permanent, match=rf"{tmp_path / FILE}: damaged"):
        Ledger(tmp_path)
    (tmp_path / FILE).write_bytes(b"not a database, surely" * 100)
    with pytest.raises(Permanent, match=rf"{tmp_path / FILE}: damaged"):
        Ledger(tmp_path)
    with pytest.raises(Permanent, match=rf"{tmp_path / FILE}: damaged"):
        Reading(tmp_path)


def test_a_ledger_of_a_newer_bigiron_is_refused(tmp_path: Path) -> None:
    Ledger(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    with pytest.raises(Permanent, match="9999"):
        Ledger(tmp_path)
    with pytest.raises(Permanent, match="9999"):
        Reading(tmp_path)


def test_a_ledger_locked_by_another_is_tried_again_and_loses_nothing(
    ledger: Ledger,
) -> None:
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    turn = Turn(T0, [Batch(T0, events=(event(1),))], {"a": "1"})
    with pytest.raises(Temporary, match="locked"):
        ledger.commit_turn(turn)
    other.execute("ROLLBACK")
    other.close()
    ledger.commit_turn(turn)
    assert ledger.cursors() == {"a": "1"}


FILLS = """
    import resource, sys
    from datetime import UTC, datetime
    from pathlib import Path
    from bigiron.errors import Temporary
    from bigiron.model import Batch, Event
    from bigiron.store.ledger import Ledger
    from bigiron.store.turn import Turn

    now = datetime(2026, 1, 1, tzinfo=UTC)
    ledger = Ledger(Path(sys.argv[1]))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    events = tuple(Event("n1", "kernel.oom", "x" * 500, source="a", line=n) for n in range(2000))
    turn = Turn(now, [Batch(now, events=events)], {"a": "2000"})
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    try:
        ledger.commit_turn(turn)
        print("no error")
    except Temporary as error:
        print(error)
    print(ledger.cursors())
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    ledger.commit_turn(turn)
    print(ledger.cursors(), len(ledger.events_not_folded()))
"""


def test_a_full_disk_is_named_and_the_same_turn_is_written_once_there_is_room(
    tmp_path: Path,
) -> None:
    code = textwrap.dedent(FILLS)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    error, before, after = done.stdout.splitlines()
    assert str(tmp_path / FILE) in error
    assert "full" in error
    assert before == "{}"
    assert after == "{'a': '2000'} 2000"


def test_the_migrations_make_exactly_the_tables_of_the_schema(tmp_path: Path) -> None:
    connection = open_to_write(tmp_path / FILE)
    with connection.begin():
        assert compare_metadata(MigrationContext.configure(connection), schema.tables) == []
    connection.close()
    settings = Config()
    settings.set_main_option("script_location", "bigiron.store:migrations")
    assert ScriptDirectory.from_config(settings).get_heads() == [schema.VERSION]


def test_a_time_without_offset_is_refused(ledger: Ledger) -> None:
    naive = T0.replace(tzinfo=None)
    with pytest.raises(Permanent, match="offset"):
        ledger.commit_turn(Turn(T0, [Batch(T0, events=(Event("n", "c", "t", time=naive),))]))


def test_the_attempts_of_a_requeued_job_are_kept_apart(tmp_path: Path) -> None:
    lost = Job("77", "NODE_FAIL", start=T0, end=T0 + timedelta(hours=1), nodes=("n1",))
    again = Job("77", "COMPLETED", start=T0 + timedelta(hours=2), nodes=("n2",), restarts=1)
    with Ledger(tmp_path) as ledger:
        for number, job in enumerate((lost, again, again)):
            at = T0 + timedelta(seconds=number)
            ledger.commit_turn(Turn(at, [Batch(at, "slurm", jobs=(job,))], {"slurm": str(number)}))
    with Ledger(tmp_path) as ledger:
        recalled = ledger.recall(T0 + timedelta(hours=3), 7.0)
    assert sorted((job.state, job.nodes) for job in recalled.jobs) == [
        ("COMPLETED", ("n2",)),
        ("NODE_FAIL", ("n1",)),
    ]
