"""Hygiene: what a fold may believe of a step, in one short story each."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest

from bigiron.detect import Block, Column, Fleet, Key
from bigiron.detect.hygiene import Clean, Rows
from bigiron.detect.hygiene.clean import clean
from bigiron.detect.hygiene.possible import bounds
from bigiron.detect.hygiene.state import State
from bigiron.detect.state import dec_hook, enc_hook
from bigiron.model import Device, Event, Fact, Node

T0 = datetime(2026, 7, 1, tzinfo=UTC)
STEP_S = 300.0
NAN = math.nan
POWER, TEMP = "gpu_power_watts", "gpu_temp_celsius"
REPLAYS, REMAPPED = "gpu_pcie_replays_total", "gpu_remapped_rows_correctable_total"
BOOT = "node_boot_time_seconds"


class Told:
    """A fleet of nodes with four GPUs; ``step`` tells values and gives what is left of them.

    The state goes through JSON at every step: a restart must change nothing.
    """

    def __init__(self, nodes: int = 4, step_s: float = STEP_S) -> None:
        names = [f"h{i}" for i in range(nodes)]
        self.keys = [(node, f"gpu{i}") for node in names for i in range(4)]
        self.nodes = {name: Node(name) for name in names}
        self.devices = {
            (n, d): Device(n, d, "gpu", bus=f"0000:0{d[-1]}:00.0") for n, d in self.keys
        }
        self.units: dict[Key, str] = {(n, d): f"unit-{n}-{d}" for n, d in self.keys}
        self.facts: dict[Key, dict[str, Fact]] = {}
        self.state, self.step_s, self.now = State(), step_s, T0

    def step(
        self,
        values: Mapping[str, Mapping[Key, float]],
        events: tuple[Event, ...] = (),
        after_s: float | None = None,
    ) -> Clean | None:
        columns = {
            metric: Column(tuple(told), np.array(list(told.values()), np.float64))
            for metric, told in values.items()
        }
        fleet = Fleet(self.nodes, self.devices, dict(self.units))
        self.now += timedelta(seconds=self.step_s if after_s is None else after_s)
        block = Block(
            self.now, fleet, events=events, step_s=self.step_s, columns=columns, facts=self.facts
        )
        after, told = clean(self.state, block)
        packed = msgspec.json.encode(after, enc_hook=enc_hook)
        self.state = msgspec.json.decode(packed, type=State, dec_hook=dec_hook)
        return told

    def gpus(
        self, values: Mapping[str, Mapping[Key, float]], events: tuple[Event, ...] = ()
    ) -> Rows:
        told = self.step(values, events)
        assert told is not None
        return told.rows["gpu"]

    def all(self, value: float) -> dict[Key, float]:
        return dict.fromkeys(self.keys, value)


def of(rows: Rows, values: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]", key: Key) -> float:
    return float(values[rows.keys.index(key)])


ONE: Key = ("h1", "gpu2")


def counted(told: Told, *values: float, metric: str = REPLAYS) -> list[tuple[float, float]]:
    """What a counter of one GPU grew by at each of these values, and over how long."""
    grown = []
    for value in values:
        rows = told.gpus({metric: {ONE: value}})
        grown.append((of(rows, rows.increments[metric], ONE), of(rows, rows.spans[metric], ONE)))
    return grown


def test_a_counter_is_what_it_grew_by_never_its_total() -> None:
    grown = counted(Told(), 1000.0, 1000.0, 1007.0)
    assert math.isnan(grown[0][0])
    assert grown[1:] == [(0.0, STEP_S), (7.0, STEP_S)]


def test_a_counter_that_starts_again_tells_nothing_of_that_step() -> None:
    grown = counted(Told(), 900.0, 4.0, 6.0)
    assert math.isnan(grown[1][0])
    assert grown[2] == (2.0, STEP_S)


def test_growth_over_a_gap_belongs_to_the_whole_gap() -> None:
    grown = counted(Told(), 10.0, NAN, NAN, 16.0)
    assert math.isnan(grown[1][0])
    assert grown[3] == (6.0, 3 * STEP_S)


def test_a_boot_resets_what_the_driver_counts_and_not_what_the_part_keeps() -> None:
    told = Told()
    boot = T0.timestamp() - 9e5
    for metrics in ({REPLAYS: 5.0, REMAPPED: 1.0}, {REPLAYS: 5.0, REMAPPED: 1.0}):
        told.gpus({m: {ONE: v} for m, v in metrics.items()} | {BOOT: {("h1", ""): boot}})
    after = {REPLAYS: {ONE: 9.0}, REMAPPED: {ONE: 2.0}, BOOT: {("h1", ""): boot + 9e5}}
    rows = told.gpus(after)
    assert math.isnan(of(rows, rows.increments[REPLAYS], ONE))
    assert of(rows, rows.increments[REMAPPED], ONE) == 1.0


@pytest.mark.parametrize("by_log", [False, True])
def test_a_boot_gives_its_node_a_quarter_of_an_hour_of_grace(by_log: bool) -> None:
    told = Told()
    boot = T0.timestamp() - 9e5
    values = {POWER: told.all(300.0), BOOT: {(n, ""): boot for n in told.nodes}}
    assert not told.gpus(values).grace.any()
    events = (Event("h1", "kernel.reboot", "Linux version", time=told.now),) if by_log else ()
    if not by_log:
        values = {**values, BOOT: {**values[BOOT], ("h1", ""): boot + 9e5}}
    graced = [told.gpus(values, events if step == 0 else ()).grace for step in range(4)]
    of_node = np.array([node == "h1" for node, _ in told.keys])
    assert (graced[0] == of_node).all()
    assert [bool(g.any()) for g in graced] == [True, True, True, False]


def test_a_boot_time_that_wobbles_is_no_boot() -> None:
    told = Told()
    for shift in (0.0, 1.0, -2.0, 30.0):
        rows = told.gpus({POWER: told.all(300.0), BOOT: {("h1", ""): 1.7e9 + shift}})
        assert not rows.grace.any()


def test_a_part_that_was_away_comes_back_with_grace_a_missed_scrape_does_not() -> None:
    told = Told()
    told.gpus({POWER: told.all(300.0)})
    told.gpus({POWER: told.all(301.0) | {ONE: NAN}})
    assert not told.gpus({POWER: told.all(302.0)}).grace.any()
    for step in range(4):
        rows = told.gpus({POWER: told.all(303.0 + step) | {ONE: NAN}})
        assert not of(rows, rows.present, ONE)
    rows = told.gpus({POWER: told.all(310.0)})
    assert [key for key, on in zip(rows.keys, rows.grace, strict=True) if on] == [ONE]


def test_missing_is_neither_zero_nor_the_last_value() -> None:
    told = Told()
    told.gpus({TEMP: told.all(60.0)})
    rows = told.gpus({TEMP: told.all(61.0) | {ONE: NAN}})
    assert math.isnan(of(rows, rows.values[TEMP], ONE))
    rows = told.gpus({})
    assert np.isnan(rows.values[TEMP]).all()
    assert not rows.present.any()


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (TEMP, 0.0),
        (TEMP, -40.0),
        (TEMP, 255.0),
        (POWER, -3.0),
        (POWER, 60_000.0),
        ("gpu_utilization_ratio", 1.7),
        ("gpu_sm_clock_hertz", 7e9),
        ("gpu_pcie_link_width", 64.0),
        (REPLAYS, -1.0),
    ],
)
def test_what_cannot_be_is_left_out_and_counted(metric: str, value: float) -> None:
    told = Told()
    good = sum(bounds(metric)) / 2 if metric != REPLAYS else 5.0
    clean_ = told.step({metric: told.all(good) | {ONE: value}})
    assert clean_ is not None
    rows = clean_.rows["gpu"]
    assert clean_.dropped == {(metric, "impossible"): 1}
    if metric != REPLAYS:
        assert math.isnan(of(rows, rows.values[metric], ONE))
        assert np.isnan(rows.values[metric]).sum() == 1


def moving(told: Told, step: int, still: Mapping[Key, float]) -> dict[str, dict[Key, float]]:
    """Powers that all move but some; temperatures in whole degrees that seldom do."""
    powers = {key: 400.0 + (7 * step + 3 * i) % 31 for i, key in enumerate(told.keys)}
    return {POWER: powers | dict(still), TEMP: told.all(60.0)}


def test_a_reading_that_stands_still_while_its_like_move_is_an_old_one() -> None:
    told = Told()
    for step in range(20):
        told.gpus(moving(told, step, {}))
    rows = [told.gpus(moving(told, 20 + step, {ONE: 444.0})) for step in range(6)]
    stale = [math.isnan(of(r, r.values[POWER], ONE)) for r in rows]
    assert stale == [False, False, False, True, True, True]
    assert not any(np.isnan(r.values[POWER]).sum() > 1 for r in rows)
    assert all(of(r, r.frozen, ONE) for r in rows[3:])
    assert math.isnan(of(rows[-1], rows[-1].values[TEMP], ONE))
    back = told.gpus(moving(told, 30, {}))
    assert not back.frozen.any()
    assert not np.isnan(back.values[POWER]).any()


def test_a_part_whose_other_readings_move_is_not_frozen() -> None:
    told = Told()
    for step in range(20):
        told.gpus(moving(told, step, {}))
    for step in range(6):
        values = moving(told, 20 + step, {ONE: 444.0})
        values[TEMP] = {**values[TEMP], ONE: 60.0 + step}
        rows = told.gpus(values)
    assert math.isnan(of(rows, rows.values[POWER], ONE))
    assert of(rows, rows.values[TEMP], ONE) == 65.0
    assert not rows.frozen.any()


def test_whole_degrees_and_idle_zeros_may_stand_still() -> None:
    told = Told()
    for step in range(30):
        values = moving(told, step, {ONE: 0.0})
        values["gpu_sm_active_ratio"] = {
            key: (0.0 if key == ONE else 0.5 + (step % 7) / 20) for key in told.keys
        }
        rows = told.gpus(values)
    assert of(rows, rows.values["gpu_sm_active_ratio"], ONE) == 0.0
    assert of(rows, rows.values[TEMP], ("h0", "gpu0")) == 60.0


def test_growth_while_a_part_is_frozen_belongs_to_all_that_time() -> None:
    told = Told()
    for step in range(20):
        told.gpus(moving(told, step, {}) | {REPLAYS: told.all(3.0)})
    for step in range(5):
        rows = told.gpus(moving(told, 20 + step, {ONE: 444.0}) | {REPLAYS: told.all(3.0)})
    assert math.isnan(of(rows, rows.increments[REPLAYS], ONE))
    rows = told.gpus(moving(told, 26, {}) | {REPLAYS: told.all(3.0) | {ONE: 8.0}})
    assert of(rows, rows.increments[REPLAYS], ONE) == 5.0
    assert of(rows, rows.spans[REPLAYS], ONE) == 3 * STEP_S


def test_coverage_is_the_share_of_the_last_twelve_steps() -> None:
    told = Told()
    for step in range(24):
        lost = {ONE: NAN} if step % 3 == 0 else {}
        rows = told.gpus({TEMP: told.all(60.0 + step % 5) | lost})
    assert of(rows, rows.coverage[TEMP], ONE) == pytest.approx(8 / 12)
    assert of(rows, rows.coverage[TEMP], ("h0", "gpu0")) == 1.0


def test_a_units_past_follows_it_when_indexes_move() -> None:
    told = Told()
    zero, one = ("h1", "gpu0"), ("h1", "gpu1")
    told.gpus({REPLAYS: {zero: 100.0, one: 7.0}})
    told.gpus({REPLAYS: {zero: 100.0, one: 7.0}})
    told.units[zero], told.units[one] = told.units[one], told.units[zero]
    for key, bus in ((zero, "00000000:01:00.0"), (one, "00000000:00:00.0")):
        told.facts[key] = {"bus": Fact(*key[:1], "bus", bus, key[1])}
    rows = told.gpus({REPLAYS: {zero: 8.0, one: 100.0}})
    assert rows.units[rows.keys.index(one)] == "unit-h1-gpu0"
    assert of(rows, rows.increments[REPLAYS], one) == 0.0
    assert of(rows, rows.increments[REPLAYS], zero) == 1.0
    assert not rows.moved.any()
    assert of(rows, rows.slot, one) == 0


def test_a_part_that_is_swapped_in_starts_anew() -> None:
    told = Told()
    told.gpus({REPLAYS: told.all(100.0)})
    assert not told.gpus({REPLAYS: told.all(100.0)}).moved.any()
    told.units[ONE] = "unit-new"
    rows = told.gpus({REPLAYS: told.all(130.0)})
    assert math.isnan(of(rows, rows.increments[REPLAYS], ONE))
    assert [key for key, new in zip(rows.keys, rows.moved, strict=True) if new] == [ONE]
    assert len(rows.units) == len(set(rows.units)) == len(told.keys)


def test_rows_of_gpus_point_at_their_nodes() -> None:
    told = Told()
    clean_ = told.step({TEMP: told.all(60.0), "node_inlet_temp_celsius": {("h2", ""): 24.0}})
    assert clean_ is not None
    inlet = clean_.rows["node"].values["node_inlet_temp_celsius"][clean_.rows["gpu"].node]
    warm = [key[0] for key, c in zip(clean_.rows["gpu"].keys, inlet, strict=True) if c == c]
    assert warm == ["h2"] * 4


def test_turns_shorter_than_a_step_add_to_it() -> None:
    told = Told(step_s=60.0)
    assert told.step({TEMP: {ONE: 60.0}}) is not None
    assert told.step({TEMP: {ONE: 61.0}}, after_s=15.0) is None
    assert told.step({TEMP: {("h0", "gpu0"): 50.0}}, after_s=15.0) is None
    clean_ = told.step({POWER: {ONE: 300.0}}, after_s=30.0)
    assert clean_ is not None
    rows = clean_.rows["gpu"]
    assert of(rows, rows.values[TEMP], ONE) == 61.0
    assert of(rows, rows.values[TEMP], ("h0", "gpu0")) == 50.0
    assert of(rows, rows.values[POWER], ONE) == 300.0


def test_a_step_changes_nothing_of_the_state_before() -> None:
    told = Told()
    for step in range(15):
        told.gpus(moving(told, step, {}) | {REPLAYS: told.all(float(step))})
    before = msgspec.json.encode(told.state, enc_hook=enc_hook)
    columns = {POWER: Column(tuple(told.keys), np.full(len(told.keys), 9.0))}
    block = Block(
        told.now + timedelta(seconds=STEP_S),
        Fleet(told.nodes, told.devices, told.units),
        step_s=STEP_S,
        columns=columns,
    )
    first, second = clean(told.state, block)[0], clean(told.state, block)[0]
    assert msgspec.json.encode(told.state, enc_hook=enc_hook) == before
    packed = [msgspec.json.encode(state, enc_hook=enc_hook) for state in (first, second)]
    assert packed[0] == packed[1] != before
