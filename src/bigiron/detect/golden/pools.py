"""Who should hold the same value of a fact, and who does: sorted until a fact changes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from bigiron.detect import Key, Window
from bigiron.detect.consensus import share_above
from bigiron.detect.golden import facts, values
from bigiron.detect.golden.facts import Relevant
from bigiron.detect.words import kind_of
from bigiron.model import Fact, FactValue

CONSENSUS = 0.9
"""A value is golden if nearly surely more than this share of the fleet holds it (methods.md 3.4:
a Dirichlet majority, told by its marginal Beta)."""

CERTAINTY = 0.95
MIN_NODES = 20
MIN_UNANIMOUS = 8
"""With fewer than 20 nodes all others must agree, and there must be at least eight."""


SETTLED = 0.75
"""So many of the others must not themselves have changed: a fleet in motion has no golden value."""

NODE = "node"
"""The kind by which declared facts are about nodes themselves."""


class Held(NamedTuple):
    """One subject's fact, and the value it counts as."""

    key: Key
    fact: Fact
    value: FactValue


class Like(NamedTuple):
    """What the subjects of a pool have in common besides the fact's name."""

    sku: str
    role: str
    kind: str
    model: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """The subjects that should share a fact's value; ``nodes`` hold these values.

    ``counts`` is by node: on how many each value was seen; ``shown`` is how each is written.
    """

    name: str
    like: Like
    relevant: Relevant
    held: Sequence[Held]
    nodes: Mapping[str, frozenset[FactValue]]
    counts: Mapping[FactValue, int]
    shown: Mapping[FactValue, FactValue]

    @property
    def usual(self) -> FactValue:
        """The value that most nodes hold."""
        return max(self.counts, key=lambda value: (self.counts[value], str(value)))

    def since(self, value: FactValue) -> dict[str, datetime]:
        """Since when each node has held a value; those for which that is known."""
        times: dict[str, datetime] = {}
        for held in self.held:
            if held.value == value and held.fact.time is not None:
                node = held.key[0]
                times[node] = min(held.fact.time, times.get(node, held.fact.time))
        return times

    def agreeing(self, value: FactValue) -> int:
        """On how many nodes nothing else was seen."""
        return sum(held == {value} for held in self.nodes.values())

    def said(self, value: FactValue) -> str:
        """A value as people write it, with its unit."""
        return values.said(self.name, self.shown.get(value, value))


Differing = Mapping[tuple[str, str, tuple[FactValue, ...]], Sequence[Held]]
"""What is not as declared, by node, fact and what is."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """The facts: what is not as declared, and the pools that differ."""

    differing: Differing
    pools: Sequence[Pool]


Told = Set[tuple[str, str, str]]
Exempted = Mapping[tuple[str, str], Sequence[FactValue]]
"""By node and fact, by its proper name: the values that are excused; none is any."""

_SORTED: dict[str, tuple[object, object, Sorted]] = {}
"""The newest of each fact, used again while nothing it rests on changes: only saved work."""


def sorted_facts(window: Window, told: Told, exempt: Exempted) -> Sorted:
    """The facts that matter, sorted.

    ``told`` is what events say already, ``exempt`` what is excused.
    """
    differing: dict[tuple[str, str, tuple[FactValue, ...]], Sequence[Held]] = {}
    pools: list[Pool] = []
    counts = window.facts_at
    for name in _names(window):
        of = (counts.get(name, 0), counts.get("", 0), counts.get(facts.BUS, 0)) if counts else ()
        rests_on = (of, window.declared, told, exempt)
        facts_then, rested_on, found = _SORTED.get(name, (None, None, Sorted({}, ())))
        if not of or facts_then is not window.facts or rested_on != rests_on:
            found = _sort(window, name, told, exempt)
            _SORTED[name] = window.facts, rests_on, found
        differing |= found.differing
        pools += found.pools
    return Sorted(differing, pools)


def _names(window: Window) -> list[str]:
    """The names of the known facts that matter, in order."""
    names: Iterable[str] = window.facts_at or ()
    if window.facts_at is None:
        names = {name for of_key in window.facts.values() for name in of_key}
    return sorted(name for name in names if facts.relevant(name) is not None)


def _sort(window: Window, name: str, told: Told, exempt: Exempted) -> Sorted:
    """One fact, sorted."""
    event = facts.TOLD_AS.get(name, "")
    pools: dict[Like, list[tuple[Key, Fact]]] = {}
    differing: dict[tuple[str, str, tuple[FactValue, ...]], list[Held]] = {}
    for key, of_key in window.facts.items():
        fact = of_key.get(name)
        if fact is None or (event and (*key, event) in told):
            continue
        if exempt and excused(exempt, key[0], name, fact.value):
            continue
        allowed = declared(window, key, name)
        if allowed is None and name not in facts.ONLY_DECLARED:
            pools.setdefault(like(window, key, name), []).append((key, fact))
        elif allowed is not None and not values.fits(name, fact.value, allowed):
            held = Held(key, fact, values.comparable(name, fact.value))
            differing.setdefault((key[0], name, allowed), []).append(held)
    pooled = (pool(name, of, held) for of, held in pools.items())
    return Sorted(differing, [p for p in pooled if len(p.counts) > 1])


def pool(name: str, of: Like, every: Sequence[tuple[Key, Fact]]) -> Pool:
    """The pool of some subjects' values of one fact that matters."""
    matters = _matters(name)
    own = [values.comparable(name, fact.value) for _, fact in every]
    common = Counter(own)
    order = sorted(common, key=lambda value: (-common[value], str(value)))
    head = values.alike(order, matters)
    held = [Held(key, fact, head[v]) for (key, fact), v in zip(every, own, strict=True)]
    raw: dict[FactValue, Counter[FactValue]] = {}
    nodes: dict[str, set[FactValue]] = {}
    for one in held:
        nodes.setdefault(one.key[0], set()).add(one.value)
        raw.setdefault(one.value, Counter())[one.fact.value] += 1
    counts: Counter[FactValue] = Counter()
    for of_node in nodes.values():
        counts.update(of_node)
    frozen = {node: frozenset(of_node) for node, of_node in nodes.items()}
    shown = {value: max(of, key=lambda v: (of[v], str(v))) for value, of in raw.items()}
    return Pool(name, of, matters, held, frozen, counts, shown)


def _matters(name: str) -> Relevant:
    relevant = facts.relevant(name)
    if relevant is None:
        raise ValueError(f"{name}: a fact that does not matter")
    return relevant


def all_pools(window: Window) -> Iterator[Pool]:
    """Every pool, those that agree too, in order of name and kind."""
    pools: dict[tuple[str, Like], list[tuple[Key, Fact]]] = {}
    for key, of_key in window.facts.items():
        for name, fact in of_key.items():
            if facts.relevant(name) is not None:
                pools.setdefault((name, like(window, key, name)), []).append((key, fact))
    for (name, of), held in sorted(pools.items(), key=lambda one: one[0]):
        yield pool(name, of, held)


def excused(exempt: Exempted, node: str, name: str, value: FactValue) -> bool:
    """Whether an exception covers a value."""
    allowed = exempt.get((node, facts.proper(name)))
    if allowed is None:
        return False
    own = values.comparable(name, value)
    return not allowed or any(own == values.comparable(name, v) for v in allowed)


def declared(window: Window, key: Key, name: str) -> tuple[FactValue, ...] | None:
    """The values the site allows this fact of this device; None if it says nothing. Last wins."""
    node, device = key
    known = window.fleet.nodes.get(node)
    found: tuple[FactValue, ...] | None = None
    for one in window.declared:
        said = next((n for n in facts.names_of(name) if n in one.facts), None)
        if said is None:
            continue
        fits_sku = not one.sku or (known is not None and known.sku == one.sku)
        fits_role = not one.role or (known is not None and known.role == one.role)
        fits_device = one.device in ("", device)
        fits_kind = not one.kind or one.kind in (_kind(window, key) or NODE, _stem(device) or NODE)
        fits_model = not one.model or one.model == _model(window, key)
        if fits_sku and fits_role and fits_device and fits_kind and fits_model:
            found = one.facts[said]
    return found


def _model(window: Window, key: Key) -> str:
    part = window.fleet.devices.get(key)
    return part.model if part is not None else ""


def _stem(device: str) -> str:
    return device.rstrip("0123456789")


def _kind(window: Window, key: Key) -> str:
    """The kind of part: as told, else as its name tells; "" for the node itself."""
    part = window.fleet.devices.get(key)
    return (part.kind if part is not None else "") or kind_of(key[1]) or _stem(key[1])


def like(window: Window, key: Key, name: str) -> Like:
    """What the subject is compared with: the same SKU, role, and kind and model of device."""
    node, device = key
    known = window.fleet.nodes.get(node)
    sku, role = (known.sku, known.role) if known is not None else ("", "")
    place = ""
    if facts.proper(name) in facts.AT_ITS_PLACE:
        told, part = window.facts.get(key, {}).get(facts.BUS), window.fleet.devices.get(key)
        place = str(told.value) if told is not None else (part.bus if part is not None else device)
    return Like(sku, role, _kind(window, key), _model(window, key), place)


def agreed(agreeing: int, total: int) -> bool:
    """Whether ``agreeing`` of ``total`` other nodes make a value golden."""
    if total + 1 < MIN_NODES:
        return agreeing == total >= MIN_UNANIMOUS - 1
    return share_above(agreeing, total, CONSENSUS) > CERTAINTY


def settled(agreeing: int, asked: int, total: int) -> bool:
    """Whether ``agreeing`` of ``asked`` others make a value golden.

    ``total`` are all others, those that changed alone and so were not asked among them.
    """
    if asked < SETTLED * total:
        return False
    return agreed(agreeing, asked) or (
        total >= MIN_UNANIMOUS - 1 and agreeing == asked >= MIN_UNANIMOUS - 2
    )


def consensus(of: Pool) -> FactValue | None:
    """The value that is golden in a pool; None if there is no consensus, or too few to have one.

    If one node has another value and all others agree, it is that one which drifts.
    """
    usual, total = of.usual, len(of.nodes)
    agreeing = of.agreeing(usual)
    if total < MIN_UNANIMOUS:
        return None
    return usual if agreeing >= total - 1 or agreed(agreeing, total) else None
