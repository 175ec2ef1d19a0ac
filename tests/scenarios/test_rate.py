"""Errors that come more often than a unit's like and its own past are found; bursts are not."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cache

import msgspec
import numpy as np
import pytest
from tests.scenarios.hall import STEP, Hall

from bigiron.detect import Column
from bigiron.detect.rate.fold import Rate
from bigiron.detect.rate.state import State
from bigiron.detect.state import dec_hook, enc_hook
from bigiron.model import ActionKind, Fact, NodeState, Severity

REPLAYS, ECC = "gpu_pcie_replays_total", "gpu_ecc_correctable_volatile_total"
ROWS = "gpu_remapped_rows_uncorrectable_total"
STEP_H = STEP.total_seconds() / 3600


class Counting(Hall):
    """``rates`` by counter (nodes, 8), errors an hour; healthy units differ by decades."""

    def __init__(self, seed: int = 5) -> None:
        super().__init__(Rate(), 16, seed)
        shape = self.wander.shape
        self.rates = {
            REPLAYS: 0.02 * np.exp(1.0 * self.random.standard_normal(shape)),
            ECC: 0.008 * np.exp(1.2 * self.random.standard_normal(shape)),
        }
        self.counts = {name: np.zeros(shape) for name in (REPLAYS, ECC, ROWS)}
        for (node, gpu), device in self.fleet.devices.items():
            assert device.kind == "gpu"
            told = Fact(node, "memory_vendor", "Maker A", device=gpu)
            self.facts[node, gpu] = {"memory_vendor": told}

    def columns(self) -> Mapping[str, Column]:
        for name, rate in self.rates.items():
            bursts = self.random.poisson(rate * STEP_H)
            self.counts[name] += bursts * self.random.geometric(0.5, bursts.shape)
        told = {
            name: Column(self.keys, count.ravel().copy()) for name, count in self.counts.items()
        }
        return {**super().columns(), **told}


@cache
def learned(seed: int) -> Counting:
    one = Counting(seed)
    one.run(6)
    assert one.blamed == {}
    return one


def counting(seed: int = 5) -> Counting:
    """A fleet whose past is known."""
    return copy.deepcopy(learned(seed))


def test_a_healthy_fleet_is_left_alone_for_a_fortnight() -> None:
    fleet = counting(seed=11)
    fleet.run(14)
    assert fleet.blamed == {}


@pytest.mark.parametrize(("counter", "fault"), [(REPLAYS, "pcie_replay"), (ECC, "hbm_correctable")])
def test_a_unit_whose_errors_come_far_more_often_is_found_and_told_in_numbers(
    counter: str, fault: str
) -> None:
    fleet = counting()
    fleet.rates[counter][4, 3] = 1.0
    fleet.run(5, until=lambda: bool(fleet.blamed))
    assert list(fleet.blamed) == [("h04", "gpu3", fault)]
    (finding,) = fleet.suspects()
    assert (finding.severity, finding.action) == (Severity.WARNING, ActionKind.CHECK)
    evidence = finding.evidence[0]
    assert evidence.value is not None
    assert evidence.peer is not None
    assert evidence.past is not None
    assert evidence.value > 3 * max(evidence.peer, evidence.past)
    assert "GPU 3 of h04" in finding.because[0]
    assert "its own past" in finding.because[0]


def test_one_burst_however_large_is_one_event() -> None:
    fleet = counting()
    fleet.counts[REPLAYS][2, 5] += 50_000
    fleet.run(4)
    assert fleet.blamed == {}


def test_a_counter_that_starts_again_from_zero_counts_nothing() -> None:
    fleet = counting()
    fleet.counts[REPLAYS][:] += 10_000
    fleet.run(0.1)
    for count in fleet.counts.values():
        count[:] = 0.0
    fleet.run(3)
    assert fleet.blamed == {}


def test_a_maker_whose_parts_all_err_more_is_nobodys_fault() -> None:
    fleet = Counting(seed=13)
    fleet.rates[ECC][10:] *= 8.0
    for name in fleet.names[10:]:
        for gpu in range(8):
            told = Fact(name, "memory_vendor", "Maker B", device=f"gpu{gpu}")
            fleet.facts[name, f"gpu{gpu}"] = {"memory_vendor": told}
    fleet.run(12)
    assert fleet.blamed == {}


def test_what_comes_on_a_whole_leaf_at_once_blames_no_unit() -> None:
    fleet = counting()
    fleet.fleet = replace(
        fleet.fleet,
        nodes={
            name: msgspec.structs.replace(node, leaf=f"leaf{i // 8}")
            for i, (name, node) in enumerate(fleet.fleet.nodes.items())
        },
    )
    fleet.run(0.5)
    fleet.rates[REPLAYS][:8] += 3.0
    fleet.run(0.25)
    fleet.rates[REPLAYS][:8] -= 3.0
    fleet.run(2)
    assert fleet.blamed == {}


def test_rows_replaced_again_and_again_are_told() -> None:
    fleet = counting()
    for _ in range(4):
        fleet.counts[ROWS][6, 1] += 1
        fleet.run(0.6)
    assert {key[:2] for key in fleet.blamed} == {("h06", "gpu1")}


def test_it_ends_when_the_errors_do_and_not_before() -> None:
    fleet = counting()
    usual = fleet.rates[REPLAYS][4, 3]
    fleet.rates[REPLAYS][4, 3] = 2.0
    fleet.run(4, until=lambda: bool(fleet.blamed))
    fleet.run(0.5)
    assert fleet.suspects()
    fleet.rates[REPLAYS][4, 3] = usual
    fleet.run(10, until=lambda: not fleet.suspects())
    assert fleet.suspects() == []


def test_a_return_from_repair_starts_again() -> None:
    fleet = counting()
    fleet.rates[REPLAYS][4, 3] = 2.0
    fleet.run(4, until=lambda: bool(fleet.blamed))
    fleet.states["h04"] = NodeState("h04", "drain", "hw")
    fleet.run(0.1)
    fleet.states["h04"] = NodeState("h04", "idle")
    fleet.step()
    assert fleet.suspects() == []


def test_its_state_survives_the_ledger_at_any_step() -> None:
    fleet = counting()
    fleet.rates[REPLAYS][4, 3] = 1.0
    began = fleet.now
    for _ in range(40):
        fleet.step()
        packed = msgspec.json.encode(fleet.state, enc_hook=enc_hook)
        back = msgspec.json.decode(packed, type=State, dec_hook=dec_hook)
        assert msgspec.json.encode(back, enc_hook=enc_hook) == packed
        fleet.state = back
    fleet.run(5, until=lambda: bool(fleet.blamed))
    assert list(fleet.blamed) == [("h04", "gpu3", "pcie_replay")]
    assert fleet.now - began < timedelta(days=5)


def test_a_step_leaves_the_state_before_it_as_it_was() -> None:
    fleet = counting()
    for _ in range(75):
        before = fleet.state
        packed = msgspec.json.encode(before, enc_hook=enc_hook)
        fleet.step()
        assert msgspec.json.encode(before, enc_hook=enc_hook) == packed
