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
from bigiron.detect.golden.facts import DRIVER, READS, WITH_DRIVER, Relevant
from bigiron.detect.golden.pools import MIN_UNANIMOUS, Held, Pool, agreed, sorted_facts
from bigiron.detect.limits import codes_told
from bigiron.detect.planned import EARLY
from bigiron.model import FactValue, Finding

ALIKE = 3
"""So many devices of one node that differ alike are told as one thing."""

SETTLING = timedelta(hours=2)
"""So long planned work may leave a node half-way; then what it has is told, work or not."""


@detector(reads=READS, every_s=60.0)
def golden(window: Window) -> Iterator[Finding]:
    """Facts that differ from the declared golden config or from nearly all of their like."""
    told = codes_told(window) if window.declared else frozenset()
    exempt, over = _exceptions(window)
    found = sorted_facts(window, told, exempt)
    for (_, name, allowed), held in found.differing.items():
        held = [h for h in held if not _half_way(window, h)]
        relevant = facts.relevant(name)
        if held and relevant is not None:
            yield from _apart(window, held, relevant, allowed, over)
    differing = [pool for pool in found.pools if len(pool.nodes) >= MIN_UNANIMOUS]
    waves = [wave.wave(window, pool) for pool in differing]
    driver = any(
        at.moves and facts.ALIASES.get(pool.name, pool.name) == DRIVER
        for pool, at in zip(differing, waves, strict=True)
    )
    for pool, at in zip(differing, waves, strict=True):
        if at.moves and not (driver and facts.ALIASES.get(pool.name, pool.name) in WITH_DRIVER):
            yield sayings.rollout(window, pool, at)
        yield from _derived(window, pool, at, over)


Over = dict[tuple[str, str], str]
"""By node and fact: what an exception that has ended said."""


def _exceptions(
    window: Window,
) -> tuple[dict[tuple[str, str], tuple[FactValue, ...]], Over]:
    """What is excused now, and which excuses are over."""
    exempt: dict[tuple[str, str], tuple[FactValue, ...]] = {}
    over: Over = {}
    for one in window.exempt:
        for node in one.nodes:
            if window.now < one.until:
                exempt[node, one.fact] = (*exempt.get((node, one.fact), ()), *one.values)
            else:
                why = f" ({one.why})" if one.why else ""
                over[node, one.fact] = (
                    f"The exception for it ended at {one.until:%Y-%m-%d %H:%M}{why}."
                )
    return exempt, over


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
        alike.setdefault(held.fact.value, []).append(held)
    for same in alike.values():
        ended = over.get((same[0].key[0], same[0].fact.name), "")
        told = [same] if len(same) >= ALIKE else [[held] for held in same]
        for one in told:
            yield sayings.differs(window, one, relevant, allowed, others=others, ended=ended)


def _derived(window: Window, pool: Pool, at: wave.Wave, over: Over) -> Iterator[Finding]:
    """What differs from nearly all its like and is no part of a wave."""
    odd: dict[str, list[Held]] = {}
    for held in pool.held:
        if not _in_order(pool, at, held) and not _half_way(window, held):
            odd.setdefault(held.key[0], []).append(held)
    for node, of_node in odd.items():
        others = [values for other, values in pool.nodes.items() if other != node]
        if agreed(sum(values <= at.moving for values in others), len(others)):
            should = (at.usual, *sorted(at.coming, key=str))
            yield from _apart(window, of_node, pool.relevant, should, over, len(others))


def _in_order(pool: Pool, at: wave.Wave, held: Held) -> bool:
    """Whether a value is the usual one, part of a wave, or better."""
    value = held.fact.value
    if value in at.leaving:
        return wave.left_behind(at, held.fact.time)
    return value in at.moving or facts.better(value, at.usual, pool.relevant.order)
