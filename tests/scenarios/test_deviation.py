"""What deviates from peers and own past is found on the right part; what does not is left alone."""

import copy
from datetime import timedelta
from functools import cache

import msgspec
import numpy as np
import pytest
from tests.scenarios.hall import STEPS_A_DAY, Hall

from bigiron.detect.deviation.fold import Deviation
from bigiron.detect.deviation.state import State
from bigiron.detect.state import dec_hook, enc_hook
from bigiron.model import ActionKind, Fact, Job, NodeState, Severity, When

LEARNED_DAYS = 4.0
VBIOS = "vbios_version"


@cache
def learned(seed: int) -> Hall:
    one = Hall(Deviation(), seed=seed)
    one.run(LEARNED_DAYS)
    assert one.blamed == {}
    return one


def hall(seed: int = 5) -> Hall:
    """A fleet whose past is known."""
    return copy.deepcopy(learned(seed))


def test_a_healthy_fleet_is_left_alone_for_a_fortnight() -> None:
    fleet = hall(seed=11)
    fleet.run(10)
    assert fleet.blamed == {}


def test_a_gpu_that_cools_badly_is_found_and_named_in_physical_units() -> None:
    fleet = hall()
    fleet.heat[3, 2] = 1.08
    began = fleet.now
    fleet.run(3, until=lambda: bool(fleet.blamed))
    assert list(fleet.blamed) == [("h03", "gpu2", "thermal_degradation")]
    (finding,) = fleet.suspects()
    assert (finding.severity, finding.action, finding.when) == (
        Severity.WARNING,
        ActionKind.CHECK,
        When.JOB_END,
    )
    assert finding.since is not None
    assert abs(finding.since - began) < timedelta(days=1)
    first = finding.evidence[0]
    assert first.value is not None
    assert first.past is not None
    assert first.value / first.past == pytest.approx(1.08, abs=0.03)
    assert "°C hotter" in finding.because[0]
    assert "peers" in finding.because[0]
    assert "own past" in finding.because[0]


def test_a_site_that_allows_fewer_false_suspects_asks_for_more_evidence() -> None:
    cuts, waits = [], []
    for false_per_node_day in (0.05, 1e-12):
        fleet = hall()
        fleet.false_per_node_day = false_per_node_day
        fleet.heat[3, 2] = 1.06
        began = fleet.now
        fleet.run(2, until=lambda fleet=fleet: bool(fleet.blamed))  # type: ignore[misc]
        cuts.append(fleet.state.cut)
        waits.append(fleet.now - began)
    assert cuts[1] < cuts[0] / 1e6
    assert waits[1] > waits[0]


def test_a_slow_gpu_is_found_within_hours_and_nobody_else_is_blamed() -> None:
    fleet = hall()
    fleet.clock[5, 0] = 0.95
    fleet.run(1)
    assert list(fleet.blamed) == [("h05", "gpu0", "slow_clock")]
    assert fleet.blamed["h05", "gpu0", "slow_clock"] < fleet.now - timedelta(hours=12)


def test_a_node_whose_gpus_all_run_hotter_has_a_fan_to_look_at() -> None:
    fleet = hall()
    fleet.heat[7] = 1.06
    fleet.run(2, until=lambda: bool(fleet.blamed))
    assert list(fleet.blamed) == [("h07", "", "fan_failure")]


def test_a_drift_too_slow_for_any_window_is_held_against_the_commissioning() -> None:
    fleet = hall(seed=8)

    def drifted() -> bool:
        fleet.heat[2, 6] += 0.006 / STEPS_A_DAY
        return bool(fleet.blamed)

    fleet.run(16, until=drifted)
    assert list(fleet.blamed) == [("h02", "gpu6", "thermal_degradation")]


def test_what_all_do_at_once_is_nobodys_fault() -> None:
    fleet = hall()
    fleet.warmth[:] = 6.0
    fleet.load[:] = 0.7
    fleet.clock[:] = 0.93
    fleet.run(3)
    assert fleet.blamed == {}


def test_a_firmware_that_makes_nodes_warmer_is_no_fault_of_theirs() -> None:
    fleet = hall()
    new = slice(0, 6)
    for name in fleet.names:
        fleet.facts[name, ""] = {VBIOS: Fact(name, VBIOS, "96.00")}
    fleet.run(0.2)
    for name in fleet.names[new]:
        fleet.facts[name, ""] = {VBIOS: Fact(name, VBIOS, "97.00")}
    fleet.heat[new] = 1.04
    fleet.run(4)
    assert fleet.blamed == {}


def test_a_part_that_comes_back_from_repair_starts_again_and_is_found_again_if_still_bad() -> None:
    fleet = hall()
    fleet.clock[5, 0] = 0.93
    fleet.run(1, until=lambda: bool(fleet.suspects()))
    assert fleet.suspects()
    fleet.states["h05"] = NodeState("h05", "drain", "hw")
    fleet.run(0.2)
    fleet.states["h05"] = NodeState("h05", "idle")
    fleet.step()
    assert fleet.suspects() == []
    fleet.run(1, until=lambda: bool(fleet.suspects()))
    assert [f.subject.device for f in fleet.suspects()] == ["gpu0"]


def test_a_repaired_part_is_left_alone_and_an_excursion_that_ends_closes() -> None:
    fleet = hall()
    fleet.clock[5, 0] = 0.93
    fleet.run(1, until=lambda: bool(fleet.suspects()))
    fleet.clock[5, 0] = 1.0
    fleet.run(2)
    assert fleet.suspects() == []


def test_unequal_jobs_on_one_node_are_no_deviation() -> None:
    fleet = hall()
    fleet.jobs = (
        Job("2", "RUNNING", "u", start=fleet.now, nodes=fleet.names[1:]),
        Job("3", "RUNNING", "v", start=fleet.now, nodes=fleet.names[:1]),
        Job("4", "RUNNING", "w", start=fleet.now, nodes=fleet.names[:1]),
    )
    fleet.load[0] = 0.6
    fleet.run(3)
    assert fleet.blamed == {}


def test_its_state_survives_the_ledger_at_any_step() -> None:
    fleet = hall()
    fleet.heat[3, 2] = 1.08
    for _ in range(30):
        fleet.step()
        packed = msgspec.json.encode(fleet.state, enc_hook=enc_hook)
        back = msgspec.json.decode(packed, type=State, dec_hook=dec_hook)
        assert msgspec.json.encode(back, enc_hook=enc_hook) == packed
        fleet.state = back
    fleet.run(3, until=lambda: bool(fleet.blamed))
    assert list(fleet.blamed) == [("h03", "gpu2", "thermal_degradation")]


def test_a_step_leaves_the_state_before_it_as_it_was() -> None:
    fleet = hall()
    for _ in range(7):
        before = fleet.state
        packed = msgspec.json.encode(before, enc_hook=enc_hook)
        fleet.step()
        assert msgspec.json.encode(before, enc_hook=enc_hook) == packed


def test_the_order_of_parts_does_not_matter() -> None:
    straight, turned = hall(seed=21), Hall(Deviation(), seed=21)
    plain = turned.columns

    def backwards():  # type: ignore[no-untyped-def]
        return {
            name: type(column)(column.keys[::-1], column.values[::-1])
            for name, column in plain().items()
        }

    turned.columns = backwards  # type: ignore[method-assign]
    turned.run(LEARNED_DAYS)
    for fleet in (straight, turned):
        fleet.heat[3, 2] = 1.08
        fleet.run(3, until=lambda fleet=fleet: bool(fleet.blamed))  # type: ignore[misc]
    assert straight.blamed == turned.blamed
    assert straight.suspects()[0].because == turned.suspects()[0].because


def test_nothing_told_is_nothing_found() -> None:
    fleet = hall()
    fleet.heat[3, 2] = 1.2
    silent = fleet.columns

    def blank():  # type: ignore[no-untyped-def]
        return {
            name: type(column)(column.keys, np.full(len(column.keys), np.nan))
            for name, column in silent().items()
        }

    fleet.columns = blank  # type: ignore[method-assign]
    fleet.run(2)
    assert fleet.blamed == {}
