"""A row of the ledger that does not hold what it should is named, never a traceback."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bigiron.errors import Permanent, StoreError
from bigiron.model import (
    Action,
    ActionKind,
    Batch,
    Change,
    CheckResult,
    CheckStatus,
    Closing,
    Event,
    Fact,
    Finding,
    FindingChange,
    Health,
    Job,
    Maintenance,
    Mode,
    NodeState,
    Severity,
    Subject,
    Verdict,
)
from bigiron.store.database import FILE
from bigiron.store.ledger import Ledger
from bigiron.store.reading import Reading
from bigiron.store.turn import Turn

T0 = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A ledger with a row in every table that holds JSON."""
    found = Finding("fault", "xid.79", Severity.FATAL, Subject("n1", "gpu3"), T0, ("off the bus",))
    batch = Batch(
        T0,
        "kern.log",
        events=(Event("n1", "xid.79", "line", "gpu3", T0, source="kern.log", line=1),),
        facts=(Fact("n1", "ecc_mode", True, "gpu3"),),
        jobs=(Job("12", "RUNNING", nodes=("n1",), start=T0),),
        states=(NodeState("n1", "drain", "disk"),),
        checks=(CheckResult("n1", "memory", CheckStatus.FAIL, "gpu3", time=T0),),
        maintenance=(Maintenance(T0, T0 + timedelta(hours=2), ("n1",), "firmware"),),
    )
    with Ledger(tmp_path) as ledger:
        ledger.commit_turn(
            Turn(
                T0,
                [batch],
                changes=[FindingChange(T0, "F000001", Change.OPEN, found)],
                verdicts=[Verdict(T0, "n1", Health.UNHEALTHY, 0.9, ("F000001",), "off the bus")],
                actions=[
                    Action(T0, "n1", ActionKind.DRAIN, Mode.SHADOW, "xid 79", ("F000001",), key="k")
                ],
                detector_state={"names": b'{"n1.site": "n1"}'},
            )
        )
        ledger.commit_turn(Turn(T0, folded=True))
    return tmp_path


def damage(folder: Path, table: str, column: str, text: str | bytes) -> None:
    with sqlite3.connect(folder / FILE) as connection:
        done = connection.execute(f'UPDATE {table} SET "{column}" = ?', (text,))  # noqa: S608
        assert done.rowcount == 1
    connection.close()


def read(folder: Path, ask: Callable[[Reading], object]) -> None:
    with Reading(folder) as reading:
        ask(reading)


READ = [
    ("events", "attrs", "1", lambda r: r.events()),
    ("findings", "finding", "F000001", lambda r: r.findings()),
    ("findings", "finding", "F000001", lambda r: r.why("n1")),
    ("finding_changes", "finding", "1", lambda r: r.changes("F000001")),
    ("finding_changes", "finding", "1", lambda r: r.timeline("n1")),
    ("verdicts", "findings", "n1", lambda r: r.nodes()),
    ("verdicts", "health", "n1", lambda r: r.nodes()),
    ("actions", "findings", "1", lambda r: r.actions()),
    ("actions", "mode", "1", lambda r: r.actions()),
    ("node_states", "node_state", "n1", lambda r: r.nodes()),
    ("facts", "value", "n1 gpu3 ecc_mode", lambda r: r.configuration()),
    ("detector_state", "state", "names", lambda r: r.named("elsewhere")),
]


@pytest.mark.parametrize("text", ["", '{"half": ', "[[]]", "{}}", "☃"])
@pytest.mark.parametrize(("table", "column", "row", "ask"), READ)
def test_a_question_names_the_damaged_row(
    folder: Path,
    table: str,
    column: str,
    row: str,
    ask: Callable[[Reading], object],
    text: str,
) -> None:
    damage(folder, table, column, text)
    with pytest.raises(StoreError) as raised:
        read(folder, ask)
    error = raised.value
    assert isinstance(error, Permanent)
    assert (error.file, error.table, error.row) == (str(folder / FILE), table, row)
    assert str(error).startswith(f"{folder / FILE}: table {table}, row {row}: damaged (")
    assert "restore a copy" in error.problem


def start(folder: Path) -> None:
    with Ledger(folder) as ledger:
        ledger.open_findings()
        ledger.actions_of(["n1"])
        ledger.recall(T0, 7.0)


WRITTEN = [
    ("verdicts", "findings", "n1"),
    ("node_states", "node_state", "n1"),
    ("facts", "value", "n1 gpu3 ecc_mode"),
    ("findings", "finding", "F000001"),
    ("events", "attrs", "1"),
    ("jobs", "job", "12"),
    ("checks", "result", "1"),
    ("actions", "findings", "1"),
]


@pytest.mark.parametrize(("table", "column", "row"), WRITTEN)
def test_a_hub_that_starts_names_the_damaged_row(
    folder: Path, table: str, column: str, row: str
) -> None:
    damage(folder, table, column, '{"half": ')
    with pytest.raises(StoreError) as raised:
        start(folder)
    assert (raised.value.table, raised.value.row) == (table, row)
    assert raised.value.file == str(folder / FILE)


def test_bytes_that_are_no_text_are_named_too(folder: Path) -> None:
    damage(folder, "detector_state", "state", b"\xff\xfe")
    with pytest.raises(StoreError, match="table detector_state, row names: damaged"):
        read(folder, lambda r: r.named("elsewhere"))


def test_planned_work_is_named_by_its_key(folder: Path) -> None:
    damage(folder, "maintenance", "nodes", "n1")
    with pytest.raises(StoreError, match=r"table maintenance, row [0-9a-f]{32}: damaged"):
        read(folder, lambda r: r.configuration())


def test_what_is_well_is_still_answered(folder: Path) -> None:
    damage(folder, "events", "attrs", "nonsense")
    with Reading(folder) as reading:
        assert [row.id for row in reading.findings()] == ["F000001"]
        assert reading.asked() == list[Closing]()


def test_a_command_says_it_in_one_line(folder: Path) -> None:
    damage(folder, "findings", "finding", '{"half": ')
    done = subprocess.run(
        [sys.executable, "-m", "bigiron", "findings", "--folder", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "table findings, row F000001: damaged" in done.stderr
