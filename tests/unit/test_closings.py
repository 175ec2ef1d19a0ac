"""People's requests in the ledger: asked beside a hub, applied in one turn, never twice."""

import json
import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bigiron.cli import root
from bigiron.cli.close import user
from bigiron.errors import NoData, Permanent, Temporary
from bigiron.hub.lock import Lock
from bigiron.hub.loop import Hub
from bigiron.hub.poller import Arrival
from bigiron.hub.runner import Pace, run
from bigiron.model import Batch, Change, Closing, Event, Finding, FindingChange, Severity, Subject
from bigiron.store.closings import ask
from bigiron.store.ledger import Ledger
from bigiron.store.reading import Reading
from bigiron.store.turn import Turn

NOW = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)
SECOND = timedelta(seconds=1)


def crash(node: str, line: int, at: datetime = NOW) -> Event:
    text = "mce: [Hardware Error]: Machine check: Processor context corrupt"
    return Event(node, "mce.fatal", text, "", at, source="kern.log", line=line)


def arrival(*events: Event, cursor: str = "1", at: datetime = NOW) -> Arrival:
    return Arrival("kern.log", Batch(at, "kern.log", events=events), cursor, 0.0)


def started(folder: Path, *events: Event) -> None:
    with Ledger(folder) as ledger:
        hub = Hub(ledger, NOW)
        hub.step([arrival(*events)], NOW)
        hub.close(NOW + SECOND)


def command(folder: Path, *arguments: str) -> Result:
    given = ["close", *arguments, "--folder", str(folder)]
    return CliRunner().invoke(root, given, standalone_mode=False)


def standing(folder: Path) -> list[str]:
    with Reading(folder) as reading:
        return sorted(row.finding.subject.node for row in reading.findings())


def shown(folder: Path, *arguments: str) -> str:
    given = [*arguments, "--folder", str(folder)]
    return CliRunner().invoke(root, given, standalone_mode=False).stdout


def test_asked_without_a_hub_it_is_done_when_one_starts(tmp_path: Path) -> None:
    started(tmp_path, crash("n1", 1), crash("n2", 2))
    result = command(tmp_path, "F000001", "--because", "CPU changed")
    assert result.return_value == 0
    assert "asked for: F000001 mce.fatal on n1" in result.stdout
    assert "No hub runs" in result.stdout
    assert standing(tmp_path) == ["n1", "n2"]
    said = f"F000001 is to be closed at the hub's next turn, says {user()}: CPU changed"
    assert said in shown(tmp_path, "why", "n1")
    with Ledger(tmp_path) as ledger:
        Hub(ledger, datetime.now(UTC)).step([], datetime.now(UTC))
    assert standing(tmp_path) == ["n2"]
    for view in ("why", "timeline"):
        assert f"closed by {user()}: CPU changed" in shown(tmp_path, view, "n1")


def test_a_hub_that_works_closes_it_at_once(tmp_path: Path) -> None:
    started(tmp_path, crash("n1", 1))
    stop = threading.Event()

    def work() -> None:
        with Lock(tmp_path), Ledger(tmp_path) as ledger:
            run(Hub(ledger, datetime.now(UTC)), [], Pace(0.05), stop)

    hub = threading.Thread(target=work)
    hub.start()
    try:
        while True:
            result = command(tmp_path, "F000001", "--because", "false alarm", "--json")
            if result.exception is None:
                break
            assert isinstance(result.exception, Temporary), "the hub is just starting"
    finally:
        stop.set()
        hub.join()
    (told,) = json.loads(result.stdout)
    assert (told["finding"], told["by"], told["because"]) == ("F000001", user(), "false alarm")
    assert standing(tmp_path) == []


def test_by_node_and_fault(tmp_path: Path) -> None:
    started(tmp_path, *(crash(f"n{n}", n) for n in range(1, 5)))
    result = command(tmp_path, "--node", "n[1-2]", "--fault", "mce", "--because", "changed")
    assert result.stdout.count("asked for: ") == 2
    result = command(tmp_path, "--node", "n3", "--fault", "mc", "--because", "changed")
    assert isinstance(result.exception, NoData)
    with Ledger(tmp_path) as ledger:
        Hub(ledger, datetime.now(UTC)).step([], datetime.now(UTC))
    assert standing(tmp_path) == ["n3", "n4"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["F000001", "F000007"], "F000007: no open finding"),
        (["--node", "n9"], "n9: no such node"),
        (["--node", "n1", "--fault", "xid"], "no open finding of xid"),
        ([], "name findings"),
        (["--fault", "mce"], "--node"),
        (["F000001", "--because", " "], "say what was done"),
    ],
)
def test_what_is_not_there_or_not_said_closes_nothing(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    started(tmp_path, crash("n1", 1))
    result = command(tmp_path, "--because", "changed", *arguments)
    assert said in str(getattr(result.exception, "message", result.exception))
    with Reading(tmp_path) as reading:
        assert reading.asked() == []


def test_the_old_line_opens_nothing_after_a_restart_and_a_new_one_does(tmp_path: Path) -> None:
    started(tmp_path, crash("n1", 1))
    asked = NOW + 10 * SECOND
    ask(tmp_path, [Closing(asked, "F000001", "alice", "changed")])
    for minute in (1, 2):
        now = NOW + timedelta(minutes=minute)
        other = Event("n1", "xid.31", "MMU fault", "gpu0", now, source="kern.log", line=5 + minute)
        with Ledger(tmp_path) as ledger:
            hub = Hub(ledger, now)
            hub.step([arrival(other, cursor=f"{minute}", at=now)], now)
            hub.close(now + SECOND)
    with Reading(tmp_path) as reading:
        assert [r.finding.fault for r in reading.findings()] == ["xid.31"]
        closes = [c for c in reading.changes("F000001") if c.change is Change.CLOSE]
    assert len(closes) == 1, "the request is dealt with once"
    later = NOW + timedelta(minutes=3)
    with Ledger(tmp_path) as ledger:
        Hub(ledger, later).step([arrival(crash("n1", 9, later), cursor="9", at=later)], later)
    with Reading(tmp_path) as reading:
        (found,) = [r for r in reading.findings() if r.finding.fault == "mce.fatal"]
    assert found.finding.since == later


def test_a_request_waits_for_a_locked_ledger_and_gives_up_in_the_end(tmp_path: Path) -> None:
    started(tmp_path, crash("n1", 1))
    other = sqlite3.connect(
        tmp_path / "ledger.sqlite", isolation_level=None, check_same_thread=False
    )
    word = [Closing(NOW, "F000001", "alice", "changed")]
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Temporary, match="locked"):
        ask(tmp_path, word, locked_s=0.5)
    let_go = threading.Timer(2.5, lambda: other.execute("ROLLBACK"))
    let_go.start()
    try:
        assert ask(tmp_path, word) == [1]
    finally:
        let_go.join()
        other.close()


def test_a_turn_that_cannot_be_written_deals_with_the_request_later(tmp_path: Path) -> None:
    started(tmp_path, crash("n1", 1))
    ask(tmp_path, [Closing(NOW + SECOND, "F000001", "alice", "changed")])
    told: list[FindingChange] = []
    with Ledger(tmp_path) as ledger:
        hub = Hub(ledger, NOW + 2 * SECOND, tell=told.append)
        other = sqlite3.connect(ledger.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Temporary):
            hub.step([], NOW + 2 * SECOND)
        assert told == []
        other.execute("ROLLBACK")
        other.close()
        for second in (3, 4):
            hub.step([], NOW + second * SECOND)
    assert [(c.id, c.change) for c in told] == [("F000001", Change.CLOSE)]


def test_a_ledger_that_nobody_made_or_an_older_bigiron_did_takes_no_request(
    tmp_path: Path,
) -> None:
    with pytest.raises(NoData):
        ask(tmp_path, [Closing(NOW, "F000001", "alice", "changed")])
    started(tmp_path, crash("n1", 1))
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        connection.execute("DROP TABLE closings")
        for table in ("verdicts", "verdict_history"):
            for column in ("p_fail_7d", "held_until", "contributions"):
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    connection.close()
    with pytest.raises(Permanent, match="start `bigiron hub`"):
        ask(tmp_path, [Closing(NOW, "F000001", "alice", "changed")])
    Ledger(tmp_path).close()  # what a hub does first
    assert ask(tmp_path, [Closing(NOW, "F000001", "alice", "changed")]) == [1]


def test_the_findings_of_some_nodes_are_found_behind_newer_ones_of_others(tmp_path: Path) -> None:
    def opened(number: int, subject: Subject) -> FindingChange:
        finding = Finding("d", f"f{number}", Severity.WARNING, subject, NOW, ("so",))
        return FindingChange(NOW + number * SECOND, f"F{number:06d}", Change.OPEN, finding)

    rack = Subject(by="rack", group="r1", members=("n1", "n2"))
    changes = [
        opened(1, Subject("n1")),
        opened(2, rack),
        *(opened(n, Subject("n9", f"gpu{n}")) for n in range(3, 30)),
    ]
    with Ledger(tmp_path) as ledger:
        ledger.commit_turn(Turn(NOW, changes=changes))
    with Reading(tmp_path) as reading:
        assert [r.id for r in reading.findings(nodes=["n1"], limit=5)] == ["F000002", "F000001"]
        assert [r.id for r in reading.findings(nodes=["n1"], limit=1)] == ["F000002"]
        assert [r.id for r in reading.findings(nodes=["n2"], limit=5)] == ["F000002"]
        assert len(reading.findings(nodes=["n9"], limit=5)) == 5
        assert reading.findings(nodes=["n3"], limit=5) == []
