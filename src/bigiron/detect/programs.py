"""Programs that fail wherever they run: one finding on the user or the job, none on a node."""

from collections.abc import Iterator

from bigiron.detect import Window, detector
from bigiron.detect.claims import claim
from bigiron.detect.tenants import Failure, Group, Tenants
from bigiron.detect.words import label
from bigiron.model import Evidence, Finding, Recovery, Subject

NAME = "programs"
FAULT = "program_failure"
SHOWN = 5


@detector(every_s=60.0)
def programs(window: Window) -> Iterator[Finding | Recovery]:
    """Users and jobs whose programs fail on whatever node they run."""
    tenants, claimed = Tenants(window), set()
    for group in tenants.groups():
        finding = _finding(group)
        claimed.add(finding.key)
        yield finding
        for code, (node, device) in sorted({(f.event.code, f.place) for f in group.failures}):
            alone = f"fault|{code}|{Subject(node=node, device=device).key}"
            if alone in (window.standing or ()) and tenants.group_of(code, node, device):
                yield Recovery(alone, f"it is the program's: see {group.by} {group.name}")
    for key in window.standing or ():
        if key.startswith(f"{NAME}|") and key not in claimed:
            yield Recovery(key, "of late its programs failed on too few nodes to say so")


def _finding(group: Group) -> Finding:
    nodes = group.nodes
    codes = sorted({failure.event.code for failure in group.failures})
    told = f"{len(nodes)} nodes ({', '.join(map(label, codes[:SHOWN]))})"
    if group.by == "user":
        jobs = f"{group.jobs} of {group.of} jobs of user {group.name}"
        text = f"{jobs} failed with errors of their own within a day, on {told}."
        why = "Their nodes have nothing in common but the user: look at the program, not at them."
    else:
        text = f"Job {group.name} failed with errors of its own on {told}."
        why = "One program on so many nodes is at fault itself, or one of its ranks pulls the rest."
    return claim(
        NAME,
        FAULT,
        Subject(by=group.by, group=group.name, members=nodes),
        (text, why),
        since=group.failures[0].event.time,
        evidence=tuple(map(_evidence, _shown(group))),
        confidence=0.9,
    )


def _shown(group: Group) -> list[Failure]:
    """The first of each node, some of them, and the newest."""
    first: dict[str, Failure] = {}
    for failure in group.failures:
        first.setdefault(failure.event.node, failure)
    return [*list(first.values())[:SHOWN], group.failures[-1]]


def _evidence(failure: Failure) -> Evidence:
    event = failure.event
    text = f"{event.node} {event.device}: {event.text[:250]}"
    return Evidence("event", text, event.time, event.source, event.line)
