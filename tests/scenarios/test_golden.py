from datetime import timedelta

import pytest
from tests.scenarios.stage import Stage

from bigiron.detect import Declared
from bigiron.detect.consensus import share_above
from bigiron.hub.turn import Settings
from bigiron.model import Change, Health, Severity

OLD, USUAL, NEW = "535.54.03", "550.90.07", "560.35.03"


def fleet(size: int = 24, settings: Settings | None = None, ring: str = "") -> Stage:
    stage = Stage([f"b{i:02d}" for i in range(size)], gpus=0, settings=settings, ring=ring)
    for node in stage.names:
        stage.facts(node, driver_version=USUAL, hostname=node, gpu_count=8)
    return stage


def test_opens_on_a_value_no_other_node_holds() -> None:
    stage = fleet()
    stage.run(30)
    stage.facts("b07", driver_version=OLD)
    stage.run()
    assert list(stage.open) == ["config.drift.driver_version b07"]
    assert stage.health("b07") is Health.DEGRADED
    text = stage.open["config.drift.driver_version b07"].because[0]
    assert (
        text == f"b07 has driver version {OLD}; it should be {USUAL}, as nearly all of 23 others."
    )


def test_closes_on_recovery_and_keeps_open_on_silence() -> None:
    stage = fleet()
    stage.facts("b07", driver_version=OLD)
    stage.run()
    stage.silent("b07")
    stage.run(30)
    assert "config.drift.driver_version b07" in stage.open
    stage.facts("b07", driver_version=USUAL)
    stage.run(5)
    assert "config.drift.driver_version b07" not in stage.open


def test_a_hostname_is_never_drift() -> None:
    stage = fleet()
    stage.run(30)
    assert stage.changes(Change.OPEN) == []


def test_without_consensus_nothing_is_flagged() -> None:
    stage = fleet()
    for i, node in enumerate(stage.names):
        stage.facts(node, bios_version=f"1.{i % 3}")
    stage.run(5)
    assert [f.subject.kind for f in stage.open.values() if f.severity is not Severity.INFO] == []


def test_few_nodes_say_nothing() -> None:
    stage = fleet(size=6)
    stage.facts("b03", driver_version=OLD)
    stage.run(5)
    assert stage.open == {}


def test_a_rollout_is_one_finding_and_blames_no_node_from_first_to_last() -> None:
    stage = fleet()
    stage.run(30)
    for node in stage.names:
        stage.facts(node, driver_version=NEW)
        stage.run(20)
        groups = {f.subject.kind for f in stage.open.values()}
        assert groups <= {"group"}
        assert stage.health(node) is Health.HEALTHY
    stage.run(10)
    assert stage.open == {}
    assert stage.changes(Change.OPEN) == ["config.drift"]


def test_a_drift_stays_flagged_while_the_rest_moves_on() -> None:
    stage = fleet()
    stage.run(30)
    stage.facts("b07", driver_version=OLD)
    for node in stage.names:
        if node != "b07":
            stage.facts(node, driver_version=NEW)
            stage.run(20)
            assert "config.drift.driver_version b07" in stage.open


def test_declared_beats_what_most_nodes_hold() -> None:
    declared = (Declared({"driver_version": (NEW,)}, sku="box8"),)
    stage = fleet(settings=Settings(keep_intervals=False, declared=declared))
    stage.facts("b07", driver_version=NEW)
    stage.run()
    wrong = {f.subject.node for f in stage.open.values()}
    assert wrong == set(stage.names) - {"b07"}
    assert {f.confidence for f in stage.open.values()} == {1.0}


def test_declared_for_another_sku_says_nothing() -> None:
    declared = (Declared({"driver_version": (NEW,)}, sku="other"),)
    stage = fleet(settings=Settings(keep_intervals=False, declared=declared))
    stage.run(5)
    assert stage.open == {}


def test_a_value_read_again_keeps_the_time_since_when_it_holds() -> None:
    stage = fleet()
    stage.facts("b07", driver_version=OLD)
    begun = stage.now
    for _ in range(5):
        stage.run(10)
        stage.facts("b07", driver_version=OLD)
    stage.run()
    finding = stage.open["config.drift.driver_version b07"]
    assert finding.since == begun
    assert stage.now - begun > timedelta(minutes=50)


@pytest.mark.parametrize(
    ("agreeing", "total", "least", "most"),
    [(40, 40, 0.99, 1.0), (23, 23, 0.95, 0.99), (5, 5, 0.0, 0.8), (20, 40, 0.0, 1e-9)],
)
def test_certainty_grows_with_the_nodes_that_agree(
    agreeing: int, total: int, least: float, most: float
) -> None:
    assert least <= share_above(agreeing, total, 0.9) <= most


def declared_link(stage_rates: dict[str, float], rate: float = 200.0) -> Stage:
    """One node whose ports have these rates, each declared to have ``rate``."""
    declared = tuple(Declared({"link_rate_gbps": (rate,)}, device=port) for port in stage_rates)
    stage = Stage(["b00"], gpus=0, settings=Settings(keep_intervals=False, declared=declared))
    for port, found in stage_rates.items():
        stage.facts("b00", device=port, link_rate_gbps=found)
    stage.run()
    return stage


def test_what_is_declared_of_one_device_binds_that_one() -> None:
    stage = declared_link({"mlx5_0": 100.0, "mlx5_1": 200.0})
    (finding,) = stage.open.values()
    assert finding.subject.key == "b00/mlx5_0"
    assert finding.because[0] == (
        "Network adapter mlx5_0 of b00 has link rate 100 Gb/s; it should be 200 Gb/s, as declared."
    )


def test_a_link_better_than_declared_is_no_drift() -> None:
    assert declared_link({"mlx5_0": 400.0}).open == {}


def test_three_devices_that_differ_alike_are_one_thing_about_the_node() -> None:
    stage = declared_link({f"mlx5_{n}": 100.0 for n in range(4)})
    (finding,) = stage.open.values()
    assert finding.subject.key == "b00"
    assert (
        "4 devices (mlx5_0, mlx5_1, mlx5_2, mlx5_3) have link rate 100 Gb/s" in finding.because[0]
    )
