"""Findings about facts, in words: who has what, what it should be, what the difference does."""

from collections.abc import Sequence
from datetime import datetime

from bigiron.detect import Window
from bigiron.detect.claims import INFO, claim
from bigiron.detect.golden.facts import Relevant, label, said
from bigiron.detect.golden.pools import Held, Pool
from bigiron.detect.golden.wave import Wave, told_by
from bigiron.detect.words import device_words, sentence
from bigiron.model import (
    Evidence,
    FactValue,
    Finding,
    Subject,
)

NAME = "golden"


def rollout(window: Window, pool: Pool, at: Wave) -> Finding:
    """One finding of a wave, of which no node is to blame."""
    minority = [v for v in (*at.coming, *at.leaving) if v != at.usual]
    values = set(minority)
    members = sorted({h.key[0] for h in pool.held if h.fact.value in values})
    told = ", ".join(sorted(said(pool.name, v) for v in values))
    count = f"{len(members)} node holds" if len(members) == 1 else f"{len(members)} nodes hold"
    text = f"{count} {pool.name} {told} beside the usual {said(pool.name, at.usual)}: a rollout."
    new = at.usual if at.leaving else max(minority, key=lambda v: (pool.counts[v], str(v)))
    times = [h.fact.time for h in pool.held if h.fact.value in values and h.fact.time]
    evidence = (Evidence("fact", told, max(times, default=None), metric=f"fact:{pool.name}"),)
    return claim(
        NAME,
        pool.relevant.fault,
        Subject(by="rollout", group=_wave_of(pool), members=tuple(members)),
        (text, told_by(window, pool, new)),
        since=min(times, default=None),
        evidence=evidence,
        asks=INFO,
    )


def _wave_of(pool: Pool) -> str:
    """A wave's name: the fact, and whose it is where SKUs have waves of their own."""
    return f"{pool.name} of {pool.like.sku}" if pool.like.sku else pool.name


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
    (node, device), fact = same[0]
    should = " or ".join(said(fact.name, v) for v in allowed)
    whose = f"as nearly all of {others} others" if others else "as declared"
    has = f"{label(fact.name)} {said(fact.name, fact.value)}"
    if len(same) == 1:
        who = f"{device_words(window, node, device)} of {node}" if device else node
        text = _sentence(who, f"has {has}; it should be {should}, {whose}")
    else:
        devices = ", ".join(held.key[1] for held in same)
        text = (
            f"{node}: {len(same)} devices ({devices}) have {has}; it should be {should}, {whose}."
        )
        device = ""
    return claim(
        NAME,
        f"{relevant.fault}.{fact.name}",
        Subject(node=node, device=device),
        (text, relevant.effect, ended),
        since=_first([held.fact.time for held in same]),
        evidence=tuple(_evidence(held) for held in same),
        confidence=0.8 if others else 1.0,
    )


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
