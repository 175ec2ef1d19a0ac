"""Slurm's JSON: slurmrestd, ``sinfo``, ``squeue``, ``sacct`` and ``scontrol`` with ``--json``.

From API v0.0.37 (21.08) to v0.0.44 (25.11). What differs between them (a state as one string or
as a list, numbers plain or as objects) is settled in ``slurm_values``. ``scontrol --json`` exists
from 23.02 on, and ``sinfo --json`` lists nodes until 22.05 and rows of ``sinfo`` since.
"""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.ingest.slurm_job import job_of_json
from bigiron.ingest.slurm_nodes import NodeRecord, record_of_json
from bigiron.ingest.slurm_state import flags_of_all
from bigiron.ingest.slurm_values import epoch, first_of, number, text_or_empty, words
from bigiron.model import (
    CheckResult,
    CheckStatus,
    Maintenance,
    Node,
    Note,
    Observation,
    Sample,
)
from bigiron.nodesets import unfold

_MARKS = re.compile(
    r'"(?:slurmd_start_time|next_state_after_reboot|gres_drained|job_state|derived_exit_code|'
    r"kill_request_user|allocation_nodes|server_thread_count|schedule_cycle_last|sinfo|"
    r'purge_completed|maximum_cpus_per_node|slurm|Slurm|rpcs_by_message_type)"\s*:'
)
_FALLBACK = re.compile(r'\{"s": *"\w+[^"]*",.*"n": *"')
_SDIAG = {
    "server_thread_count": "slurm_server_threads",
    "agent_queue_size": "slurm_agent_queue_length",
    "dbd_agent_queue_size": "slurm_dbd_agent_queue_length",
    "jobs_pending": "slurm_jobs_pending",
    "jobs_running": "slurm_jobs_running",
    "schedule_queue_length": "slurm_schedule_queue_length",
}
"""Fields of sdiag and the names their samples get; they are of ``slurmctld``, not of a node."""

CONTROLLER_DOWN = "slurm.controller_down"

Found = Iterator[Observation | None]
"""None stands for an entry that could not be used."""


def _nodes(entries: list[Any], now: datetime, source: str) -> Found:
    for entry in entries:
        record = record_of_json(entry) if isinstance(entry, dict) else None
        if record is None:
            yield None
        else:
            yield from record.observations(now, source)


def _jobs(entries: list[Any], now: datetime, source: str) -> Found:
    del now, source
    for entry in entries:
        try:
            yield job_of_json(entry) if isinstance(entry, dict) else None
        except ParseError:
            yield None


def _sinfo(entries: list[Any], now: datetime, source: str) -> Found:
    """Rows of ``sinfo --json`` since 23.02: nodes with the same values share one."""
    seen: set[str] = set()
    for entry in entries:
        try:
            records = list(_of_sinfo(entry)) if isinstance(entry, dict) else []
        except ParseError:
            records = []
        if not records:
            yield None
        for record in records:
            if record.name not in seen:
                seen.add(record.name)
                yield from record.observations(now, source)


def _of_sinfo(entry: dict[str, Any]) -> Iterator[NodeRecord]:
    node, nodes, gres, reason, partition = (
        found if isinstance(found := entry.get(key), dict) else {}
        for key in ("node", "nodes", "gres", "reason", "partition")
    )
    listed = nodes.get("nodes")
    names = listed if isinstance(listed, list) else [listed] if listed else []
    name = text_or_empty(partition.get("name"))
    for text in names:
        for one in unfold(str(text)):
            yield NodeRecord(
                name=one,
                flags=flags_of_all(words(node.get("state")) or ("UNKNOWN",)),
                reason=text_or_empty(reason.get("description")),
                by=text_or_empty(reason.get("user")),
                since=epoch(reason.get("time")),
                gres=text_or_empty(gres.get("total")),
                partitions=(name,) if name else (),
            )


def _reservations(entries: list[Any], now: datetime, source: str) -> Found:
    del now, source
    for entry in entries:
        if not isinstance(entry, dict):
            yield None
            continue
        flags = words(entry.get("flags"))
        if not any(flag.startswith("MAINT") for flag in flags):
            continue
        start, end = epoch(entry.get("start_time")), epoch(entry.get("end_time"))
        try:
            nodes = unfold(text_or_empty(first_of(entry, "node_list", "nodes")))
        except ParseError:
            nodes = ()
        if start is None or end is None or not nodes:
            yield None
        else:
            yield Maintenance(start, end, nodes, text_or_empty(entry.get("name")))


def _partitions(entries: list[Any], now: datetime, source: str) -> Found:
    del now, source
    for entry in entries:
        found = entry.get("nodes") if isinstance(entry, dict) else None
        listed = found.get("configured") if isinstance(found, dict) else found
        try:
            names = unfold(text_or_empty(listed))
        except ParseError:
            names = ()
        if not names:
            yield None
        for name in names:
            yield Node(name=name, partition=text_or_empty(entry.get("name")))


def _statistics(found: dict[str, Any], now: datetime) -> Found:
    for key, metric in _SDIAG.items():
        value = number(found.get(key))
        if value is not None:
            yield Sample("", "slurmctld", metric, float(value), now)


def _pings(entries: list[Any], now: datetime, source: str) -> Found:
    """``scontrol ping``: whether each controller answers. One that does not is no node's fault."""
    for entry in entries:
        host = text_or_empty(first_of(entry, "hostname")) if isinstance(entry, dict) else ""
        if not host:
            yield None
            continue
        said = text_or_empty(first_of(entry, "pinged")) or "no word"
        up = entry.get("responding") is True or said.upper() in {"UP", "RESPONDING"}
        yield CheckResult(
            host,
            "slurm controller",
            CheckStatus.PASS if up else CheckStatus.FAIL,
            code="" if up else CONTROLLER_DOWN,
            text="" if up else f"slurmctld on {host} does not answer: {said}",
            time=now,
            source=source,
        )


_LISTS: dict[str, Callable[[list[Any], datetime, str], Found]] = {
    "nodes": _nodes,
    "jobs": _jobs,
    "sinfo": _sinfo,
    "reservations": _reservations,
    "partitions": _partitions,
    "pings": _pings,
}


class SlurmJson:
    """One JSON document of Slurm's, told by the keys only Slurm uses."""

    def sniff(self, head: Head) -> float:
        """A JSON object with Slurm's own keys, or lines written by a ``sinfo -o`` of JSON."""
        text = head.text.lstrip()
        if not text.startswith(("{", "[")):
            return 0.0
        if _FALLBACK.match(text):
            return 0.8
        return 0.9 if _MARKS.search(text) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Its nodes, jobs, reservations and statistics. Raises ParseError if there are none."""
        text = document.text()
        if _FALLBACK.match(text.lstrip()):
            yield from _fallback(text, document)
            return
        try:
            data = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise ParseError(document.name, 0, f"not JSON: {error}") from error
        if not isinstance(data, dict):
            raise ParseError(document.name, 0, "Slurm's JSON is an object; this is not one")
        yield from _read(data, document)


def _read(data: dict[str, Any], document: Document) -> Iterator[Observation]:
    known = [key for key in _LISTS if isinstance(data.get(key), list)]
    statistics = data.get("statistics")
    if not known and not isinstance(statistics, dict):
        raise ParseError(document.name, 0, _trouble(data))
    skipped = 0
    for key in known:
        for found in _LISTS[key](data[key], document.now, document.name):
            if found is None:
                skipped += 1
            else:
                yield found
    if isinstance(statistics, dict):
        yield from (found for found in _statistics(statistics, document.now) if found is not None)
    if skipped:
        yield Note(document.name, "entries of Slurm's JSON that could not be read", skipped)


def _trouble(data: dict[str, Any]) -> str:
    """What slurmrestd says instead of an answer, if it says so."""
    errors = data.get("errors")
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, dict):
            said = text_or_empty(first_of(error, "description", "error"))
            if said:
                return f"Slurm answered with an error: {said[:200]}"
    return "nothing of use in this JSON of Slurm's"


def _fallback(text: str, document: Document) -> Iterator[Observation]:
    """Lines such as ``sinfo -o '{"s": "%T", "n": "%n", "p": "%R"}'`` writes them."""
    skipped = 0
    records: dict[str, NodeRecord] = {}
    for line in text.splitlines():
        try:
            row = msgspec.json.decode(line, type=dict[str, Any]) if line.strip() else {}
        except msgspec.DecodeError:
            row = {}
        name = text_or_empty(row.get("n"))
        if name:
            partition = (text_or_empty(row.get("p")),) if row.get("p") else ()
            flags = flags_of_all([str(row.get("s"))])
            records.setdefault(name, NodeRecord(name, flags, partitions=partition))
        else:
            skipped += bool(line.strip())
    for record in records.values():
        yield from record.observations(document.now, document.name)
    if skipped:
        yield Note(document.name, "lines that are not nodes", skipped)


@reader()
def slurm_json() -> Reader:
    """JSON of slurmrestd and of sinfo, squeue, sacct, scontrol, sdiag with --json."""
    return SlurmJson()
