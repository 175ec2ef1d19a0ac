from datetime import timedelta

from tests.scenarios.stage import HEARTBEAT, Stage, busy, wobble

from bigiron.hub.turn import Settings
from bigiron.model import Change, Health, Maintenance, NodeState, Severity


def living(stage: Stage, minutes: int) -> None:
    for minute in range(minutes):
        wobble(stage, minute)
        stage.run()


def test_opens_on_a_gpu_that_falls_silent_beside_its_neighbours() -> None:
    stage = Stage()
    busy(stage, stage.names)
    living(stage, 5)
    for key in [k for k in stage.said if k[1] == "gpu3"]:
        del stage.said[key]
    living(stage, 10)
    assert list(stage.open) == ["gpu.missing a1/gpu3"]
    assert stage.health("a1") is Health.UNHEALTHY


def without(stage: Stage, device: str) -> dict[tuple[str, str, str], float]:
    """From now on the pages leave a GPU out; what it said."""
    lost = {k: v for k, v in stage.said.items() if k[1] == device}
    for key in lost:
        del stage.said[key]
    return lost


SCRAPED_EVERY_FIVE_MINUTES = Settings(keep_intervals=False, fresh_s=750.0, sustain_s=750.0)


def pages(stage: Stage, count: int) -> None:
    for _ in range(count):
        wobble(stage, len(stage.outcomes))
        stage.run(5)


def test_two_pages_five_minutes_apart_that_leave_a_gpu_out_are_enough() -> None:
    stage = Stage(settings=SCRAPED_EVERY_FIVE_MINUTES, step_s=300)
    busy(stage, stage.names)
    pages(stage, 6)
    without(stage, "gpu3")
    pages(stage, 1)
    assert stage.open == {}
    pages(stage, 1)
    assert list(stage.open) == ["gpu.missing a1/gpu3"]
    pages(stage, 6)
    assert stage.changes(Change.OPEN) == ["gpu.missing"]


def test_one_page_that_leaves_a_gpu_out_is_nothing() -> None:
    stage = Stage(settings=SCRAPED_EVERY_FIVE_MINUTES, step_s=300)
    busy(stage, stage.names)
    pages(stage, 6)
    for _ in range(3):
        lost = without(stage, "gpu3")
        pages(stage, 1)
        stage.said |= lost
        pages(stage, 2)
    assert stage.changes(Change.OPEN) == []


def test_pages_close_together_leave_a_gpu_out_for_two_minutes_before_it_is_told() -> None:
    stage = Stage(step_s=15)
    busy(stage, stage.names)
    living(stage, 5)
    without(stage, "gpu3")
    stage.run(2)
    assert stage.open == {}
    stage.run(0.5)
    assert list(stage.open) == ["gpu.missing a1/gpu3"]


def test_a_gpu_that_starts_after_the_others_of_its_node_is_not_missing() -> None:
    stage = Stage(step_s=15)
    busy(stage, stage.names)
    living(stage, 5)
    said = dict(stage.said)
    stage.silent("a1")
    stage.run(4)
    stage.said |= {key: value for key, value in said.items() if key[1] != "gpu3"}
    stage.run(1)
    stage.said |= said
    stage.run(5)
    assert "gpu.missing" not in stage.changes(Change.OPEN)


def test_closes_when_the_gpu_is_seen_again() -> None:
    stage = Stage()
    busy(stage, stage.names)
    living(stage, 5)
    lost = {k: v for k, v in stage.said.items() if k[1] == "gpu3"}
    for key in lost:
        del stage.said[key]
    living(stage, 10)
    stage.said |= lost
    living(stage, 1)
    assert stage.open == {}


def test_a_gpu_the_log_calls_lost_is_not_missing_as_well() -> None:
    stage = Stage()
    busy(stage, stage.names)
    living(stage, 5)
    stage.happens("a1", "xid.79", "gpu3")
    for key in [k for k in stage.said if k[1] == "gpu3"]:
        del stage.said[key]
    living(stage, 10)
    assert list(stage.open) == ["xid.79 a1/gpu3"]


def test_a_dead_exporter_is_unknown_never_healthy_and_never_drained() -> None:
    stage = Stage()
    busy(stage, stage.names)
    living(stage, 5)
    stage.silent("a1", "gpu_power_watts", "gpu_temp_celsius")
    stage.silent("a1", "gpu_utilization_ratio", "gpu_sm_clock_hertz")
    stage.run(30)
    assert list(stage.open) == ["node.exporter_down a1"]
    assert stage.health("a1") is Health.UNKNOWN
    assert stage.actions == []


def test_what_was_wrong_stays_wrong_when_the_exporter_dies() -> None:
    stage = Stage()
    busy(stage, stage.names)
    stage.says("a1", "gpu3", gpu_row_remap_failure=1)
    living(stage, 5)
    for key in [k for k in stage.said if k[2] != HEARTBEAT]:
        del stage.said[key]
    stage.run(30)
    assert "gpu.row_remap_failure a1/gpu3" in stage.open
    assert stage.health("a1") is Health.UNHEALTHY


def test_a_node_that_is_not_scraped_is_unknown() -> None:
    stage = Stage(("a1", "a2", "a3", "a4"))
    stage.run(5)
    stage.silent("a2")
    stage.run(10)
    assert list(stage.open) == ["node.missing a2"]
    assert stage.open["node.missing a2"].severity is Severity.WARNING
    assert stage.health("a2") is Health.UNKNOWN
    assert stage.health("a1") is Health.HEALTHY


def test_many_at_once_are_one_finding_of_the_monitoring_and_blame_no_node() -> None:
    stage = Stage(tuple(f"a{i}" for i in range(10)))
    stage.run(5)
    for node in stage.names[:7]:
        stage.silent(node)
    stage.run(10)
    (finding,) = stage.open.values()
    assert (finding.subject.by, len(finding.subject.members)) == ("monitoring", 7)
    assert {stage.health(n) for n in stage.names} == {Health.HEALTHY}
    for node in stage.names:
        stage.says(node, "", node_load1=1.0)
    stage.run()
    assert stage.open == {}


def test_planned_work_is_no_warning() -> None:
    stage = Stage(("a1", "a2", "a3", "a4"))
    hour = timedelta(hours=1)
    stage.take(maintenance=(Maintenance(stage.now - hour, stage.now + hour, ("a2",), "reboot"),))
    stage.take(states=(NodeState("a3", "drain", "new image", time=stage.now),))
    stage.run(5)
    stage.silent("a2")
    stage.silent("a3")
    stage.run(10)
    assert {f.severity for f in stage.open.values()} == {Severity.INFO}


def test_frozen_readings_at_work_are_a_hang() -> None:
    stage = Stage()
    busy(stage, stage.names)
    living(stage, 20)
    assert stage.open == {}
    stage.run(20)
    assert list(stage.open) == ["gpu.metrics_frozen a1"]
    living(stage, 1)
    assert stage.open == {}


def test_idle_gpus_that_read_the_same_are_not_frozen() -> None:
    stage = Stage()
    busy(stage, stage.names, gpu_utilization_ratio=0.0, gpu_power_watts=71.0)
    stage.run(60)
    assert stage.changes(Change.OPEN) == []
