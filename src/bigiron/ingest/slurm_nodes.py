"""Nodes as Slurm tells them: ``scontrol show node`` text and the JSON of every API version."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.ingest.slurm_reason import events_of
from bigiron.ingest.slurm_state import flags_of_all, state_of
from bigiron.ingest.slurm_values import (
    NO_ZONE,
    epoch,
    first_of,
    gres_gpus,
    has_zone,
    text_or_empty,
    time_of,
    words,
)
from bigiron.model import Fact, Node, NodeState, Note, Observation

_START = re.compile(r"^NodeName=(?P<name>\S+)", re.MULTILINE)
_FIELD = re.compile(
    r"(?:^|\s)(State|Gres|Partitions|Version|NodeAddr|NodeHostName|ActiveFeatures"
    r"|AvailableFeatures)=(\S*)"
)
_KERNEL = re.compile(r"(?:^|\s)OS=Linux (\S+)|^Linux (\S+)")
_REASON = re.compile(
    r"(?:^|\s)Reason=(?P<text>.*?)"
    r"(?:\s*\[(?P<by>[^\[\]@]*)@(?P<since>[^\[\]@]+)\])?"
    r"(?=\s+(?:Comment|Extra|InstanceId|InstanceType|ReservationName|NextState|ResumeAfterTime|"
    r"TopoParent|MCS_label|NodeName)=|\s*\Z)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node as one tool tells it; ``flags`` are Slurm's words, the rest is "" where not told."""

    name: str
    flags: tuple[str, ...]
    reason: str = ""
    by: str = ""
    since: datetime | None = None
    gres: str = ""
    partitions: tuple[str, ...] = ()
    version: str = ""
    kernel: str = ""
    address: str = ""
    hostname: str = ""

    def observations(self, now: datetime, source: str, line: int = 0) -> Iterator[Observation]:
        """The node, its state at ``now``, its facts, and the faults its reason names."""
        count, kind = gres_gpus(self.gres)
        state = state_of(self.flags)
        yield Node(
            name=self.name,
            sku=f"{kind}x{count}" if kind and count else "",
            partition=self.partitions[0] if self.partitions else "",
        )
        yield NodeState(
            node=self.name,
            state=state,
            reason=self.reason,
            by=self.by,
            since=self.since,
            time=now,
            flags=self.flags,
        )
        if self.gres:
            yield Fact(self.name, "gres", self.gres, time=now)
            yield Fact(self.name, "gpu_count_configured", count, time=now)
        for name, value in (("slurm_version", self.version), ("kernel", self.kernel)):
            if value:
                yield Fact(self.name, name, value, time=now)
        for name, value in (("address", self.address), ("hostname", self.hostname)):
            if value not in ("", self.name):
                yield Fact(self.name, name, value, time=now)
        yield from events_of(
            self.name, self.flags, state, self.reason, self.by, self.since, (source, line)
        )


def records_of_text(text: str) -> Iterator[tuple[NodeRecord, int, bool]]:
    """Each node of ``scontrol show node`` in either form, its line, and if a zone was missing."""
    starts = list(_START.finditer(text))
    line, at = 1, 0
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        line += text.count("\n", at, start.start())
        at = start.start()
        record, zoneless = _record_of_text(start["name"], text[start.start() : end])
        yield record, line, zoneless


def _record_of_text(name: str, text: str) -> tuple[NodeRecord, bool]:
    reason, by, since, zoneless = "", "", None, False
    match = _REASON.search(text)
    if match is not None:
        reason = text_or_empty(" ".join(match["text"].split()))
        by = text_or_empty(match["by"])
        if match["since"]:
            since = time_of(match["since"])
            zoneless = since is not None and not has_zone(match["since"])
        text = text[: match.start()] + " " + text[match.end() :]
    found: dict[str, str] = {}
    for key, value in _FIELD.findall(text):
        found.setdefault(key, text_or_empty(value))  # the first: a comment may hold anything
    kernel = _KERNEL.search(text)
    record = NodeRecord(
        name=name,
        flags=flags_of_all([found.get("State", "UNKNOWN")]),
        reason=reason,
        by=by,
        since=since,
        gres=found.get("Gres", ""),
        partitions=tuple(p for p in found.get("Partitions", "").split(",") if p),
        version=found.get("Version", ""),
        kernel=kernel[1] or "" if kernel else "",
        address=found.get("NodeAddr", ""),
        hostname=found.get("NodeHostName", ""),
    )
    return record, zoneless


def record_of_json(node: dict[str, Any]) -> NodeRecord | None:
    """A node of ``sinfo --json``, ``scontrol --json`` or slurmrestd; None if it has no name."""
    name = text_or_empty(first_of(node, "name", "hostname"))
    if not name:
        return None
    states = (*words(node.get("state")), *words(node.get("state_flags")))
    kernel = _KERNEL.search(str(node.get("operating_system") or ""))
    partitions = node.get("partitions")
    return NodeRecord(
        name=name,
        flags=flags_of_all(states or ("UNKNOWN",)),
        reason=" ".join(text_or_empty(node.get("reason")).split()),
        by=text_or_empty(node.get("reason_set_by_user")),
        since=epoch(node.get("reason_changed_at")),
        gres=text_or_empty(node.get("gres")),
        partitions=tuple(map(str, partitions)) if isinstance(partitions, list) else (),
        version=text_or_empty(first_of(node, "version", "slurmd_version")),
        kernel=kernel[2] or "" if kernel else "",
        address=text_or_empty(node.get("address")),
        hostname=text_or_empty(node.get("hostname")),
    )


class ScontrolNodes:
    """``scontrol show node``, one line a node (``--oneliner``) or many."""

    def sniff(self, head: Head) -> float:
        """Nodes begin a line with NodeName=; what is allocated of them tells it from slurm.conf."""
        return 0.95 if _START.search(head.text) and "CPUAlloc=" in head.text else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Each node's state, facts and faults. Raises ParseError if there is no node."""
        nodes = zoneless = 0
        for record, line, missing in records_of_text(document.text()):
            nodes += 1
            zoneless += missing
            yield from record.observations(document.now, document.name, line)
        if not nodes:
            raise ParseError(document.name, 0, "no NodeName= in this scontrol output")
        if zoneless:
            yield Note(document.name, NO_ZONE, zoneless)


@reader()
def slurm_scontrol_nodes() -> Reader:
    """`scontrol show node` text, with or without --oneliner."""
    return ScontrolNodes()
