"""A simulated recording on disk: its form, its bytes, and that everything of it can be read."""

import csv
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from bigiron import signals
from bigiron.cli.sim import sim
from bigiron.hub.replay import replay
from bigiron.hub.tally import Summary
from bigiron.ingest.recording import Recording
from bigiron.sim.record import record
from bigiron.sim.telemetry import TRACKS

START = datetime(2026, 1, 5, tzinfo=UTC)
NODES, DAYS = 24, 0.75
FILES = (
    *("recording.toml", "nodes.csv", "devices.csv", "facts.jsonl", "jobs.psv", "nodestate.csv"),
    *("maintenance.csv", "truth.jsonl", "logs/kernel.log"),
)


def make(folder: Path, scenario: str = "mixed", seed: int = 4) -> Path:
    """A small recording."""
    record(folder, scenario, nodes=NODES, days=DAYS, step_s=300, seed=seed, start=START)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small recording of the scenario mixed."""
    return make(tmp_path_factory.mktemp("sim") / "mixed")


def rows(path: Path) -> list[dict[str, str]]:
    """A CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_folder_holds_what_a_recording_holds(folder: Path) -> None:
    files = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    samples = {f"samples/{track.metric}.parquet" for track in TRACKS}
    assert files == {*FILES, *samples}
    assert len(samples) == 27
    assert all(signals.source(track.metric) is not None for track in TRACKS)


def test_samples_are_sorted_and_within_the_recording(folder: Path) -> None:
    for track in TRACKS:
        frame = pl.read_parquet(folder / "samples" / f"{track.metric}.parquet")
        assert frame.schema == {
            "time": pl.Datetime("ms", "UTC"),
            "node": pl.String(),
            "device": pl.String(),
            "value": pl.Float64(),
        }
        assert frame["time"].is_sorted()
        assert frame["time"].min() == START
        assert frame["time"].max() <= START + timedelta(days=DAYS)  # type: ignore[operator]
        assert not frame.select("time", "node", "device").is_duplicated().any()
        assert set(frame["device"]) == set(track.devices)
        whole = NODES * len(track.devices) * int(DAYS * 288 + 1)
        assert 0.8 * whole < len(frame) < whole


def test_values_have_the_steps_of_the_sensors(folder: Path) -> None:
    for metric, unit in (
        ("DCGM_FI_DEV_GPU_TEMP", 1),
        ("DCGM_FI_DEV_SM_CLOCK", 15),
        ("node_hwmon_temp_celsius", 0.5),
        ("DCGM_FI_DEV_POWER_USAGE", 0.1),
    ):
        value = pl.read_parquet(folder / "samples" / f"{metric}.parquet")["value"].to_numpy()
        steps = value[value < 1e9] / unit
        assert np.abs(steps - np.round(steps)).max() < 1e-6


def test_counters_fall_at_reboots_alone(folder: Path) -> None:
    boots = pl.read_parquet(folder / "samples" / "node_boot_time_seconds.parquet")
    booted = set(boots.group_by("node").agg(pl.col("value").n_unique()).filter(
        pl.col("value") > 1)["node"])  # fmt: skip
    assert booted
    counter = pl.read_parquet(folder / "samples" / "DCGM_FI_DEV_PCIE_REPLAY_COUNTER.parquet")
    fell = counter.with_columns(
        pl.col("value").diff().over("node", "device").alias("change")
    ).filter(pl.col("change") < 0)
    assert set(fell["node"]) <= booted


def test_every_row_is_read_without_a_word(folder: Path) -> None:
    recording = Recording(folder)
    seen: Counter[str] = Counter()
    for batch in recording.batches():
        for part in ("nodes", "devices", "samples", "events", "facts", "jobs", "states"):
            seen[part] += len(getattr(batch, part))
        seen["maintenance"] += len(batch.maintenance)
    assert {note.what.partition(":")[2].partition(",")[0].strip() for note in recording.notes} <= {
        'values that mean "there is none"'
    }
    assert seen["nodes"] == NODES
    assert seen["devices"] == NODES * 18
    assert seen["states"] == len(rows(folder / "nodestate.csv"))
    assert seen["maintenance"] == len(rows(folder / "maintenance.csv")) > 0
    facts = [json.loads(line) for line in (folder / "facts.jsonl").read_text().splitlines()]
    assert seen["facts"] == sum(len(line["facts"]) for line in facts)
    assert seen["events"] > 0
    jobs = (folder / "jobs.psv").read_text().splitlines()[1:]
    assert seen["jobs"] == sum(1 if "|RUNNING|" in job else 2 for job in jobs)


def test_a_replay_runs_over_it(folder: Path, tmp_path: Path) -> None:
    replay(Recording(folder), tmp_path)
    summary = msgspec.json.decode((tmp_path / "summary.json").read_bytes(), type=Summary)
    assert summary.nodes == NODES
    assert summary.samples > 400_000
    assert summary.findings > 0


def test_truth_has_every_field_in_order_of_time(folder: Path) -> None:
    truths = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    for truth in truths:
        assert list(truth)[:9] == [
            *("episode", "class", "label", "subject", "onset", "fails", "end", "effect"),
            "precursor",
        ]
        for key in ("onset", "fails", "end"):
            assert truth[key] is None or datetime.fromisoformat(truth[key]).tzinfo is not None
        assert isinstance(truth["effect"], float | int)
    onsets = [truth["onset"] for truth in truths]
    assert onsets == sorted(onsets)
    assert {t["class"] for t in truths if t.get("shared_cause")} == {
        *("cooling_excursion", "leaf_bad", "pdu_blip"),
    }


def test_one_seed_one_recording_another_seed_another(folder: Path, tmp_path: Path) -> None:
    again, other = make(tmp_path / "again" / "mixed"), make(tmp_path / "other", seed=5)
    for file in folder.rglob("*"):
        if file.is_file():
            name = file.relative_to(folder)
            assert file.read_bytes() == (again / name).read_bytes(), name
    temp = "samples/DCGM_FI_DEV_GPU_TEMP.parquet"
    assert (folder / temp).read_bytes() != (other / temp).read_bytes()


def test_the_command_names_its_scenarios_and_refuses_nonsense(tmp_path: Path) -> None:
    run = CliRunner().invoke
    small = ("--nodes", "8", "--hours", "2", "--out")
    done = run(sim, ["record", "null", *small, str(tmp_path / "null")])
    assert done.exit_code == 0, done.output
    assert "samples of 8 nodes" in done.output
    again = run(sim, ["record", "null", *small, str(tmp_path / "null")])
    assert "File exists" in str(again.exception)
    for wrong in (["what"], ["null", "--days", "1"], ["null", "--start", "now"]):
        bad = run(sim, ["record", *wrong, *small, str(tmp_path / "bad")])
        assert bad.exit_code == 2
        assert not (tmp_path / "bad").exists()
