"""Node names folded as operators write them (``n[001-016,020]``) and unfolded again.

ClusterShell's NodeSet does the work, without its groups: ``@name`` would ask the machine's own
group files, and a document must mean the same everywhere.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from sys import intern

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.RangeSet import RangeSetException

from bigiron.errors import ParseError

UNFOLD_LIMIT = 200_000
"""Names one expression may stand for; beyond it lies a typing error, not a cluster."""

CACHED_LENGTH = 400
"""Longer lists are unfolded afresh each time: they are rare, and the cache stays small."""

NOBODY = frozenset(
    {"", "(null)", "null", "None", "none", "None assigned", "N/A", "n/a", "Unknown", "NONE"}
)
"""How Slurm's tools write "no node"."""

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?(?:/(\d+))?")
_FORBIDDEN = re.compile(r"[\s@*&!^()]")


def fold(nodes: Iterable[str]) -> str:
    """``n[1-3],x7`` for n1, n2, n3, x7; "" for none."""
    names = sorted(set(nodes))
    if not all(_PLAIN.fullmatch(name) for name in names):
        return ",".join(names)
    return str(NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP))


def unfold(text: str) -> tuple[str, ...]:
    """The names a folded list stands for, in order, each once; () for Slurm's "no node".

    Raises ParseError if it is malformed or stands for more than UNFOLD_LIMIT names.
    """
    text = text.strip()
    if text in NOBODY:
        return ()
    if _PLAIN.fullmatch(text):
        return (intern(text),)
    if len(text) <= CACHED_LENGTH:
        return _cached(text)
    return _unfold(text)


def _unfold(text: str) -> tuple[str, ...]:
    if _FORBIDDEN.search(text):
        raise ParseError("node list", 0, f"not a list of node names: {text[:80]!r}")
    try:
        size = _size(text)
        if size > UNFOLD_LIMIT:
            problem = f"{size} names in {text[:80]!r}: at most {UNFOLD_LIMIT}"
            raise ParseError("node list", 0, problem)
        return tuple(intern(name) for name in NodeSet(text, resolver=RESOLVER_NOGROUP))
    except (NodeSetException, RangeSetException, ValueError, OverflowError) as error:
        raise ParseError("node list", 0, f"{text[:80]!r}: {error}") from error


_cached = lru_cache(maxsize=8192)(_unfold)


def _size(text: str) -> int:
    """An upper bound of the names in a list, without building them."""
    total = 0
    for part in _split(text):
        names = 1
        for brackets in _BRACKETS.finditer(part):
            names *= sum(_range_size(piece) for piece in brackets[1].split(","))
        total += names
    return total


def _range_size(piece: str) -> int:
    match = _RANGE.fullmatch(piece.strip())
    if match is None or match[2] is None:
        return 1
    return max(1, (int(match[2]) - int(match[1])) // max(1, int(match[3] or 1)) + 1)


def _split(text: str) -> list[str]:
    """The parts between commas that stand outside brackets."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        elif char == "," and depth <= 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return parts
