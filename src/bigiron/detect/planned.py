"""Planned work: what happens to a node because someone meant it to.

Planned are the windows of maintenance (a calendar's, a scheduler's reservations) and what an
operator takes out of service. What begins meanwhile blames nobody. What began before stays: a
node that was drained *for* a fault still has it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from bigiron.model import Maintenance, NodeState

GRACE = timedelta(minutes=30)
"""After its end work is still being put right: services start, links train, caches fill."""

EARLY = timedelta(minutes=5)
"""People begin a little before the time they announced."""

LONG_OVER = timedelta(days=1)
"""Work that ended longer ago says nothing about today."""

TAKEN_FOR_IT = timedelta(minutes=5)
"""What shows this soon after a node was drained is likely why it was: checks drain at once, and
logs and samples of the same moment come later."""

OUT = frozenset({"drain", "maint"})
"""The scheduler's words for a node that someone took out. ``down`` is its own discovery."""


class Planned(NamedTuple):
    """Planned work on a node: since when, until when (None: open), and what it is."""

    start: datetime
    end: datetime | None
    what: str


class Calendar:
    """The planned work on each node, as known at ``now``."""

    def __init__(
        self,
        now: datetime,
        maintenance: Sequence[Maintenance],
        states: Mapping[str, NodeState],
        *,
        grace: timedelta = GRACE,
    ) -> None:
        self._now = now
        self._grace = grace
        self._states = states
        self._of_node: dict[str, list[Maintenance]] = {}
        for work in maintenance:
            if work.start - EARLY <= now <= work.end + LONG_OVER:
                for node in work.nodes:
                    self._of_node.setdefault(node, []).append(work)

    def at_work(self, node: str) -> Planned | None:
        """The planned work that is going on at a node now, its grace not counted."""
        for work in self._of_node.get(node, ()):
            if work.start - EARLY <= self._now <= work.end:
                return Planned(work.start - EARLY, work.end, _said(work))
        state = self._states.get(node)
        if state is not None and state.state in OUT:
            return Planned(state.since or self._now, None, _taken_out(state))
        return None

    def excuses(self, node: str, began: datetime | None) -> Planned | None:
        """The planned work during which, or within the grace of which, something began.

        ``began`` None is now. Only work that is not long over counts.
        """
        began = began or self._now
        for work in self._of_node.get(node, ()):
            if work.start - EARLY <= began <= work.end + self._grace:
                return Planned(work.start - EARLY, work.end, _said(work))
        state = self._states.get(node)
        if state is None or state.since is None:
            return None
        if state.state in OUT and began >= meant_from(state):
            return Planned(state.since, None, _taken_out(state))
        return None

    def late(self, node: str) -> Maintenance | None:
        """The window of work on a node that ended, grace and all, most lately; None if none did."""
        over = [w for w in self._of_node.get(node, ()) if w.end + self._grace < self._now]
        return max(over, key=lambda w: w.end, default=None)


def meant_from(state: NodeState) -> datetime:
    """From when on what happens to a node that someone took out is meant; a drain may have had
    its cause in what is only told now. Raises ValueError if it is not known since when.
    """
    if state.since is None:
        raise ValueError(f"{state.node}: {state.state} since when?")
    return state.since + (TAKEN_FOR_IT if state.state == "drain" else timedelta())


def _said(work: Maintenance) -> str:
    return f"planned work ({work.kind or 'maintenance'})"


def _taken_out(state: NodeState) -> str:
    reason = f": {state.reason}" if state.reason else ""
    return f"out of service by the scheduler's word ({state.state}{reason})"
