"""Facts that differ from what they should be: declared by the site, or derived from the fleet.

Only facts with a consequence are looked at (``facts``), and each says what the difference does.
Declared values beat derived ones. A derived value needs near-certainty that nearly all others
hold it (``pools``); where there is no consensus nothing is flagged, a rollout is told as one thing
(``wave``), and what is excused stays so until its exception ends.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from bigiron.detect import Window, detector
from bigiron.detect.golden import facts, sayings, wave
from bigiron.detect.golden.comings import Plans
from bigiron.detect.golden.ended import Over, exceptions, recoveries
from bigiron.detect.golden.facts import DRIVER, READS, WITH_DRIVER, Relevant
from bigiron.detect.golden.pools import (
    MIN_UNANIMOUS,
    Held,
    Pool,
    settled,
    sorted_facts,
)
from bigiron.detect.golden.values import better
from bigiron.detect.limits import codes_told
from bigiron.detect.planned import EARLY
from bigiron.model import FactValue, Finding, Recovery

ALIKE = 3
"""So many devices of one node that differ alike are told as one thing."""

SETTLING = timedelta(hours=2)
"""So long planned work may leave a node half-way; then what it has is told, work or not."""


@detector(reads=READS, every_s=60.0)
def golden(window: Window) -> Iterator[Finding | Recovery]:
    """Facts that differ from the declared golden config or from nearly all of their like."""
    found = list(_found(window))
    yield from found
    yield from recoveries(window, found)


def _found(window: Window) -> Iterator[Finding]:
    told = codes_told(window) if window.declared else frozenset()
    exempt, over = exceptions(window)
    found = sorted_facts(window, told, exempt)
    for (_, name, allowed), every in found.differing.items():
        held = [h for h in every if not _half_way(window, h)]
        relevant = facts.relevant(name)
        if held and relevant is not None:
            yield from _apart(window, held, relevant, allowed, over)
    differing = [pool for pool in found.pools if len(pool.nodes) >= MIN_UNANIMOUS]
    plans = Plans(window)
    waves = _waves(window, differing, plans)
    driver = any(
        at.moves and facts.proper(pool.name) == DRIVER
        for pool, at in zip(differing, waves, strict=True)
    )
    for pool, at in zip(differing, waves, strict=True):
        with_driver = driver and facts.proper(pool.name) in WITH_DRIVER
        if at.moves and not with_driver:
            yield sayings.rollout(window, pool, at)
        if not with_driver:
            yield from (sayings.behind(pool, at, node) for node in sorted(at.behind))
        yield from _derived(window, pool, at, over, plans)


def _waves(window: Window, pools: Sequence[Pool], plans: Plans) -> list[wave.Wave]:
    """What moves in each pool; what comes in for one SKU is no surprise for another."""
    known = [_known(window, pool) for pool in pools]
    first = [wave.wave(window, p, plans, known=k) for p, k in zip(pools, known, strict=True)]
    waves = []
    for number, (pool, at, standing) in enumerate(zip(pools, first, known, strict=True)):
        others = [
            other
            for n, other in enumerate(first)
            if n != number and facts.proper(pools[n].name) == facts.proper(pool.name)
        ]
        elsewhere = wave.elsewhere(window, others)
        again = elsewhere.lately or (elsewhere.values & pool.counts.keys()) - at.moving
        waves.append(wave.wave(window, pool, plans, elsewhere, standing) if again else at)
    return waves


def _known(window: Window, pool: Pool) -> frozenset[str]:
    """The nodes of a pool whose drift in this fact stands."""
    fault = f"{wave.NAME}|{pool.relevant.fault}.{pool.name}|"
    keys = [key for key in window.standing or () if key.startswith(fault)]
    return frozenset(key.removeprefix(fault).partition("/")[0] for key in keys)


def _half_way(window: Window, held: Held) -> bool:
    """Whether planned work on the node, begun before it came to this value, still goes on."""
    node, since = held.key[0], held.fact.time
    if since is None or window.now - since > SETTLING:
        return False
    return any(
        node in work.nodes and work.start - EARLY <= since and window.now <= work.end
        for work in window.maintenance
    )


def _apart(
    window: Window,
    every: Sequence[Held],
    relevant: Relevant,
    allowed: Sequence[FactValue],
    over: Over,
    others: int = 0,
) -> Iterator[Finding]:
    """What differs on one node; three of its devices alike are one thing about it."""
    alike: dict[FactValue, list[Held]] = {}
    for held in every:
        alike.setdefault(held.value, []).append(held)
    for same in alike.values():
        ended = over.get((same[0].key[0], facts.proper(same[0].fact.name)), "")
        told = [same] if len(same) >= ALIKE else [[held] for held in same]
        for one in told:
            yield sayings.differs(window, one, relevant, allowed, others=others, ended=ended)


def _derived(
    window: Window, pool: Pool, at: wave.Wave, over: Over, plans: Plans
) -> Iterator[Finding]:
    """What differs from nearly all its like and is no part of a wave."""
    odd: dict[str, list[Held]] = {}
    for held in pool.held:
        if held.value == at.usual or _in_order(pool, at, held):
            continue
        if not _half_way(window, held):
            odd.setdefault(held.key[0], []).append(held)
    if not odd:
        return
    lone = wave.lone(pool, odd, at.usual, plans)
    should = tuple(pool.shown[v] for v in (at.usual, *sorted(at.coming, key=str)))
    for node, of_node in odd.items():
        others = [held for other, held in pool.nodes.items() if other not in {node, *lone}]
        if settled(sum(held <= at.moving for held in others), len(others), len(pool.nodes) - 1):
            yield from _apart(window, of_node, pool.relevant, should, over, len(pool.nodes) - 1)


def _in_order(pool: Pool, at: wave.Wave, held: Held) -> bool:
    """Whether a value is the usual one, part of a wave, or better."""
    if held.value in at.leaving:
        return held.key[0] in at.waiting or held.key[0] in at.behind
    return held.value in at.moving or better(held.value, at.usual, pool.relevant.order)
