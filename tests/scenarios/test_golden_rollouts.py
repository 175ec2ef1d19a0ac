"""Rollouts, and what only looks like one: how a node came to a value tells."""

from datetime import timedelta

import pytest
from tests.scenarios.stage import Stage

from bigiron.hub.turn import Settings
from bigiron.model import Change, Finding, Health, Maintenance, NodeState, Severity

OLD, USUAL, NEW, NEWER = "535.54.03", "550.90.07", "560.35.03", "570.10.01"
WAVE = "config.drift rollout:driver_version of box8"
RINGS = {"ring0": 2, "ring1": 6, "ring2": 16}


def fleet(rings: dict[str, int] | None = None) -> Stage:
    """24 nodes in three rings (or as given), all alike for half an hour; steps of ten minutes."""
    rings = RINGS if rings is None else rings
    names = [f"b{i:02d}" for i in range(sum(rings.values()) or 24)]
    settings = Settings(keep_intervals=False, step_s=600.0, fresh_s=1500.0, sustain_s=1500.0)
    stage = Stage(names, gpus=0, step_s=600.0, settings=settings)
    order = [ring for ring, count in rings.items() for _ in range(count)]
    for node, ring in zip(names, order or [""] * 24, strict=True):
        stage.place(node, ring=ring)
    for node in names:
        stage.facts(node, driver_version=USUAL, hostname=node)
    stage.run(30)
    return stage


def later(stage: Stage, hours: float) -> None:
    """So much time passes; a look every six hours and at the end."""
    end = stage.now + timedelta(hours=hours)
    while stage.now < end:
        stage.now = min(end, stage.now + timedelta(hours=6))
        stage.turn()


def ring(stage: Stage, name: str) -> list[str]:
    return [n for n in stage.names if stage.memory.nodes[n].ring == name]


def rollout(
    stage: Stage, nodes: list[str], value: str = NEW, kind: str = "firmware", hours: float = 2.0
) -> None:
    """Announced work on some nodes; each comes back with the value, ten minutes apart."""
    start = stage.now
    stage.take(
        maintenance=(Maintenance(start, start + timedelta(hours=hours), tuple(nodes), kind),)
    )
    for node in nodes:
        stage.facts(node, driver_version=value)
        stage.run(10)


def turn(stage: Stage, node: str, reason: str, state: str = "drain", **facts: str) -> None:
    """A node is taken out, gets other facts and is put back."""
    stage.take(states=(NodeState(node, state, reason, since=stage.now, time=stage.now),))
    stage.run(20)
    stage.facts(node, **facts)
    stage.run(10)
    stage.take(states=(NodeState(node, "idle", since=stage.now, time=stage.now),))
    stage.run(10)


def blamed(stage: Stage) -> list[str]:
    """Whom open findings blame."""
    found = (f for f in stage.open.values() if not f.subject.by and f.severity is not Severity.INFO)
    return sorted(f.subject.node for f in found)


def ever_blamed(stage: Stage) -> list[str]:
    opened = (c for o in stage.outcomes for c in o.changes if c.change is Change.OPEN)
    named = {c.finding.subject.node for c in opened if c.finding.severity is not Severity.INFO}
    return sorted(named - {""})


def told(stage: Stage) -> Finding:
    return stage.open[WAVE]


def test_an_announced_rollout_by_rings_over_days_is_one_finding_and_blames_nobody() -> None:
    stage = fleet()
    for name in RINGS:
        rollout(stage, ring(stage, name))
        later(stage, 30)
    assert ever_blamed(stage) == []
    assert stage.open == {}
    assert stage.changes(Change.OPEN) == ["config.drift"]


def test_a_rollout_says_what_is_rolled_out_and_how_far_it_is() -> None:
    stage = fleet()
    rollout(stage, ring(stage, "ring0"))
    assert told(stage).because == (
        f"A rollout: driver version {NEW} in place of {USUAL}, on 2 of 24 nodes.",
        "By ring: ring0 2 of 2.",
    )
    rollout(stage, ring(stage, "ring1"))
    rollout(stage, ring(stage, "ring2")[:8])
    assert told(stage).because[0].endswith("on 16 of 24 nodes.")
    assert told(stage).severity is Severity.INFO
    assert set(told(stage).subject.members) == set(ring(stage, "ring2")[8:])


def test_a_rollout_by_racks_that_nobody_announced_blames_nobody_but_its_first_in_no_ring() -> None:
    stage = fleet(rings={})
    for number, node in enumerate(stage.names):
        stage.place(node, rack=f"r{number // 6}")
    for number, node in enumerate(stage.names):
        stage.facts(node, driver_version=NEW)
        stage.run(20 if number % 6 else 240)
    assert ever_blamed(stage) == []


def test_the_first_of_a_rollout_is_told_at_once_and_is_drift_if_none_follows() -> None:
    stage = fleet()
    stage.facts("b00", driver_version=NEW)
    begun = stage.now
    stage.run(10)
    assert blamed(stage) == []
    first, then, *_ = told(stage).because
    assert first == (
        f"b00 alone has driver version {NEW}, newer than the {USUAL} of 23 others: perhaps the "
        "first of a rollout."
    )
    assert f"followed by {begun + timedelta(hours=5):%Y-%m-%d %H:%M} UTC" in then
    stage.run(4.5 * 60)
    assert blamed(stage) == []
    stage.run(30)
    assert blamed(stage) == ["b00"]
    assert stage.now - begun < timedelta(hours=6)
    assert WAVE not in stage.open


def test_if_others_follow_the_first_is_not_blamed() -> None:
    stage = fleet()
    stage.facts("b00", driver_version=NEW)
    later(stage, 4)
    stage.facts("b01", driver_version=NEW)
    later(stage, 48)
    assert ever_blamed(stage) == []
    assert told(stage).subject.members == ("b00", "b01")
    assert told(stage).because[-1] == "No node has changed for more than a day."


def test_the_first_to_be_newer_where_no_rollout_begins_is_drift_at_once() -> None:
    stage = fleet()
    stage.facts("b20", driver_version=NEW)
    stage.run(10)
    assert blamed(stage) == ["b20"]


@pytest.mark.parametrize("reason", ["hw: mainboard swap", "NHC: gpu fell off bus", "reimage"])
def test_a_node_that_comes_back_newer_from_a_repair_is_drift_at_once(reason: str) -> None:
    stage = fleet()
    turn(stage, "b00", reason, driver_version=NEW)
    assert blamed(stage) == ["b00"]
    later(stage, 5 * 24)
    assert blamed(stage) == ["b00"]


def test_two_that_come_back_newer_from_repairs_days_apart_are_no_rollout() -> None:
    stage = fleet()
    turn(stage, "b00", "reimage", driver_version=NEW)
    later(stage, 40)
    turn(stage, "b09", "board replaced", driver_version=NEW)
    later(stage, 40)
    assert blamed(stage) == ["b00", "b09"]
    assert WAVE not in stage.open


@pytest.mark.parametrize(
    ("state", "reason"), [("drain", "reboot for kernel update"), ("maint", "planned")]
)
def test_a_node_taken_out_for_an_update_or_by_a_calendar_is_not_blamed(
    state: str, reason: str
) -> None:
    stage = fleet()
    turn(stage, "b09", reason, state, driver_version=NEW)
    later(stage, 12)
    assert ever_blamed(stage) == []


def test_a_repaired_node_that_gets_what_is_being_rolled_out_is_not_blamed() -> None:
    stage = fleet()
    rollout(stage, ring(stage, "ring0"))
    turn(stage, "b20", "reimage", driver_version=NEW)
    assert ever_blamed(stage) == []


@pytest.mark.parametrize("value", [OLD, NEWER])
def test_one_of_a_ring_that_comes_to_something_else_is_drift_amid_the_rollout(value: str) -> None:
    stage = fleet()
    rollout(stage, ring(stage, "ring0"))
    nodes = ring(stage, "ring1")
    rollout(stage, nodes[:5])
    start = stage.now - timedelta(minutes=30)
    stage.take(maintenance=(Maintenance(start, stage.now, tuple(nodes), "firmware"),))
    stage.facts(nodes[5], driver_version=value)
    stage.run(10)
    assert blamed(stage) == [nodes[5]]
    rollout(stage, ring(stage, "ring2"))
    assert blamed(stage) == [nodes[5]]


def test_an_older_version_after_a_repair_is_drift_amid_a_rollout() -> None:
    stage = fleet()
    rollout(stage, ring(stage, "ring0"))
    turn(stage, "b20", "reimage", driver_version=OLD)
    assert blamed(stage) == ["b20"]
    text = stage.open["config.drift.driver_version b20"].because[0]
    assert f"it should be {USUAL} or {NEW}" in text


def test_who_goes_back_to_the_old_version_after_a_rollout_is_drift_at_once() -> None:
    stage = fleet()
    for name in RINGS:
        rollout(stage, ring(stage, name))
    turn(stage, "b20", "disk swap", driver_version=USUAL)
    assert blamed(stage) == ["b20"]


def test_who_is_left_behind_is_told_when_its_ring_is_done_and_is_no_suspect() -> None:
    stage = fleet()
    rollout(stage, ring(stage, "ring0"))
    rollout(stage, ring(stage, "ring1")[:5])
    rollout(stage, ring(stage, "ring2"))
    later(stage, 12)
    assert told(stage).subject.members == ("b07",)
    later(stage, 24)
    (finding,) = stage.open.values()
    assert finding.fault == "config.behind.driver_version"
    assert finding.severity is Severity.INFO
    assert finding.because[0] == (
        f"b07 still has driver version {USUAL}: the rollout of {NEW} to 23 others has left it "
        "behind."
    )
    assert stage.health("b07") is Health.HEALTHY
    later(stage, 20 * 24)
    assert [f.fault for f in stage.open.values()] == ["config.behind.driver_version"]
    stage.facts("b07", driver_version=NEW)
    stage.run(10)
    assert stage.open == {}
    assert ever_blamed(stage) == []


def test_a_ring_that_has_not_begun_waits_a_week_for_its_turn() -> None:
    stage = fleet({"ring0": 2, "ring1": 20, "ring2": 2})
    rollout(stage, ring(stage, "ring0"))
    rollout(stage, ring(stage, "ring1"))
    later(stage, 6 * 24)
    assert set(told(stage).subject.members) == set(ring(stage, "ring2"))
    later(stage, 2 * 24)
    assert {f.fault for f in stage.open.values()} == {"config.behind.driver_version"}
    assert ever_blamed(stage) == []


def test_a_rollout_that_stops_after_its_first_ring_stays_told_and_blames_nobody() -> None:
    stage = fleet()
    rollout(stage, ring(stage, "ring0")[:1])
    later(stage, 30 * 24)
    assert ever_blamed(stage) == []
    assert told(stage).subject.members == ("b00",)
    assert told(stage).because[-1] == "No node has changed for more than a day."


def test_a_rollout_that_stops_half_way_stays_told_and_blames_nobody() -> None:
    stage = fleet()
    rollout(stage, ring(stage, "ring0"))
    rollout(stage, ring(stage, "ring1"))
    rollout(stage, ring(stage, "ring2")[:4])
    later(stage, 30 * 24)
    assert ever_blamed(stage) == []
    assert list(stage.open) == [WAVE]
    assert told(stage).because[0].endswith("on 12 of 24 nodes.")


def test_who_was_left_behind_is_still_none_when_the_next_rollout_begins() -> None:
    stage = fleet()
    for name in RINGS:
        rollout(stage, [n for n in ring(stage, name) if n != "b20"])
    later(stage, 3 * 24)
    rollout(stage, ring(stage, "ring0"), NEWER)
    later(stage, 24)
    assert ever_blamed(stage) == []


def test_three_repaired_to_one_newer_version_in_a_day_are_a_rollout() -> None:
    stage = fleet()
    for node in ("b05", "b10", "b15"):
        turn(stage, node, "reimage", driver_version=NEW)
    assert blamed(stage) == []
    assert len(told(stage).subject.members) == 3


def test_drifts_one_by_one_outvote_nobody_even_in_a_small_fleet() -> None:
    stage = fleet({"ring0": 2, "ring1": 6})
    turn(stage, "b03", "reimage", driver_version=OLD)
    later(stage, 24)
    turn(stage, "b06", "reimage", driver_version="520.1")
    later(stage, 24)
    assert blamed(stage) == ["b03", "b06"]


def test_what_comes_in_for_one_sku_is_no_surprise_for_another() -> None:
    stage = fleet()
    others = [f"c{i:02d}" for i in range(10)]
    for node in others:
        stage.place(node, sku="box4", ring="ring1" if node < "c05" else "ring2")
        stage.facts(node, driver_version=USUAL, hostname=node)
    stage.run(30)
    rollout(stage, ring(stage, "ring0"))
    stage.facts("c07", driver_version=NEW)
    later(stage, 10)
    assert ever_blamed(stage) == []


def test_a_change_that_is_announced_is_a_rollout_whatever_its_order() -> None:
    stage = fleet()
    for node in stage.names:
        stage.facts(node, kernel_cmdline="quiet iommu=pt")
    stage.run(30)
    nodes = ring(stage, "ring0")
    start = stage.now
    stage.take(
        maintenance=(Maintenance(start, start + timedelta(hours=1), tuple(nodes), "kernel"),)
    )
    stage.facts("b00", kernel_cmdline="quiet iommu=pt nosmt")
    later(stage, 12)
    assert ever_blamed(stage) == []
    turn(stage, "b15", "reimage", kernel_cmdline="quiet")
    assert blamed(stage) == ["b15"]
    finding = stage.open["config.drift.kernel_cmdline b15"]
    assert finding.because[0] == (
        "b15 differs in kernel arguments: it lacks iommu=pt, as nearly all of 23 others."
    )


def test_while_a_fact_moves_for_one_sku_the_first_of_another_is_no_drift_a_repaired_is() -> None:
    stage = fleet()
    for number in range(8):
        node = f"c{number:02d}"
        stage.place(node, sku="box4", ring="ring2")
        stage.facts(node, driver_version="470.1", hostname=node)
    stage.run(30)
    rollout(stage, ring(stage, "ring0"))
    stage.facts("c07", driver_version="470.9")
    later(stage, 12)
    assert ever_blamed(stage) == []
    turn(stage, "c03", "reimage", driver_version="475.1")
    assert blamed(stage) == ["c03"]
