"""Rollouts: a value on its way in, and the one on its way out. Who is part of it is not at fault.

A wave is known by how nodes came to a value (``comings``): by planned work; with no reason told,
but several of them to a newer version; or most of a ring or rack within a day. One node alone
with a newer version may be its first: it is told, and is drift if none follows. Whoever has an
*older* version, or comes from a repair, is no wave.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import NamedTuple

from bigiron.detect import Window
from bigiron.detect.golden.comings import MANY, Coming, How, Plans, strays
from bigiron.detect.golden.pools import Held, Pool
from bigiron.detect.golden.values import newer
from bigiron.detect.shared_cause.places import levels
from bigiron.detect.shared_cause.scan import scan
from bigiron.model import FactValue

NAME = "golden"
WAVE = "config.drift"
"""The fault of a wave's finding."""

ALONE = timedelta(hours=5)
"""The first node of a wave may be alone with a newer version for so long: what differs after a
repair must be known within six hours."""

TOGETHER = timedelta(days=1)
"""So many as ``MANY`` in one ring or rack within a day, most of it, meant it."""

PAUSE = timedelta(days=1)
"""A ring in which nobody has changed for so long is done; who has not changed is left behind."""

ROLLOUT = timedelta(days=7)
"""So long the next ring may wait for its turn."""

FEW, FEW_SHARE = 2, 0.1
"""So many may be left behind one by one; more are a rollout that stands still."""

FORGOTTEN = timedelta(days=6)
"""Planned work is not remembered much longer: a wave that was told as one by then stays one."""

BY = ("ring", "rack")

EARLY_RINGS = ("canary", "early", "pilot", "test", "dev", "first")
"""How rings may be called that go first."""


class Wave(NamedTuple):
    """A pool in motion: values on their way in, and those on their way out.

    ``came`` is when each node came to a value on its way in, ``moved`` when to the usual one.
    ``waiting`` are the nodes that still have a value on its way out and whose turn may come,
    ``behind`` those that the wave has left behind. ``alone`` is until when a single node may be
    the first of a wave.
    """

    usual: FactValue
    coming: frozenset[FactValue] = frozenset()
    leaving: frozenset[FactValue] = frozenset()
    came: Mapping[str, datetime] = {}
    moved: Mapping[str, datetime] = {}
    waiting: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()
    alone: datetime | None = None

    @property
    def moves(self) -> bool:
        """Whether there is a wave at all."""
        return bool(self.coming or self.waiting)

    @property
    def moving(self) -> frozenset[FactValue]:
        """All values that are nobody's drift, the usual one among them."""
        return self.coming | self.leaving | {self.usual}


class Elsewhere(NamedTuple):
    """What other pools of a fact tell, those of other SKUs: the ``values`` that come in there, and
    whether a rollout has moved there ``lately``."""

    values: frozenset[FactValue] = frozenset()
    lately: bool = False


NOWHERE = Elsewhere()


def elsewhere(window: Window, others: Iterable[Wave]) -> Elsewhere:
    """What other pools of a fact tell; one node that may be a first tells nothing."""
    sure = [at for at in others if at.moves and at.alone is None]
    times = [max((at.came if at.coming else at.moved).values(), default=None) for at in sure]
    lately = any(time is not None and window.now - time <= ROLLOUT for time in times)
    return Elsewhere(frozenset().union(*(at.coming for at in sure)), lately)


def wave(
    window: Window,
    pool: Pool,
    plans: Plans,
    others: Elsewhere = NOWHERE,
    known: frozenset[str] = frozenset(),
) -> Wave:
    """What moves in a pool. ``others`` is what other pools of the same fact tell.

    ``known`` are nodes whose drift stands: they are not taken for latecomers of a wave.
    """
    look = _Look(window, pool, plans, others, known)
    usual = pool.usual
    since = {value: pool.since(value) for value in pool.counts}
    until: dict[FactValue, datetime | None] = {}
    for value in pool.counts:
        rest = [times for other, times in since.items() if other != value]
        if value != usual:
            moves, alone = look.comes_in(value, usual, since[value], rest)
            if moves:
                until[value] = alone
    came = {n: at for v in until for n, at in since[v].items() if not plans.always(n, at)}
    at = _leaving(look, usual, {v: times for v, times in since.items() if v not in until})
    alone = next(iter(until.values())) if len(until) == 1 else None
    return at._replace(coming=frozenset(until), came=came, alone=alone)


def _leaving(
    look: "_Look", usual: FactValue, since: Mapping[FactValue, Mapping[str, datetime]]
) -> Wave:
    """A wave that most nodes have been through."""
    moved = {n: at for n, at in since[usual].items() if not look.plans.always(n, at)}
    if 2 * len(moved) <= len(since[usual]) or not moved:
        return Wave(usual)
    changed = sorted(moved.values())[len(moved) // 2]
    leaving: set[FactValue] = set()
    late: set[str] = set()
    for value, times in since.items():
        before = {n for n, at in times.items() if at < changed and n not in look.known}
        if value != usual and any(look.plans.always(n, times[n]) for n in before):
            leaving.add(value)
            late |= before
    few = len(late) <= max(FEW, FEW_SHARE * len(look.pool.nodes))
    behind = {node for node in late if few and look.passed_by(node, moved)}
    return Wave(
        usual,
        leaving=frozenset(leaving),
        moved=moved,
        waiting=frozenset(late - behind),
        behind=frozenset(behind),
    )


class _Look:
    """What is asked of one pool."""

    def __init__(
        self,
        window: Window,
        pool: Pool,
        plans: Plans,
        elsewhere: Elsewhere,
        known: frozenset[str],
    ) -> None:
        self.window, self.pool, self.plans = window, pool, plans
        self.elsewhere, self.known = elsewhere, known

    def comes_in(
        self,
        value: FactValue,
        usual: FactValue,
        since: Mapping[str, datetime],
        others: Sequence[Mapping[str, datetime]],
    ) -> tuple[bool, datetime | None]:
        """Whether a value comes in as a wave, and until when that rests on one node alone."""
        order = self.pool.relevant.order
        later = newer(self.pool.shown[value], self.pool.shown[usual], order)
        comings = self.plans.comings(since)
        came = {n: c for n, c in comings.items() if c.how is not How.ALWAYS}
        if not came:
            return later and len(since) > 1, None
        lost = strays(self.plans, came, others)
        ways: dict[How, list[str]] = {how: [] for how in How}
        for node, coming in comings.items():
            ways[How.REPAIR if node in lost else coming.how].append(node)
        if self._remembered(came):
            return True, None
        if later:
            return self._newer(value, ways, came)
        return self._other(ways, came), None

    def _newer(
        self,
        value: FactValue,
        ways: Mapping[How, Sequence[str]],
        came: Mapping[str, Coming],
    ) -> tuple[bool, datetime | None]:
        """Whether a newer version comes in."""
        if ways[How.UPDATE] or ways[How.WORK] or value in self.elsewhere.values:
            return True, None
        free = ways[How.UNTOLD]
        if free and (len(free) + len(ways[How.ALWAYS]) > 1 or self.elsewhere.lately):
            return True, None
        if _most_within([came[n].at for n in ways[How.REPAIR]], TOGETHER) >= MANY:
            return True, None
        for node in free:
            until = came[node].at + ALONE
            if self.window.now <= until and self._goes_first(node):
                return True, until
        return False, None

    def _other(self, ways: Mapping[How, Sequence[str]], came: Mapping[str, Coming]) -> bool:
        """Whether an older version, or a value that has no order, comes in."""
        planned = len(ways[How.UPDATE]) + len(ways[How.WORK])
        if 2 * planned > len(came) and len(came) > 1:
            return True
        if ways[How.UPDATE] and self.pool.relevant.order not in ("version", "hex"):
            return True
        times = sorted(coming.at for coming in came.values())
        together = len(times) >= MANY and times[-1] - times[0] <= TOGETHER
        return together and self._aligned(came.keys())

    def _remembered(self, came: Mapping[str, Coming]) -> bool:
        """Whether this was told as a wave long ago and nobody has changed since.

        By then its announcement may be forgotten; one node alone would long be drift.
        """
        last = max(coming.at for coming in came.values())
        if self.window.now - last < FORGOTTEN or came.keys() <= self.known:
            return False
        return f"{NAME}|{WAVE}|rollout:{wave_name(self.pool)}" in (self.window.standing or ())

    def _goes_first(self, node: str) -> bool:
        """Whether a node may be where a rollout begins: in the first ring, or in no ring."""
        rings: dict[str, int] = {}
        fleet = self.window.fleet.nodes
        for name in self.pool.nodes:
            if name in fleet and fleet[name].ring:
                rings[fleet[name].ring] = rings.get(fleet[name].ring, 0) + 1
        own = fleet[node].ring if node in fleet else ""
        if len(rings) < 2 or not own or own.lower().startswith(EARLY_RINGS):
            return True
        smallest = min(rings.values())
        return own == min(rings) or rings[own] == smallest

    def _aligned(self, came: Set[str]) -> bool:
        """Whether most nodes of one ring or rack came to it, more than chance would have it."""
        fleet = self.window.fleet.nodes
        eligible = set(fleet)
        places = levels(fleet, BY)
        return bool(scan(came & eligible, eligible, places, least=MANY, share=0.5))

    def passed_by(self, node: str, moved: Mapping[str, datetime]) -> bool:
        """Whether a wave has gone through a node's ring (or rack) and left it behind."""
        fleet = self.window.fleet.nodes
        place = next(((by, p) for by in BY if (p := getattr(fleet.get(node), by, ""))), None)
        mates = moved
        if place is not None:
            by, name = place
            mates = {n: at for n, at in moved.items() if getattr(fleet.get(n), by, "") == name}
        patience = PAUSE if mates else ROLLOUT
        return self.window.now - max((mates or moved).values()) > patience


def wave_name(pool: Pool) -> str:
    """A wave's name: the fact, and whose it is where SKUs have waves of their own."""
    return f"{pool.name} of {pool.like.sku}" if pool.like.sku else pool.name


def lone(pool: Pool, odd: Mapping[str, Sequence[Held]], usual: FactValue, plans: Plans) -> set[str]:
    """The nodes that came to what differs alone, each for itself: they outvote nobody.

    One or two that came to the same value, or to an older version with no three within a day.
    """
    came: dict[FactValue, dict[str, datetime]] = {}
    for node, of_node in odd.items():
        for held in of_node:
            if held.fact.time is not None and not plans.always(node, held.fact.time):
                came.setdefault(held.value, {})[node] = held.fact.time
    order = pool.relevant.order
    found: set[str] = set()
    for value, times in came.items():
        older = newer(pool.shown[usual], pool.shown[value], order)
        if len(times) < MANY or (older and _most_within(list(times.values()), TOGETHER) < MANY):
            found |= times.keys()
    return found


def _most_within(times: Sequence[datetime], span: timedelta) -> int:
    """The largest number of times that lie within a span."""
    ordered = sorted(times)
    most = first = 0
    for last, time in enumerate(ordered):
        while time - ordered[first] > span:
            first += 1
        most = max(most, last + 1 - first)
    return most


def told_by(window: Window, pool: Pool, values: Set[FactValue]) -> str:
    """How far values have come, ring by ring or rack by rack: ``ring0 4 of 4, ring1 3 of 5``."""
    holders = {held.key[0] for held in pool.held if held.value in values}
    for by, groups in levels(window.fleet.nodes, BY).items():
        parts = []
        for name in sorted(groups):
            of = groups[name] & pool.nodes.keys()
            if done := len(of & holders):
                parts.append(f"{name} {done} of {len(of)}")
        if parts and len(parts) <= 8:
            return f"By {by}: {', '.join(parts)}."
    return ""
