"""Parts and nodes that fail again and again: what is counted, over which time, and what is not."""

from datetime import timedelta

import pytest
from tests.scenarios.stage import Stage

from bigiron.detect.repeat.rows import RULES
from bigiron.hub.turn import Settings
from bigiron.model import ActionKind, Batch, Blame, Change, Device, Finding, NodeState, Severity

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
NODES = tuple(f"a{n}" for n in range(1, 9))


def fleet(nodes: tuple[str, ...] = NODES) -> Stage:
    stage = Stage(nodes, step_s=600)
    for node in nodes:
        state(stage, node, "alloc")
    return stage


def state(stage: Stage, node: str, word: str, reason: str = "") -> None:
    stage.take(states=(NodeState(node, word, reason, "ops", since=stage.now, time=stage.now),))


def passes(stage: Stage, seconds: float) -> None:
    """So much time, in two turns: nothing happens in it."""
    stage.now += timedelta(seconds=max(0.0, seconds - 1200))
    stage.turn()
    stage.run(20)


def repeats(stage: Stage) -> dict[str, Finding]:
    return {key: f for key, f in stage.open.items() if f.detector == "repeat"}


def out_and_back(stage: Stage, node: str, hours: float = 2) -> None:
    state(stage, node, "drain", "to be looked at")
    passes(stage, hours * HOUR_S)
    state(stage, node, "idle")
    passes(stage, HOUR_S)


# --- five fatal faults of one part in a day


def test_five_fatal_faults_of_one_part_in_a_day_ask_for_its_repair() -> None:
    stage = fleet()
    for nth in range(5):
        assert repeats(stage) == {}
        stage.happens("a1", "xid.48", "gpu3")
        passes(stage, 4 * HOUR_S if nth < 4 else 600)
    (finding,) = repeats(stage).values()
    assert (finding.fault, finding.subject.key) == ("repeat_part", "a1/gpu3")
    assert (finding.severity, finding.action) == (Severity.CRITICAL, ActionKind.REPAIR)
    assert finding.blame is Blame.DEVICE
    assert finding.because[0] == "GPU 3 of a1 had fatal faults 5 times in 16 hours (XID 48)."
    assert len(finding.evidence) == 5


def test_faults_of_several_codes_of_one_part_count_together() -> None:
    stage = fleet()
    for code in ("xid.48", "xid.95", "xid.62", "xid.140", "xid.143"):
        stage.happens("a1", code, "gpu3")
        passes(stage, 4 * HOUR_S)
    assert list(repeats(stage)) == ["repeat_part a1/gpu3"]


def test_four_in_a_day_or_five_in_two_are_not_it() -> None:
    stage = fleet()
    for _ in range(5):
        stage.happens("a1", "xid.48", "gpu3")
        passes(stage, 7 * HOUR_S)
    assert repeats(stage) == {}


def test_a_burst_is_one() -> None:
    stage = fleet()
    for second in range(40):
        stage.happens("a1", "xid.48", "gpu3", ago_s=400 - 10 * second)
    stage.run(20)
    assert repeats(stage) == {}


def test_what_is_never_dealt_with_goes_on_speaking_and_is_one() -> None:
    stage = fleet()
    for _ in range(20):
        stage.happens("a1", "xid.79", "gpu3")
        stage.run(50)
    assert repeats(stage) == {}


def test_what_follows_from_a_fault_is_not_another_even_in_the_next_poll() -> None:
    stage = fleet()
    for _ in range(2):
        stage.happens("a1", "xid.48", "gpu3", ago_s=5)
        stage.run(10)
        for code in ("xid.95", "xid.64", "xid.45", "xid.154"):
            stage.happens("a1", code, "gpu3", ago_s=595)
        stage.happens("a1", "recovery.1", "gpu3", ago_s=594)
        passes(stage, 5 * HOUR_S)
    assert {f.fault for f in repeats(stage).values()} <= {"repeat_remap"}


def test_other_gpus_of_the_node_do_not_add_up_to_one_part() -> None:
    stage = fleet()
    for gpu in range(4):
        stage.happens("a1", "xid.48", f"gpu{gpu}")
        passes(stage, 4 * HOUR_S)
    assert repeats(stage) == {}


def test_a_program_that_fails_is_never_counted() -> None:
    stage = fleet()
    for _ in range(30):
        for code in ("xid.13", "xid.31", "xid.43", "xid.45"):
            stage.happens("a1", code, "gpu3", ago_s=5)
        stage.run(40)
    assert repeats(stage) == {}


# --- the same after each reset


@pytest.mark.parametrize("cure", ["kernel.reboot", "recovery.0"])
def test_the_same_fault_after_two_resets_asks_for_repair(cure: str) -> None:
    stage = fleet()
    for nth in range(3):
        assert repeats(stage) == {}
        stage.happens("a1", "xid.74", "gpu3")
        passes(stage, DAY_S)
        if nth < 2:
            stage.happens("a1", cure, "gpu3" if cure == "recovery.0" else "")
            passes(stage, DAY_S)
    (finding,) = repeats(stage).values()
    assert finding.fault == "repeat_part"
    assert finding.blame is Blame.LINK
    assert "again after each of 2 restarts or resets" in finding.because[0]


def test_a_boot_that_only_a_metric_tells_parts_them_too() -> None:
    stage = fleet()
    booted = stage.now.timestamp() - DAY_S
    for _ in range(3):
        stage.says("a1", "", node_boot_time_seconds=booted)
        stage.run(20)
        stage.happens("a1", "xid.119", "gpu3")
        passes(stage, DAY_S)
        booted = stage.now.timestamp() - 300
    assert list(repeats(stage)) == ["repeat_part a1/gpu3"]


def test_the_same_fault_without_a_reset_between_is_not_after_a_reset() -> None:
    stage = fleet()
    for _ in range(4):
        stage.happens("a1", "xid.74", "gpu3")
        passes(stage, DAY_S)
    assert repeats(stage) == {}


def test_resets_of_another_gpu_part_nothing() -> None:
    stage = fleet()
    for _ in range(4):
        stage.happens("a1", "xid.74", "gpu3")
        passes(stage, DAY_S)
        stage.happens("a1", "recovery.0", "gpu5")
        passes(stage, 2 * HOUR_S)
    assert repeats(stage) == {}


def test_three_over_more_than_a_week_are_not_it() -> None:
    stage = fleet()
    for _ in range(3):
        stage.happens("a1", "xid.74", "gpu3")
        passes(stage, 2 * DAY_S)
        stage.happens("a1", "kernel.reboot")
        passes(stage, 2 * DAY_S)
    assert repeats(stage) == {}


# --- came back and failed again


def test_a_part_that_came_back_and_fails_the_same_way_asks_for_repair() -> None:
    stage = fleet()
    stage.happens("a1", "xid.119", "gpu3")
    stage.run(20)
    out_and_back(stage, "a1", hours=20)
    passes(stage, 5 * DAY_S)
    assert repeats(stage) == {}
    stage.happens("a1", "xid.119", "gpu3")
    stage.run(10)
    (finding,) = repeats(stage).values()
    assert finding.fault == "repeat_part"
    assert finding.action is ActionKind.REPAIR
    assert finding.because[0].startswith("GPU 3 of a1 was taken out of service and put back, and")


@pytest.mark.parametrize(("code", "device"), [("xid.79", "gpu3"), ("xid.119", "gpu4")])
def test_another_fault_or_another_part_after_the_return_is_new(code: str, device: str) -> None:
    stage = fleet()
    stage.happens("a1", "xid.119", "gpu3")
    stage.run(20)
    out_and_back(stage, "a1")
    passes(stage, 3 * DAY_S)
    stage.happens("a1", code, device)
    stage.run(10)
    assert repeats(stage) == {}


def test_the_same_after_fifteen_days_is_told_only_at_the_third_time() -> None:
    stage = fleet()
    for nth in range(3):
        stage.happens("a1", "xid.119", "gpu3")
        stage.run(20)
        assert bool(repeats(stage)) == (nth == 2)
        out_and_back(stage, "a1")
        passes(stage, 14.2 * DAY_S)


def test_what_comes_while_the_node_is_out_of_service_is_not_counted() -> None:
    stage = fleet()
    stage.happens("a1", "xid.48", "gpu3")
    stage.run(20)
    state(stage, "a1", "drain", "GPU 3")
    passes(stage, HOUR_S)
    for _ in range(6):  # somebody tests it
        stage.happens("a1", "xid.48", "gpu3")
        stage.happens("a1", "kernel.reboot")
        passes(stage, HOUR_S)
    assert repeats(stage) == {}


# --- nodes


def test_fatal_faults_of_several_parts_of_one_node_are_the_nodes() -> None:
    stage = fleet()
    for gpu in range(5):
        stage.happens("a1", "xid.48", f"gpu{gpu}")
        passes(stage, DAY_S)
    (finding,) = repeats(stage).values()
    assert (finding.fault, finding.subject.key) == ("repeat_node", "a1")
    assert finding.blame is Blame.HOST
    assert "5 parts" in finding.because[0]


def test_three_triages_in_a_week_are_too_many() -> None:
    stage = fleet()
    for nth, gpu in enumerate(("gpu1", "gpu2", "gpu5")):
        assert repeats(stage) == {}
        stage.happens("a1", "xid.94", gpu)
        stage.run(20)
        state(stage, "a1", "drain", "xid 94")
        passes(stage, 6 * HOUR_S)
        if nth < 2:
            state(stage, "a1", "idle")
            passes(stage, DAY_S)
    (finding,) = repeats(stage).values()
    assert finding.fault == "repeat_node"
    assert "taken out of service with a fault 3 times" in finding.because[0]


def test_planned_turns_without_a_fault_are_no_triages() -> None:
    stage = fleet()
    for _ in range(5):
        out_and_back(stage, "a1", hours=5)
        passes(stage, DAY_S)
    assert repeats(stage) == {}
    assert stage.open == {}


CRASHES = (
    ("kernel.panic", "Fatal exception in interrupt", "17"),
    ("kernel.panic", "stack-protector: Kernel stack is corrupted", "17"),
    ("kernel.oops", "", "17"),
    ("kernel.hard_lockup", "", "17"),
    ("kernel.panic", "Fatal exception in interrupt", "3"),
)


def test_crashes_of_several_kinds_in_a_month_are_the_machines_and_name_the_core() -> None:
    stage = fleet()
    for code, reason, cpu in CRASHES:
        assert repeats(stage) == {}
        stage.happens("a1", code, reason=reason, cpu=cpu)
        stage.happens("a1", "kernel.reboot", ago_s=-60)
        passes(stage, 5 * DAY_S)
    (finding,) = repeats(stage).values()
    assert (finding.fault, finding.subject.key) == ("repeat_node", "a1")
    assert "in 4 ways, 4 of them on CPU 17" in finding.because[0]


def test_crashes_that_are_all_alike_are_the_kernels_not_the_machines() -> None:
    stage = fleet()
    for nth in range(6):
        reason = f"watchdog: BUG at 0xffff88810{nth} pid {nth}"
        stage.happens("a1", "kernel.oops", reason=reason)
        stage.happens("a1", "kernel.reboot", ago_s=-60)
        passes(stage, 4 * DAY_S)
    assert repeats(stage) == {}


def test_what_comes_to_many_nodes_at_once_is_nobodys_repeat() -> None:
    stage = fleet()
    for _ in range(6):
        for node in ("a1", "a2", "a3"):
            stage.happens(node, "xid.48", "gpu3", ago_s=30)
        passes(stage, 3 * HOUR_S)
    assert repeats(stage) == {}


# --- memory rows


def test_rows_replaced_twice_in_a_week_ask_for_a_look() -> None:
    stage = fleet()
    stage.happens("a1", "xid.63", "gpu3")
    passes(stage, 4 * DAY_S)
    assert repeats(stage) == {}
    stage.happens("a1", "xid.63", "gpu3")
    stage.run(10)
    (finding,) = repeats(stage).values()
    assert (finding.fault, finding.severity) == ("repeat_remap", Severity.WARNING)
    assert finding.action is ActionKind.CHECK


def test_rows_replaced_after_an_error_count_as_well() -> None:
    stage = fleet()
    for _ in range(2):
        stage.happens("a1", "xid.48", "gpu3", ago_s=3)
        stage.happens("a1", "xid.63", "gpu3", ago_s=2)
        passes(stage, 3 * DAY_S)
    assert "repeat_remap a1/gpu3" in repeats(stage)


def test_rows_replaced_within_an_hour_or_after_more_than_a_week_are_one_each() -> None:
    stage = fleet()
    for _ in range(3):
        stage.happens("a1", "xid.63", "gpu3", ago_s=500)
        stage.happens("a1", "xid.63", "gpu3")
        passes(stage, 8 * DAY_S)
    assert repeats(stage) == {}


# --- how it ends, and what it survives


def failing(stage: Stage) -> None:
    for _ in range(5):
        stage.happens("a1", "xid.48", "gpu3")
        passes(stage, 4 * HOUR_S)
    assert list(repeats(stage)) == ["repeat_part a1/gpu3"]


def test_no_reset_and_no_silence_ends_it() -> None:
    stage = fleet()
    failing(stage)
    stage.happens("a1", "kernel.reboot")
    for _ in range(4):
        passes(stage, 10 * DAY_S)
    assert list(repeats(stage)) == ["repeat_part a1/gpu3"]


def test_a_persons_word_ends_it_and_old_evidence_does_not_bring_it_back() -> None:
    stage = fleet()
    failing(stage)
    (id_,) = [i for i, held in stage.standing.open.items() if held.finding.detector == "repeat"]
    stage.closes(id_)
    passes(stage, 2 * HOUR_S)
    assert repeats(stage) == {}


def test_another_part_in_its_place_ends_it() -> None:
    stage = fleet()
    failing(stage)
    new = Device("a1", "gpu3", "gpu", "GPU-new", model="Model M")
    stage.memory.take(Batch(stage.now, devices=(new,)))
    stage.run(10)
    assert repeats(stage) == {}
    (closed,) = [
        c
        for outcome in stage.outcomes
        for c in outcome.changes
        if c.change is Change.CLOSE and c.finding.detector == "repeat"
    ]
    assert "another part is there now" in closed.because


def test_a_new_part_starts_with_no_past() -> None:
    stage = fleet()
    for _ in range(4):
        stage.happens("a1", "xid.48", "gpu3")
        passes(stage, 4 * HOUR_S)
    new = Device("a1", "gpu3", "gpu", "GPU-new", model="Model M")
    stage.memory.take(Batch(stage.now, devices=(new,)))
    stage.happens("a1", "xid.48", "gpu3")
    stage.run(20)
    assert repeats(stage) == {}


def test_the_past_follows_a_part_whose_index_moved() -> None:
    stage = fleet()
    for _ in range(4):
        stage.happens("a1", "xid.48", "gpu3")
        passes(stage, 4 * HOUR_S)
    swapped = (
        Device("a1", "gpu3", "gpu", "GPU-a1-5", model="Model M"),
        Device("a1", "gpu5", "gpu", "GPU-a1-3", model="Model M"),
    )
    stage.memory.take(Batch(stage.now, devices=swapped))
    stage.happens("a1", "xid.48", "gpu5")
    stage.run(20)
    assert list(repeats(stage)) == ["repeat_part a1/gpu5"]


def test_lines_that_come_late_and_out_of_order_count_the_same() -> None:
    told = fleet()
    failing(told)
    late = fleet()
    late.run(21 * 60)
    for ago in (1, 9, 5, 13, 17):
        late.happens("a1", "xid.48", "gpu3", ago_s=ago * HOUR_S)
    late.run(10)
    assert list(repeats(late)) == list(repeats(told))


def test_a_detector_switched_off_counts_nothing() -> None:
    stage = Stage(NODES, settings=Settings(off=("repeat",), keep_intervals=False), step_s=600)
    for _ in range(6):
        stage.happens("a1", "xid.48", "gpu3")
        passes(stage, 3 * HOUR_S)
    assert repeats(stage) == {}


def test_every_rule_says_where_it_is_from() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert len(rule.source) > 20
        assert rule.least >= 2
        assert rule.window_s <= 30 * DAY_S


def test_a_part_that_fails_often_and_another_that_fails_once_are_not_the_nodes() -> None:
    stage = fleet()
    for gpu in ("gpu1", "gpu1", "gpu1", "gpu1", "gpu5"):
        stage.happens("a1", "xid.48", gpu)
        passes(stage, 30 * HOUR_S)
    assert repeats(stage) == {}
