import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bigiron.cli import root
from bigiron.errors import NoData
from bigiron.hub.lock import Lock
from bigiron.hub.loop import Hub
from bigiron.hub.poller import Arrival
from bigiron.model import Batch, Event, Fact, Node, NodeState
from bigiron.store.ledger import Ledger

NOW = datetime.now(UTC).replace(microsecond=0)
XID = "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."


def batch() -> Batch:
    def fault(number: int) -> Event:
        node = f"gpu{number:03d}"
        return Event(node, "xid.79", XID, "gpu3", NOW, source="kern.log", line=40 + number)

    names = [f"gpu{number:03d}" for number in range(1, 17)]
    return Batch(
        NOW,
        "kern.log",
        nodes=tuple(Node(name, rack="r1") for name in names),
        events=(fault(2), fault(3), fault(9)),
        facts=tuple(Fact(name, "driver_version", "570.1") for name in names),
        states=tuple(NodeState(name, "idle") for name in names),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hub")
    with Ledger(made) as ledger:
        hub = Hub(ledger, NOW)
        hub.step([Arrival("kern.log", batch(), "1", 0.0)], NOW)
        hub.close(NOW + timedelta(seconds=1))
    return made


def ask(folder: Path, *arguments: str) -> Result:
    runner = CliRunner()
    return runner.invoke(root, [*arguments, "--folder", str(folder)], standalone_mode=False)


def lines(folder: Path, *arguments: str) -> list[str]:
    result = ask(folder, *arguments)
    assert result.exception is None
    assert result.return_value == 0
    return result.stdout.splitlines()


def test_nodes_folds_those_that_stand_alike(folder: Path) -> None:
    header, *rows = lines(folder, "nodes")
    assert header.split() == ["NODES", "COUNT", "HEALTH", "P_FAIL_24H", "ACTION", "REASON"]
    cells = [row.split() for row in rows]
    assert [(c[0], c[1], c[2]) for c in cells[-1:]] == [
        ("gpu[001,004-008,010-016]", "13", "healthy")
    ]
    ill = [c for c in cells if c[2] == "unhealthy"]
    assert sum(int(c[1]) for c in ill) == 3
    assert cells[0][2] == "unhealthy", "the worst come first"


def test_nodes_all_tells_each_and_its_reason_in_full(folder: Path) -> None:
    _, *rows = lines(folder, "nodes", "--all")
    assert len(rows) == 16
    (row,) = [row for row in rows if row.startswith("gpu009")]
    assert "fell off the bus" in row


def test_nodes_takes_folded_sets(folder: Path) -> None:
    _, *rows = lines(folder, "nodes", "--all", "gpu[002-003]", "gpu016")
    assert [row.split()[0] for row in rows] == ["gpu002", "gpu003", "gpu016"]


def test_nodes_json_has_verdict_state_and_action(folder: Path) -> None:
    (row,) = json.loads("\n".join(lines(folder, "nodes", "gpu002", "--json")))
    assert row["node"] == {"name": "gpu002", "rack": "r1"}
    assert row["verdict"]["health"] == "unhealthy"
    assert row["state"]["state"] == "idle"
    assert row["action"]["mode"] == "shadow"


def test_findings_of_some_nodes(folder: Path) -> None:
    _, row = lines(folder, "findings", "gpu[001-002]")
    assert "gpu002/gpu3" in row
    assert "xid.79" in row
    assert "fatal" in row
    assert len(json.loads("\n".join(lines(folder, "findings", "--json")))) == 3


def test_events_by_code_and_time(folder: Path) -> None:
    _, *rows = lines(folder, "events", "--code", "xid", "--since", "2h")
    assert len(rows) == 3
    assert "kern.log:42" in rows[0]
    assert XID in rows[0]
    assert lines(folder, "events", "--code", "xid.7") == []
    assert lines(folder, "events", "gpu001") == []


def test_actions_say_that_they_are_shadow(folder: Path) -> None:
    header, *rows = lines(folder, "actions")
    assert header.startswith("TIME (UTC)")
    assert {row.split()[2] for row in rows} == {"gpu002", "gpu003", "gpu009"}
    assert all("(shadow)" in row or "(held)" in row for row in rows)


def test_why_leads_from_the_action_down_to_the_raw_line(folder: Path) -> None:
    text = "\n".join(lines(folder, "why", "gpu002"))
    order = [
        "gpu002  unhealthy",
        "asked for: ",
        "F000001",
        "xid.79 on gpu002/gpu3",
        "kern.log:42",
        XID,
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)
    odds = re.search(
        r"log-odds of failing +24 h +7 d\n"
        r" +base rate +-[\d.]+ +-[\d.]+ +of nodes like it .*\n"
        r" +F\d+ xid\.79 \(fatal\) +\+[\d.]+ +\+[\d.]+ +[\d,]+ times the odds .*\n"
        r" +together +[+-][\d.]+ +[+-][\d.]+ +>?\d+% in a day, >?\d+% in a week$",
        text,
    )
    assert odds is not None
    healthy = "\n".join(lines(folder, "why", "gpu001"))
    assert "log-odds" not in healthy
    assert "no finding stands against it" in healthy


def test_timeline_is_in_order_of_time(folder: Path) -> None:
    header, *rows = lines(folder, "timeline", "gpu003")
    assert header.split() == ["TIME", "(UTC)", "WHAT", "DEVICE", "TEXT"]
    times = [row[:19] for row in rows]
    assert times == sorted(times)
    text = "\n".join(rows)
    for what in ("event", "finding open", "verdict", "action", "scheduler", "fact"):
        assert what in text


def test_events_that_repeat_are_told_once_and_with_all_each(tmp_path: Path) -> None:
    flaps = tuple(
        Event("n1", f"ib.link_{way}", f"Link {way}", "ib7", NOW - timedelta(seconds=60 - second))
        for second in range(30)
        for way in ("down", "up")
    )
    with Ledger(tmp_path) as ledger:
        hub = Hub(ledger, NOW)
        hub.step([Arrival("log", Batch(NOW, "log", events=flaps), "1", 0.0)], NOW)
        hub.close(NOW + timedelta(seconds=1))
    told = [row for row in lines(tmp_path, "timeline", "n1") if " event " in row]
    assert len(told) == 2
    assert all("(29 more until" in row for row in told)
    every = [row for row in lines(tmp_path, "timeline", "n1", "--all") if " event " in row]
    assert len(every) == 60


def test_status_says_whether_a_hub_works_and_how_it_keeps_up(folder: Path) -> None:
    first, *rest = lines(folder, "hub", "--status")
    assert first.endswith("no hub works here")
    (turns,) = [line for line in rest if line.startswith("turns ")]
    assert " 0 failed; half took less than " in turns
    told = json.loads("\n".join(lines(folder, "hub", "--status", "--json")))
    assert told["pid"] is None
    assert "hub_turn_seconds_p99" in {meter["name"] for meter in told["meters"]}
    with Lock(folder):
        (working, *_) = lines(folder, "hub", "--status")
    assert working.endswith(f"a hub works here, pid {os.getpid()}")


@pytest.mark.parametrize("command", ["nodes", "findings", "events", "actions", "why"])
def test_a_node_that_is_not_there_is_no_good_news(folder: Path, command: str) -> None:
    result = ask(folder, command, "gpu999")
    assert isinstance(result.exception, NoData)
    assert "gpu999: no such node" in str(result.exception)


@pytest.mark.parametrize(
    "arguments",
    [("nodes",), ("findings",), ("events",), ("actions",), ("why", "n"), ("timeline", "n")],
)
def test_without_a_ledger_the_folder_is_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = ask(tmp_path / "none", *arguments)
    assert isinstance(result.exception, NoData)
    assert str(tmp_path / "none") in str(result.exception)


def test_a_ledger_that_a_hub_is_just_making_is_none_yet(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").touch()
    result = ask(tmp_path, "nodes")
    assert isinstance(result.exception, NoData)
    assert "no ledger here yet" in str(result.exception)


def test_an_empty_ledger_says_so(tmp_path: Path) -> None:
    Ledger(tmp_path).close()
    result = ask(tmp_path, "nodes")
    assert result.return_value == 3
    assert "no node yet" in result.stderr
    assert ask(tmp_path, "timeline", "n1").return_value == 3
    assert ask(tmp_path, "findings").return_value == 0


@pytest.mark.parametrize(
    "arguments",
    [("nodes", "gpu[1-"), ("events", "--since", "yesterday"), ("events", "--since", "3y")],
)
def test_what_cannot_be_understood_is_a_usage_error(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    result = ask(folder, *arguments)
    assert type(result.exception).__name__ == "BadParameter"


def test_a_time_before_all_time_takes_everything(folder: Path) -> None:
    assert lines(folder, "events", "--since", "99999999999d") == lines(folder, "events")


def test_the_folder_comes_from_the_configuration(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "bigiron.toml"
    config.write_text(f'[hub]\nfolder = "{folder}"\n')
    result = CliRunner().invoke(root, ["nodes", "--config", str(config)], standalone_mode=False)
    assert result.return_value == 0
    assert "gpu[001,004-008,010-016]" in result.stdout


def test_a_hub_with_nothing_to_watch_says_what_it_could(tmp_path: Path) -> None:
    result = ask(tmp_path, "hub")
    assert result.return_value == 4
    assert "--prometheus" in result.stderr


def test_once_with_no_source_that_answers_is_no_success(tmp_path: Path) -> None:
    log = str(tmp_path / "none.log")
    arguments = ["hub", "--folder", str(tmp_path), "--kernel-log", log, "--once"]
    ended = subprocess.run(
        [sys.executable, "-m", "bigiron", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 3
    assert "no such file" in ended.stderr
    assert "no source answered" in ended.stderr
    (source,) = [line for line in lines(tmp_path, "hub", "--status") if line.startswith("log:")]
    assert "never" in source
