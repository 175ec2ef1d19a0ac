import sys
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from tests.unit.recording_maker import NODES, START, STEP, STEPS, table, write

from bigiron.errors import ParseError
from bigiron.ingest.recording import Recording
from bigiron.model import Batch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "small")


def batches(folder: Path) -> list[Batch]:
    return list(Recording(folder).batches())


def test_a_batch_a_step_in_order_of_time(folder: Path) -> None:
    read = batches(folder)
    assert [b.time for b in read] == [START + i * STEP for i in range(STEPS)]
    assert [len(b.samples) for b in read] == [12] * STEPS
    assert [n.name for n in read[0].nodes] == list(NODES)
    assert len(read[0].devices) == 6
    assert read[0].maintenance[0].nodes == ("p03",)


def test_values_come_in_canonical_names_and_units(folder: Path) -> None:
    by_metric = {s.metric: s for s in batches(folder)[1].samples}
    assert by_metric["gpu_temp_celsius"].value == 51.0
    assert by_metric["gpu_utilization_ratio"].value == pytest.approx(0.97)
    assert by_metric["gpu_temp_celsius"].time == START + STEP


def test_what_happens_between_steps_comes_with_the_next(folder: Path) -> None:
    coarse = list(Recording(folder).batches(step_s=900))
    assert [len(b.samples) for b in coarse] == [12, 36, 36, 36, 36]
    assert [e.code for b in coarse for e in b.events] == ["xid.79", "kernel.reboot"]


def test_a_jobs_end_is_not_known_at_its_start(folder: Path) -> None:
    told = [(i, j.state, j.end) for i, b in enumerate(batches(folder)) for j in b.jobs]
    assert told == [(1, "RUNNING", None), (3, "COMPLETED", START + 3 * STEP)]


def test_states_and_facts_come_at_their_time(folder: Path) -> None:
    read = batches(folder)
    assert [(s.node, s.state) for s in read[0].states] == [("p01", "idle")]
    assert [(s.node, s.state) for s in read[4].states] == [("p02", "drain")]
    assert [(f.name, f.value) for f in read[0].facts] == [("gpu_count", 2)]


def test_truth_is_never_opened(folder: Path) -> None:
    opened: list[str] = []
    watching = True

    def hook(event: str, args: tuple[object, ...]) -> None:
        if watching and event == "open":
            opened.append(str(args[0]))

    sys.addaudithook(hook)
    with_truth = batches(folder)
    watching = False
    assert any(name.endswith("nodes.csv") for name in opened)
    assert not any(name.endswith("truth.jsonl") for name in opened)
    (folder / "truth.jsonl").unlink()
    assert batches(folder) == with_truth


def test_a_folder_that_is_no_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match=r"nowhere: no such folder"):
        Recording(tmp_path / "nowhere")
    with pytest.raises(ParseError, match=r"recording\.toml: the file is missing"):
        Recording(tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name = ", "not TOML"),
        ('name = "x"\nend = "2026-01-01T00:00:00Z"\nstep_s = 60\n', "start: an RFC 3339 time"),
        (
            'start = "2026-01-01T00:00:00"\nend = "2026-01-02T00:00:00Z"\nstep_s = 60\n',
            "start: a time with an offset",
        ),
        (
            'start = "2026-01-03T00:00:00Z"\nend = "2026-01-02T00:00:00Z"\nstep_s = 60\n',
            "end: it lies before start",
        ),
        ('start = "2026-01-01T00:00:00Z"\nend = "2026-01-02T00:00:00Z"\nstep_s = 0\n', "step_s"),
    ],
)
def test_a_wrong_recording_toml_says_what_is_wanted(folder: Path, text: str, problem: str) -> None:
    (folder / "recording.toml").write_text(text)
    with pytest.raises(ParseError, match=problem):
        Recording(folder)


def test_a_missing_table_and_a_missing_column_are_named(folder: Path) -> None:
    (folder / "devices.csv").write_text("node,name\np01,gpu0\n")
    with pytest.raises(ParseError, match=r"devices\.csv:1: no column 'device'; it holds node, na"):
        batches(folder)
    (folder / "nodes.csv").unlink()
    with pytest.raises(ParseError, match=r"nodes\.csv: the file is missing"):
        batches(folder)


def test_a_parquet_file_without_its_columns_is_named(folder: Path) -> None:
    path = folder / "samples" / "DCGM_FI_DEV_GPU_TEMP.parquet"
    pl.DataFrame({"time": [1], "node": ["p01"]}).write_parquet(path)
    with pytest.raises(ParseError, match=r"GPU_TEMP\.parquet: no column 'device'"):
        Recording(folder)
    path.write_bytes(b"not parquet at all")
    with pytest.raises(ParseError, match=r"GPU_TEMP\.parquet: not Parquet"):
        Recording(folder)


def test_bad_rows_are_left_out_and_counted(folder: Path) -> None:
    with (folder / "nodestate.csv").open("a") as file:
        file.write("yesterday,p01,idle,\n2026-04-06T00:10:00+00:00,,idle,\n")
    with (folder / "facts.jsonl").open("a") as file:
        file.write("{broken\n")
    recording = Recording(folder)
    assert len(list(recording.batches())) == STEPS
    notes = {note.source for note in recording.notes}
    assert notes >= {"small/nodestate.csv:4", "small/nodestate.csv:5", "small/facts.jsonl:2"}


def test_unsorted_and_repeated_rows_are_put_right_and_counted(folder: Path) -> None:
    rows = [(START + i * STEP, "p01", "gpu0", 50.0 + i) for i in (2, 0, 1, 1)]
    table(folder, "DCGM_FI_DEV_GPU_TEMP", rows)
    recording = Recording(folder)
    temps = [s.value for b in recording.batches() for s in b.samples if "temp" in s.metric]
    assert temps == [50.0, 51.0, 52.0]
    told = {note.what for note in recording.notes}
    assert "DCGM_FI_DEV_GPU_TEMP.parquet: rows told twice" in told
    assert "DCGM_FI_DEV_GPU_TEMP.parquet: stretches out of order of time, sorted" in told


def test_blanks_and_unknown_metrics_are_counted_never_used(folder: Path) -> None:
    rows = [(START, "p01", "gpu0", 9.223372036854776e18), (START, "p01", "gpu1", 44.0)]
    table(folder, "DCGM_FI_DEV_GPU_TEMP", rows)
    table(folder, "MY_OWN_METRIC", rows)
    recording = Recording(folder)
    temps = [s.value for b in recording.batches() for s in b.samples if "temp" in s.metric]
    assert temps == [44.0]
    told = " ".join(note.what for note in recording.notes)
    assert "MY_OWN_METRIC.parquet: a metric that is not catalogued" in told
    assert 'GPU_TEMP.parquet: values that mean "there is none"' in told


def test_a_long_recording_is_read_in_stretches(folder: Path) -> None:
    end = START + timedelta(hours=30)
    (folder / "recording.toml").write_text(
        f'name = "long"\nstart = "{START.isoformat()}"\nend = "{end.isoformat()}"\nstep_s = 3600\n'
    )
    rows = [(START + timedelta(hours=h), "p01", "gpu0", float(h)) for h in range(31)]
    table(folder, "DCGM_FI_DEV_GPU_TEMP", rows)
    temps = [s.value for b in batches(folder) for s in b.samples if "temp" in s.metric]
    assert temps == [float(h) for h in range(31)]
