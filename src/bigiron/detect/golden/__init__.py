"""Facts that differ from what they should be: declared by the site, or derived from the fleet.

Only facts with a consequence are looked at, and each says what the difference does. Declared
values beat derived ones. A derived value needs near-certainty that nearly all others hold it;
where there is no consensus nothing is flagged, and a rollout is told as one thing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bigiron.detect import Key, Window, detector
from bigiron.detect.claims import INFO, Asks, claim
from bigiron.detect.consensus import share_above
from bigiron.detect.limits import codes_told
from bigiron.detect.words import device_words, sentence
from bigiron.model import (
    ActionKind,
    Blame,
    Evidence,
    Fact,
    FactValue,
    Finding,
    Severity,
    Subject,
    When,
)

NAME = "golden"

CONSENSUS = 0.9
"""A value is golden if nearly surely more than this share of the fleet holds it."""

CERTAINTY = 0.95
MIN_NODES = 20
MIN_UNANIMOUS = 8
"""With fewer than 20 nodes all others must agree, and there must be at least eight."""

ROLLOUT = timedelta(days=7)
"""Others that changed this recently are moving on; who has not yet is not at fault."""

ALIKE = 3
"""So many devices of one node that differ alike are told as one thing."""

FIRST_LOOK = timedelta(minutes=10)
"""The facts of a node come from several sources, not all at once."""

DRIFT = Asks(Severity.WARNING, ActionKind.CHECK, When.JOB_END, Blame.HOST)


class Relevant(NamedTuple):
    """Why a fact matters."""

    effect: str
    fault: str = "config.drift"


RELEVANT: Mapping[str, Relevant] = {
    "driver_version": Relevant("Its GPUs run another driver than the rest of the job."),
    "cuda_version": Relevant("Programs meet another CUDA than elsewhere."),
    "kernel": Relevant("It runs another kernel than its like."),
    "fabricmanager_version": Relevant("Fabric Manager must match the driver."),
    "bios_version": Relevant("Another BIOS: other power and memory settings."),
    "vbios_version": Relevant("Another VBIOS: other clock and power tables."),
    "firmware_version": Relevant("Another firmware than its like."),
    "power_limit_w": Relevant("A lower power limit lowers clocks under load."),
    "ecc_mode": Relevant("Without ECC memory errors corrupt results silently."),
    "mig_mode": Relevant("A partitioned GPU cannot take a whole-GPU job."),
    "persistence_mode": Relevant("Without persistence the driver unloads between jobs."),
    "compute_mode": Relevant("Another compute mode refuses processes its like accept."),
    "pcie_link_width_max": Relevant("Fewer lanes: less host bandwidth."),
    "pcie_link_gen_max": Relevant("A slower generation halves host bandwidth."),
    "pcie_link_width": Relevant("Fewer lanes: less host bandwidth."),
    "pcie_link_gen": Relevant("A slower generation halves host bandwidth."),
    "gpu_count": Relevant("A job that asks for all GPUs cannot start.", fault="config.missing"),
    "link_rate_gbps": Relevant("The slowest link sets the pace of every collective."),
    "mtu": Relevant("Another MTU: fragments or drops between hosts."),
    "memory_total_gb": Relevant("Less memory than its like."),
}

ONLY_DECLARED = frozenset({"pcie_link_gen"})
"""Moves with load, so that what most others show says nothing."""

AT_LEAST = frozenset(
    {"pcie_link_gen", "pcie_link_gen_max", "pcie_link_width", "pcie_link_width_max"}
    | {"link_rate_gbps"}
)
"""Of these more than declared is no fault."""

TOLD_AS = {"link_rate_gbps": "nic.rate", "mtu": "nic.mtu", "firmware_version": "nic.firmware"}
"""The event by which a document may have told a difference itself."""

UNITS = {"gbps": "Gb/s", "w": "W", "gb": "GB"}
"""Units by the end of a fact's name."""

ALIASES = {"fw_version": "firmware_version", "nvidia_driver_version": "driver_version"}

READS = tuple(f"fact:{name}" for name in (*RELEVANT, *ALIASES))


class Held(NamedTuple):
    """One subject's value of a fact."""

    key: Key
    fact: Fact


@dataclass(frozen=True, slots=True)
class Pool:
    """The subjects that should share a fact's value and do not; ``nodes`` hold these values."""

    name: str
    relevant: Relevant
    held: Sequence[Held]
    nodes: Mapping[str, set[FactValue]]
    counts: Counter[FactValue]


@dataclass(frozen=True, slots=True)
class Sorted:
    """The facts: what is not as declared, by node, name and what is; and pools that differ."""

    differing: Mapping[tuple[str, str, tuple[FactValue, ...]], Sequence[Held]]
    pools: Sequence[Pool]


_SORTED: dict[str, tuple[object, int, object, Sorted]] = {}
"""The newest of ``_sorted``, to be used again while no fact changes: nothing but saved work."""


@detector(reads=READS, every_s=60.0)
def golden(window: Window) -> Iterator[Finding]:
    """Facts that differ from the declared golden config or from nearly all of their like."""
    told = codes_told(window) if window.declared else frozenset()
    found = _sorted(window, told)
    for (_, name, allowed), held in found.differing.items():
        yield from _declared_otherwise(window, held, RELEVANT[ALIASES.get(name, name)], allowed)
    for pool in found.pools:
        yield from _derived(window, pool)


def _sorted(window: Window, told: Set[tuple[str, str, str]]) -> Sorted:
    """The facts sorted, unless they are as they were."""
    last = _SORTED.get(NAME)
    if (
        last is not None
        and window.facts_at >= 0
        and (last[0] is window.facts and last[1] == window.facts_at)
        and last[2] == (window.declared, told)
    ):
        return last[3]
    found = _sort(window, told)
    _SORTED[NAME] = window.facts, window.facts_at, (window.declared, told), found
    return found


def _sort(window: Window, told: Set[tuple[str, str, str]]) -> Sorted:
    pools: dict[tuple[str, ...], list[Held]] = {}
    differing: dict[tuple[str, str, tuple[FactValue, ...]], list[Held]] = {}
    for key, facts in window.facts.items():
        for name, fact in facts.items():
            relevant = RELEVANT.get(ALIASES.get(name, name))
            if relevant is None or (*key, TOLD_AS.get(name)) in told:
                continue
            allowed = _declared(window, key, name)
            if allowed is None and name not in ONLY_DECLARED:
                pools.setdefault(_pool(window, key, name), []).append(Held(key, fact))
            elif allowed is not None and not _fits(name, fact.value, allowed):
                differing.setdefault((key[0], name, allowed), []).append(Held(key, fact))
    pooled = (_pooled(name, held) for (name, *_), held in pools.items())
    return Sorted(differing, [pool for pool in pooled if pool is not None])


def _pooled(name: str, every: Sequence[Held]) -> Pool | None:
    """A pool; None if all its subjects agree or there are too few to say."""
    nodes: dict[str, set[FactValue]] = {}
    for held in every:
        nodes.setdefault(held.key[0], set()).add(held.fact.value)
    if len(nodes) < MIN_UNANIMOUS:
        return None
    counts: Counter[FactValue] = Counter()
    for values in nodes.values():
        counts.update(values)
    if len(counts) < 2:
        return None
    return Pool(name, RELEVANT[ALIASES.get(name, name)], every, nodes, counts)


def _declared_otherwise(
    window: Window, every: Sequence[Held], relevant: Relevant, allowed: tuple[FactValue, ...]
) -> Iterator[Finding]:
    """What differs from what is declared; three devices of a node alike are one thing about it."""
    alike: dict[FactValue, list[Held]] = {}
    for held in every:
        alike.setdefault(held.fact.value, []).append(held)
    for same in alike.values():
        if len(same) < ALIKE:
            for held in same:
                yield _differs(window, held, relevant, allowed, "declared")
        else:
            yield _differ(same, relevant, allowed)


def _declared(window: Window, key: Key, name: str) -> tuple[FactValue, ...] | None:
    """The values the site allows this fact of this device; None if it says nothing. Last wins."""
    node, device = key
    known = window.fleet.nodes.get(node)
    found: tuple[FactValue, ...] | None = None
    for declared in window.declared:
        fits_sku = not declared.sku or (known is not None and known.sku == declared.sku)
        fits_role = not declared.role or (known is not None and known.role == declared.role)
        fits_device = declared.device in ("", device)
        if fits_sku and fits_role and fits_device and name in declared.facts:
            found = declared.facts[name]
    return found


def _fits(name: str, value: FactValue, allowed: Sequence[FactValue]) -> bool:
    """Whether a value is as declared; a link may be better than that."""
    if any(value == other or str(value) == str(other) for other in allowed):
        return True
    numbers = [_number(other) for other in allowed]
    return name in AT_LEAST and bool(numbers) and _number(value) >= min(numbers) > 0


def _number(value: FactValue) -> float:
    """0 for what is no number."""
    try:
        return float(value)
    except ValueError:
        return 0.0


def _pool(window: Window, key: Key, name: str) -> tuple[str, ...]:
    """What the subject is compared with: the same SKU, role, and kind and model of device."""
    node, device = key
    known = window.fleet.nodes.get(node)
    sku, role = (known.sku, known.role) if known is not None else ("", "")
    part = window.fleet.devices.get(key)
    model = part.model if part is not None else ""
    return name, sku, role, device.rstrip("0123456789"), model


def _derived(window: Window, pool: Pool) -> Iterator[Finding]:
    nodes, counts = pool.nodes, pool.counts
    usual = max(counts, key=lambda value: (counts[value], str(value)))
    moving = {v for v in counts if v == usual or _rolling(window, pool, v, usual, counts)}
    if len(moving) > 1:
        yield _rollout(pool, moving - {usual}, usual)
    for held in pool.held:
        if held.fact.value in moving:
            continue
        others = [values for node, values in nodes.items() if node != held.key[0]]
        if _agreed(others, moving):
            yield _differs(window, held, pool.relevant, (usual,), "derived", len(others))


def _agreed(others: Sequence[set[FactValue]], moving: set[FactValue]) -> bool:
    """Whether the others hold the golden value, or one on its way in, nearly surely."""
    agreeing = sum(values <= moving for values in others)
    if len(others) + 1 < MIN_NODES:
        return agreeing == len(others) >= MIN_UNANIMOUS - 1
    return share_above(agreeing, len(others), CONSENSUS) > CERTAINTY


def _rolling(
    window: Window, pool: Pool, value: FactValue, usual: FactValue, counts: Counter[FactValue]
) -> bool:
    """Whether a minority's value is on its way in or out, not a drift.

    On its way in: newer than the usual one, or held by several nodes of one ring or rack that
    came to it lately. On its way out: its nodes have never held another while the others just
    changed to theirs.
    """
    if _version(value) > _version(usual) and isinstance(value, str):
        return True
    mine = {h.key[0]: h.fact.time for h in pool.held if h.fact.value == value}
    theirs = sorted(t for h in pool.held if h.fact.value == usual and (t := h.fact.time))
    if not theirs:
        return False
    changed = theirs[len(theirs) // 2]
    left_behind = all(
        t is not None and t < changed and t <= _first_seen(window, node) + FIRST_LOOK
        for node, t in mine.items()
    )
    if left_behind and window.now - changed <= ROLLOUT:
        return True
    return counts[value] > 1 and _aligned(window, mine)


def _first_seen(window: Window, node: str) -> datetime:
    """When the first fact of a node was seen: what has not changed since then was always so."""
    times = [f.time for f in window.facts.get((node, ""), {}).values() if f.time is not None]
    return min(times, default=datetime.max.replace(tzinfo=UTC) - FIRST_LOOK)


def _aligned(window: Window, nodes: Mapping[str, datetime | None]) -> bool:
    """Whether some nodes share a ring or rack and are most of it: someone meant it so."""
    known = [n for node in nodes if (n := window.fleet.nodes.get(node)) is not None]
    for by in ("ring", "rack"):
        places = {getattr(node, by) for node in known}
        if len(places) == 1 and "" not in places:
            (place,) = places
            size = sum(getattr(n, by) == place for n in window.fleet.nodes.values())
            return bool(2 * len(known) > size)
    return False


def _version(value: FactValue) -> tuple[int, ...]:
    """The numbers in a value, for order: ``570.124.06`` before ``570.158.01``."""
    words = "".join(c if c.isdigit() else " " for c in str(value)).split()
    return tuple(int(word[:9]) for word in words)


def _rollout(pool: Pool, values: set[FactValue], usual: FactValue) -> Finding:
    members = sorted({h.key[0] for h in pool.held if h.fact.value in values})
    told = ", ".join(sorted(str(v) for v in values))
    count = f"{len(members)} node holds" if len(members) == 1 else f"{len(members)} nodes hold"
    text = f"{count} {pool.name} {told} beside the usual {usual}: a rollout."
    subject = Subject(by="rollout", group=pool.name, members=tuple(members))
    times = [h.fact.time for h in pool.held if h.fact.value in values and h.fact.time]
    evidence = (Evidence("fact", told, max(times, default=None), metric=f"fact:{pool.name}"),)
    since = min(times, default=None)
    return claim(
        NAME, pool.relevant.fault, subject, (text,), since=since, evidence=evidence, asks=INFO
    )


def _differs(
    window: Window,
    held: Held,
    relevant: Relevant,
    allowed: Sequence[FactValue],
    how: str,
    others: int = 0,
) -> Finding:
    (node, device), fact = held
    who = node
    if device:
        who = f"{device_words(window, node, device)} of {node}"
    should = " or ".join(_said(fact.name, v) for v in allowed)
    whose = "as declared" if how == "declared" else f"as nearly all of {others} others"
    has = f"{_label(fact.name)} {_said(fact.name, fact.value)}"
    return claim(
        NAME,
        f"{relevant.fault}.{fact.name}",
        Subject(node=node, device=device),
        (_sentence(who, f"has {has}; it should be {should}, {whose}"), relevant.effect),
        since=fact.time,
        evidence=(_evidence(held),),
        confidence=1.0 if how == "declared" else 0.8,
        asks=DRIFT,
    )


def _sentence(who: str, text: str) -> str:
    """A node's name stands as it is, a part's noun gets a capital."""
    return sentence(f"{who} {text}") if " " in who else f"{who} {text}."


def _differ(same: Sequence[Held], relevant: Relevant, allowed: Sequence[FactValue]) -> Finding:
    """Several devices of a node that differ alike from what is declared."""
    (node, _), fact = same[0]
    devices = ", ".join(held.key[1] for held in same)
    should = " or ".join(_said(fact.name, v) for v in allowed)
    has = f"{_label(fact.name)} {_said(fact.name, fact.value)}"
    text = (
        f"{node}: {len(same)} devices ({devices}) have {has}; it should be {should}, as declared."
    )
    return claim(
        NAME,
        f"{relevant.fault}.{fact.name}",
        Subject(node=node),
        (text, relevant.effect),
        since=min((h.fact.time for h in same if h.fact.time), default=None),
        evidence=tuple(_evidence(held) for held in same),
        asks=DRIFT,
    )


def _evidence(held: Held) -> Evidence:
    fact = held.fact
    of = f" of {held.key[1]}" if held.key[1] else ""
    text = f"{fact.name}{of} = {fact.value}"
    return Evidence("fact", text, fact.time, metric=f"fact:{fact.name}")


def _label(name: str) -> str:
    """A fact's name as people say it: ``driver version``, ``link rate``."""
    words, _, unit = name.rpartition("_")
    return (words if unit in UNITS else name).replace("_", " ").replace("pcie", "PCIe")


def _said(name: str, value: FactValue) -> str:
    unit = UNITS.get(name.rpartition("_")[2], "")
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{text} {unit}" if unit else text
