"""Slurm's lists without a header: names and states of nodes or jobs, one a line.

Scripts and exporters ask ``sinfo -h -N -o %N,%T`` and ``squeue -h -o %A,%T``, or have squeue write
each job as an object (``-o '{"id": "%A", "state": "%T"}'``). Such a list has only its words to be
known by, so every line must have Slurm's own words for states.
"""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, reader
from bigiron.ingest.slurm_job import BASE_STATES, LIVE_STATES, state_and_reason
from bigiron.ingest.slurm_nodes import NodeRecord
from bigiron.ingest.slurm_state import flags_of, state_of
from bigiron.model import Job, Note, Observation
from bigiron.nodesets import unfold

_LEAST = 3
"""Lines a list must have to be known by its words alone."""
_LOOKED_AT = 200
_NODE = re.compile(
    r"^(?P<name>[A-Za-z][\w.-]{0,63}(?:\[[\d,-]{1,500}\])?)[,|;\s]{1,8}"
    r"(?P<state>[A-Za-z][A-Za-z_+]{1,40}[*~#!%$@^-]{0,3})\s*$"
)
_JOB = re.compile(r"^(?P<id>\d{1,12}(?:_\d{1,9})?)[,|;\s]{1,8}(?P<state>[A-Z_]{2,24})\s*$")
_OBJECT = re.compile(r'^\{.{0,400}"id"\s*:\s*"?(?P<id>\d{1,12})"?.{0,400}\}\s*$')
_STATE = re.compile(r'"state"\s*:\s*"(?P<state>[A-Z_]{2,24})"')


class BareList:
    """Nodes or jobs with their states and no header."""

    def sniff(self, head: Head) -> float:
        """Every line a name and a state that Slurm has a word for."""
        lines = [line for line in head.text.splitlines() if line.strip()][:_LOOKED_AT]
        if len(head.data) >= 65_536:
            lines = lines[:-1]
        if len(lines) < _LEAST:
            return 0.0
        nodes = sum(_node(line) is not None for line in lines)
        jobs = sum(_job(line) is not None for line in lines)
        if nodes == len(lines):
            return 0.6
        told = [line for line in lines if not line.startswith("#")]
        return 0.6 if jobs >= _LEAST and jobs * 2 > len(told) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Each node once, each job. Raises ParseError if there is neither."""
        nodes: dict[str, NodeRecord] = {}
        jobs = skipped = 0
        for number, line in enumerate(document.lines(), 1):
            job = _job(line)
            records = _node(line) if job is None else None
            if job is not None:
                jobs += 1
                yield job
            elif records is not None:
                for record in records:
                    if record.name not in nodes:
                        yield from record.observations(document.now, document.name, number)
                        nodes[record.name] = record
            else:
                skipped += bool(line.strip()) and not line.startswith("#")
        if not nodes and not jobs:
            raise ParseError(document.name, 1, "no node or job with a state in it")
        if skipped:
            yield Note(document.name, "lines without a node or job and its state", skipped)


def _node(line: str) -> list[NodeRecord] | None:
    match = _NODE.match(line.strip()[:1024])
    if match is None:
        return None
    flags = flags_of(match["state"])
    if state_of(flags) == "unknown" and "UNKNOWN" not in flags:
        return None
    try:
        return [NodeRecord(name=name, flags=flags) for name in unfold(match["name"])]
    except ParseError:
        return None


def _job(line: str) -> Job | None:
    text = line.strip()[:1024]
    match = _JOB.match(text)
    if match is not None:
        found = _job_state(match["state"])
        return Job(id=match["id"], state=found) if found else None
    object_ = _OBJECT.match(text)
    state = _STATE.search(text) if object_ is not None else None
    if object_ is None or state is None:
        return None
    found = _job_state(state["state"])
    if not found:
        return None
    partition = re.search(r'"p(?:artition)?"\s*:\s*"([^"]{0,64})"', text)
    account = re.search(r'"a(?:ccount)?"\s*:\s*"([^"]{0,64})"', text)
    return Job(
        id=object_["id"],
        state=found,
        partition=json_text.text(partition[1]) if partition else "",
        account=json_text.text(account[1]) if account else "",
    )


def _job_state(word: str) -> str:
    found = state_and_reason(word)[0]
    return found if found in BASE_STATES | LIVE_STATES | {"COMPLETING"} else ""


@reader()
def slurm_bare() -> Reader:
    """`sinfo -h` and `squeue -h`: names or numbers and states without a header."""
    return BareList()
