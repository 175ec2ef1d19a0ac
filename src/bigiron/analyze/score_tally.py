"""What was found of what happened, and who was blamed for nothing: counts, before any figure.

Rules. An episode on a node or device is found by the first suspicion on its *node* between its
onset and its deadline. Whether the right device was named is told by the first of these that names
any device. A shared cause is found by a finding on its group, or on another group of which at least
half the members are the same (then on the wrong group). Nothing raised before the onset counts, and
no hit stands for others (no point adjustment). A suspicion is false if no fault of its node was
going on.
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bigiron.analyze.score_truth import Drain, Episode, Scene, Suspicion
from bigiron.model import Subject

HALF = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one scored episode. ``right`` is None where there was nothing to tell.

    ``reached_s`` is when it was first suspected, useful or not, within its own duration.
    """

    kind: str
    level: str
    found: bool
    delay_s: float
    watched_s: float
    cut: bool
    right: bool | None
    lead_s: float | None
    strength: str = ""
    reached_s: float = math.inf
    left_s: float = 0.0
    """How long the recording goes on after the onset."""


@dataclass(slots=True)
class Watched:
    """One node over one recording."""

    days: float
    suspects: int = 0
    false_suspects: int = 0
    drains: int = 0
    false_drains: int = 0


@dataclass(slots=True)
class Tally:
    """Counts of one recording, or of several put together."""

    outcomes: list[Outcome] = field(default_factory=list)
    harmless: list[tuple[str, bool]] = field(default_factory=list)
    """Class of each benign or shared episode, and whether a node was blamed during it."""
    nodes: dict[tuple[str, str], Watched] = field(default_factory=dict)
    false_by: Counter[tuple[str, str]] = field(default_factory=Counter)
    """False suspicions by detector and fault."""
    recordings: int = 0


def tally(
    scene: Scene,
    episodes: Sequence[Episode],
    suspicions: Iterable[Suspicion],
    drains: Iterable[Drain],
) -> Tally:
    """Compare what was raised with what happened. Order of the inputs does not matter."""
    of_node: dict[str, list[Suspicion]] = defaultdict(list)
    of_groups: list[Suspicion] = []
    for one in sorted(suspicions, key=lambda s: (s.time_s, s.id)):
        if one.subject.by:
            of_groups.append(one)
        else:
            of_node[one.subject.node].append(one)
    counted = Tally(recordings=1)
    for node in scene.nodes:
        counted.nodes[scene.name, node] = Watched(scene.days)
    false = _blame(counted, scene, episodes, of_node, drains)
    for episode in episodes:
        if episode.scored:
            counted.outcomes.append(
                _of_group(scene, episode, of_groups)
                if episode.shared
                else _of_node(scene, episode, of_node.get(episode.subject.node, []))
            )
        if episode.shared or not episode.fault:
            blamed = any(episode.lasts(t) for node in episode.nodes for t in false.get(node, []))
            counted.harmless.append((episode.kind, blamed))
    return counted


def merged(tallies: Iterable[Tally]) -> Tally:
    """Several recordings as one; their names must differ for their nodes to be told apart."""
    whole = Tally()
    for number, one in enumerate(tallies):
        whole.outcomes += one.outcomes
        whole.harmless += one.harmless
        whole.false_by += one.false_by
        whole.recordings += one.recordings
        for (recording, node), watched in one.nodes.items():
            whole.nodes[f"{number}:{recording}", node] = watched
    return whole


def _blame(
    counted: Tally,
    scene: Scene,
    episodes: Iterable[Episode],
    of_node: Mapping[str, Sequence[Suspicion]],
    drains: Iterable[Drain],
) -> dict[str, list[float]]:
    """Count suspicions and drains, false and right; the times of the false ones, by node."""
    faults: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        if episode.blames_node:
            faults[episode.subject.node].append(episode)
    false: dict[str, list[float]] = {}
    for node, raised in of_node.items():
        watched = counted.nodes.setdefault((scene.name, node), Watched(scene.days))
        wrong = [s for s in raised if not any(e.lasts(s.time_s) for e in faults[node])]
        watched.suspects += len(raised)
        watched.false_suspects += len(wrong)
        counted.false_by.update((s.detector, s.fault) for s in wrong)
        false[node] = [s.time_s for s in wrong]
    for drain in drains:
        watched = counted.nodes.setdefault((scene.name, drain.node), Watched(scene.days))
        watched.drains += 1
        watched.false_drains += not any(e.lasts(drain.time_s) for e in faults[drain.node])
    return false


def _of_node(scene: Scene, episode: Episode, raised: Sequence[Suspicion]) -> Outcome:
    deadline = episode.deadline_s()
    first = bisect_left(raised, episode.onset_s, key=lambda s: s.time_s)
    useful = [s for s in raised[first:] if s.time_s <= deadline]
    found = bool(useful)
    right = None
    if found and episode.subject.device:
        named = [s for s in useful if s.subject.device]
        at_once = [s for s in named if s.time_s == named[0].time_s]
        right = any(s.subject.device == episode.subject.device for s in at_once)
    lead = None
    if episode.precursor and episode.fails_s is not None:
        lead = max(0.0, episode.fails_s - useful[0].time_s) if found else 0.0
    delay = useful[0].time_s - episode.onset_s if found else math.inf
    first_s = next((s.time_s for s in raised[first:] if episode.lasts(s.time_s)), math.inf)
    return _outcome(scene, episode, delay, right, lead, first_s - episode.onset_s)


def _of_group(scene: Scene, episode: Episode, raised: Sequence[Suspicion]) -> Outcome:
    deadline = episode.deadline_s()
    useful = [
        s
        for s in raised
        if episode.onset_s <= s.time_s <= deadline and _same(s.subject, episode) >= HALF
    ]
    delay = useful[0].time_s - episode.onset_s if useful else math.inf
    right = any(_same(s.subject, episode) > 1 for s in useful) if useful else None
    return _outcome(scene, episode, delay, right, None, delay)


def _same(subject: Subject, episode: Episode) -> float:
    """2 for the very group, else the members in common over all members of either (Jaccard)."""
    if (subject.by, subject.group) == (episode.subject.by, episode.subject.group):
        return 2.0
    theirs, ours = set(subject.members), set(episode.nodes)
    return len(theirs & ours) / len(theirs | ours) if theirs | ours else 0.0


def _outcome(
    scene: Scene,
    episode: Episode,
    delay_s: float,
    right: bool | None,
    lead_s: float | None,
    reached_s: float,
) -> Outcome:
    deadline_s = episode.deadline_s()
    watched = max(0.0, min(deadline_s, scene.end_s) - episode.onset_s)
    return Outcome(
        kind=episode.kind,
        level=episode.subject.kind,
        found=math.isfinite(delay_s),
        delay_s=delay_s,
        watched_s=watched,
        cut=math.isfinite(deadline_s) and deadline_s > scene.end_s,
        right=right,
        lead_s=lead_s,
        strength=episode.strength,
        reached_s=reached_s,
        left_s=scene.end_s - episode.onset_s,
    )
