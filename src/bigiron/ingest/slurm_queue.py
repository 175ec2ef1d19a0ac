"""Jobs as the controller tells them in text: ``scontrol show job`` and ``squeue``."""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.ingest.slurm_job import LIVE_STATES, nodes_or_none, state_and_reason
from bigiron.ingest.slurm_table import Row, header_of, rows
from bigiron.ingest.slurm_values import (
    NO_ZONE,
    asked_gpus,
    exit_of,
    has_zone,
    text_or_empty,
    time_of,
    tres_gpus,
)
from bigiron.model import Job, Note, Observation

_START = re.compile(r"^JobId=(?P<id>\d+)", re.MULTILINE)
_FIELD = re.compile(
    r"(?:^|\s)(UserId|Account|JobState|Reason|Restarts|ExitCode|SubmitTime|StartTime|EndTime|"
    r"Partition|NodeList|AllocTRES|TRES|TresPerJob|TresPerNode)=(\S*)"
)
_NAME = re.compile(r"(?:^|\s)JobName=(.*?)(?=\s+UserId=|\n|\Z)")
_COLUMNS = frozenset(
    [
        "JOBID",
        "PARTITION",
        "NAME",
        "USER",
        "ST",
        "STATE",
        "TIME",
        "NODES",
        "NODELIST",
        "NODELIST(REASON)",
        "REASON",
        "ACCOUNT",
        "TRES_ALLOC",
        "TRES_PER_NODE",
        "START_TIME",
        "END_TIME",
        "SUBMIT_TIME",
        "TIME_LIMIT",
        "TIME_LIMI",
        "ARRAY_JOB_ID",
        "QOS",
        "PRIORITY",
        "EXEC_HOST",
        "CPUS",
    ]
)


def jobs_of_text(text: str) -> Iterator[tuple[Job | None, bool]]:
    """Each job of ``scontrol show job`` in either form, None where one cannot be read.

    With it goes whether its times lacked a zone.
    """
    starts = list(_START.finditer(text))
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        yield _job_of_text(start["id"], text[start.start() : end])


def _job_of_text(identity: str, text: str) -> tuple[Job | None, bool]:
    found: dict[str, str] = {}
    for key, value in _FIELD.findall(text):
        found.setdefault(key, text_or_empty(value))
    state, why = state_and_reason(found.get("JobState", ""))
    nodes = nodes_or_none(found.get("NodeList", ""))
    if not state or nodes is None:
        return None, False
    name = _NAME.search(text)
    code, signal = exit_of(found.get("ExitCode", ""))
    submit = found.get("SubmitTime", "")
    end = None if state in LIVE_STATES else time_of(found.get("EndTime", ""))
    job = Job(
        id=identity,
        state=state,
        user=found.get("UserId", "").partition("(")[0],
        name=name[1].strip() if name else "",
        account=found.get("Account", ""),
        partition=found.get("Partition", ""),
        submit=time_of(submit),
        start=None if state == "PENDING" else time_of(found.get("StartTime", "")),
        end=end,
        exit_code=code,
        signal=signal,
        nodes=nodes,
        gpus=_gpus(found, len(nodes)) if nodes else 0,
        restarts=int(found["Restarts"]) if found.get("Restarts", "").isdigit() else 0,
        reason=found.get("Reason", "") or why,
    )
    return job, bool(submit) and not has_zone(submit)


def _gpus(found: dict[str, str], nodes: int) -> int:
    told = tres_gpus(found.get("AllocTRES") or found.get("TRES", ""))
    return told or asked_gpus(found.get("TresPerJob", ""), found.get("TresPerNode", ""), nodes)


class ScontrolJobs:
    """``scontrol show job``, with or without ``--oneliner`` and ``-d``."""

    def sniff(self, head: Head) -> float:
        """Jobs begin a line with JobId= and have a JobState=."""
        return 0.95 if _START.search(head.text) and "JobState=" in head.text else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Each job. Raises ParseError if there is none."""
        jobs = skipped = zoneless = 0
        for job, missing in jobs_of_text(document.text()):
            zoneless += missing
            if job is None:
                skipped += 1
            else:
                jobs += 1
                yield job
        if not jobs:
            raise ParseError(document.name, 0, "no usable JobId= in this scontrol output")
        if skipped:
            yield Note(document.name, "jobs without a state or with a malformed node list", skipped)
        if zoneless:
            yield Note(document.name, NO_ZONE, zoneless)


class SqueueTable:
    """``squeue`` text with its header: default, ``--long``, ``-o`` with a delimiter, ``-O``."""

    def sniff(self, head: Head) -> float:
        """A header with JOBID and a state."""
        found = header_of(head.text, _COLUMNS)
        if found is None:
            return 0.0
        names = re.split(r"[|;,\s]+", found[1])
        return 0.9 if "JOBID" in names and {"ST", "STATE"} & set(names) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Each job in the queue. Raises ParseError without a header."""
        text = document.text()
        found = header_of(text, _COLUMNS)
        if found is None:
            raise ParseError(document.name, 1, "no squeue header: run it without --noheader")
        skipped = 0
        for row in rows(text.splitlines(), found[0]):
            job = _job_of_row(row)
            if job is None:
                skipped += 1
            else:
                yield job
        if skipped:
            yield Note(document.name, "squeue rows that do not fit their header", skipped)


def _job_of_row(row: Row) -> Job | None:
    identity = row.get("JOBID")
    state, why = state_and_reason(row.get("STATE", "ST"))
    place = row.get("NODELIST", "NODELIST(REASON)")
    waiting = place.startswith("(")
    nodes = () if waiting else nodes_or_none(text_or_empty(place))
    if not identity[:1].isdigit() or not state or nodes is None:
        return None
    asked = asked_gpus(row.get("TRES_PER_JOB"), row.get("TRES_PER_NODE"), len(nodes))
    reason = place.strip("()") if waiting else text_or_empty(row.get("REASON"))
    return Job(
        id=identity,
        state=state,
        user=row.get("USER"),
        name=row.get("NAME"),
        account=text_or_empty(row.get("ACCOUNT")),
        partition=row.get("PARTITION"),
        submit=time_of(row.get("SUBMIT_TIME")),
        start=None if state == "PENDING" else time_of(row.get("START_TIME")),
        end=None if state in LIVE_STATES else time_of(row.get("END_TIME")),
        nodes=nodes,
        gpus=tres_gpus(row.get("TRES_ALLOC")) or asked,
        reason=reason or why,
    )


@reader()
def slurm_scontrol_jobs() -> Reader:
    """`scontrol show job` text, with or without --oneliner."""
    return ScontrolJobs()


@reader()
def slurm_squeue() -> Reader:
    """`squeue` tables: default, --long, -O and custom formats with a header."""
    return SqueueTable()
