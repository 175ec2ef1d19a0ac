"""A node that stops or restarts unasked, several times in a week."""

from tests.scenarios.stage import T0, Stage

from bigiron.model import ActionKind, NodeState, Severity

NODES = tuple(f"e{i}" for i in range(12))
DAY_MIN = 24 * 60


def fleet() -> Stage:
    stage = Stage(NODES, gpus=1, step_s=1800)
    for node in NODES:
        state(stage, node, "alloc")
        stage.says(node, "", node_boot_time_seconds=T0.timestamp() - 86_400.0)
    stage.run(60)
    return stage


def state(stage: Stage, node: str, word: str) -> None:
    stage.take(states=(NodeState(node, word, since=stage.now, time=stage.now),))


def restarts(stage: Stage, *nodes: str) -> None:
    for node in nodes:
        stage.says(node, "", node_boot_time_seconds=stage.now.timestamp() + 60)
    stage.run(60)


def test_three_unplanned_restarts_in_a_week_are_told_and_ask_why() -> None:
    stage = fleet()
    for nth in range(3):
        assert "repeat_crash e3" not in stage.open
        restarts(stage, "e3")
        if nth < 2:
            stage.run(2 * DAY_MIN)
    finding = stage.open["repeat_crash e3"]
    assert (finding.severity, finding.action) == (Severity.CRITICAL, ActionKind.CHECK)
    assert finding.because[0].startswith("e3 stopped or restarted 3 times in 4 days")


def test_it_is_over_after_a_week_without_another() -> None:
    stage = fleet()
    for _ in range(3):
        restarts(stage, "e3")
        stage.run(DAY_MIN)
    assert "repeat_crash e3" in stage.open
    stage.run(7 * DAY_MIN)
    assert "repeat_crash e3" not in stage.open


def test_three_in_three_weeks_are_not_it() -> None:
    stage = fleet()
    for _ in range(3):
        restarts(stage, "e3")
        stage.run(5 * DAY_MIN)
    assert "repeat_crash e3" not in stage.open


def test_restarts_that_someone_planned_do_not_count() -> None:
    stage = fleet()
    for _ in range(4):
        state(stage, "e3", "drain")
        stage.run(60)
        restarts(stage, "e3")
        state(stage, "e3", "idle")
        stage.run(DAY_MIN)
    assert "repeat_crash e3" not in stage.open


def test_restarts_of_many_at_once_do_not_count() -> None:
    stage = fleet()
    for _ in range(4):
        restarts(stage, "e1", "e2", "e3", "e4")
        stage.run(DAY_MIN)
    assert not [key for key in stage.open if key.startswith("repeat_crash")]


def test_a_node_that_restarts_every_few_hours_is_told_the_same_day() -> None:
    stage = fleet()
    for _ in range(3):
        restarts(stage, "e3")
        stage.run(180)
    assert "repeat_crash e3" in stage.open


def test_a_node_that_comes_back_slowly_crashed_once() -> None:
    stage = fleet()
    said = {key: value for key, value in stage.said.items() if key[0] == "e3"}
    stage.silent("e3")
    state(stage, "e3", "down")
    stage.run(120)
    stage.said |= {key: value for key, value in said.items() if key[2] == "node_load1"}
    stage.run(60)
    state(stage, "e3", "idle")
    stage.says("e3", "", node_boot_time_seconds=stage.now.timestamp() - 1800)
    stage.run(60)
    assert "node_crash e3" in stage.open
    crash = stage.standing.folds["crash"]
    assert [len(times) for times in crash["past"].values()] == [1]


def test_a_node_that_flickers_while_it_is_down_crashed_once() -> None:
    stage = fleet()
    said = {key: value for key, value in stage.said.items() if key[0] == "e3"}
    state(stage, "e3", "down")
    for _ in range(6):
        stage.silent("e3")
        stage.run(120)
        stage.said |= said
        stage.run(60)
    assert [len(times) for times in stage.standing.folds["crash"]["past"].values()] == [1]
