"""Which nodes hang on the same part, run the same job, belong to the same user."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from bigiron.detect.shared_cause.scan import grouped
from bigiron.model import Job, Node

PARTS = ("cooling", "pdu", "leaf", "rack", "ring", "partition")
"""Levels that a node's place tells."""

ENDED = timedelta(minutes=10)
"""A job that ended so lately may be what its nodes have in common."""


def levels(
    nodes: Mapping[str, Node],
    wanted: Iterable[str],
    jobs: Iterable[Job] = (),
    now: datetime | None = None,
) -> dict[str, dict[str, frozenset[str]]]:
    """For each wanted level its groups of at least two nodes."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    for by in wanted:
        if by in PARTS:
            groups = grouped((name, getattr(node, by)) for name, node in nodes.items())
        elif by == "job" and now is not None:
            groups = {j.id: frozenset(j.nodes) for j in jobs if _lately(j, now)}
        else:
            continue
        groups = {name: group for name, group in groups.items() if len(group) > 1}
        if groups:
            found[by] = groups
    return found


def _lately(job: Job, now: datetime) -> bool:
    if len(job.nodes) < 2 or job.start is None or job.start > now:
        return False
    return job.end is None or now - job.end <= ENDED
