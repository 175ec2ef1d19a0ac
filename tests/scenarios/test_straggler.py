import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scenarios.job_fleet import WELL, Host, Hosts, JobFleet, Shift, shifts

from bigiron.detect.straggler.among import among
from bigiron.model import ActionKind, Blame, Job, NodeState, Severity, When

BAD = "n05"
PAST_H = 72.0
DEADLINE_H = 96.0


def one(late: float = 0.0, slow: float = 0.0, load: float = 0.0, node: str = BAD) -> Hosts:
    """A single node that is not well."""

    def how(_hour: float, name: str, _job: Job) -> Host:
        return Host(late=late, slow=slow, load=load) if name == node else WELL

    return how


def late_for(share: float) -> float:
    """The wait for the host, in healthy steps, that makes a job so much slower."""
    return share / (1 - share)


@pytest.mark.parametrize("share", [0.03, 0.05, 0.1])
@pytest.mark.parametrize("noise", [0.002, 0.02])
def test_a_slow_host_is_found_in_time_and_its_victims_are_not_blamed(
    share: float, noise: float
) -> None:
    fleet = JobFleet(noise=noise)
    fleet.run(PAST_H)
    assert fleet.told == set()
    fleet.run(DEADLINE_H, one(late_for(share)))
    assert set(fleet.warned) == {BAD}
    assert fleet.told == {BAD}


def test_the_finding_says_who_waits_for_whom_in_which_jobs_and_since_when() -> None:
    fleet = JobFleet()
    fleet.run(PAST_H)
    fleet.run(60, one(late_for(0.1), load=20))
    finding = fleet.found[BAD]
    assert (finding.fault, finding.subject.key, finding.subject.kind) == ("straggler", BAD, "node")
    assert (finding.severity, finding.blame) == (Severity.WARNING, Blame.HOST)
    assert (finding.action, finding.when) == (ActionKind.CHECK, When.JOB_END)
    said = " ".join(finding.because)
    assert f"The GPUs of {BAD} idle 12% of the time while the other ranks wait for them" in said
    assert "(peers 2%, own past 2%), in " in said
    assert " different jobs, since 2026-05-0" in said
    assert "Its load average is 36 (peers 16, own past 16)." in said
    assert finding.since is not None
    assert abs((finding.since - fleet.now).total_seconds() / 3600 + 60) < 12
    shown = next(e for e in finding.evidence if e.metric == "gpu_utilization_ratio")
    assert shown.value is not None
    assert shown.peer is not None
    assert shown.value < shown.peer - 0.08
    assert shown.past == pytest.approx(shown.peer, abs=0.01)


def test_jobs_of_uneven_stages_raise_nothing() -> None:
    def halves(_hour: float, node: str, job: Job) -> Host:
        second = job.nodes.index(node) >= len(job.nodes) / 2
        return Host(lighter=0.3) if second and int(job.id) % 3 == 0 else WELL

    fleet = JobFleet()
    fleet.run(PAST_H + DEADLINE_H, halves)
    assert fleet.told == set()


def test_one_odd_stage_of_one_program_is_the_programs_however_often_it_restarts() -> None:
    def again() -> Iterator[Shift]:
        usual = shifts([f"n{i:02d}" for i in range(16)])
        for _ in range(9):
            yield next(usual)
        while True:
            teams = [[f"n{i:02d}" for i in range(low, low + 4)] for low in (0, 4, 8, 12)]
            yield Shift(8, teams, ["u1", "u2", "u3", "u4"])

    def last_idles(hour: float, node: str, job: Job) -> Host:
        odd = hour > PAST_H and job.user == "u2" and node == job.nodes[-1]
        return Host(late=0.1) if odd else WELL

    fleet = JobFleet(work=again())
    fleet.run(PAST_H + DEADLINE_H, last_idles)
    assert fleet.warned == {}


def long_job() -> Iterator[Shift]:
    """A past of mixed jobs, then one of four days."""
    usual = shifts([f"n{i:02d}" for i in range(16)])
    for _ in range(9):
        yield next(usual)
    yield Shift(96, [[f"n{i:02d}" for i in range(8)], [f"n{i:02d}" for i in range(8, 16)]], "ab")
    yield from usual


def test_what_a_job_has_from_its_start_is_told_at_most() -> None:
    fleet = JobFleet(work=long_job())
    fleet.run(PAST_H)
    fleet.run(96, one(0.1))
    assert fleet.warned == {}


def test_what_begins_in_the_middle_of_a_job_is_the_nodes() -> None:
    fleet = JobFleet(work=long_job())
    fleet.run(PAST_H + 30)
    fleet.run(30, one(0.1))
    assert set(fleet.warned) == {BAD}
    assert "which began in the middle of job 1036" in fleet.found[BAD].because[0]
    assert fleet.told == {BAD}


def test_a_job_in_which_everyone_waits_blames_nobody() -> None:
    def stalled(hour: float, _node: str, job: Job) -> Host:
        return Host(late=0.4 if int(job.id) % 2 and hour % 5 > 2 else 0.0)

    fleet = JobFleet()
    fleet.run(PAST_H)
    fleet.run(DEADLINE_H, stalled)
    assert fleet.told == set()


def test_a_node_that_computes_while_the_others_wait_is_found_and_they_are_not() -> None:
    fleet = JobFleet()
    fleet.run(PAST_H)
    fleet.run(DEADLINE_H, one(slow=0.1))
    assert set(fleet.warned) == {BAD}
    assert fleet.told == {BAD}
    assert f"The GPUs of {BAD} compute while the others wait" in fleet.found[BAD].because[0]


def test_step_times_told_by_the_job_show_who_computes_longer() -> None:
    fleet = JobFleet(tells_steps=True)
    fleet.run(PAST_H)
    fleet.run(60, one(slow=0.06))
    assert fleet.told == {BAD}
    assert "compute 3.18 s a step (peers 3.00 s, own past 3.00 s)" in " ".join(
        fleet.found[BAD].because
    )


def test_nodes_that_were_always_so_are_no_news() -> None:
    fleet = JobFleet()
    fleet.run(PAST_H + DEADLINE_H, one(0.06))
    assert fleet.warned == {}


def test_a_victim_is_not_blamed_when_its_straggler_is_repaired() -> None:
    fleet = JobFleet(8, work=shifts([f"n{i:02d}" for i in range(8)], team=2))
    fleet.run(PAST_H, one(0.1))
    fleet.run(DEADLINE_H)
    assert set(fleet.warned) <= {BAD}


def test_it_ends_when_the_node_is_well_again() -> None:
    fleet = JobFleet()
    fleet.run(PAST_H)
    fleet.run(60, one(0.1))
    assert BAD in fleet.found
    fleet.run(30)
    assert fleet.found == {}


def test_two_slow_hosts_in_one_job_do_not_clear_each_other() -> None:
    def two(_hour: float, node: str, _job: Job) -> Host:
        return Host(late={BAD: 0.06, "n09": 0.04}.get(node, 0.0))

    def together() -> Iterator[Shift]:
        usual = shifts([f"n{i:02d}" for i in range(16)])
        for _ in range(17):
            yield next(usual)
        yield Shift(72, [[BAD, "n09", "n01", "n02", "n03"]], ["u1"])

    fleet = JobFleet(work=together())
    fleet.run(PAST_H)
    fleet.run(64, two)
    assert set(fleet.warned) == {BAD, "n09"}
    fleet.run(48, two)
    assert set(fleet.found) == {BAD, "n09"}


def test_silence_is_not_recovery() -> None:
    fleet = JobFleet()
    fleet.run(PAST_H)
    fleet.run(60, one(0.1))
    fleet.silent = set(fleet.nodes)
    fleet.run(48)
    assert set(fleet.found) == {BAD}


def test_what_was_held_against_a_node_is_dropped_when_it_comes_back_from_a_drain() -> None:
    fleet = JobFleet()
    fleet.run(PAST_H)
    fleet.run(60, one(0.1))
    fleet.states[BAD] = NodeState(BAD, "drain")
    fleet.run(1)
    assert BAD in fleet.found
    fleet.states[BAD] = NodeState(BAD, "idle")
    fleet.run(1)
    assert fleet.found == {}


def test_parts_of_nodes_and_shared_nodes_are_not_compared() -> None:
    def beside() -> Iterator[Shift]:
        nodes = [f"n{i:02d}" for i in range(16)]
        for shift in shifts(nodes):
            yield Shift(shift.hours, [*shift.teams, nodes], [*shift.users, "guest"])

    fleet = JobFleet(work=beside())
    fleet.run(PAST_H)
    fleet.run(DEADLINE_H, one(0.2))
    assert fleet.told == set()


def test_a_restart_in_the_middle_changes_nothing() -> None:
    straight, stopped = JobFleet(), JobFleet()
    for fleet in (straight, stopped):
        fleet.run(PAST_H)
        for _ in range(12):
            fleet.run(5, one(0.08))
            if fleet is stopped:
                fleet.restart()
    assert straight.found == stopped.found != {}
    assert straight.warned == stopped.warned


def test_the_order_of_nodes_and_jobs_does_not_matter() -> None:
    found = []
    for seed in (None, 5):
        fleet = JobFleet(noise=0.0)
        if seed is not None:
            names = list(fleet.nodes)
            random.Random(seed).shuffle(names)
            fleet.nodes = tuple(names)
        fleet.run(PAST_H)
        fleet.run(60, one(0.08))
        found.append((set(fleet.found), fleet.warned))
    assert found[0] == found[1]


def test_a_node_that_joins_keeps_what_is_known_of_the_others() -> None:
    fleet = JobFleet()
    fleet.run(PAST_H)
    fleet.run(60, one(0.1))
    fleet.nodes = ("a00", *fleet.nodes)
    fleet.run(6, one(0.1))
    assert set(fleet.found) == {BAD}


VALUES = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.just(float("nan")), st.floats(-9, 9, width=32))),
    min_size=1,
    max_size=24,
)


@given(VALUES)
def test_each_among_the_others_is_as_counted_one_by_one(rows: list[tuple[int, float]]) -> None:
    group = np.array([g for g, _ in rows])
    value = np.array([[v] for _, v in rows])
    found = among(value, group)
    for i in range(len(rows)):
        others = sorted(v for j, (g, v) in enumerate(rows) if j != i and g == group[i] and v == v)
        if not others or value[i, 0] != value[i, 0]:
            assert np.isnan(found.median[i, 0])
            assert np.isnan(found.high[i, 0])
            continue
        assert found.others[i, 0] == len(others)
        assert found.median[i, 0] == pytest.approx(np.median(others))
        alike = max(1, -(-len(others) // 20))
        assert found.high[i, 0] == others[-alike]
        assert found.low[i, 0] == others[alike - 1]


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(
    rows: list[tuple[int, float]], rng: random.Random
) -> None:
    order = list(range(len(rows)))
    rng.shuffle(order)
    group, value = np.array([g for g, _ in rows]), np.array([[v] for _, v in rows])
    one_way, other = among(value, group), among(value[order], group[order])
    for name in ("median", "high", "low", "others"):
        assert np.array_equal(getattr(one_way, name)[order], getattr(other, name), equal_nan=True)
