import json
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from click.testing import CliRunner
from tests.unit.recording_maker import START, STEP, table, write

from bigiron.cli.replay import replay as command
from bigiron.errors import ParseError, Permanent
from bigiron.hub.memory import Limits, Memory
from bigiron.hub.replay import FILES, How, fitting, replay
from bigiron.hub.turn import Outcome, Settings, Standing, fold_reads, turn
from bigiron.ingest.recording import Recording
from bigiron.model import Batch, Sample


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
    held = (START + 21 * STEP).isoformat()
    assert [(v["node"], v["health"], v["findings"], v.get("held_until")) for v in verdicts] == [
        ("p02", "unhealthy", ["F000001"], None),
        ("p02", "unhealthy", [], held),
    ]
    assert verdicts[0]["p_fail_7d"] >= verdicts[0]["p_fail_24h"] > verdicts[1]["p_fail_24h"] > 0
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


HOURS = 6
NODES_MANY = 24


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 nodes at work for six hours: readings that move, some lost; one GPU hot, one narrow,
    one node silent for an hour, two GPUs of a node that change places.
    """
    folder = write(tmp_path_factory.mktemp("recordings") / "busy")
    end = START + timedelta(hours=HOURS)
    (folder / "recording.toml").write_text(
        f'name = "busy"\nstart = "{START.isoformat()}"\nend = "{end.isoformat()}"\nstep_s = 300\n'
    )
    nodes = [f"p{n:02d}" for n in range(1, NODES_MANY + 1)]
    rows = ["node,sku", *(f"{node},quad" for node in nodes)]
    (folder / "nodes.csv").write_text("\n".join(rows) + "\n")
    rows = ["node,device,kind,id,bus,model"]
    rows += [f"{n},gpu{i},gpu,GPU-{n}-{i},0000:{i:02x}:00.0,Q" for n in nodes for i in range(4)]
    (folder / "devices.csv").write_text("\n".join(rows) + "\n")
    moved = START + timedelta(hours=3, minutes=2)
    swaps = [
        {"time": moved.isoformat(), "node": "p05", "device": f"gpu{i}", "facts": facts}
        for i, facts in enumerate(
            {"uuid": f"GPU-p05-{1 - i}", "bus": f"0000:{1 - i:02x}:00.0"} for i in range(2)
        )
    ]
    (folder / "facts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in swaps))
    for name, value in METRICS.items():
        table(folder, name, list(_rows(nodes, value)))
    return folder


class At(NamedTuple):
    step: int
    node: int
    gpu: int


def _temp(at: At) -> float:
    hot = 40.0 if (at.node, at.gpu) == (3, 2) and at.step > 20 else 0.0
    return round(52 + 6 * math.sin(at.step / 9 + at.gpu) + hot)


METRICS: dict[str, Callable[[At], float]] = {
    "DCGM_FI_DEV_GPU_TEMP": _temp,
    "DCGM_FI_DEV_POWER_USAGE": lambda at: 400 + (at.step * 7 + at.node * 3 + at.gpu) % 19,
    "DCGM_FI_DEV_GPU_UTIL": lambda at: 92 + sum(at) % 7,
    "DCGM_FI_DEV_SM_CLOCK": lambda at: 1700 + (at.step + at.gpu) % 3,
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": lambda at: 8 if at[1:] == (7, 1) else 16,
    "DCGM_FI_DEV_XID_ERRORS": lambda at: 79 if at[1:] == (9, 0) and at.step > 40 else 0,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": lambda at: at.step * at.gpu // 5,
}


def _rows(nodes: list[str], value: Callable[[At], float]) -> Iterator[tuple[Any, ...]]:
    for step in range(HOURS * 12 + 1):
        for number, node in enumerate(nodes, 1):
            if (number == 11 and 30 <= step < 42) or (step + number) % 37 == 0:
                continue
            for gpu in range(4):
                value_now = float(value(At(step, number, gpu)))
                yield START + step * STEP, node, f"gpu{gpu}", value_now


def written(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in FILES]


@pytest.fixture(scope="module")
def whole(busy: Path, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """What one process writes of it without a stop."""
    out = tmp_path_factory.mktemp("whole")
    summary = replay(Recording(busy), out, how=How(processes=1))
    assert summary.notes == []
    assert summary.findings > 3
    return written(out)


def test_two_processes_write_the_same_bytes(busy: Path, whole: list[bytes], tmp_path: Path) -> None:
    replay(Recording(busy), tmp_path / "two", how=How(processes=2))
    assert written(tmp_path / "two") == whole


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 2), (2, 1)])
def test_a_replay_that_is_stopped_and_goes_on_writes_the_same_bytes(
    busy: Path, whole: list[bytes], tmp_path: Path, first: int, second: int
) -> None:
    keep, out = tmp_path / "snapshot", tmp_path / "out"
    until = START + timedelta(hours=3, minutes=17)
    replay(Recording(busy), out, how=How(first, until, keep))
    begun = written(out)
    assert begun != whole
    assert all(all_.startswith(part) for all_, part in zip(whole, begun, strict=True))
    rest = tmp_path / "rest"
    replay(Recording(busy), rest, how=How(second, resume=keep))
    assert [a + b for a, b in zip(begun, written(rest), strict=True)] == whole
    summary = replay(Recording(busy), out, how=How(second, resume=keep))
    assert written(out) == whole
    assert summary.turns == HOURS * 12 + 1


@pytest.mark.parametrize("rows", [500, 4000])
def test_how_much_is_read_at_a_time_changes_nothing(
    busy: Path, whole: list[bytes], tmp_path: Path, rows: int
) -> None:
    replay(Recording(busy, stretch_rows=rows), tmp_path / "out", how=How(1))
    assert written(tmp_path / "out") == whole


def _outcomes(batches: Iterator[Batch]) -> list[Outcome]:
    memory, standing, outcomes = Memory(Limits(gap_s=45.0), fold_reads()), Standing(), []
    settings = fitting(Settings(), STEP.total_seconds())
    for batch in batches:
        memory.take(batch)
        standing, outcome = turn(memory, standing, batch.time, settings)
        outcomes.append(outcome)
    return outcomes


def _singly(batch: Batch) -> Batch:
    """The same batch with its samples one by one."""
    samples = tuple(
        Sample(node, device, told.metric, value, datetime.fromtimestamp(time_s, UTC))
        for told in batch.columns
        for (node, device), value, time_s in zip(
            told.keys, told.values.tolist(), told.times.tolist(), strict=True
        )
        if value == value
    )
    return msgspec.structs.replace(batch, columns=(), samples=samples)


def test_samples_side_by_side_are_judged_as_singly(busy: Path) -> None:
    columns = _outcomes(Recording(busy).batches())
    singly = _outcomes(_singly(batch) for batch in Recording(busy).batches())
    faults = {change.finding.fault for outcome in columns for change in outcome.changes}
    assert {"gpu.hot", "gpu.pcie_width", "node.missing", "xid.79"} <= faults
    assert columns == singly


def test_a_snapshot_of_another_recording_or_none_is_named(
    busy: Path, folder: Path, tmp_path: Path
) -> None:
    keep = tmp_path / "snapshot"
    with pytest.raises(Permanent, match=r"snapshot: No such file"):
        replay(Recording(busy), tmp_path / "out", how=How(1, resume=keep))
    replay(Recording(busy), tmp_path / "out", how=How(1, START + STEP, keep))
    with pytest.raises(ParseError, match=r"snapshot: it is of another recording, busy"):
        replay(Recording(folder), tmp_path / "out", how=How(1, resume=keep))
    keep.write_bytes(keep.read_bytes()[:-9])
    with pytest.raises(ParseError, match=r"snapshot: a damaged snapshot"):
        replay(Recording(busy), tmp_path / "out", how=How(1, resume=keep))
    keep.write_text("my notes")
    with pytest.raises(ParseError, match=r"snapshot: this is no snapshot of a replay"):
        replay(Recording(busy), tmp_path / "out", how=How(1, resume=keep))


def test_files_cut_short_since_the_snapshot_are_named(busy: Path, tmp_path: Path) -> None:
    keep, out = tmp_path / "snapshot", tmp_path / "out"
    replay(Recording(busy), out, how=How(1, START + timedelta(hours=3), keep))
    (out / "findings.jsonl").write_bytes(b"")
    with pytest.raises(Permanent, match=r"findings\.jsonl: shorter than where the snapshot"):
        replay(Recording(busy), out, how=How(1, resume=keep))


@pytest.mark.parametrize("processes", [1, 2])
def test_a_file_that_breaks_off_is_named_whoever_reads_it(
    folder: Path, tmp_path: Path, processes: int
) -> None:
    recording = Recording(folder)
    path = folder / "samples" / "DCGM_FI_DEV_GPU_TEMP.parquet"
    data = bytearray(path.read_bytes())
    data[8 : len(data) // 2] = bytes(len(data) // 2 - 8)
    path.write_bytes(data)
    with pytest.raises(ParseError, match=r"samples/DCGM_FI_DEV_GPU_TEMP\.parquet"):
        replay(recording, tmp_path / "out", how=How(processes))


def test_the_command_takes_a_time_to_stop_at(folder: Path, tmp_path: Path) -> None:
    words = [str(folder), "--out", str(tmp_path / "out")]
    until = (START + 6 * STEP).isoformat()
    keep = str(tmp_path / "snapshot")
    done = CliRunner().invoke(command, [*words, "--until", until, "--snapshot", keep])
    assert "1 findings, 1 open at the end" in done.output
    done = CliRunner().invoke(command, [*words, "--resume", keep])
    assert "1 findings, 0 open at the end" in done.output
    bad = CliRunner().invoke(command, [*words, "--until", "noon"])
    assert "an RFC 3339 time with an offset is wanted" in bad.output
