"""Verdicts to actions, under budgets that hold whatever the detectors say.

Everything here is decided in shadow mode: it is written down and shown, nothing is carried out.
The budgets count as though it were carried out, so that shadow mode shows what enforcing would do.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import NamedTuple

import msgspec

from bigiron.model import (
    Action,
    ActionKind,
    Blame,
    Finding,
    Health,
    Job,
    Mode,
    NodeState,
    Verdict,
    When,
)

TAKES_OUT = frozenset(
    {
        ActionKind.DRAIN,
        ActionKind.DRAIN_NOW,
        ActionKind.RESET_GPU,
        ActionKind.REBOOT,
        ActionKind.REPAIR,
    }
)
"""Actions for which a node must leave service."""

_KIND_RANK = {
    kind: rank
    for rank, kind in enumerate(
        (
            ActionKind.NONE,
            ActionKind.RESUME,
            ActionKind.CHECK,
            ActionKind.DRAIN,
            ActionKind.RESET_GPU,
            ActionKind.REBOOT,
            ActionKind.DRAIN_NOW,
            ActionKind.REPAIR,
        )
    )
}
_WHEN_RANK = {When.NEVER: 0, When.MAINTENANCE: 1, When.JOB_END: 2, When.NOW: 3}

OUT_STATES = frozenset({"drain", "down", "maint"})
LIVE_JOBS = frozenset({"RUNNING", "COMPLETING", "SUSPENDED"})


class Policy(msgspec.Struct, frozen=True):
    """The numbers. ``max_out_*`` count nodes out for any reason, ours or an operator's.

    The breaker holds every action when at least ``breaker_count`` nodes and more than
    ``breaker_share`` of the fleet were flagged within ``breaker_s`` of one another (NVSentinel
    trips at half the nodes in five minutes), or when more than ``job_share`` of one job's nodes,
    and at least ``job_count``, were: then the job or something shared is at fault, not each node.
    It holds until enough of them are well again, however long ago that was: time alone proves
    nothing.
    """

    max_out_count: int = 8
    max_out_share: float = 0.05
    breaker_share: float = 0.30
    breaker_count: int = 5
    breaker_s: float = 300.0
    job_share: float = 0.5
    job_count: int = 3
    min_confidence: float = 0.5


class Scene(NamedTuple):
    """What the policy looks at."""

    now: datetime
    nodes: Set[str]
    verdicts: Mapping[str, Verdict]
    findings: Mapping[str, Finding]
    states: Mapping[str, NodeState]
    jobs: Iterable[Job]
    flagged: Mapping[str, datetime]
    """When each node that stands flagged was first so."""


def plan(
    scene: Scene, standing: Mapping[str, Action], policy: Policy
) -> tuple[dict[str, Action], tuple[Action, ...]]:
    """The actions that stand by key after this look, and the new ones among them.

    An action stands while what asked for it does; asking again gives the same key and nothing
    new. A held action is asked again once what held it is over.
    """
    wanted = {a.key: a for v in scene.verdicts.values() if (a := _wanted(scene, v, policy))}
    tripped = _breaker(scene, policy)
    out = _out(scene, standing, wanted)
    room = _room(policy, len(scene.nodes))
    after: dict[str, Action] = {}
    new: list[Action] = []
    for action in sorted(wanted.values(), key=_urgency):
        before = standing.get(action.key)
        if before is not None and not before.held:
            after[action.key] = before
            continue
        held = _held(action, out, room, tripped)
        action = msgspec.structs.replace(action, held=held)
        if not held and action.kind in TAKES_OUT:
            out.add(action.node)
        if before is not None and bool(before.held) == bool(held):
            after[action.key] = before
            continue
        after[action.key] = action
        new.append(action)
    return after, tuple(new)


def _room(policy: Policy, fleet: int) -> int:
    """How many nodes may be out. A share that is not nothing leaves a small fleet one node."""
    share = max(1, int(policy.max_out_share * fleet)) if policy.max_out_share > 0 else 0
    return min(policy.max_out_count, share)


def strongest(findings: Iterable[Finding], policy: Policy) -> Finding | None:
    """The finding whose action comes first: the soonest, then the strongest."""
    asking = [
        f
        for f in findings
        if f.action is not ActionKind.NONE
        and f.confidence >= policy.min_confidence
        and f.blame is not Blame.APPLICATION
        and not f.subject.by
    ]
    return max(
        asking,
        key=lambda f: (_WHEN_RANK[f.when], _KIND_RANK[f.action], f.severity.rank, f.key),
        default=None,
    )


def _wanted(scene: Scene, verdict: Verdict, policy: Policy) -> Action | None:
    """The one action a verdict asks for, before any budget."""
    if verdict.health not in (Health.DEGRADED, Health.UNHEALTHY):
        return None
    by_id = {id_: scene.findings[id_] for id_ in verdict.findings if id_ in scene.findings}
    chosen = strongest(by_id.values(), policy)
    if chosen is None:
        return None
    ids = tuple(id_ for id_, f in by_id.items() if f.action is chosen.action)
    first = next(id_ for id_, f in by_id.items() if f is chosen)
    reason = chosen.because[0] if chosen.because else chosen.fault
    key = f"{verdict.node}|{chosen.action}|{chosen.when}|{first}"
    return Action(
        scene.now, verdict.node, chosen.action, Mode.SHADOW, reason, ids, chosen.when, key
    )


def _held(action: Action, out: Set[str], room: int, tripped: str) -> str:
    """Why an action may not be asked for now; "" if it may."""
    if tripped:
        return tripped
    if action.kind in TAKES_OUT and action.node not in out and len(out) >= room:
        return f"budget: {len(out)} nodes are out or asked for, {room} may be"
    return ""


def _out(scene: Scene, standing: Mapping[str, Action], wanted: Mapping[str, Action]) -> set[str]:
    """The nodes out of service for any reason, ours included."""
    out = {n for n, s in scene.states.items() if s.state in OUT_STATES and n in scene.nodes}
    out |= {
        action.node
        for key, action in standing.items()
        if key in wanted and not action.held and action.kind in TAKES_OUT
    }
    return out


def _breaker(scene: Scene, policy: Policy) -> str:
    """Why every action is held: too much was flagged at once and still is. "" if not."""
    flagged = sorted((at.timestamp(), n) for n, at in scene.flagged.items() if n in scene.nodes)
    fleet, within = len(scene.nodes), f"within {policy.breaker_s:g} s"
    least = max(policy.breaker_count, int(policy.breaker_share * fleet) + 1)
    if (burst := _burst(flagged, policy.breaker_s)) >= least:
        return f"breaker: {burst} of {fleet} nodes were flagged {within}"
    if len(flagged) < policy.job_count:
        return ""
    for job in scene.jobs:
        if job.state not in LIVE_JOBS or len(job.nodes) < policy.job_count:
            continue
        mine = set(job.nodes)
        hit = _burst([one for one in flagged if one[1] in mine], policy.breaker_s)
        if hit >= policy.job_count and hit > policy.job_share * len(job.nodes):
            return f"breaker: {hit} of the {len(job.nodes)} nodes of job {job.id} were flagged"
    return ""


def _burst(flagged: Sequence[tuple[float, str]], within_s: float) -> int:
    """The most nodes that were flagged within so many seconds of one another, of those in order."""
    most = first = 0
    for last, (at_s, _) in enumerate(flagged):
        while at_s - flagged[first][0] > within_s:
            first += 1
        most = max(most, last - first + 1)
    return most


def _urgency(action: Action) -> tuple[int, int, str]:
    """Soonest first, then the strongest, then by node: the order in which budgets are spent."""
    return (-_WHEN_RANK[action.when], -_KIND_RANK[action.kind], action.node)
