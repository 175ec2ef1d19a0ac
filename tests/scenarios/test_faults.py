from datetime import timedelta

import pytest
from tests.scenarios.stage import ADDRESSES, T0, Stage

from bigiron.hub.turn import Settings
from bigiron.model import ActionKind, Blame, Change, Health, Job, Severity


def test_opens_on_a_gpu_that_fell_off_the_bus_and_names_it() -> None:
    stage = Stage()
    stage.happens("a1", "xid.79", ADDRESSES[5])
    stage.run()
    finding = stage.open["xid.79 a1/gpu5"]
    assert finding.because[0].startswith("GPU 9b:00 (gpu5) fell off the bus at 2026-05-04 08:00:00")
    assert finding.severity is Severity.FATAL
    assert stage.health("a1") is Health.UNHEALTHY


def test_what_follows_from_a_lost_gpu_is_its_evidence_not_more_findings() -> None:
    stage = Stage()
    stage.happens("a1", "xid.79", "gpu5", ago_s=30)
    for link in range(3):
        stage.happens("a1", "sxid.20034", "0000:06:00.0", ago_s=18 - link, switch="nvswitch1")
    stage.happens("a1", "xid.154", "gpu5", ago_s=17)
    stage.happens("a1", "xid.45", "gpu2", ago_s=16)
    stage.happens("a1", "xid.74", "gpu2", ago_s=15)
    stage.run()
    assert list(stage.open) == ["xid.79 a1/gpu5"]
    text = stage.open["xid.79 a1/gpu5"].because[0]
    assert "3 NVSwitch faults (SXid 20034) 12 s later" in text
    assert "follow from it" in text


def test_switch_faults_without_a_lost_gpu_stand_for_themselves() -> None:
    stage = Stage()
    stage.happens("a1", "sxid.20034", "0000:06:00.0", switch="nvswitch1")
    stage.run()
    assert list(stage.open) == ["sxid.20034 a1/nvswitch1"]


def test_a_switch_error_the_switch_calls_non_fatal_never_lowers_the_node() -> None:
    stage = Stage()
    stage.happens("a1", "sxid.12028", switch="nvswitch1", severity_word="Non-fatal")
    stage.run()
    assert stage.open["sxid.12028 a1/nvswitch1"].severity is Severity.INFO
    assert stage.health("a1") is Health.HEALTHY


def test_a_memory_error_and_its_consequences_are_one_incident() -> None:
    stage = Stage()
    for ago_s, code in ((9, "xid.48"), (8, "xid.171"), (7, "xid.63"), (6, "xid.94"), (5, "xid.45")):
        stage.happens("a1", code, "gpu0", ago_s=ago_s)
    stage.happens("a1", "recovery.4", "gpu0", ago_s=4)
    stage.run()
    assert list(stage.open) == ["xid.48 a1/gpu0"]


def test_a_consequence_that_is_worse_than_its_cause_raises_the_incident() -> None:
    stage = Stage()
    stage.happens("a1", "xid.94", "gpu0", ago_s=9)
    stage.run()
    contained = stage.open["xid.94 a1/gpu0"]
    stage.happens("a1", "xid.95", "gpu0")
    stage.run()
    uncontained = stage.open["xid.94 a1/gpu0"]
    assert uncontained.severity.rank > contained.severity.rank
    assert stage.changes(Change.UPDATE) == ["xid.94"]


def test_both_ends_of_a_link_are_one_incident() -> None:
    stage = Stage()
    stage.happens("a1", "xid.74", "gpu1", ago_s=5)
    stage.happens("a1", "xid.74", "gpu6", ago_s=4)
    stage.run()
    assert list(stage.open) == ["xid.74 a1/gpu1"]


def test_the_same_fault_on_three_devices_at_once_is_about_the_node() -> None:
    stage = Stage()
    for gpu in range(4):
        stage.happens("a1", "xid.119", f"gpu{gpu}", ago_s=20 - gpu)
    stage.run()
    assert list(stage.open) == ["xid.119 a1"]
    assert "4 GPUs (gpu0, gpu1, gpu2, gpu3)" in stage.open["xid.119 a1"].because[0]


def test_device_findings_close_when_they_turn_out_to_be_about_the_node() -> None:
    stage = Stage()
    stage.happens("a1", "xid.119", "gpu0", ago_s=20)
    stage.run()
    for gpu in range(1, 4):
        stage.happens("a1", "xid.119", f"gpu{gpu}", ago_s=60)
    stage.run()
    assert list(stage.open) == ["xid.119 a1"]


def test_keeps_open_on_silence() -> None:
    stage = Stage()
    stage.happens("a1", "xid.79", "gpu5")
    stage.run()
    stage.silent("a1")
    stage.run(minutes=60 * 30)
    assert "xid.79 a1/gpu5" in stage.open


def test_closes_on_reboot_told_by_the_log() -> None:
    stage = Stage()
    stage.happens("a1", "xid.79", "gpu5")
    stage.run(10)
    stage.happens("a1", "kernel.reboot")
    outcome = stage.run()
    assert stage.open == {}
    assert outcome.changes[0].because == "the node booted at 2026-05-04 08:10:00"
    stage.run(60)
    assert stage.health("a1") is Health.HEALTHY


def test_closes_on_reboot_told_by_the_boot_time_alone() -> None:
    stage = Stage()
    stage.says("a1", "", node_boot_time_seconds=T0.timestamp() - 86_400)
    stage.happens("a1", "xid.79", "gpu5")
    stage.run(10)
    stage.says("a1", "", node_boot_time_seconds=(stage.now + timedelta(seconds=5)).timestamp())
    stage.run(1)
    assert stage.open == {}


@pytest.mark.parametrize("booted", [T0.timestamp() + 10 * 365 * 86_400, 1e300, float("inf"), -5.0])
def test_a_boot_time_that_cannot_be_closes_nothing(booted: float) -> None:
    stage = Stage()
    stage.happens("a1", "xid.79", "gpu3")
    stage.says("a1", "", node_boot_time_seconds=booted)
    outcome = stage.run(5)
    assert [f.fault for f in stage.open.values()] == ["xid.79"]
    assert [n for n in outcome.notes if "fault" in n.source] == []


def test_a_fault_after_the_reboot_opens_anew() -> None:
    stage = Stage()
    stage.happens("a1", "xid.79", "gpu5")
    stage.run(10)
    stage.happens("a1", "kernel.reboot")
    stage.run(2)
    stage.happens("a1", "xid.79", "gpu5")
    stage.run()
    assert list(stage.open) == ["xid.79 a1/gpu5"]
    assert stage.changes(Change.OPEN) == ["xid.79", "xid.79"]


def test_quiet_closes_only_while_the_node_is_heard() -> None:
    heard, deaf = Stage(), Stage()
    for stage in (heard, deaf):
        stage.happens("a1", "kernel.hung_task")
        stage.run()
        assert "kernel.hung_task a1" in stage.open
    deaf.silent("a1")
    for stage in (heard, deaf):
        stage.run(minutes=60 * 25)
    assert "kernel.hung_task a1" not in heard.open
    assert "kernel.hung_task a1" in deaf.open


def test_a_programs_fault_is_told_and_never_blamed_on_the_node() -> None:
    stage = Stage()
    stage.happens("a1", "xid.31", "gpu2", ago_s=9)
    stage.happens("a1", "xid.43", "gpu2", ago_s=8)
    stage.run()
    finding = stage.open["xid.31 a1/gpu2"]
    assert (finding.blame, finding.severity) == (Blame.APPLICATION, Severity.INFO)
    assert stage.health("a1") is Health.HEALTHY
    assert stage.actions == []


def test_a_context_switch_timeout_after_a_programs_fault_is_the_programs() -> None:
    stage = Stage()
    stage.happens("a1", "xid.13", "gpu2", ago_s=9)
    stage.happens("a1", "xid.109", "gpu2", ago_s=3)
    stage.run()
    assert list(stage.open) == ["xid.13 a1/gpu2"]
    assert stage.health("a1") is Health.HEALTHY


def test_a_programs_fault_after_which_the_driver_wants_a_reset_is_more() -> None:
    stage = Stage()
    stage.happens("a1", "xid.13", "gpu2", ago_s=9)
    stage.happens("a1", "recovery.1", "gpu2", ago_s=3)
    stage.run()
    assert set(stage.open) == {"xid.13 a1/gpu2", "recovery.1 a1/gpu2"}
    assert stage.health("a1") is not Health.HEALTHY


def job(id_: str, user: str, node: str, start_min: int) -> Job:
    start = T0 + timedelta(minutes=start_min)
    return Job(id_, "FAILED", user, start=start, end=start + timedelta(minutes=9), nodes=(node,))


def test_a_fault_that_follows_the_device_across_users_asks_for_a_check() -> None:
    stage = Stage(("a1", "a2"))
    users = ("ann", "bob", "cy")
    jobs = tuple(job(str(n), user, "a1", 10 * n) for n, user in enumerate(users))
    stage.take(jobs=(*jobs, job("9", "dee", "a2", 0)))
    stage.run(5)
    for _ in users:
        assert stage.health("a1") is Health.HEALTHY
        stage.happens("a1", "xid.31", "gpu2")
        stage.run(10)
    finding = stage.open["xid.31 a1/gpu2"]
    assert (finding.blame, finding.action) == (Blame.DEVICE, ActionKind.CHECK)


def test_two_users_who_fail_once_on_one_device_prove_nothing() -> None:
    stage = Stage(("a1", "a2"))
    stage.take(jobs=(job("1", "ann", "a1", 0), job("2", "bob", "a1", 10)))
    stage.run(5)
    for _ in range(2):
        stage.happens("a1", "xid.31", "gpu2")
        stage.run(10)
    assert {f.blame for f in stage.open.values()} == {Blame.APPLICATION}


def test_a_user_whose_programs_fail_everywhere_never_blames_a_device() -> None:
    stage = Stage(("a1", "a2"))
    stage.take(
        jobs=(
            job("1", "ann", "a1", 0),
            job("2", "bob", "a1", 10),
            job("3", "ann", "a2", 0),
            job("4", "bob", "a2", 10),
        )
    )
    for _ in range(2):
        stage.run(5)
        for node in ("a1", "a2"):
            stage.happens(node, "xid.31", "gpu2")
        stage.run(5)
    assert {f.blame for f in stage.open.values()} == {Blame.APPLICATION}
    assert stage.health("a1") is Health.HEALTHY


def test_one_link_flap_raises_nothing() -> None:
    stage = Stage()
    stage.happens("a1", "ib.link_down", "ib3", ago_s=20)
    stage.happens("a1", "ib.link_up", "ib3", ago_s=2)
    stage.run(30)
    assert stage.changes(Change.OPEN) == []


def test_a_link_that_stays_down_opens_after_a_minute_and_closes_when_it_is_up() -> None:
    stage = Stage()
    stage.happens("a1", "ib.link_down", "ib3")
    stage.run(2)
    assert stage.open["ib.link_down a1/ib3"].severity is Severity.CRITICAL
    stage.happens("a1", "ib.link_up", "ib3")
    stage.run()
    assert stage.open == {}


def test_what_an_earlier_boot_left_behind_is_a_warning_at_most() -> None:
    stage = Stage()
    stage.happens("a1", "kernel.panic", earlier_boot="yes")
    stage.run()
    finding = stage.open["kernel.panic a1"]
    assert finding.severity is Severity.WARNING
    assert finding.because[0].startswith("In an earlier boot, ")


def test_a_storm_is_one_finding_told_once() -> None:
    stage = Stage()
    for second in range(200):
        stage.happens("a1", "xid.74", "gpu1", ago_s=200 - second)
    stage.run(5)
    assert list(stage.open) == ["xid.74 a1/gpu1"]
    assert "200 times until" in stage.open["xid.74 a1/gpu1"].because[0]
    assert stage.changes(Change.OPEN) == ["xid.74"]


@pytest.mark.parametrize("code", ["xid.9999", "sxid.99999"])
def test_an_unknown_code_is_told_never_dropped(code: str) -> None:
    stage = Stage()
    stage.happens("a1", code, "gpu1")
    stage.run()
    assert [f.fault for f in stage.open.values()] == [code]


def test_a_detector_switched_off_says_nothing() -> None:
    stage = Stage(settings=Settings(off=("fault",), keep_intervals=False))
    stage.happens("a1", "xid.79", "gpu5")
    stage.run(3)
    assert stage.open == {}
