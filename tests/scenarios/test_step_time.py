import random
from collections.abc import Callable, Iterator

from bigiron.detect.step_time import StepTime, findings, slow_ranks
from bigiron.model import Severity


def job(
    *,
    stages: int = 4,
    replicas: int = 4,
    steps: int = 40,
    slower: Callable[[int, int, int], float] = lambda _step, _stage, _replica: 1.0,
    seed: int = 2,
) -> list[StepTime]:
    return list(_job(stages, replicas, steps, slower, random.Random(seed)))


def _job(
    stages: int,
    replicas: int,
    steps: int,
    slower: Callable[[int, int, int], float],
    rng: random.Random,
) -> Iterator[StepTime]:
    for step in range(steps):
        for stage in range(stages):
            for replica in range(replicas):
                rank = stage * replicas + replica
                time = 3.0 * (1.6 if stage == stages - 1 else 1.0) * rng.lognormvariate(0, 0.01)
                time *= slower(step, stage, replica)
                yield StepTime(step, rank, stage, replica, time, f"w{rank // 2:02d}")


def test_unequal_stages_blame_nobody() -> None:
    assert slow_ranks(job()) == []


def test_only_the_slow_rank_is_named() -> None:
    (slow,) = slow_ranks(job(slower=lambda _, s, r: 1.3 if (s, r) == (1, 2) else 1.0))
    assert (slow.rank, slow.stage, slow.replica, slow.peers) == (6, 1, 2, 3)
    assert 1.27 < slow.ratio < 1.33


def test_a_rank_that_becomes_slow_is_dated() -> None:
    def later(step: int, stage: int, replica: int) -> float:
        return 1.15 if step >= 12 and (stage, replica) == (3, 0) else 1.0

    (slow,) = slow_ranks(job(slower=later))
    assert slow.rank == 12
    assert abs(slow.since_step - 12) <= 2


def test_single_long_steps_and_small_differences_are_nothing() -> None:
    def now_and_then(step: int, stage: int, replica: int) -> float:
        return 2.5 if step % 4 == 0 and (stage, replica) == (0, 0) else 1.0

    assert slow_ranks(job(slower=now_and_then)) == []
    assert slow_ranks(job(slower=lambda _, s, r: 1.03 if (s, r) == (0, 0) else 1.0)) == []


def test_a_slow_step_of_the_whole_job_is_nobodys() -> None:
    assert slow_ranks(job(slower=lambda step, _, __: 1.5 if step > 10 else 1.0)) == []


def test_a_rank_that_has_recovered_is_no_longer_named() -> None:
    def early(step: int, stage: int, replica: int) -> float:
        return 1.3 if step < 20 and (stage, replica) == (2, 2) else 1.0

    assert slow_ranks(job(steps=200, slower=early)) == []


def test_too_few_steps_and_no_peers_say_nothing() -> None:
    def slow(_step: int, stage: int, replica: int) -> float:
        return 2.0 if (stage, replica) == (1, 0) else 1.0

    assert slow_ranks(job(steps=4, slower=slow)) == []
    assert slow_ranks(job(replicas=1, slower=slow)) == []
    assert slow_ranks([]) == []
    assert slow_ranks([StepTime(1, 0, 0, 0, 0.0)]) == []


def test_order_of_the_input_does_not_matter() -> None:
    times = job(slower=lambda _, s, r: 1.2 if (s, r) == (1, 1) else 1.0)
    mixed = times[:]
    random.Random(7).shuffle(mixed)
    assert slow_ranks(mixed) == slow_ranks(times)


def test_a_finding_blames_the_node_and_says_by_how_much() -> None:
    times = job(slower=lambda _, s, r: 1.1 if (s, r) == (1, 2) else 1.0)
    (finding,) = findings(times, "8817")
    assert (finding.fault, finding.subject.key) == ("straggler", "w03")
    assert finding.severity is Severity.WARNING
    assert "1.10 times as long as the 3 other ranks of its pipeline stage" in finding.because[0]


def test_with_one_peer_either_may_be_the_odd_one() -> None:
    times = job(replicas=2, slower=lambda _, s, r: 1.5 if (s, r) == (0, 1) else 1.0)
    (finding,) = findings(times, "8818")
    assert finding.severity is Severity.CRITICAL
    assert finding.confidence < 0.7
    assert "the only other rank of its pipeline stage" in finding.because[0]
    assert "Either may be the odd one" in finding.because[0]


def test_a_rank_without_a_known_node_gives_no_finding() -> None:
    nameless = [
        StepTime(t.step, t.rank, t.stage, t.replica, t.compute_s)
        for t in job(slower=lambda _, s, r: 1.5 if (s, r) == (0, 1) else 1.0)
    ]
    assert len(slow_ranks(nameless)) == 1
    assert findings(nameless, "1") == []
