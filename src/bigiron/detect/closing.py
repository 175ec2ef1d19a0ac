"""What ends by a person's word: a finding closed by name, a node put back into service.

Whoever closes a finding has seen what it rests on. The same evidence therefore never opens it
again, whatever detector claims it and however often; what comes after the word does, as a new
finding. A claim whose evidence bears no time is taken for the old one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import NamedTuple

import msgspec

from bigiron.detect import Window
from bigiron.detect.fault import waits_for_person
from bigiron.detect.scheduler import SERVING
from bigiron.detect.settle import Open
from bigiron.model import Change, Closing, Finding, FindingChange

KEPT = 10_000
"""Closed claims remembered, the newest; each is a person's own act."""

OUT = frozenset({"drain", "down"})
TAKEN_OUT = frozenset({"slurm.node_drain", "k8s.cordoned"})
"""Told of a node that someone took out of service for a reason of their own: neither the
scheduler's own discovery nor what bigiron did."""


class Out(msgspec.Struct, frozen=True):
    """A node that a person took out of service: who and why, and when it was last seen so."""

    by: str
    reason: str
    last: datetime


class Answered(NamedTuple):
    """What stands after some words, what is closed by whose key and when, and what changed."""

    open: dict[str, Open]
    closed: dict[str, datetime]
    changes: list[FindingChange]


def answer(
    open_: Mapping[str, Open],
    closed: dict[str, datetime],
    closings: Iterable[Closing],
    now: datetime,
) -> Answered:
    """Close what the closings name. ``closed`` is given back as it is if they close nothing."""
    standing = dict(open_)
    changes: list[FindingChange] = []
    after = dict(closed)
    for closing in closings:
        held = standing.pop(closing.finding, None)
        if held is None:
            continue  # it has ended by itself meanwhile
        after.pop(held.finding.key, None)
        after[held.finding.key] = min(closing.time, now)
        said = f"closed by {closing.by}: {closing.because}"
        because = said if closing.by else closing.because
        change = FindingChange(now, closing.finding, Change.CLOSE, held.finding, because)
        changes.append(change)
    if not changes:
        return Answered(standing, closed, [])
    newest = dict(list(after.items())[-KEPT:])
    return Answered(standing, newest, changes)


def unanswered(
    claims: Iterable[Finding], closed: Mapping[str, datetime], standing: Collection[str]
) -> list[Finding]:
    """The claims without those closed that rest on nothing newer.

    ``standing`` are the keys of open findings. A claim made anew begins with what is new.
    """
    if not closed:
        return list(claims)
    left: list[Finding] = []
    for claim in claims:
        since = closed.get(claim.key)
        if since is None:
            left.append(claim)
            continue
        newer = [time for time in _times(claim) if time > since]
        if newer:
            left.append(msgspec.structs.replace(claim, since=min(newer)))
        elif claim.key in standing:
            left.append(msgspec.structs.replace(claim, since=None))
    return left


def taken_out(
    before: Mapping[str, Out], window: Window, touched: Set[str] | None
) -> tuple[dict[str, Out], dict[str, Out]]:
    """The nodes that are out of service by a person's word, and those now back in it.

    ``touched`` names the nodes with new events; None is all. A node that was last seen out
    before it was back may have had new trouble since then: ``last`` is that time.
    """
    told = _told(window, touched, before)
    out: dict[str, Out] = {}
    back: dict[str, Out] = {}
    for node in sorted(before.keys() | told.keys()):
        state = window.states.get(node)
        known = before.get(node) or told[node]
        if state is None:
            continue  # the node has left the fleet
        if state.state in SERVING:
            back[node] = known
        else:
            last = max(known.last, state.time or known.last)
            out[node] = msgspec.structs.replace(known, last=last)
    return out, back


def _told(window: Window, touched: Set[str] | None, before: Mapping[str, Out]) -> dict[str, Out]:
    """The nodes that a person newly took out, by the scheduler's word."""
    nodes = window.states.keys() if touched is None else touched & window.states.keys()
    new = {n for n in nodes if n not in before and window.states[n].state in OUT}
    if not new:
        return {}
    found: dict[str, Out] = {}
    for event in window.events:
        if event.node in new and event.code in TAKEN_OUT:
            state = window.states[event.node]
            if state.since is None or event.time is None or event.time >= state.since:
                last = state.time or window.now
                found[event.node] = Out(state.by, state.reason, last)
    return found


def returned(
    back: Mapping[str, Out], open_: Mapping[str, Open], window: Window
) -> Sequence[Closing]:
    """What a person ends by putting nodes back into service: the findings of these nodes that
    wait for a person, and are older than that.
    """
    of_node: dict[str, list[tuple[str, Open]]] = {node: [] for node in back}
    for id_, held in open_.items():
        subject = held.finding.subject
        if subject.node in of_node and not subject.by:
            of_node[subject.node].append((id_, held))
    closings: list[Closing] = []
    for node, out in back.items():
        findings = [held.finding for _, held in of_node[node]]
        waiting = {finding.key for finding in waits_for_person(findings, window)}
        why = "returned to service by a person"
        if out.reason:
            why += f"; {out.by or 'someone'} had taken it out: {out.reason}"
        for id_, held in of_node[node]:
            older = held.opened <= out.last and all(t <= out.last for t in _times(held.finding))
            if held.finding.key in waiting and older:
                closings.append(Closing(out.last, id_, "", why))
    return closings


def _times(finding: Finding) -> list[datetime]:
    """When what a claim rests on was seen; when it began, where that is all that is known."""
    times = [e.time for e in finding.evidence if e.time is not None]
    return times or ([finding.since] if finding.since is not None else [])
