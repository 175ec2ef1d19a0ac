"""The figures of a tally: recall, delay, lead, false suspects and drains, each with n and interval.

Every figure is over all episodes, those whose useful time the recording's end cuts short included
(``cut`` says how many): recall is then a lower bound. ``luck`` is how many episodes the detector's
own false suspicions would hit by chance alone.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from bigiron.analyze.intervals import (
    Percentiles,
    Rate,
    Share,
    percentiles,
    rate,
    ratio,
    share,
)
from bigiron.analyze.score_tally import Outcome, Tally

HOUR_S = 3600.0


class ClassScore(msgspec.Struct, frozen=True):
    """One class of faults. Hours; ``delay`` over all episodes, a miss being never."""

    kind: str
    recall: Share
    delay_h: Percentiles
    lead_h: Percentiles
    right: Share
    """Of those found, the right device or group named; n = 0 for faults of a whole node."""
    luck: float = 0.0
    cut: int = 0


class Level(msgspec.Struct, frozen=True):
    """Gradual faults of one size, whatever their class; whole windows only."""

    strength: str
    within_7_days: Share
    within_14_days: Share


class Harmless(msgspec.Struct, frozen=True):
    """One class of what must raise nothing on a node."""

    kind: str
    blamed: Share


class False_(msgspec.Struct, frozen=True):  # noqa: N801  (False is taken)
    """False suspicions of one detector and fault."""

    detector: str
    fault: str
    count: int


class Score(msgspec.Struct, frozen=True):
    """The whole score."""

    recordings: int
    nodes: int
    node_days: float
    classes: tuple[ClassScore, ...]
    faults: ClassScore
    shared: ClassScore
    levels: tuple[Level, ...]
    harmless: tuple[Harmless, ...]
    harmless_total: Share
    false_suspects_per_1000_node_days: Rate
    false_drains_per_1000_node_days: Rate
    drains: int
    right_device: Share
    precision: Share
    base_rate_per_1000_node_days: float | None
    false_suspects: tuple[False_, ...]


def score(counted: Tally) -> Score:
    """The figures of a tally."""
    watched = list(counted.nodes.values())
    days = [w.days for w in watched]
    node_days = sum(days)
    false = rate([w.false_suspects for w in watched], days)
    per_s = (false.count / node_days / 86_400) if node_days else 0.0
    by_kind: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in counted.outcomes:
        by_kind[outcome.kind].append(outcome)
    single = [o for o in counted.outcomes if o.level != "group"]
    shared = [o for o in counted.outcomes if o.level == "group"]
    named = [o for o in single if o.right is not None]
    harmless: dict[str, list[bool]] = defaultdict(list)
    for kind, blamed in counted.harmless:
        harmless[kind].append(blamed)
    return Score(
        recordings=counted.recordings,
        nodes=len(watched),
        node_days=round(node_days, 3),
        classes=tuple(_class(kind, by_kind[kind], per_s) for kind in sorted(by_kind)),
        faults=_class("all faults of nodes", single, per_s),
        shared=_class("all shared causes", shared, per_s),
        levels=_levels(single),
        harmless=tuple(Harmless(k, share(sum(b), len(b))) for k, b in sorted(harmless.items())),
        harmless_total=share(sum(b for _, b in counted.harmless), len(counted.harmless)),
        false_suspects_per_1000_node_days=false,
        false_drains_per_1000_node_days=rate([w.false_drains for w in watched], days),
        drains=sum(w.drains for w in watched),
        right_device=share(sum(o.right is True for o in named), len(named)),
        precision=ratio(
            [w.suspects - w.false_suspects for w in watched], [w.suspects for w in watched]
        ),
        base_rate_per_1000_node_days=1000 * len(single) / node_days if node_days else None,
        false_suspects=tuple(
            False_(detector, fault, count)
            for (detector, fault), count in sorted(
                counted.false_by.items(), key=lambda item: (-item[1], item[0])
            )
        ),
    )


def _class(kind: str, outcomes: Sequence[Outcome], false_per_node_s: float) -> ClassScore:
    named = [o for o in outcomes if o.right is not None]
    leads = [o.lead_s / HOUR_S for o in outcomes if o.lead_s is not None]
    return ClassScore(
        kind=kind,
        recall=share(sum(o.found for o in outcomes), len(outcomes)),
        delay_h=percentiles([o.delay_s / HOUR_S for o in outcomes]),
        lead_h=percentiles(leads),
        right=share(sum(o.right is True for o in named), len(named)),
        luck=_luck(outcomes, false_per_node_s),
        cut=sum(o.cut for o in outcomes),
    )


def _levels(outcomes: Iterable[Outcome]) -> tuple[Level, ...]:
    of: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.strength:
            of[outcome.strength].append(outcome)
    return tuple(Level(s, _within(of[s], 7), _within(of[s], 14)) for s in sorted(of))


def _within(outcomes: Iterable[Outcome], days: float) -> Share:
    """Found within so many days, of those that were watched as long or found."""
    limit_s = days * 86_400
    whole = [o for o in outcomes if o.left_s >= limit_s or o.reached_s <= limit_s]
    return share(sum(o.reached_s <= limit_s for o in whole), len(whole))


def _luck(outcomes: Iterable[Outcome], false_per_node_s: float) -> float:
    """Episodes of single nodes that as many suspicions spread evenly would hit."""
    single = (o.watched_s for o in outcomes if o.level != "group")
    return sum(1 - math.exp(-false_per_node_s * watched) for watched in single)
