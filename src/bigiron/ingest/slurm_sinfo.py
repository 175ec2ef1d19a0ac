"""``sinfo`` text: its default, ``-R``, ``-N``, ``-O`` and custom formats that keep the header."""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.ingest.slurm_nodes import NodeRecord
from bigiron.ingest.slurm_state import flags_of_all
from bigiron.ingest.slurm_table import Row, header_of, rows
from bigiron.ingest.slurm_values import NO_ZONE, has_zone, text_or_empty, time_of
from bigiron.model import Note, Observation
from bigiron.nodesets import unfold

_COLUMNS = frozenset(
    [
        "PARTITION",
        "AVAIL",
        "TIMELIMIT",
        "NODES",
        "STATE",
        "NODELIST",
        "REASON",
        "USER",
        "TIMESTAMP",
        "HOSTNAMES",
        "NODE_ADDR",
        "GRES",
        "GRES_USED",
        "CPUS",
        "MEMORY",
        "TMP_DISK",
        "WEIGHT",
        "AVAIL_FE",
        "AVAIL_FEATURES",
        "ACTIVE_FEATURES",
        "VERSION",
        "S:C:T",
        "CPU_LOAD",
        "FREE_MEM",
    ]
)
_AWAY = re.compile(r"not responding|unexpectedly rebooted", re.IGNORECASE)
_NODES = ("NODELIST", "HOSTNAMES", "NODE_ADDR", "NODEHOST")


class SinfoTable:
    """A sinfo table, told by its column names; needs a column with node names."""

    def sniff(self, head: Head) -> float:
        """A header with node names and a state or a reason."""
        found = header_of(head.text, _COLUMNS)
        if found is None:
            return 0.0
        names = found[1].replace("|", " ").replace(",", " ").replace(";", " ").split()
        if "JOBID" in names or not any(name in names for name in _NODES):
            return 0.0
        return 0.9 if "STATE" in names or "REASON" in names else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Each node once, whatever the number of its partitions. Raises ParseError if none."""
        text = document.text()
        found = header_of(text, _COLUMNS)
        if found is None:
            raise ParseError(document.name, 1, "no sinfo header: run it without --noheader")
        merged: dict[str, NodeRecord] = {}
        lines: dict[str, int] = {}
        skipped = zoneless = 0
        for row in rows(text.splitlines(), found[0]):
            records = _records_of(row)
            skipped += not records
            for record in records:
                zoneless += record.since is not None and not has_zone(row.get("TIMESTAMP"))
                lines.setdefault(record.name, row.line)
                merged[record.name] = _merge(merged.get(record.name), record)
        if not merged:
            raise ParseError(document.name, found[0], "no node under this sinfo header")
        for record in merged.values():
            yield from record.observations(document.now, document.name, lines[record.name])
        if skipped:
            yield Note(document.name, "sinfo rows that do not fit their header", skipped)
        if zoneless:
            yield Note(document.name, NO_ZONE, zoneless)


def _records_of(row: Row) -> list[NodeRecord]:
    try:
        return list(_records(row))
    except ParseError:
        return []


def _records(row: Row) -> Iterator[NodeRecord]:
    state = row.get("STATE", "STATECOMPACT", "STATELONG")
    reason = text_or_empty(row.get("REASON"))
    partition = row.get("PARTITION").rstrip("*")
    flags = _flags(state, reason)
    for name in unfold(row.get(*_NODES)):
        yield NodeRecord(
            name=name,
            flags=flags,
            reason=reason,
            by=text_or_empty(row.get("USER").partition("(")[0]),
            since=time_of(row.get("TIMESTAMP")),
            gres=text_or_empty(row.get("GRES").replace("(null)", "")),
            partitions=(partition,) if partition else (),
            version=text_or_empty(row.get("VERSION")),
        )


def _flags(state: str, reason: str) -> tuple[str, ...]:
    """``-R`` lists nodes that are drained or down without saying which; the reason may."""
    if state:
        return flags_of_all([state])
    if _AWAY.search(reason):
        return ("DOWN",)
    return ("DRAIN",) if reason else ("UNKNOWN",)


def _merge(first: NodeRecord | None, new: NodeRecord) -> NodeRecord:
    """A node in several partitions has a row in each: one record with all of them."""
    if first is None:
        return new
    return NodeRecord(
        name=first.name,
        flags=tuple(dict.fromkeys((*first.flags, *new.flags))),
        reason=first.reason or new.reason,
        by=first.by or new.by,
        since=first.since or new.since,
        gres=first.gres or new.gres,
        partitions=tuple(dict.fromkeys((*first.partitions, *new.partitions))),
        version=first.version or new.version,
    )


@reader()
def slurm_sinfo() -> Reader:
    """`sinfo` tables: default, -R, -N, -l, -O and custom formats with a header."""
    return SinfoTable()
