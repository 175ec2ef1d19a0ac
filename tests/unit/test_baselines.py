import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.unit.recording_maker import START, table, write

from bigiron.analyze.baselines import (
    Alarm,
    above_limit,
    alarms,
    growth,
    robust_z,
    three_sigma,
)
from bigiron.analyze.baselines_many import isolation, mahalanobis, minder
from bigiron.analyze.bocpd import change_points
from bigiron.analyze.isolation_forest import IsolationForest
from bigiron.hub.baselines import run
from bigiron.signals import Bad

Floats = NDArray[np.float64]


def noise(*shape: int, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).normal(size=shape)


def test_three_sigma_looks_at_the_own_past_in_the_bad_direction() -> None:
    values = 50 + noise(200, 3)
    values[150:160, 1] = 60
    values[150:160, 2] = 40
    flags = three_sigma(values, Bad.HIGH, 100)
    assert flags[150:155, 1].all()
    assert not flags[150:160, 2].any()
    assert three_sigma(values, Bad.LOW, 100)[150:155, 2].all()
    assert not flags[:12].any(), "too little past"
    assert flags[:, 0].mean() < 0.02


def test_three_sigma_does_not_flag_gaps_or_constants() -> None:
    values = np.full((100, 2), 7.0)
    values[40:60, 1] = np.nan
    assert not three_sigma(values, Bad.ANY, 50).any()


def test_robust_z_looks_at_the_peers_of_the_same_time() -> None:
    values = noise(30, 60) + np.linspace(0, 100, 30)[:, None]
    values[20, 7] += 20
    values[21, 8] = np.nan
    flags = robust_z(values, Bad.HIGH)
    assert flags[20, 7]
    assert flags.sum() < 5
    assert not robust_z(values[:, :5], Bad.HIGH).any(), "too few peers"


def test_a_fixed_limit_and_a_metric_without_one() -> None:
    values = np.array([[84.0, 85.0, np.nan]])
    assert above_limit("gpu_temp_celsius", values).tolist() == [[False, True, False]]
    assert not above_limit("gpu_power_watts", values).any()


def test_growth_of_a_counter_ignores_restarts() -> None:
    counter = np.array([[0.0], [1.0], [4.0], [0.0], [2.0], [2.0], [2.0]])
    assert growth(counter, 2)[:, 0].tolist() == [0, 1, 4, 3, 2, 2, 0]


def test_alarms_want_patience_and_speak_once_until_calm() -> None:
    flags = np.zeros((30, 2), bool)
    flags[3:5, 0] = True
    flags[10:14, 0] = True
    flags[15:19, 0] = True
    flags[28:30, 1] = flags[25:28, 1] = True
    assert alarms(flags, 3, 5) == [Alarm(12, 0), Alarm(27, 1)]
    assert alarms(flags, 3, 2) == [Alarm(12, 0), Alarm(17, 0), Alarm(27, 1)]
    assert alarms(flags[:5], 3, 5) == []


def test_a_change_point_is_found_soon_and_only_for_the_worse() -> None:
    values = 100 + noise(160, 4, seed=3)
    values[80:, 1] += 20
    values[80:, 2] -= 20
    values[60:70, 3] = np.nan
    flags = change_points(values, Bad.HIGH)
    assert flags[80:90, 1].any()
    assert not flags[:80, 1].any()
    assert not flags[:, [0, 2, 3]].any()
    assert change_points(values, Bad.LOW)[80:90, 2].any()


def test_a_small_step_is_not_worth_a_change_point() -> None:
    values = 100 + 0.1 * noise(160, 2, seed=3)
    values[80:, 1] += 5
    assert not change_points(values, Bad.HIGH).any()


def test_a_node_far_in_a_direction_nobody_takes() -> None:
    load = noise(50, 40, 1)
    values = np.concatenate([load, load + 0.1 * noise(50, 40, 1, seed=2)], axis=2)
    values[30, 5] = [2.0, -2.0]
    flags = mahalanobis(values)
    assert flags[30, 5]
    assert flags.mean() < 0.01


def test_isolation_forest_ranks_the_odd_one_first_and_the_same_each_time() -> None:
    rows = noise(500, 4, seed=9)
    rows[17] = 8.0
    score = IsolationForest(rows).score(rows)
    assert score.argmax() == 17
    assert (score == IsolationForest(rows).score(rows)).all()
    assert IsolationForest(np.ones((10, 2))).score(np.ones((1, 2))).shape == (1,)


def test_isolation_learns_from_the_first_fifth() -> None:
    values = noise(100, 20, 3, seed=4)
    values[60:64, 3] = 7.0
    values[70, 5, 0] = np.nan
    flags = isolation(values)
    assert flags[60:64, 3].all()
    assert not flags[:20].any()
    assert not flags[70, 5]


def test_minder_names_the_machine_far_from_the_rest_of_its_job() -> None:
    window = 1 + 0.01 * noise(12, 8, 2, seed=5)
    window[7, :, 1] -= 0.3
    assert minder(window).nonzero()[0].tolist() == [7]
    assert not minder(window[:3]).any(), "too small a job"
    assert not minder(np.ones((8, 8, 1))).any()


def test_every_method_writes_what_score_reads(tmp_path: Path) -> None:
    folder = write(tmp_path / "small")
    hot = [
        (START + timedelta(minutes=5 * step), "p02", "gpu1", 60.0 + 30 * (step >= 6))
        for step in range(13)
    ]
    table(folder, "DCGM_FI_DEV_GPU_TEMP", hot)
    written = run(folder, tmp_path / "out")
    assert set(written) == {
        *("3 sigma", "robust z", "limits and codes", "Mahalanobis"),
        *("isolation forest", "BOCPD", "Minder-style"),
    }
    lines = (written["limits and codes"] / "findings.jsonl").read_text().splitlines()
    raised = [json.loads(line) for line in lines]
    # The Xid 79 of the log, which names p02's gpu1 by its address, and the limit of 85 °C.
    assert [(r["fault"], r["subject"]["node"]) for r in raised] == [
        ("xid.79", "p02"),
        ("gpu_temp_celsius", "p02"),
    ]
    actions = (written["limits and codes"] / "actions.jsonl").read_text().splitlines()
    assert [json.loads(line)["action"] for line in actions] == ["drain"]
    again = run(folder, tmp_path / "again")
    for name, out in written.items():
        mine = (out / "findings.jsonl").read_bytes()
        assert mine == (again[name] / "findings.jsonl").read_bytes()


def test_a_recording_without_samples_has_only_codes(tmp_path: Path) -> None:
    folder = write(tmp_path / "small")
    for path in (folder / "samples").glob("*.parquet"):
        path.unlink()
    written = run(folder, tmp_path / "out")
    counts = {n: len((p / "findings.jsonl").read_text().splitlines()) for n, p in written.items()}
    assert counts.pop("limits and codes") == 1
    assert set(counts.values()) == {0}


@pytest.mark.parametrize("bad", [Bad.HIGH, Bad.LOW, Bad.ANY])
def test_no_method_fails_on_nothing_but_gaps(bad: Bad) -> None:
    gaps = np.full((40, 15), np.nan)
    assert not three_sigma(gaps, bad, 20).any()
    assert not robust_z(gaps, bad).any()
    assert not change_points(gaps, bad).any()
