import numpy as np
import pytest
from numpy.typing import NDArray

from bigiron.analyze import hazard_model as hm

Floats = NDArray[np.float64]


def drawn(
    n: int, weights: tuple[float, ...], intercept: float, seed: int = 5
) -> tuple[Floats, NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, len(weights)))
    p = 1 / (1 + np.exp(-(features @ np.array(weights) + intercept)))
    return features, rng.random(n) < p


def test_the_weights_that_made_the_data_are_found_again() -> None:
    features, failed = drawn(200_000, (0.8, -0.5, 0.0), -4.0)
    model = hm.fit(features, failed, np.ones(len(failed)), ("a", "b", "c"), l2=1.0)
    assert model.weights / model.spread == pytest.approx([0.8, -0.5, 0.0], abs=0.04)
    assert model.intercept == pytest.approx(-4.0, abs=0.06)
    assert model.probability(features).sum() == pytest.approx(failed.sum(), rel=1e-3)


def test_sampled_survivors_with_their_weight_give_the_same_model() -> None:
    features, failed = drawn(200_000, (0.8, -0.5), -4.0)
    rng = np.random.default_rng(1)
    kept = failed | (rng.random(len(failed)) < 0.1)
    weight = np.where(failed[kept], 1.0, 10.0)
    model = hm.fit(features[kept], failed[kept], weight, ("a", "b"), l2=1.0)
    assert model.weights / model.spread == pytest.approx([0.8, -0.5], abs=0.06)
    assert model.probability(features).sum() == pytest.approx(failed.sum(), rel=0.03)


def test_a_part_watched_for_half_a_period_counts_half() -> None:
    features = np.zeros((3000, 1))
    failed = np.arange(3000) < 100
    half = np.where(np.arange(3000) >= 2000, 0.5, 1.0)
    model = hm.fit(features, failed, half, ("a",), l2=1.0)
    assert model.probability(features)[0] == pytest.approx(100 / 2500, rel=1e-6)


def test_the_penalty_draws_weights_to_nothing_but_not_the_rate() -> None:
    features, failed = drawn(5000, (1.0,), -3.0)
    loose = hm.fit(features, failed, np.ones(5000), ("a",), l2=0.1)
    tight = hm.fit(features, failed, np.ones(5000), ("a",), l2=1e6)
    assert abs(tight.weights[0]) < 0.01 < abs(loose.weights[0])
    assert tight.probability(features).mean() == pytest.approx(failed.mean(), rel=1e-3)


def test_separable_data_and_a_constant_feature_do_no_harm() -> None:
    features = np.stack([np.arange(100.0), np.ones(100)], axis=1)
    model = hm.fit(features, np.arange(100) >= 50, np.ones(100), ("a", "b"), l2=0.01)
    assert np.isfinite(model.weights).all()
    assert model.weights[1] == pytest.approx(0.0)
    assert hm.auc(np.arange(100) >= 50, model.logit(features)) == 1.0


@pytest.mark.parametrize("failed", [np.zeros(10, bool), np.ones(10, bool)])
def test_one_outcome_alone_teaches_nothing(failed: NDArray[np.bool_]) -> None:
    with pytest.raises(ValueError, match="both failures and survivals"):
        hm.fit(np.zeros((10, 1)), failed, np.ones(10), ("a",))


def test_rows_must_fit_together() -> None:
    with pytest.raises(ValueError, match="a row of features"):
        hm.fit(np.zeros((10, 1)), np.ones(9, bool), np.ones(10), ("a",))


def test_several_periods() -> None:
    logit = np.array([np.log(0.1 / 0.9)])
    assert hm.within(logit, 3)[0] == pytest.approx(1 - 0.9**3)


def test_contributions_add_up_to_the_log_odds() -> None:
    features, failed = drawn(5000, (1.0, -1.0), -2.0)
    model = hm.fit(features, failed, np.ones(5000), ("a", "b"), l2=1.0)
    told = model.because(features[7])
    assert sum(v for _, v in told) + model.intercept == pytest.approx(model.logit(features)[7])
    assert abs(told[0][1]) >= abs(told[1][1])


def test_auc_by_pairs_counted_one_by_one() -> None:
    rng = np.random.default_rng(3)
    failed, score = rng.random(60) < 0.3, rng.integers(0, 8, 60).astype(float)
    weight = rng.integers(0, 3, 60).astype(float)
    top = bottom = 0.0
    for i in np.nonzero(failed)[0]:
        for j in np.nonzero(~failed)[0]:
            pair = weight[i] * weight[j]
            bottom += pair
            top += pair * (1.0 if score[i] > score[j] else 0.5 if score[i] == score[j] else 0.0)
    assert hm.auc(failed, score, weight) == pytest.approx(top / bottom)
    assert np.isnan(hm.auc(np.zeros(5, bool), np.arange(5.0)))


def test_capture_of_the_highest() -> None:
    failed = np.zeros(100, bool)
    failed[[0, 1, 50, 99]] = True
    assert hm.capture(failed, -np.arange(100.0), 0.05) == 0.5
    assert hm.capture(failed, np.arange(100.0), 0.05) == 0.25
    assert np.isnan(hm.capture(np.zeros(5, bool), np.arange(5.0), 0.5))


def test_platt_brings_log_odds_to_what_was_observed() -> None:
    features, failed = drawn(50_000, (1.5,), -2.0)
    slope, intercept = hm.platt(failed, 2 * (features[:, 0] * 1.5 - 2.0) + 3.0)
    assert slope == pytest.approx(0.5, abs=0.03)
    assert intercept == pytest.approx(-1.5, abs=0.06)


def test_reliability_and_its_error() -> None:
    rng = np.random.default_rng(4)
    p = rng.random(20_000)
    failed = rng.random(20_000) < p
    good, off = hm.reliability(failed, p), hm.reliability(failed, p / 2)
    assert len(good) == 10
    assert sum(b.n for b in good) == 20_000
    assert hm.calibration_error(good) < 0.02
    assert hm.calibration_error(off) == pytest.approx(0.25, abs=0.02)


def test_small_groups_are_drawn_to_the_fleets_rate() -> None:
    told = hm.log_rate_ratio(np.array([0.0, 1.0, 300.0]), np.array([0.1, 0.1, 100.0]))
    assert abs(told[0]) < 0.05
    assert told[1] < 0.3
    assert told[2] == pytest.approx(np.log(3), abs=0.05)
