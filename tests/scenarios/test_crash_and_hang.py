from datetime import timedelta

from tests.scenarios.stage import T0, Stage

from bigiron.model import Job, NodeState, Severity

NODES = [f"e{i}" for i in range(8)]
GPUS = 4


def state(stage: Stage, node: str, word: str, reason: str = "") -> None:
    told = NodeState(node, word, reason, since=stage.now, time=stage.now)
    stage.take(states=(told,))


def fleet() -> Stage:
    stage = Stage(NODES, gpus=GPUS)
    for node in NODES:
        state(stage, node, "alloc")
        stage.says(node, "", node_boot_time_seconds=T0.timestamp() - 86_400.0)
    return stage


def work(stage: Stage, minutes: int, still: str = "", climb: float = 0.0) -> None:
    """Every GPU's readings move each minute, but those of ``still``, whose load may climb."""
    for minute in range(minutes):
        beat = len(stage.outcomes)
        for node in NODES:
            if (node, "", "node_load1") not in stage.said:
                continue
            stage.says(node, "", node_load1=8.0 + beat % 3 + (climb * minute) * (node == still))
            for i in range(GPUS):
                if node != still:
                    shift = (beat * 7 + i * 3) % 11 + beat % 2
                    stage.says(
                        node,
                        f"gpu{i}",
                        gpu_power_watts=600.0 + shift,
                        gpu_temp_celsius=60.0 + shift / 4,
                        gpu_sm_clock_hertz=1.75e9 + shift * 1e6,
                        gpu_utilization_ratio=0.9 + shift / 200,
                    )
        stage.run()


def quiet_gpus(stage: Stage, node: str) -> None:
    for _, device, metric in [key for key in stage.said if key[0] == node and key[1]]:
        del stage.said[node, device, metric]


def test_a_boot_that_nobody_planned_is_told_at_the_next_sample() -> None:
    stage = fleet()
    work(stage, 10)
    stage.says("e3", "", node_boot_time_seconds=stage.now.timestamp())
    work(stage, 1)
    finding = stage.open["node_crash e3"]
    assert finding.severity is Severity.WARNING


def test_a_boot_of_a_drained_node_is_meant() -> None:
    stage = fleet()
    work(stage, 10)
    state(stage, "e3", "drain", "kernel update")
    work(stage, 10)
    stage.says("e3", "", node_boot_time_seconds=stage.now.timestamp())
    work(stage, 2)
    state(stage, "e3", "idle")
    work(stage, 10)
    assert stage.open == {}


def test_a_boot_time_that_wobbles_is_no_boot() -> None:
    stage = fleet()
    work(stage, 10)
    stage.says("e3", "", node_boot_time_seconds=T0.timestamp() - 86_400.0 + 3.0)
    work(stage, 5)
    assert stage.open == {}


def test_a_silent_node_that_its_scheduler_finds_down_crashed() -> None:
    stage = fleet()
    work(stage, 10)
    stage.silent("e3")
    state(stage, "e3", "down", "Not responding")
    work(stage, 2)
    assert stage.open["node_crash e3"].severity is Severity.CRITICAL


def test_an_exporter_that_dies_blames_nobody() -> None:
    stage = fleet()
    work(stage, 20)
    quiet_gpus(stage, "e3")
    work(stage, 60, still="e3")
    assert {f.severity for f in stage.open.values()} <= {Severity.INFO}


def test_gpus_that_fall_silent_while_tasks_hang_are_a_hung_driver() -> None:
    stage = fleet()
    work(stage, 20)
    quiet_gpus(stage, "e3")
    stage.happens("e3", "kernel.hung_task")
    work(stage, 4, still="e3")
    assert stage.open["driver_hang e3"].severity is Severity.CRITICAL
    assert {f.subject.node for f in stage.open.values()} == {"e3"}


def test_a_load_that_climbs_beside_silent_gpus_is_a_suspicion() -> None:
    stage = fleet()
    work(stage, 20)
    quiet_gpus(stage, "e3")
    work(stage, 15, still="e3", climb=1.5)
    assert stage.open["driver_hang e3"].severity is Severity.WARNING


def test_a_job_that_began_explains_a_load_that_climbs() -> None:
    stage = fleet()
    work(stage, 20)
    stage.take(jobs=(Job("7", "RUNNING", "ann", start=stage.now, nodes=("e3",)),))
    quiet_gpus(stage, "e3")
    work(stage, 15, still="e3", climb=1.5)
    assert "driver_hang e3" not in stage.open


def dies(stage: Stage, node: str, after_s: float) -> None:
    end = stage.now + timedelta(seconds=after_s)
    job = Job("7", "FAILED", "ann", start=stage.now - timedelta(hours=1), end=end, nodes=(node,))
    stage.take(jobs=(job,))


def flap(stage: Stage) -> None:
    stage.happens("e3", "ib.link_down", "ib3")
    stage.happens("e3", "ib.link_up", "ib3")


def test_a_flap_that_a_job_did_not_survive_asks_for_a_check() -> None:
    stage = fleet()
    work(stage, 5)
    flap(stage)
    dies(stage, "e3", 20)
    work(stage, 2)
    assert stage.open["ib_link_down e3/ib3"].severity is Severity.WARNING


def test_a_flap_beside_a_job_that_died_long_after_or_elsewhere_is_nothing() -> None:
    for node, after_s in (("e3", 900.0), ("e5", 20.0)):
        stage = fleet()
        work(stage, 5)
        flap(stage)
        dies(stage, node, after_s)
        work(stage, 2)
        assert stage.open == {}
