"""Whose a failing program is: the user's wherever it runs, the device's whoever runs there."""

from datetime import timedelta

import pytest
from tests.scenarios.stage import Stage

from bigiron.model import ActionKind, Blame, Change, Health, Job, Severity

NODES = tuple(f"a{n}" for n in range(1, 13))


def fleet() -> Stage:
    return Stage(NODES)


def run_job(
    stage: Stage,
    id_: str,
    user: str,
    nodes: tuple[str, ...],
    *,
    fails: str = "",
    device: str = "gpu2",
    code: str = "xid.31",
) -> None:
    """Ten minutes of a job; it fails on every node, or on the one named."""
    start = stage.now
    stage.take(jobs=(Job(id_, "RUNNING", user, start=start, nodes=nodes),))
    stage.run(9)
    for node in nodes if fails == "all" else filter(None, (fails,)):
        stage.happens(node, code, device)
    stage.run()
    ended = Job(id_, "FAILED" if fails else "COMPLETED", user, start=start, nodes=nodes)
    stage.take(jobs=(Job(ended.id, ended.state, user, start=start, end=stage.now, nodes=nodes),))
    stage.run()


def test_a_user_who_fails_on_five_disjoint_node_sets_is_one_finding_of_the_user() -> None:
    stage = fleet()
    for n in range(5):
        pair = NODES[2 * n : 2 * n + 2]
        run_job(stage, str(n), "uma", pair, fails="all", device=f"gpu{n}")
    finding = stage.open["program_failure user:uma"]
    assert list(stage.open) == ["program_failure user:uma"]
    assert (finding.severity, finding.blame) == (Severity.INFO, Blame.APPLICATION)
    assert finding.because[0].startswith(
        "5 of 5 jobs of user uma failed with errors of their own within a day, on 10 nodes"
    )
    assert set(finding.subject.members) == set(NODES[:10])
    assert {stage.health(node) for node in NODES} == {Health.HEALTHY}
    assert stage.actions == []


def test_a_device_that_fails_three_users_who_are_fine_elsewhere_is_blamed() -> None:
    stage = fleet()
    for n, user in enumerate(("ann", "bob", "cy")):
        for k in range(3):
            run_job(stage, f"{user}{k}", user, NODES[3 * n + k + 1 : 3 * n + k + 3])
    assert stage.open == {}
    for user in ("ann", "bob", "cy"):
        run_job(stage, f"{user}-bad", user, ("a1",), fails="a1")
    finding = stage.open["xid.31 a1/gpu2"]
    assert list(stage.open) == ["xid.31 a1/gpu2"]
    assert (finding.blame, finding.action) == (Blame.DEVICE, ActionKind.CHECK)
    assert finding.severity is Severity.WARNING
    assert stage.health("a1") is Health.DEGRADED
    assert {stage.health(node) for node in NODES[1:]} == {Health.HEALTHY}


def test_users_who_fail_everywhere_do_not_make_a_device_bad_that_they_share() -> None:
    stage = fleet()
    for n, user in enumerate(("ann", "bob", "cy")):
        run_job(stage, f"{user}0", user, ("a1",), fails="a1")
        for k in range(3):
            run_job(stage, f"{user}{k + 1}", user, (NODES[3 * n + k + 1],), fails="all")
    assert {f.blame for f in stage.open.values()} == {Blame.APPLICATION}
    assert set(stage.open) == {f"program_failure user:{user}" for user in ("ann", "bob", "cy")}
    assert stage.health("a1") is Health.HEALTHY


def test_a_node_on_which_everybody_tries_things_out_is_not_blamed_for_it() -> None:
    stage = fleet()
    for n in range(12):
        for user in ("ann", "bob", "cy", "dee"):
            fails = "a1" if n % 3 == 2 and user != "dee" else ""
            run_job(stage, f"{user}{n}", user, ("a1",), fails=fails)
    assert {f.blame for f in stage.open.values()} == {Blame.APPLICATION}
    told = [c.finding.blame for outcome in stage.outcomes for c in outcome.changes]
    assert Blame.DEVICE not in told
    assert stage.health("a1") is Health.HEALTHY


def test_one_job_that_fails_on_three_nodes_is_one_finding_of_the_job() -> None:
    stage = fleet()
    run_job(stage, "77", "ann", NODES[:4], fails="all")
    assert list(stage.open) == ["program_failure job:77"]
    assert "Job 77" in stage.open["program_failure job:77"].because[0]


def test_a_job_that_fails_on_one_node_is_told_of_that_node_and_blames_nobody() -> None:
    stage = fleet()
    run_job(stage, "77", "ann", ("a1",), fails="a1")
    assert list(stage.open) == ["xid.31 a1/gpu2"]
    assert stage.open["xid.31 a1/gpu2"].blame is Blame.APPLICATION


def test_jobs_that_fail_again_and_again_on_the_same_nodes_are_not_elsewhere() -> None:
    stage = fleet()
    for n in range(5):
        run_job(stage, str(n), "uma", ("a1", "a2"), fails="all")
    assert {f.subject.by for f in stage.open.values()} == {""}


def test_jobs_that_a_user_ended_are_no_failures() -> None:
    stage = fleet()
    for n in range(5):
        run_job(stage, str(n), "uma", (NODES[n],), fails="all", code="xid.45")
    assert {f.subject.by for f in stage.open.values()} == {""}
    assert {f.severity for f in stage.open.values()} == {Severity.INFO}


def test_another_users_trouble_on_the_same_device_is_still_told() -> None:
    stage = fleet()
    run_job(stage, "x", "bob", ("a1",), fails="a1")
    for n in range(3):
        run_job(stage, str(n), "uma", (NODES[n],), fails="all")
    assert set(stage.open) == {"program_failure user:uma", "xid.31 a1/gpu2"}


def test_it_ends_a_day_after_the_last_failure() -> None:
    stage = fleet()
    for n in range(3):
        run_job(stage, str(n), "uma", (NODES[n],), fails="all")
    stage.step = timedelta(minutes=30)
    stage.run(60 * 25)
    assert stage.open == {}
    assert stage.changes(Change.CLOSE).count("program_failure") == 1


@pytest.mark.parametrize("code", ["xid.13", "xid.31", "xid.43", "xid.45"])
def test_a_code_of_programs_never_blames_a_node_by_itself(code: str) -> None:
    stage = fleet()
    for gpu in range(8):
        stage.happens("a1", code, f"gpu{gpu}", ago_s=gpu)
    stage.run()
    assert {f.blame for f in stage.open.values()} == {Blame.APPLICATION}
    assert {f.severity for f in stage.open.values()} == {Severity.INFO}
    assert stage.health("a1") is Health.HEALTHY


def test_on_a_shared_node_it_is_the_job_that_failed_there_and_then() -> None:
    stage = fleet()
    others = tuple(Job(f"o{n}", "RUNNING", "bob", start=stage.now, nodes=(n,)) for n in NODES)
    stage.take(jobs=others)
    for n in range(3):
        run_job(stage, str(n), "uma", (NODES[n],), fails="all")
    stage.run(2)
    assert list(stage.open) == ["program_failure user:uma"]


def test_a_switch_and_a_memory_limit_tell_nothing_of_programs_that_fail_everywhere() -> None:
    stage = fleet()
    for n in range(4):
        for code in ("kernel.oom_cgroup", "sxid.12028"):
            run_job(stage, f"{code}{n}", "uma", (NODES[n],), fails="all", code=code)
    assert {f.subject.by for f in stage.open.values()} == {""}
