"""Rollouts: a value on its way in, and the one on its way out. Who is part of it is not at fault.

A wave is known by its announcement (planned work), by a newer version that several nodes have
taken up, or by a ring or rack of which most have. A node alone with an *older* value is no wave.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bigiron.detect import Window
from bigiron.detect.golden.facts import newer
from bigiron.detect.golden.pools import Pool
from bigiron.detect.planned import EARLY, GRACE
from bigiron.detect.shared_cause.places import levels
from bigiron.detect.shared_cause.scan import scan
from bigiron.model import FactValue, Maintenance

ROLLOUT = timedelta(days=7)
"""A wave in which nobody has changed for so long is over, whoever has not."""

FIRST_LOOK = timedelta(minutes=10)
"""The facts of a node come from several sources, not all at once."""

ALONE = timedelta(hours=5)
"""The first node of a wave may be alone with a newer version for so long."""

TOGETHER = timedelta(days=1)
MANY = 3
"""So many in one ring or rack within a day, most of it, meant it whatever the version."""

BY = ("ring", "rack")
UPDATES = (
    *("firmware", "upgrade", "update", "rollout", "driver", "kernel", "bios", "vbios", "image"),
    *("patch", "software"),
)
"""Words by which planned work tells that it changes what nodes run."""


class Wave(NamedTuple):
    """A pool in motion: values on their way in, and those on their way out."""

    coming: frozenset[FactValue]
    leaving: frozenset[FactValue]
    usual: FactValue
    changed: datetime | None
    """When the median node came to the usual value, if that one is coming."""

    @property
    def moves(self) -> bool:
        """Whether there is a wave at all."""
        return bool(self.coming or self.leaving)

    @property
    def moving(self) -> frozenset[FactValue]:
        """All values that are nobody's drift, the usual one among them."""
        return self.coming | self.leaving | {self.usual}


def wave(window: Window, pool: Pool) -> Wave:
    """What moves in a pool. Both sets are empty if nothing does."""
    usual = pool.usual
    coming = {v for v in pool.counts if v != usual and _coming(window, pool, v, usual)}
    changed = _changed(window, pool, usual)
    leaving: set[FactValue] = set()
    if changed is not None and window.now - changed <= ROLLOUT:
        leaving = {v for v in pool.counts if v != usual and _was_held(window, pool, v, changed)}
    return Wave(frozenset(coming), frozenset(leaving - coming), usual, changed)


def left_behind(at: Wave, since: datetime | None) -> bool:
    """Whether a node has only not moved on yet; one that *came* to the old value is at fault."""
    return at.changed is not None and since is not None and since < at.changed


def _coming(window: Window, pool: Pool, value: FactValue, usual: FactValue) -> bool:
    since = pool.since(value)
    came = {node: at for node, at in since.items() if not _always(window, node, at)}
    later = newer(value, usual, pool.relevant.order)
    if not came:
        return later and len(since) > 1
    last = max(came.values())
    if window.now - last > ROLLOUT:
        return False
    if later and (len(since) > 1 or window.now - last <= ALONE):
        return True
    announced = [node for node, at in came.items() if _announced(window, node, at)]
    if 2 * len(announced) > len(came) and (later or len(came) > 1):
        return True
    return len(came) >= MANY and last - min(came.values()) <= TOGETHER and _aligned(window, came)


def _changed(window: Window, pool: Pool, usual: FactValue) -> datetime | None:
    """When the median holder came to the usual value; None if most have always held it."""
    since = pool.since(usual)
    came = sorted(at for node, at in since.items() if not _always(window, node, at))
    if 2 * len(came) <= len(since):
        return None
    return came[len(came) // 2]


def _was_held(window: Window, pool: Pool, value: FactValue, changed: datetime) -> bool:
    """Whether some node has held a value from the first and has only not changed yet."""
    since = pool.since(value)
    return any(at < changed and _always(window, node, at) for node, at in since.items())


def _always(window: Window, node: str, since: datetime) -> bool:
    """Whether what a node has held since then is what it had when first seen."""
    return since <= _first_seen(window, node) + FIRST_LOOK


def _first_seen(window: Window, node: str) -> datetime:
    """When the first fact of a node was seen: what has not changed since then was always so."""
    times = [f.time for f in window.facts.get((node, ""), {}).values() if f.time is not None]
    return min(times, default=datetime.max.replace(tzinfo=UTC) - FIRST_LOOK)


def _announced(window: Window, node: str, at: datetime) -> bool:
    """Whether planned work on several nodes, or that tells of an update, was on at the time."""
    return any(
        node in work.nodes
        and work.start - EARLY <= at <= work.end + GRACE
        and (len(work.nodes) >= MANY or updates(work))
        for work in window.maintenance
    )


def updates(work: Maintenance) -> bool:
    """Whether planned work says that it changes what nodes run."""
    kind = work.kind.lower()
    return any(word in kind for word in UPDATES)


def _aligned(window: Window, came: Mapping[str, datetime]) -> bool:
    """Whether most nodes of one ring or rack came to it, more than chance would have it."""
    fleet = window.fleet.nodes
    places = levels(fleet, BY)
    eligible = set(fleet)
    hits = scan(came.keys() & eligible, eligible, places, least=MANY, share=0.5)
    return bool(hits)


def told_by(window: Window, pool: Pool, value: FactValue) -> str:
    """How far a value has come, ring by ring or rack by rack: ``ring0 4 of 4, ring1 3 of 5``."""
    holders = {held.key[0] for held in pool.held if held.fact.value == value}
    for by, groups in levels(window.fleet.nodes, BY).items():
        parts = []
        for name in sorted(groups):
            of = groups[name] & pool.nodes.keys()
            if done := len(of & holders):
                parts.append(f"{name} {done} of {len(of)}")
        if parts and len(parts) <= 8:
            return f"By {by}: {', '.join(parts)}."
    return ""
