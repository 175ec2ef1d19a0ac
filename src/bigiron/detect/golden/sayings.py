"""Findings about facts, in words: who has what, what it should be, what the difference does."""

from collections.abc import Sequence
from datetime import datetime

from bigiron.detect import Window
from bigiron.detect.claims import INFO, claim
from bigiron.detect.golden.facts import Relevant
from bigiron.detect.golden.pools import Held, Pool
from bigiron.detect.golden.values import label, other_words, said
from bigiron.detect.golden.wave import NAME, PAUSE, WAVE, Wave, told_by, wave_name
from bigiron.detect.words import device_words, sentence
from bigiron.model import (
    Evidence,
    FactValue,
    Finding,
    Subject,
)

BEHIND = "config.behind"


def rollout(window: Window, pool: Pool, at: Wave) -> Finding:
    """One finding of a wave, of which no node is to blame."""
    odd = [h for h in pool.held if h.value in at.coming or h.key[0] in at.waiting]
    odd = [h for h in odd if h.value != at.usual]
    members = sorted({held.key[0] for held in odd})
    times = [held.fact.time for held in odd if held.fact.time is not None]
    told = ", ".join(sorted({pool.said(held.value) for held in odd}))
    evidence = (Evidence("fact", told, max(times, default=None), metric=f"fact:{pool.name}"),)
    changed = at.came if at.coming else at.moved
    return claim(
        NAME,
        WAVE,
        Subject(by="rollout", group=wave_name(pool), members=tuple(members)),
        _wave_words(window, pool, at, members),
        since=min(changed.values(), default=min(times, default=None)),
        evidence=evidence,
        asks=INFO,
    )


def _wave_words(window: Window, pool: Pool, at: Wave, members: Sequence[str]) -> tuple[str, ...]:
    """What is rolled out, how far it is, whether it stands still."""
    old = {at.usual} if at.coming else at.leaving
    new = at.coming or {at.usual}
    name = label(pool.name)
    before, after = (" and ".join(sorted(map(pool.said, values))) for values in (old, new))
    if at.alone is not None and len(members) == 1:
        others = len(pool.nodes) - 1
        return (
            f"{members[0]} alone has {name} {after}, newer than the {before} of {others} others: "
            "perhaps the first of a rollout.",
            f"If no other node has followed by {at.alone:%Y-%m-%d %H:%M} UTC, it is drift.",
        )
    done = sum(not held.isdisjoint(new) for held in pool.nodes.values())
    text = f"A rollout: {name} {after} in place of {before}, on {done} of {len(pool.nodes)} nodes."
    last = max((at.came if at.coming else at.moved).values(), default=None)
    still = last is not None and window.now - last > PAUSE
    stands = "No node has changed for more than a day." if still else ""
    return (text, told_by(window, pool, new), stands)


def behind(pool: Pool, at: Wave, node: str) -> Finding:
    """A node that a rollout has left behind: it is told, and nobody is blamed."""
    own = [held for held in pool.held if held.key[0] == node and held.value in at.leaving]
    moved = len(at.moved)
    has = own[0].fact.value
    text = (
        f"{node} still has {label(pool.name)} {said(pool.name, has)}: the rollout of "
        f"{pool.said(at.usual)} to {moved} others has left it behind."
    )
    last = max(at.moved.values())
    return claim(
        NAME,
        f"{BEHIND}.{pool.name}",
        Subject(node=node),
        (text, pool.relevant.effect),
        since=last,
        evidence=tuple(_evidence(held) for held in own[:8]),
        asks=INFO,
    )


def differs(
    window: Window,
    same: Sequence[Held],
    relevant: Relevant,
    allowed: Sequence[FactValue],
    *,
    others: int = 0,
    ended: str = "",
) -> Finding:
    """Devices of a node, or it itself, that differ alike; several are told as the node's.

    ``others`` is how many hold what is usual, 0 where it is declared; ``ended`` tells of an
    exception that is over.
    """
    (node, device), fact = same[0].key, same[0].fact
    whose = f"as nearly all of {others} others" if others else "as declared"
    plural = len(same) > 1
    what = _what(relevant, fact.name, fact.value, allowed, plural=plural)
    if plural:
        devices = ", ".join(held.key[1] for held in same)
        text = f"{node}: {len(same)} devices ({devices}) {what}, {whose}."
        device = ""
    else:
        who = f"{device_words(window, node, device)} of {node}" if device else node
        text = _sentence(who, f"{what}, {whose}")
    return claim(
        NAME,
        f"{relevant.fault}.{fact.name}",
        Subject(node=node, device=device),
        (text, relevant.effect, ended),
        since=_first([held.fact.time for held in same]),
        evidence=tuple(_evidence(held) for held in same),
        confidence=0.8 if others else 1.0,
    )


def _what(
    relevant: Relevant,
    name: str,
    value: FactValue,
    allowed: Sequence[FactValue],
    *,
    plural: bool,
) -> str:
    """``has driver version 1; it should be 2``; of sets of settings what is more and what less."""
    if relevant.order == "words":
        parts = min((other_words(value, v) for v in allowed), key=len)
        return f"{'differ' if plural else 'differs'} in {label(name)}: it {parts}"
    should = " or ".join(said(name, v) for v in allowed)
    has = "have" if plural else "has"
    return f"{has} {label(name)} {said(name, value)}; it should be {should}"


def _first(times: Sequence[datetime | None]) -> datetime | None:
    return min((time for time in times if time is not None), default=None)


def _sentence(who: str, text: str) -> str:
    """A node's name stands as it is, a part's noun gets a capital."""
    return sentence(f"{who} {text}") if " " in who else f"{who} {text}."


def _evidence(held: Held) -> Evidence:
    fact = held.fact
    of = f" of {held.key[1]}" if held.key[1] else ""
    text = f"{fact.name}{of} = {fact.value}"
    return Evidence("fact", text, fact.time, metric=f"fact:{fact.name}")
