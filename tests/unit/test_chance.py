"""What chance alone does: the closed forms behind the detectors, against what they promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.detect.chance import null, robust
from bigiron.detect.chance.multiplicity import Budget, cauchy, cutoff
from bigiron.detect.deviation import scan, state
from bigiron.detect.deviation.streams import GPU_STREAMS

OF = state.limits(GPU_STREAMS)
HEAT = 0
"""The column of thermal resistance."""


def tracks(units: int) -> state.Table:
    return state.new_table(tuple(f"u{i}" for i in range(units)), GPU_STREAMS, 1)


def pushed(table: state.Table, series: np.ndarray, held: bool = False) -> scan.Compared:
    """Blocks (steps, units) of thermal resistance, one after another; the last comparison."""
    shape = table.tracks.base.shape
    ended = np.zeros(shape, bool)
    ended[:, HEAT] = True
    for blocks in series:
        block = np.full(shape, np.nan)
        block[:, HEAT] = blocks
        told = scan.push(table.tracks, ended, block, np.full(shape, held))
    return told


def test_a_level_that_stays_shows_no_change() -> None:
    told = pushed(tracks(3), np.full((40, 3), 0.25))
    assert np.nanmax(np.abs(told.shift)) == pytest.approx(0.0, abs=1e-6)


@given(st.integers(1, state.RING), st.floats(0.01, 0.5))
def test_a_step_is_seen_whole_by_the_window_that_fits_it(since: int, size: float) -> None:
    series = np.zeros((40, 1))
    series[40 - since :] = size
    told = pushed(tracks(1), series)
    best = int(np.nanargmax(told.scaled[0, :-1]))
    assert told.shift[0, best] == pytest.approx(size, rel=0.35)
    if since in scan.WINDOWS:
        assert told.shift[0, scan.WINDOWS.index(since)] == pytest.approx(size, rel=1e-4)


def test_what_is_held_against_a_part_is_not_learned() -> None:
    healthy, table = np.zeros((30, 1)), tracks(1)
    pushed(table, healthy)
    told = pushed(table, np.full((60, 1), 0.1), held=True)
    assert told.shift[0, scan.WINDOWS.index(state.RING)] == pytest.approx(0.1, rel=0.2)


def test_what_nobody_holds_against_it_is_learned_in_the_end() -> None:
    table = tracks(1)
    pushed(table, np.zeros((30, 1)))
    told = pushed(table, np.full((400, 1), 0.1))
    assert np.nanmax(np.abs(told.shift[0, :-1])) < 0.02


def test_the_past_needs_a_day_before_anything_is_compared() -> None:
    told = pushed(tracks(2), np.random.default_rng(1).standard_normal((4, 2)))
    assert np.isnan(told.shift).all()
    told = pushed(tracks(2), np.random.default_rng(1).standard_normal((5, 2)))
    assert np.isfinite(told.shift[:, 0]).all()


@given(st.floats(0.1, 10.0))
def test_heights_do_not_depend_on_the_unit_of_what_is_measured(scale: float) -> None:
    series = np.random.default_rng(3).standard_normal((30, 64)) * 0.05
    heights = []
    for factor in (1.0, scale):
        table = tracks(64)
        told = pushed(table, series * factor)
        make = np.zeros(64, np.int64)
        for _ in range(40):
            scan.count(told, table.shared, make, np.ones(64, bool))
        limits = state.Limits(OF.bad, OF.floor * 0, OF.drift * 0, OF.least * 0, OF.slope)
        alone = np.full(table.tracks.base.shape, 0.05 * factor)
        heights.append(scan.heights(told, table.shared, make, alone, limits))
    assert heights[1] == pytest.approx(heights[0], rel=0.15)


def test_p_values_fall_with_height_and_are_as_frequent_as_they_say() -> None:
    random = np.random.default_rng(7)
    seen = random.exponential(0.8, (40_000, 1))
    counts, days = null.counted(seen), np.array([40_000.0])
    heights = random.exponential(0.8, (40_000, 1))
    p = null.p_values(counts, days, heights, 1.0)
    order = np.argsort(heights[:, 0])
    assert (np.diff(p[order, 0]) <= 1e-12).all()
    for level in (0.1, 0.01, 0.001):
        assert np.mean(p <= level) == pytest.approx(level, rel=0.45)


def test_a_tail_beyond_what_was_seen_goes_on_falling() -> None:
    seen = np.random.default_rng(7).exponential(0.8, (5000, 1))
    counts = null.counted(seen)
    p = null.p_values(counts, np.array([5000.0]), np.array([[10.0], [20.0]]), 1.0)
    assert 0 < p[1, 0] < p[0, 0] < 1e-3


def test_a_fleet_without_a_past_is_hard_to_convince() -> None:
    p = null.p_values(np.zeros((1, null.BINS)), np.zeros(1), np.array([[3.0], [30.0]]), 1.0)
    assert p[0, 0] > 0.05
    assert p[1, 0] < 1e-6


@given(st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=8))
def test_equal_weights_are_no_weights(p: list[float]) -> None:
    row = np.array([p])
    assert cauchy(row, np.full(len(p), 2.5)) == pytest.approx(cauchy(row), rel=1e-6)


@given(st.floats(1e-9, 1e-3), st.floats(1.5, 9.0))
def test_a_stream_that_weighs_more_needs_less(p: float, weight: float) -> None:
    row = np.array([[p, 0.5, 0.7]])
    assert cauchy(row, np.array([weight, 1.0, 1.0])) < cauchy(row)


def test_the_cutoff_is_that_of_benjamini_and_hochberg() -> None:
    p = np.array([0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216])
    assert cutoff(p, 0.05) == pytest.approx(0.008 / 0.008 * 0.05 * 2 / 10)
    assert cutoff(np.array([0.5, np.nan]), 0.05) == pytest.approx(0.025)


def test_the_budget_grows_with_the_fleet_and_never_beyond_a_tenth() -> None:
    budget = Budget(share=1.0)
    assert budget.q(100, 0.0005) == pytest.approx(0.05)
    assert budget.q(100_000, 0.0005) == 0.1


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**31))
def test_a_grouped_median_is_the_median_of_each_group(n: int, groups: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values, group = random.standard_normal((n, 2)), random.integers(0, groups, n)
    found = robust.grouped_median(values, group, groups)
    for g in range(groups):
        if (group == g).any():
            assert found[g] == pytest.approx(np.median(values[group == g], axis=0), abs=1e-9)
        else:
            assert np.isnan(found[g]).all()
