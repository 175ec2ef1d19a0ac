import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.recording_maker import START, STEP, write

from bigiron.cli.replay import replay as command
from bigiron.errors import ParseError, Permanent
from bigiron.hub.replay import FILES, replay
from bigiron.ingest.recording import Recording


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "small")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_writes_findings_verdicts_and_actions_as_the_format_says(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    summary = replay(Recording(folder), out)
    lost = (START + 4 * STEP).isoformat()
    booted = (START + 9 * STEP).isoformat()
    findings = lines(out / "findings.jsonl")
    assert [(f["time"], f["change"], f["fault"]) for f in findings] == [
        (lost, "open", "xid.79"),
        (booted, "close", "xid.79"),
    ]
    assert findings[0]["subject"] == {"kind": "device", "node": "p02", "device": "gpu1"}
    assert findings[0]["id"] == findings[1]["id"] == "F000001"
    assert 0 < findings[0]["confidence"] <= 1
    verdicts = lines(out / "verdicts.jsonl")
    assert [(v["node"], v["health"]) for v in verdicts] == [
        ("p02", "unhealthy"),
        ("p02", "healthy"),
    ]
    assert verdicts[0]["findings"] == ["F000001"]
    (action,) = lines(out / "actions.jsonl")
    assert (action["action"], action["mode"]) == ("reboot", "shadow")
    told = json.loads((out / "summary.json").read_text())
    assert (told["nodes"], told["findings"], told["findings_open"]) == (3, 1, 0)
    assert told["node_days"] == pytest.approx(3 / 24)
    assert summary.samples == 156


def test_the_same_recording_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    once, again = tmp_path / "once", tmp_path / "again"
    replay(Recording(folder), once)
    replay(Recording(folder), again)
    for name in FILES:
        assert (once / name).read_bytes() == (again / name).read_bytes()
    differ = {"wall_s", "peak_mib"}
    first, second = (json.loads((o / "summary.json").read_text()) for o in (once, again))
    assert {k: v for k, v in first.items() if k not in differ} == {
        k: v for k, v in second.items() if k not in differ
    }


def test_a_folder_that_cannot_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Permanent, match="file"):
        replay(Recording(folder), tmp_path / "file")


def test_the_command_says_what_it_did(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [str(folder), "--out", str(tmp_path / "out")])
    assert done.exception is None, done.output
    assert "3 nodes" in done.output
    assert "1 findings, 0 open at the end" in done.output
    told = CliRunner().invoke(command, [str(folder), "--out", str(tmp_path / "out"), "--json"])
    assert json.loads(told.stdout)["recording"] == "small"


def test_the_command_names_what_is_no_recording(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [str(tmp_path), "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, ParseError)
    assert "this is no recording" in str(done.exception)
