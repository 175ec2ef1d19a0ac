from datetime import timedelta

import pytest
from tests.scenarios.stage import Stage

from bigiron.hub.turn import Settings
from bigiron.model import Change, Maintenance, NodeState, Severity

NODES = [f"d{i:02d}" for i in range(24)]


def fleet(loops: int = 3) -> Stage:
    """24 nodes in equal cooling loops, leaf switches and supplies."""
    settings = Settings(keep_intervals=False, step_s=300.0, fresh_s=750.0, sustain_s=750.0)
    stage = Stage(NODES, gpus=0, step_s=300.0, settings=settings)
    size = len(NODES) // loops
    for number, node in enumerate(NODES):
        one = str(number // size)
        stage.place(node, cooling=f"loop{one}", leaf=f"leaf{one}", pdu=f"pdu{one}")
    return stage


def air(stage: Stage, hours: float, rise: float = 0.0, on: slice | None = None) -> None:
    """Inlets wobble about 22 °C; those of some nodes are warmer."""
    warm = set(NODES[on]) if on is not None else set()
    for _ in range(round(hours * 12)):
        beat = len(stage.outcomes)
        for number, node in enumerate(NODES):
            wobble = ((beat * 7 + number * 5) % 11 - 5) / 20
            value = 22.0 + wobble + (rise if node in warm else 0.0)
            stage.says(node, "", node_inlet_temp_celsius=value)
        stage.run(5)


def groups(stage: Stage) -> dict[str, Severity]:
    return {f"{f.fault} {f.subject.key}": f.severity for f in stage.open.values() if f.subject.by}


def test_a_loop_whose_air_warms_is_one_finding_and_ends_when_it_cools() -> None:
    stage = fleet()
    air(stage, 6)
    assert groups(stage) == {}
    air(stage, 1, 5.0, slice(0, 8))
    (key,) = groups(stage)
    assert key == "cooling_excursion cooling:loop0"
    assert {f.subject.node for f in stage.open.values()} == {""}
    air(stage, 4)
    assert groups(stage) == {}


def test_a_few_warm_nodes_are_no_loop() -> None:
    stage = fleet()
    air(stage, 6)
    air(stage, 2, 5.0, slice(0, 3))
    assert groups(stage) == {}


def test_two_loops_that_warm_at_once_are_two() -> None:
    stage = fleet(loops=2)
    air(stage, 6)
    air(stage, 1, 6.0, slice(0, 24))
    found = {key for key in groups(stage) if key.startswith("cooling_excursion")}
    assert found == {"cooling_excursion cooling:loop0", "cooling_excursion cooling:loop1"}


def test_a_hot_day_is_told_and_blames_no_loop() -> None:
    stage = fleet()
    air(stage, 6)
    for step in range(24):
        air(stage, 1, 0.25 * step, slice(0, 24))
    assert {key.split()[0] for key in groups(stage)} <= {"heat_wave"}
    assert set(stage.changes(Change.OPEN)) <= {"heat_wave"}


def ports(stage: Stage, steps: int, errors: int = 0, on: slice | None = None) -> None:
    """Symbol errors of one port a node; some get so many more at each step."""
    bad = set(NODES[on]) if on is not None else set()
    for _ in range(steps):
        for node in NODES:
            before = stage.said.get((node, "mlx5_0", "ib_symbol_errors_total"), 0.0)
            stage.says(
                node,
                "mlx5_0",
                ib_symbol_errors_total=before + (errors if node in bad else 0),
            )
        stage.run(5)


def test_errors_on_the_ports_of_one_leaf_are_the_leafs() -> None:
    stage = fleet()
    ports(stage, 24)
    ports(stage, 3, 40, slice(8, 16))
    assert list(groups(stage)) == ["leaf_bad leaf:leaf1"]


def test_errors_on_one_port_are_no_leafs() -> None:
    stage = fleet()
    ports(stage, 24)
    ports(stage, 3, 40, slice(8, 9))
    assert groups(stage) == {}


def volts(stage: Stage, steps: int, sag: float = 0.0, on: slice | None = None) -> None:
    low = set(NODES[on]) if on is not None else set()
    for _ in range(steps):
        beat = len(stage.outcomes)
        for number, node in enumerate(NODES):
            wobble = ((beat * 3 + number * 7) % 9 - 4) / 200
            value = 12.1 + wobble - (sag if node in low else 0.0)
            stage.says(node, "", node_rail_volts=value)
        stage.run(5)


def test_a_dip_of_one_supply_is_the_supplys_and_over_in_half_an_hour() -> None:
    stage = fleet()
    volts(stage, 24)
    volts(stage, 1, 0.7, slice(16, 24))
    assert list(groups(stage)) == ["pdu_blip pdu:pdu2"]
    volts(stage, 10)
    assert groups(stage) == {}


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_nodes_that_dip_are_no_supply(count: int) -> None:
    stage = fleet()
    volts(stage, 24)
    volts(stage, 1, 0.7, slice(16, 16 + count))
    assert groups(stage) == {}


def test_a_file_server_that_many_wait_for_is_told_and_asks_nothing() -> None:
    stage = fleet()
    stage.run(10)
    for node in NODES[:6]:
        stage.happens(node, "nfs.not_responding")
    stage.run(5)
    assert set(groups(stage).values()) == {Severity.INFO}
    assert {key.split()[0] for key in groups(stage)} == {"storage_outage"}
    assert stage.actions == []


def excursions(
    stage: Stage, hours: float, starts_h: list[tuple[slice, float]], **how: float
) -> None:
    """Loops whose air warms from a start on: up within half an hour, then for hours so."""
    rise, ramp_h = how.get("rise", 5.0), how.get("ramp_h", 0.5)
    for step in range(round(hours * 12)):
        beat = len(stage.outcomes)
        warm = dict.fromkeys(NODES, 0.0)
        for on, start_h in starts_h:
            share = min(1.0, max(0.0, (step / 12 - start_h) / ramp_h))
            warm |= dict.fromkeys(NODES[on], rise * share)
        for number, node in enumerate(NODES):
            wobble = ((beat * 7 + number * 5) % 11 - 5) / 20
            stage.says(node, "", node_inlet_temp_celsius=22.0 + wobble + warm[node])
        stage.run(5)


def claimed(stage: Stage) -> set[str]:
    """Every group claimed so far."""
    changes = [c for o in stage.outcomes for c in o.changes if c.change is Change.OPEN]
    return {f"{c.finding.fault} {c.finding.subject.group}" for c in changes}


@pytest.mark.parametrize("apart_h", [0.5, 0.75, 1.0])
@pytest.mark.parametrize("loops", [2, 3, 4])
@pytest.mark.parametrize("rise", [4.0, 7.0])
def test_two_loops_that_warm_one_after_the_other_are_both_found_and_stay_so(
    loops: int, apart_h: float, rise: float
) -> None:
    stage = fleet(loops)
    size = len(NODES) // loops
    air(stage, 6)
    starts = [(slice(0, size), 0.0), (slice(size, 2 * size), apart_h)]
    excursions(stage, 4, starts, rise=rise)
    assert set(groups(stage)) == {
        "cooling_excursion cooling:loop0",
        "cooling_excursion cooling:loop1",
    }
    assert len([c for c in stage.changes(Change.OPEN) if c == "cooling_excursion"]) == 2
    air(stage, 5)
    assert groups(stage) == {}


def test_weather_that_turns_fast_is_no_loops() -> None:
    stage = fleet()
    air(stage, 6)
    excursions(stage, 6, [(slice(0, 24), 0.0)], rise=6.0, ramp_h=6.0)
    assert claimed(stage) <= {"heat_wave all"}


def test_one_loop_that_cools_makes_no_other_hot() -> None:
    stage = fleet()
    air(stage, 6)
    excursions(stage, 4, [(slice(0, 8), 0.0)], rise=-5.0)
    assert claimed(stage) == set()


def test_after_hours_without_samples_the_weather_has_changed_and_no_loop_is_hot() -> None:
    stage = fleet()
    air(stage, 6)
    stage.now += timedelta(hours=8)
    air(stage, 3, 6.0, slice(0, 24))
    assert claimed(stage) <= {"heat_wave all"}


def test_a_gap_ends_no_excursion_and_does_not_make_it_usual() -> None:
    stage = fleet()
    air(stage, 6)
    air(stage, 1, 6.0, slice(0, 8))
    assert list(groups(stage)) == ["cooling_excursion cooling:loop0"]
    stage.now += timedelta(hours=3)
    air(stage, 1, 6.0, slice(0, 8))
    assert list(groups(stage)) == ["cooling_excursion cooling:loop0"]
    assert stage.changes(Change.CLOSE) == []
    air(stage, 3)
    assert groups(stage) == {}


def test_a_loop_of_which_nothing_is_seen_is_not_well_again_but_explains_not_for_ever() -> None:
    stage = fleet()
    air(stage, 6)
    air(stage, 1, 6.0, slice(0, 8))
    for node in NODES[:8]:
        stage.silent(node, "node_inlet_temp_celsius")
    stage.run(5 * 60)
    assert list(groups(stage)) == ["cooling_excursion cooling:loop0"]
    stage.run(3 * 60)
    assert groups(stage) == {}


def test_errors_of_hours_without_a_look_are_not_errors_of_one_hour() -> None:
    stage = fleet()
    ports(stage, 24)
    stage.now += timedelta(hours=6)
    ports(stage, 1, 8, slice(8, 16))
    ports(stage, 2)
    assert claimed(stage) == set()


def boots(stage: Stage, nodes: list[str], minutes_ago: float) -> None:
    for node in nodes:
        stage.says(
            node,
            "",
            node_boot_time_seconds=(stage.now - timedelta(minutes=minutes_ago)).timestamp(),
        )


def test_nodes_that_booted_at_different_times_unseen_are_no_supply() -> None:
    stage = fleet()
    boots(stage, NODES, 10_000)
    volts(stage, 24)
    stage.now += timedelta(hours=6)
    for number, node in enumerate(NODES[:8]):
        boots(stage, [node], 20 + 30 * number)
    volts(stage, 2)
    assert claimed(stage) == set()


def test_nodes_that_booted_at_one_moment_unseen_are_their_supplys() -> None:
    stage = fleet()
    boots(stage, NODES, 10_000)
    volts(stage, 24)
    stage.now += timedelta(hours=6)
    boots(stage, NODES[:8], 120)
    volts(stage, 2)
    assert claimed(stage) == {"pdu_blip pdu0"}


def test_a_dip_amid_planned_reboots_is_the_supplys_nevertheless() -> None:
    stage = fleet()
    volts(stage, 24)
    work = Maintenance(
        stage.now - timedelta(minutes=40), stage.now + timedelta(hours=1), tuple(NODES), "reboot"
    )
    stage.take(maintenance=(work,))
    out = NODES[:2]
    stage.take(states=tuple(NodeState(n, "maint", "planned reboot", since=stage.now) for n in out))
    volts(stage, 2, 0.7, slice(0, 8))
    assert list(groups(stage)) == ["pdu_blip pdu:pdu0"]


def test_planned_reboots_of_one_supplys_nodes_are_no_dip() -> None:
    stage = fleet()
    boots(stage, NODES, 10_000)
    volts(stage, 24)
    work = Maintenance(stage.now, stage.now + timedelta(hours=1), tuple(NODES[:8]), "reboot")
    stage.take(maintenance=(work,))
    for node in NODES[:8]:
        stage.silent(node)
    volts(stage, 1, on=slice(0, 0))
    assert claimed(stage) == set()


def test_two_leaves_of_three_that_err_at_once_are_two() -> None:
    stage = fleet()
    ports(stage, 24)
    ports(stage, 3, 40, slice(8, 24))
    assert set(groups(stage)) == {"leaf_bad leaf:leaf1", "leaf_bad leaf:leaf2"}
