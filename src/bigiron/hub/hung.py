"""Hung jobs: the flight recorder dumps that lie together are one job's, and are judged as one."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from bigiron.analyze.hang import Cause, Hang, Suspect, blame
from bigiron.faults import catalogue
from bigiron.hub.hosts import Reading
from bigiron.model import (
    ActionKind,
    Blame,
    Evidence,
    Fact,
    Finding,
    Severity,
    Subject,
    When,
)

FAULT = "nccl.hung"
SHOWN = 16
"""Ranks named one by one."""


def hung_jobs(readings: Sequence[Reading]) -> Iterator[Finding]:
    """One finding for each job whose ranks' dumps show that it hangs, and at whom."""
    jobs: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        if reading.of_rank:
            jobs[_job(reading)].append(reading)
    for job, of_job in jobs.items():
        facts = [o for r in of_job for o in r.observations if isinstance(o, Fact)]
        hang = blame(facts)
        if hang.cause is not Cause.NONE:
            yield _finding(job, hang, of_job)


def _job(reading: Reading) -> str:
    """The folder its dumps lie in: nothing in a dump names the job."""
    path = PurePosixPath(reading.document.name.replace("!", "/"))
    return path.parent.name or "job"


def _finding(job: str, hang: Hang, readings: Sequence[Reading]) -> Finding:
    nodes = tuple(sorted({suspect.node for suspect in hang.suspects} - {""}))
    times = [reading.document.now for reading in readings]
    because = [_headline(hang), *(_sentence(s.because) for s in hang.suspects[:SHOWN])]
    if hang.absent:
        because.append(f"{_ranks(hang.absent)} left no dump: they may have died, or are not here.")
    because.append(f"Judged from the dumps of {hang.ranks} ranks.")
    entry = catalogue().find(FAULT)
    on_program = hang.blame is Blame.APPLICATION
    return Finding(
        detector="hung",
        fault=FAULT,
        severity=Severity.CRITICAL,
        subject=Subject(by="job", group=job, members=nodes),
        since=None,
        because=tuple(because),
        confidence=0.9 if hang.cause is Cause.MISSING else 0.7,
        blame=hang.blame,
        action=ActionKind.NONE if on_program else ActionKind.CHECK,
        when=When.NEVER if on_program else When.NOW,
        evidence=tuple(_evidence(s, readings) for s in hang.suspects[:SHOWN])
        or (Evidence("fact", hang.because, max(times)),),
        look=entry.look,
    )


def _headline(hang: Hang) -> str:
    who = _ranks([suspect.rank for suspect in hang.suspects])
    hold = "holds" if len(hang.suspects) == 1 else "hold"
    if hang.cause is Cause.MISSING:
        waiting = {rank for suspect in hang.suspects for rank in suspect.waited_by}
        wait = f"{len(waiting)} others wait" if len(waiting) != 1 else "one other waits"
        nobody = "it waits" if len(hang.suspects) == 1 else "they wait"
        them = "it" if len(hang.suspects) == 1 else "them"
        return f"The job hangs: {who} {hold} it up; {wait} for {them}, and {nobody} for nobody."
    return f"The job hangs: {hang.because}."


def _ranks(ranks: Sequence[int]) -> str:
    """``rank 9``, ``ranks 9 and 14``, ``ranks 1, 2 and 3``."""
    names = [str(rank) for rank in ranks[:SHOWN]]
    if len(ranks) > SHOWN:
        names.append(f"{len(ranks) - SHOWN} more")
    if len(names) == 1:
        return f"rank {names[0]}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _evidence(suspect: Suspect, readings: Sequence[Reading]) -> Evidence:
    """The suspect's own dump."""
    own = next((r for r in readings if r.rank == suspect.rank), None)
    if own is None:
        return Evidence("fact", f"no dump of rank {suspect.rank}")
    text = f"dump of rank {suspect.rank}"
    return Evidence("fact", text, own.document.now, own.document.name)
