"""Step times of a job: the tables they come in, and what an inspection says of the job."""

import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.errors import ParseError
from bigiron.hub.documents import Documents
from bigiron.hub.inspect import Report, inspect
from bigiron.ingest import Document, Head
from bigiron.ingest.step_times import StepTimes, step_times
from bigiron.model import Fact, Note, Severity

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
Row = dict[str, object]
Writer = Callable[[Sequence[Row]], bytes]


def rows(slow: int | None = 5, *, node: bool = True, steps: int = 30) -> list[Row]:
    """Two stages of four replicas; the last stage computes longer, for it has the loss."""
    rng = random.Random(4)
    told: list[Row] = []
    for step in range(100, 100 + steps):
        for rank in range(8):
            stage = rank // 4
            seconds = (1.0 + 0.5 * stage) * rng.lognormvariate(0, 0.01)
            row: Row = {
                "step": step,
                "rank": rank,
                "stage": stage,
                "dp_rank": rank % 4,
                "compute_s": round(seconds * (1.15 if rank == slow else 1.0), 5),
            }
            told.append({**row, "node": f"w{rank:02d}"} if node else row)
    return told


def operations(of: Sequence[Row]) -> list[Row]:
    """The same as a trace of operations; what waits is as long as it takes."""
    told: list[Row] = []
    for row in of:
        seconds = float(str(row["compute_s"]))
        same = {name: row[name] for name in ("step", "rank", "stage", "dp_rank")}
        for name, share in (("forward-compute", 0.4), ("backward-compute", 0.6)):
            told.append({**same, "optype": name, "duration": seconds * share})
        told.append({**same, "optype": "grads-reduce-scatter", "duration": 9.0 - seconds})
    return told


def separated(mark: str) -> Writer:
    def write(of: Sequence[Row]) -> bytes:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(of[0]), delimiter=mark)
        writer.writeheader()
        writer.writerows(of)
        return text.getvalue().encode()

    return write


def parquet(of: Sequence[Row]) -> bytes:
    data = io.BytesIO()
    pl.DataFrame(list(of)).write_parquet(data)
    return data.getvalue()


def lines(of: Sequence[Row]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in of)


def listed(of: Sequence[Row]) -> bytes:
    return json.dumps(list(of)).encode()


WRITERS = {
    "steps.csv": separated(","),
    "steps.tsv": separated("\t"),
    "steps.txt": separated(";"),
    "steps.jsonl": lines,
    "steps.json": listed,
    "steps.parquet": parquet,
}


def facts(data: bytes, name: str = "steps.csv") -> dict[tuple[str, str], object]:
    document = Document.of(name, data, NOW)
    return {
        (seen.device, seen.name): seen.value
        for seen in StepTimes().read(document)
        if isinstance(seen, Fact)
    }


def look(*paths: Path) -> Report:
    return inspect([str(path) for path in paths], Documents())


@pytest.mark.parametrize("name", WRITERS)
def test_any_table_names_the_node_of_the_slow_rank(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(WRITERS[name](rows()))
    report = look(tmp_path)
    findings = {d.node: d.findings for d in report.diagnoses if d.findings}
    assert set(findings) == {"w05"}
    (finding,) = findings["w05"]
    assert (finding.fault, finding.severity) == ("straggler", Severity.WARNING)
    assert "Rank 5 of job steps computes 1.1" in finding.because[0]
    assert "the 3 other ranks of its pipeline stage" in finding.because[0]
    assert report.exit_code == 1
    assert len(report.diagnoses) == 8


@pytest.mark.parametrize("name", WRITERS)
def test_unequal_stages_are_nobodys_fault_and_that_is_said(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(WRITERS[name](rows(None)))
    report = look(tmp_path)
    assert report.exit_code == 0
    said = " ".join(note.what for note in report.notes)
    assert "8 ranks, 30 steps; none computes longer than the others of its stage" in said


def test_of_a_trace_of_operations_only_compute_counts(tmp_path: Path) -> None:
    trace = operations(rows(node=False))
    (tmp_path / "trace-x.jsonl").write_bytes(lines(trace))
    report = look(tmp_path)
    (finding,) = report.groups
    assert finding.subject.key == "job:trace-x"
    assert "Rank 5 of job trace-x computes 1.1" in finding.because[0]
    assert report.diagnoses == ()


def test_files_of_one_rank_each_are_one_job(tmp_path: Path) -> None:
    folder = tmp_path / "run17"
    folder.mkdir()
    for rank in range(8):
        of_rank = [row for row in rows() if row["rank"] == rank]
        (folder / f"rank{rank}.csv").write_bytes(separated(",")(of_rank))
    report = look(tmp_path)
    assert [d.node for d in report.diagnoses if d.findings] == ["w05"]
    assert "Rank 5 of job run17" in report.diagnoses[0].findings[0].because[0]


def test_a_job_without_stage_peers_is_not_judged(tmp_path: Path) -> None:
    alone = [row for row in rows() if row["dp_rank"] == 0]
    (tmp_path / "steps.csv").write_bytes(separated(",")(alone))
    report = look(tmp_path)
    assert report.exit_code == 0
    assert "so none was judged" in report.notes[0].what


def test_other_words_and_units_for_the_same() -> None:
    text = "Iteration,Global Rank,PP Rank,forward_ms,backward_ms\n7,3,1,100,250\n8,3,1,110,240\n"
    assert facts(text.encode()) == {
        ("rank3", "step_stage"): 1,
        ("rank3", "step_replica"): 3,
        ("rank3", "step_compute"): "7:0.35 8:0.35",
    }


def test_times_of_whole_steps_say_nothing_of_a_rank() -> None:
    text = b"step,rank,step_time_s\n1,0,2.0\n1,1,2.0\n"
    document = Document.of("steps.csv", text, NOW)
    assert step_times().sniff(Head.of(document)) >= 0.3
    with pytest.raises(ParseError, match="a step takes all ranks as long"):
        list(StepTimes().read(document))


@pytest.mark.parametrize(
    "text",
    [
        b"step,rank,loss\n1,0,2.0\n",
        b"time,node,value\n1,2,3\n",
        b'{"step": 1, "loss": 2.0}\n',
        b"Mar  2 16:24:18 a1 kernel: step rank compute\n",
        b"",
    ],
)
def test_other_tables_are_not_taken_for_step_times(text: bytes) -> None:
    assert step_times().sniff(Head.of(Document.of("x.csv", text, NOW))) < 0.3


def test_rows_that_say_nothing_are_counted() -> None:
    text = b"step,rank,compute_s\n1,0,2.0\n1,zero,2.0\n2,0\n2,0,\n3,0,2.5\n"
    told = list(StepTimes().read(Document.of("steps.csv", text, NOW)))
    assert [note.count for note in told if isinstance(note, Note)] == [3]
    assert facts(text)["rank0", "step_compute"] == "1:2 3:2.5"


def test_a_parquet_file_of_something_else_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(parquet([{"time": 1, "node": "a1", "value": 2.0}]))
    (tmp_path / "y.parquet").write_bytes(b"PAR1 and nothing that can be read")
    report = look(tmp_path)
    assert report.exit_code == 3
    assert "a Parquet file without columns of step times" in report.notes[0].what
    assert "no Parquet file" in report.notes[1].what


@given(st.permutations(rows(steps=6)))
def test_the_order_of_the_rows_does_not_matter(mixed: list[Row]) -> None:
    assert facts(lines(mixed)) == facts(lines(rows(steps=6)))


@given(st.binary(max_size=300), st.sampled_from([b"", b"step,rank,compute_s\n", b'[{"step":1,']))
def test_any_bytes_are_read_or_refused(data: bytes, start: bytes) -> None:
    document = Document.of("x", start + data, NOW)
    step_times().sniff(Head.of(document))
    with suppress(ParseError):
        assert all(isinstance(seen, Fact | Note) for seen in StepTimes().read(document))
