import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.unit.recording_maker import NODES, START, STEP, STEPS, table, write

from bigiron.errors import ParseError
from bigiron.ingest.recording import Recording
from bigiron.model import Batch, Sample


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "small")


def batches(folder: Path) -> list[Batch]:
    return list(Recording(folder).batches())


def singly(batch: Batch) -> list[Sample]:
    """The samples that a batch brings side by side."""
    return list(_singly(batch))


def _singly(batch: Batch) -> Iterator[Sample]:
    for told in batch.columns:
        values, times = told.values.tolist(), told.times.tolist()
        for (node, device), value, time_s in zip(told.keys, values, times, strict=True):
            if value == value:
                yield Sample(node, device, told.metric, value, datetime.fromtimestamp(time_s, UTC))


def temps(recording: Recording) -> list[float]:
    return [s.value for b in recording.batches() for s in singly(b) if "temp" in s.metric]


def row(step: float, device: str = "gpu0", value: Any = 50.0, node: Any = "p01") -> tuple[Any, ...]:
    return (START + step * STEP, node, device, value)


def test_a_batch_a_step_in_order_of_time(folder: Path) -> None:
    read = batches(folder)
    assert [b.time for b in read] == [START + i * STEP for i in range(STEPS)]
    assert [len(singly(b)) for b in read] == [12] * STEPS
    assert [n.name for n in read[0].nodes] == list(NODES)
    assert len(read[0].devices) == 6
    assert read[0].maintenance[0].nodes == ("p03",)


def test_values_come_in_canonical_names_and_units(folder: Path) -> None:
    by_metric = {s.metric: s for s in singly(batches(folder)[1])}
    assert by_metric["gpu_temp_celsius"].value == 51.0
    assert by_metric["gpu_utilization_ratio"].value == pytest.approx(0.97)
    assert by_metric["gpu_temp_celsius"].time == START + STEP


def test_what_happens_between_steps_comes_with_the_next(folder: Path) -> None:
    coarse = list(Recording(folder).batches(step_s=900))
    assert [len(singly(b)) for b in coarse] == [12, 36, 36, 36, 36]
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
    with_truth = [singly(b) for b in batches(folder)]
    watching = False
    assert any(name.endswith("nodes.csv") for name in opened)
    assert not any(name.endswith("truth.jsonl") for name in opened)
    (folder / "truth.jsonl").unlink()
    assert [singly(b) for b in batches(folder)] == with_truth


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
    rows = [row(i, value=50.0 + i) for i in (2, 0, 1, 1)]
    table(folder, "DCGM_FI_DEV_GPU_TEMP", rows)
    recording = Recording(folder)
    assert temps(recording) == [50.0, 51.0, 52.0]
    told = {note.what: note.count for note in recording.notes}
    name = "DCGM_FI_DEV_GPU_TEMP.parquet"
    assert told[f"{name}: rows told twice"] == 1
    assert told[f"{name}: rows out of order of time, sorted, the first at row 2"] == 1


def test_a_row_told_twice_is_named(folder: Path) -> None:
    table(folder, "DCGM_FI_DEV_GPU_TEMP", [row(0), row(1, value=51.0), row(1, value=99.0), row(2)])
    recording = Recording(folder)
    assert temps(recording) == [50.0, 51.0, 50.0]
    assert "rows told twice, the first at row 3" in recording.notes[0].what


def test_rows_from_outside_the_recording_are_counted_never_used(folder: Path) -> None:
    table(folder, "DCGM_FI_DEV_GPU_TEMP", [row(-288), row(0), row(STEPS - 1), row(STEPS + 40)])
    recording = Recording(folder)
    assert temps(recording) == [50.0, 50.0]
    told = " ".join(note.what for note in recording.notes)
    assert "rows from before its start, the first at row 1" in told
    assert "rows from after its end, the first at row 4" in told


def test_rows_without_a_time_a_node_or_a_value_are_counted_and_named(folder: Path) -> None:
    whole = row(0)
    bad = [(None, *whole[1:]), row(1, node=None), row(2, value=None), row(3, value=float("nan"))]
    for one in bad:
        table(folder, "DCGM_FI_DEV_GPU_TEMP", [whole, one])
        recording = Recording(folder)
        assert temps(recording) == [50.0]
        (note,) = recording.notes
        assert note.count == 1
        assert "the first at row 2" in note.what


def test_a_device_that_is_null_is_the_node(folder: Path) -> None:
    rows = [(*row(0)[:2], None, 40.0)]
    table(folder, "node_inlet_temp_celsius", rows)
    told = [s.device for s in singly(batches(folder)[0]) if "inlet" in s.metric]
    assert told == [""]


def test_a_subject_read_often_within_a_step_keeps_every_sample_in_order(folder: Path) -> None:
    rows = [row(1 + i / 4, device, 50.0 + i) for i in range(4) for device in ("gpu1", "gpu0")]
    table(folder, "DCGM_FI_DEV_GPU_TEMP", rows)
    read = [s for s in singly(batches(folder)[2]) if "temp" in s.metric]
    assert [s.value for s in read if s.device == "gpu0"] == [51.0, 52.0, 53.0]
    assert [s.time for s in read if s.device == "gpu1"] == [
        START + STEP + i * STEP / 4 for i in (1, 2, 3)
    ]


def test_subjects_that_come_later_do_not_move_those_before(folder: Path) -> None:
    table(folder, "DCGM_FI_DEV_GPU_TEMP", [row(0, "gpu3"), row(1, "gpu3"), row(1, "gpu0")])
    keys = [t.keys for b in batches(folder) for t in b.columns if "temp" in t.metric]
    assert keys[-1] == (("p01", "gpu3"), ("p01", "gpu0"))


def test_blanks_and_unknown_metrics_are_counted_never_used(folder: Path) -> None:
    rows = [row(0, value=9.223372036854776e18), row(0, "gpu1", 44.0)]
    table(folder, "DCGM_FI_DEV_GPU_TEMP", rows)
    table(folder, "MY_OWN_METRIC", rows)
    recording = Recording(folder)
    assert temps(recording) == [44.0]
    told = " ".join(note.what for note in recording.notes)
    assert "MY_OWN_METRIC.parquet: a metric that is not catalogued" in told
    assert 'GPU_TEMP.parquet: values that mean "there is none", the first at row 1' in told


def test_a_long_recording_is_read_in_stretches(
    folder: Path,
) -> None:
    hours = 24 * 365
    end = START + timedelta(hours=hours)
    (folder / "recording.toml").write_text(
        f'name = "long"\nstart = "{START.isoformat()}"\nend = "{end.isoformat()}"\nstep_s = 3600\n'
    )
    rows = [(START + timedelta(hours=h), "p01", "gpu0", float(h % 50)) for h in range(hours + 1)]
    table(folder, "DCGM_FI_DEV_GPU_TEMP", rows)
    whole = Recording(folder)
    short = Recording(folder, stretch_rows=1000)
    assert temps(whole) == temps(short) == [float(h % 50) for h in range(hours + 1)]
    table(folder, "DCGM_FI_DEV_GPU_TEMP", rows[::-1])
    assert temps(Recording(folder, stretch_rows=1000)) == temps(whole)


HEADER = "JobIDRaw|User|State|ExitCode|Submit|Start|End|NNodes|NodeList|Partition|Restarts"


def job_row(id_: str, start: int, end: int, nodes: str = "p[01-02]") -> str:
    """A job that runs from one step to another."""
    times = [(START + step * STEP).isoformat() for step in (start, start, end)]
    return f"{id_}|ann|COMPLETED|0:0|{'|'.join(times)}|2|{nodes}|batch|0"


def jobs_of(folder: Path, *rows: str) -> tuple[list[tuple[str, int, int]], list[str]]:
    """Each attempt as told, by step, and what was noted."""
    (folder / "jobs.psv").write_text("\n".join((HEADER, *rows)) + "\n")
    recording = Recording(folder)
    ended = [j for b in recording.batches() for j in b.jobs if j.end is not None]
    steps = [
        (j.id, int((j.start - START) / STEP), int((j.end - START) / STEP))
        for j in ended
        if j.start is not None and j.end is not None
    ]
    return steps, [f"{note.source}: {note.what}" for note in recording.notes]


def test_attempts_of_one_job_that_overlap_follow_one_another_and_are_named(folder: Path) -> None:
    steps, notes = jobs_of(folder, job_row("71", 1, 8), job_row("71", 4, 10), job_row("72", 2, 6))
    assert sorted(steps) == [("71", 1, 4), ("71", 4, 10), ("72", 2, 6)]
    (note,) = notes
    assert "jobs.psv: job 71: two attempts of it overlap" in note


def test_a_requeued_job_and_jobs_that_share_a_node_are_no_error(folder: Path) -> None:
    steps, notes = jobs_of(folder, job_row("71", 1, 4), job_row("71", 4, 9), job_row("73", 1, 9))
    assert len(steps) == 3
    assert notes == []


def test_a_job_told_twice_and_one_that_ends_before_it_begins_are_left_out(folder: Path) -> None:
    steps, notes = jobs_of(folder, job_row("71", 1, 4), job_row("71", 1, 4), job_row("74", 6, 2))
    assert steps == [("71", 1, 4)]
    assert any("job 71: row told twice" in note for note in notes)
    assert any("job 74: row left out: it ends at" in note for note in notes)
