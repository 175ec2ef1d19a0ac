"""Whether what is odd sits together: scan statistics over groups of nodes (methods.md 3.6).

Of ``N`` nodes that can be judged, ``K`` are odd; a group of ``n`` holds ``k`` of them. The chance
of ``k`` or more is hypergeometric; Kulldorff's log likelihood ratio compares groups of all sizes.
"""

from collections.abc import Iterable, Mapping, Set
from math import exp, lgamma, log
from typing import NamedTuple

Levels = Mapping[str, Mapping[str, frozenset[str]]]
"""Level (``rack``, ``leaf`` ...) -> group -> its nodes. Of equals the level named first wins."""

LEAST = 3
"""Two nodes that are odd at once may be chance, or a pair that shares a chassis."""

SHARE = 0.6
"""A part that all share shows on most of those that share it."""

CHANCE = 1e-3
"""Largest chance, over all groups looked at, that it is none."""


class Hit(NamedTuple):
    """A group that holds more of the odd nodes than chance would put there."""

    by: str
    group: str
    members: tuple[str, ...]
    """Those of its nodes that could be judged."""
    marked: tuple[str, ...]
    chance: float
    """Of as many odd nodes or more in this group, times the number of groups looked at."""
    ratio: float
    """Kulldorff's log likelihood ratio."""


def scan(
    marked: Set[str],
    eligible: Set[str],
    levels: Levels,
    *,
    least: int = LEAST,
    share: float = SHARE,
    chance: float = CHANCE,
) -> list[Hit]:
    """The groups that explain the marked nodes, the likeliest first; each node is explained once.

    Greedy: the group with the largest ratio is taken, its nodes leave, what is left is looked at
    again. A level with many groups has more ways to be right by chance and pays for it.
    """
    left, judged = set(marked) & eligible, set(eligible)
    hits: list[Hit] = []
    while len(left) >= least:
        best = _best(left, judged, levels, least, share, chance)
        if best is None:
            break
        hits.append(best)
        left -= set(best.members)
        judged -= set(best.members)
    return hits


def _best(
    marked: Set[str],
    eligible: Set[str],
    levels: Levels,
    least: int,
    share: float,
    chance: float,
) -> Hit | None:
    looked_at = max(1, sum(len(groups) for groups in levels.values()))
    found: list[tuple[float, Hit]] = []
    for by, groups in levels.items():
        odd_ones = _odd_ones(groups, marked, eligible, least, share)
        rest = eligible - set[str]().union(*(members for members, _ in odd_ones.values()))
        for name, (members, odd) in sorted(odd_ones.items()):
            total, all_odd = len(rest) + len(members), len(rest & marked) + len(odd)
            numbers = total, all_odd, len(members), len(odd)
            p = min(1.0, looked_at * upper_tail(*numbers))
            if p > chance:
                continue
            ratio = likelihood_ratio(*numbers)
            hit = Hit(by, name, tuple(sorted(members)), tuple(sorted(odd)), p, ratio)
            found.append((ratio - log(len(groups)), hit))
    return max(found, key=lambda one: one[0], default=(0.0, None))[1]


def _odd_ones(
    groups: Mapping[str, frozenset[str]],
    marked: Set[str],
    eligible: Set[str],
    least: int,
    share: float,
) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """The groups of one level of which most are odd: their nodes that count, and the odd ones.

    Each is compared with what hangs on none of the others: two switches that fail together would
    otherwise hide one another.
    """
    found: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    for name, group in groups.items():
        odd = group & marked
        if len(odd) < least:
            continue
        members = group & eligible
        if len(odd) >= share * len(members):
            found[name] = members, odd
    return found


def upper_tail(total: int, odd: int, size: int, held: int) -> float:
    """P(a group of ``size`` of ``total`` nodes holds ``held`` or more of the ``odd`` ones)."""
    ways = _log_choose(total, size)
    most = min(size, odd)
    return min(
        1.0,
        sum(
            exp(_log_choose(odd, k) + _log_choose(total - odd, size - k) - ways)
            for k in range(held, most + 1)
            if size - k <= total - odd
        ),
    )


def likelihood_ratio(total: int, odd: int, size: int, held: int) -> float:
    """Kulldorff's: how much likelier the odd ones are inside than if spread evenly; 0 if not."""
    expected = odd * size / total
    if held <= expected:
        return 0.0
    ratio = held * log(held / expected)
    outside = odd - held
    if outside:
        ratio += outside * log(outside / (odd - expected))
    return ratio


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """Group -> nodes, of pairs of node and group; an empty name is no group."""
    groups: dict[str, set[str]] = {}
    for node, group in pairs:
        if group:
            groups.setdefault(group, set()).add(node)
    return {group: frozenset(nodes) for group, nodes in groups.items()}
