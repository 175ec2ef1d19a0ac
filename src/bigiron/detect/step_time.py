"""Slow ranks of a training job, from the compute time of each step and rank.

A rank is compared with its *stage peers* only: the ranks of the same pipeline stage in other data
parallel replicas, which do the same work on other samples. Stages differ by construction (the last
one computes the loss), so comparing all ranks of a job blames healthy nodes: of 3,079 jobs studied,
a faulty worker explained the slowdown in only 1.7 % of the slow ones, unequal stages and sequence
lengths in most others ("Understanding Stragglers in Large Model Training Using What-if Analysis",
OSDI 2025). Only compute time is of use: while one rank is slow all others wait, and a step takes as
long for the victims as for the culprit.

A rank is slow if its time is more than 5 % above the median of its stage peers in more than half
of the last steps, and the excess, summed step by step (one-sided CUSUM of the log ratio in units
of the job's own scatter), has passed a limit. The first keeps single long samples out, the second
tells when there is enough of it.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from statistics import median

from bigiron.faults import catalogue
from bigiron.model import Evidence, Finding, Severity, Subject

SLOWER = 1.05
"""A step counts as slow from this ratio to the stage peers' median."""

MOST = 0.5
"""Slow in more than this share of the last steps."""

WINDOW = 50
FEWEST = 5
"""Steps before anything is said."""

DRIFT = 0.75
"""Taken off the sum at each step, in scatters: half of the 1.5 that is to be found soon."""

CLIP = 5.0
ENOUGH = 15.0
"""At which the sum is believed."""

SCATTER_FLOOR = 0.01
"""Compute times of healthy stage peers differ by about 1 % from step to step."""

MANY = 1.2
"""From this ratio on, the job loses more than any restart costs within hours."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """One rank's compute time (seconds, forward and backward, without waiting) in one step."""

    step: int
    rank: int
    stage: int
    replica: int
    compute_s: float
    node: str = ""


@dataclass(frozen=True, slots=True)
class SlowRank:
    """A rank that holds its job up. ``ratio`` is its median over the stage peers' median."""

    rank: int
    node: str
    stage: int
    replica: int
    ratio: float
    slow_share: float
    steps: int
    since_step: int
    peers: int


@dataclass(slots=True)
class _Rank:
    of: StepTime
    ratios: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    peers: int = 0
    total: float = 0.0
    since: int | None = None


def slow_ranks(times: Iterable[StepTime]) -> list[SlowRank]:
    """The slow ranks of one job, the slowest first. Ranks without a stage peer are not judged."""
    ranks = _against_peers(times)
    scatter = _scatter(ranks)
    for rank in ranks.values():
        _accumulate(rank, scatter)
    found = [told for rank in ranks.values() if (told := _judge(rank)) is not None]
    return sorted(found, key=lambda one: (-one.ratio, one.rank))


def findings(times: Iterable[StepTime], job: str) -> list[Finding]:
    """A finding on the node of each slow rank whose node is known."""
    return [finding(one, job) for one in slow_ranks(times) if one.node]


def judged(times: Iterable[StepTime]) -> int:
    """How many ranks have a stage peer and steps enough to be told slow or not."""
    return sum(len(rank.ratios) >= FEWEST for rank in _against_peers(times).values())


def _against_peers(times: Iterable[StepTime]) -> dict[int, _Rank]:
    steps: dict[int, dict[int, list[StepTime]]] = defaultdict(lambda: defaultdict(list))
    for one in times:
        if one.compute_s > 0:
            steps[one.step][one.stage].append(one)
    ranks: dict[int, _Rank] = {}
    for step in sorted(steps):
        for stage in steps[step].values():
            for one, peers, middle in _peers(stage):
                rank = ranks.setdefault(one.rank, _Rank(one))
                rank.ratios.append(one.compute_s / middle)
                rank.steps.append(step)
                rank.peers = max(rank.peers, peers)
    return ranks


def _peers(stage: Sequence[StepTime]) -> Iterator[tuple[StepTime, int, float]]:
    """Each rank of a stage at one step, how many are in other replicas, and their median."""
    by_replica: dict[int, list[StepTime]] = defaultdict(list)
    for one in stage:
        by_replica[one.replica].append(one)
    ordered = sorted(one.compute_s for one in stage)
    for members in by_replica.values():
        left = len(stage) - len(members)
        if left == 0:
            return
        if len(members) == 1:
            middle = _median_without(ordered, members[0].compute_s)
        else:
            middle = median(o.compute_s for o in stage if o.replica != members[0].replica)
        yield from ((one, left, middle) for one in members)


def _median_without(ordered: Sequence[float], value: float) -> float:
    """The median of sorted numbers, one of which is left out."""
    place, left = bisect_left(ordered, value), len(ordered) - 1
    low, high = (left - 1) // 2, left // 2
    return (ordered[low + (low >= place)] + ordered[high + (high >= place)]) / 2


def _scatter(ranks: Mapping[int, _Rank]) -> float:
    """Of healthy ranks' log ratios: the median distance from 0, as a standard deviation."""
    distances = [abs(log(ratio)) for rank in ranks.values() for ratio in rank.ratios]
    return max(SCATTER_FLOOR, 1.4826 * median(distances)) if distances else SCATTER_FLOOR


def _accumulate(rank: _Rank, scatter: float) -> None:
    for step, ratio in zip(rank.steps, rank.ratios, strict=True):
        excess = max(-CLIP, min(CLIP, log(ratio) / scatter))
        if rank.total == 0.0:
            rank.since = step
        rank.total = min(2 * ENOUGH, max(0.0, rank.total + excess - DRIFT))


def _judge(rank: _Rank) -> SlowRank | None:
    last = rank.ratios[-WINDOW:]
    share = sum(ratio > SLOWER for ratio in last) / len(last)
    if len(last) < FEWEST or share <= MOST or rank.total < ENOUGH or rank.since is None:
        return None
    of = rank.of
    return SlowRank(
        of.rank,
        of.node,
        of.stage,
        of.replica,
        median(last),
        share,
        len(last),
        rank.since,
        rank.peers,
    )


def finding(slow: SlowRank, job: str) -> Finding:
    """What is wrong with a slow rank's node; with the job, where its node is not known."""
    peers = f"{slow.peers} other ranks" if slow.peers > 1 else "only other rank"
    text = (
        f"Rank {slow.rank} of job {job} computes {slow.ratio:.2f} times as long as the "
        f"{peers} of its pipeline stage, in {slow.slow_share:.0%} of the last "
        f"{slow.steps} steps, since step {slow.since_step}."
    )
    known = catalogue().find("straggler")
    one = "" if slow.peers > 1 else " Either may be the odd one."
    return Finding(
        detector="step_time",
        fault="straggler",
        severity=Severity.CRITICAL if slow.ratio >= MANY else Severity.WARNING,
        subject=Subject(slow.node) if slow.node else Subject(by="job", group=job),
        since=None,
        because=(text + one,),
        confidence=0.9 if slow.peers > 1 else 0.6,
        blame=known.blame,
        action=known.action,
        when=known.when,
        look=known.look,
        evidence=(
            Evidence("sample", text, metric="step_compute_ratio", value=slow.ratio, peer=1.0),
        ),
    )
