"""How nodes came to the values they hold: they always had them, by planned work, by a repair.

What tells a rollout from a drift is not the value but how a node came to it. A rollout is
announced, or several nodes take it up with no other reason. A drift shows on a node that comes
back from a repair or a reinstall.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from bigiron.detect import Window
from bigiron.detect.planned import EARLY, GRACE, REMEMBERED, Away, away
from bigiron.model import Fact, Maintenance

FIRST_LOOK = timedelta(minutes=10)
"""The facts of a node come from several sources, not all at once."""

MANY = 3
"""Planned work on so many nodes is meant for all of them; a repair is of one or two."""

UPDATES = (
    *("firmware", "upgrade", "update", "rollout", "driver", "kernel", "bios", "vbios", "image"),
    *("patch", "software", "bmc", "cuda", "version", "canary"),
)
"""How words begin by which planned work tells that it changes what nodes run."""

REPAIRS = (
    *("repair", "reimage", "reinstall", "replace", "swap", "reseat", "rma", "broken", "faulty"),
    *("hw", "hardware", "nhc", "xid", "ecc", "failed", "failure", "ticket", "rebuild"),
)
"""How words begin by which someone tells that a node was out for a trouble of its own."""

_WORD = re.compile(r"[a-z]+")


class How(StrEnum):
    """How a node came to a value."""

    ALWAYS = "it had it when first seen"
    UPDATE = "by planned work that says it changes what nodes run"
    WORK = "during planned work of another or of no stated kind"
    REPAIR = "during a repair or a reinstall of its own"
    UNTOLD = "nobody said why"


class Coming(NamedTuple):
    """Since when a node holds a value and how it came to it."""

    at: datetime
    how: How


class Plans:
    """The planned work and the repairs of a window, looked up by node."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._works: dict[str, list[Maintenance]] | None = None
        self._turns: Mapping[str, Away] | None = None
        self._devices: dict[str, datetime] | None = None

    def comings(self, since: Mapping[str, datetime]) -> dict[str, Coming]:
        """How each node came to what it holds since then."""
        return {node: Coming(at, self.how(node, at)) for node, at in since.items()}

    def how(self, node: str, at: datetime) -> How:
        """How a node came to what it holds since then."""
        if self.always(node, at):
            return How.ALWAYS
        works = self.works(node, at)
        said = [work.kind for work in works]
        turn = self._turn(node, at)
        if turn is not None:
            said.append(turn.what)
        if any(map(updates, said)):
            return How.UPDATE
        if any(map(repairs, said)):
            return How.REPAIR
        meant = turn is not None and turn.what.startswith(MAINT)
        if meant or any(len(work.nodes) >= MANY for work in works):
            return How.WORK
        return How.UNTOLD

    def always(self, node: str, since: datetime) -> bool:
        """Whether what a node has held since then is what it had when first seen."""
        return since <= self._first_seen(node) + FIRST_LOOK

    def works(self, node: str, at: datetime) -> list[Maintenance]:
        """The planned work on a node at a time, what it leaves behind included."""
        if self._works is None:
            self._works = {}
            for work in self._window.maintenance:
                for name in work.nodes:
                    self._works.setdefault(name, []).append(work)
        of_node = self._works.get(node, ())
        return [work for work in of_node if work.start - EARLY <= at <= work.end + GRACE]

    def _turn(self, node: str, at: datetime) -> Away | None:
        """When someone had the node out of service, if it was then."""
        if self._turns is None:
            self._turns = away(self._window.away, self._window.states, self._window.now, REMEMBERED)
        turn = self._turns.get(node)
        if turn is None:
            return None
        return turn if turn.since <= at <= (turn.until or at) + GRACE else None

    def _first_seen(self, node: str) -> datetime:
        """When the first fact of a node was seen: what is as old has not changed."""
        first = _oldest(self._window.facts.get((node, ""), {}).values())
        return first if first < NEVER else self._of_devices().get(node, NEVER)

    def _of_devices(self) -> Mapping[str, datetime]:
        """When the first fact of each node's devices was seen, for nodes without facts."""
        if self._devices is None:
            self._devices = {}
            for (node, device), facts in self._window.facts.items():
                if device and (node, "") not in self._window.facts:
                    first = _oldest(facts.values())
                    self._devices[node] = min(first, self._devices.get(node, NEVER))
        return self._devices


NEVER = datetime.max.replace(tzinfo=UTC) - FIRST_LOOK


def _oldest(facts: Iterable[Fact]) -> datetime:
    return min((fact.time for fact in facts if fact.time is not None), default=NEVER)


MAINT = "work on it (maint"
"""How ``planned`` words a node that is out by a calendar."""


def updates(text: str) -> bool:
    """Whether the words for planned work say that it changes what nodes run."""
    return _begins(text, UPDATES)


def repairs(text: str) -> bool:
    """Whether the reason for which a node was out is a trouble of its own."""
    return _begins(text, REPAIRS)


def _begins(text: str, words: Sequence[str]) -> bool:
    return any(word.startswith(tuple(words)) for word in _WORD.findall(text.lower()))


def strays(
    plans: Plans, comings: Mapping[str, Coming], others: Iterable[Mapping[str, datetime]]
) -> set[str]:
    """The nodes that came to a value in planned work in which most came to another.

    ``others`` are since when nodes hold each of the other values.
    """
    own = _by_work(plans, {node: coming.at for node, coming in comings.items()})
    elsewhere = [_by_work(plans, since) for since in others]
    found: set[str] = set()
    for node, coming in comings.items():
        if coming.how not in (How.UPDATE, How.WORK):
            continue
        for work in plans.works(node, coming.at):
            most = max((of[id(work)] for of in elsewhere), default=0)
            if most >= MANY and most > own[id(work)]:
                found.add(node)
    return found


def _by_work(plans: Plans, since: Mapping[str, datetime]) -> Counter[int]:
    """How many nodes came to a value in each planned work, by the work's identity."""
    return Counter(id(work) for node, at in since.items() for work in plans.works(node, at))
