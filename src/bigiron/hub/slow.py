"""Slow ranks of the jobs whose step times are given: each against the others of its stage."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from bigiron.detect.step_time import StepTime, finding, judged, slow_ranks
from bigiron.hub.hosts import Reading
from bigiron.model import Fact, Finding, Note

MOST_NAMED = 16
"""Slow ranks named one by one; where there are more, what is compared does not do equal work."""


def slow_jobs(readings: Sequence[Reading], notes: list[Note]) -> Iterator[Finding]:
    """A finding for each rank that holds its job up; ``notes`` says of which jobs none does."""
    jobs: dict[str, list[StepTime]] = defaultdict(list)
    source: dict[str, str] = {}
    for reading in readings:
        if reading.of_job:
            times = list(_times(reading))
            job = _job(reading, times)
            jobs[job] += times
            source.setdefault(job, reading.document.name)
    for job, times in jobs.items():
        slow = slow_ranks(times)
        yield from (finding(one, job) for one in slow[:MOST_NAMED])
        if len(slow) > MOST_NAMED:
            notes.append(Note(source[job], f"job {job}: more slow ranks, not named", len(slow)))
        if not slow:
            notes.append(Note(source[job], _nobody(job, times)))


def _nobody(job: str, times: Sequence[StepTime]) -> str:
    ranks, steps = len({t.rank for t in times}), len({t.step for t in times})
    said = f"job {job}: {ranks} ranks, {steps} steps"
    compared = judged(times)
    if not compared:
        return f"{said}; none has a peer of its stage and steps enough, so none was judged"
    of_them = f"of the {compared} that could be judged " if compared < ranks else ""
    return f"{said}; {of_them}none computes longer than the others of its stage"


def _job(reading: Reading, times: Sequence[StepTime]) -> str:
    """A file that holds several ranks is a job's; files of one rank each are by their folder."""
    path = PurePosixPath(reading.document.name.replace("!", "/"))
    several = len({time.rank for time in times}) > 1
    stem = reading.stem.removesuffix(".parquet").removesuffix(".tsv")
    return (stem if several else path.parent.name) or "job"


def _times(reading: Reading) -> Iterator[StepTime]:
    facts: dict[tuple[str, str], dict[str, object]] = defaultdict(dict)
    for seen in reading.observations:
        if isinstance(seen, Fact) and seen.name.startswith("step_"):
            facts[seen.node, seen.device][seen.name] = seen.value
    for (node, device), told in facts.items():
        rank = int(device.removeprefix("rank"))
        stage, replica = (told.get(name) for name in ("step_stage", "step_replica"))
        for pair in str(told.get("step_compute", "")).split():
            step, _, seconds = pair.partition(":")
            yield StepTime(
                int(step),
                rank,
                stage if isinstance(stage, int) else 0,
                replica if isinstance(replica, int) else rank,
                float(seconds),
                node,
            )
