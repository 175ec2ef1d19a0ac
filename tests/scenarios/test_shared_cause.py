import pytest
from tests.scenarios.stage import Stage

from bigiron.hub.turn import Settings
from bigiron.model import Change, Severity

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
