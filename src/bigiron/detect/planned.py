"""Planned work: what happens to a node because someone meant it to.

Planned are the windows of maintenance (a calendar's, a scheduler's reservations) and what an
operator takes out of service. What begins meanwhile blames nobody. What began before stays: a
node that was drained *for* a fault still has it. A window is long and its nodes take turns: where
the scheduler tells when a node's own turn was, that counts.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from bigiron.model import Maintenance, NodeState

GRACE = timedelta(minutes=30)
"""After its end work is still being put right: services start, links train, caches fill."""

EARLY = timedelta(minutes=5)
"""People begin a little before the time they announced."""

LONG_OVER = timedelta(days=1)
"""Work that ended longer ago says nothing about today."""

REMEMBERED = timedelta(days=8)
"""What a node came back with from its turn may be asked for so long: a rollout lasts a week."""

TAKEN_FOR_IT = timedelta(minutes=5)
"""What shows this soon after a node was drained is likely why it was: checks drain at once, and
logs and samples of the same moment come later."""

OUT = frozenset({"drain", "maint"})
"""The scheduler's words for a node that someone took out. ``down`` is its own discovery."""


class Away(msgspec.Struct, frozen=True):
    """When a node was out of service by someone's word; ``until`` None while it is."""

    since: datetime
    until: datetime | None
    what: str


class Planned(NamedTuple):
    """Planned work on a node: since when, until when (None: open), and what it is."""

    start: datetime
    end: datetime | None
    what: str


def away(
    before: Mapping[str, Away],
    states: Mapping[str, NodeState],
    now: datetime,
    kept: timedelta = LONG_OVER,
) -> dict[str, Away]:
    """Who is, or lately was, out of service by an operator's or the scheduler's calendar's word.

    ``kept`` is how long a turn that is over is remembered.
    """
    after: dict[str, Away] = {}
    for node, known in before.items():
        state = states.get(node)
        out = state is not None and state.state in OUT
        if known.until is None and not out:
            back = (state.since if state is not None else None) or now
            after[node] = msgspec.structs.replace(known, until=back)
        elif out or (known.until is not None and now - known.until <= kept):
            after[node] = known
    for node, state in states.items():
        if state.state in OUT:
            last = after.get(node)
            if last is None or last.until is not None:
                after[node] = Away(meant_from(state, now), None, _taken_out(state))
    return after


def meant_from(state: NodeState, now: datetime) -> datetime:
    """From when on what happens to a node that someone took out is meant.

    A drain may have had its cause in what is only told now.
    """
    since = state.since or state.time or now
    return since + (TAKEN_FOR_IT if state.state == "drain" else timedelta())


class Calendar:
    """The planned work on each node, as known at ``now``.

    ``turns`` tells who was out of service of late (``away``).
    """

    def __init__(
        self,
        now: datetime,
        maintenance: Sequence[Maintenance],
        states: Mapping[str, NodeState],
        turns: Mapping[str, Away] | None = None,
    ) -> None:
        self._now = now
        self._states = states
        self._turns = turns or {}
        self._of_node: dict[str, list[Maintenance]] = {}
        for work in maintenance:
            if work.start - EARLY <= now <= work.end + LONG_OVER:
                for node in work.nodes:
                    self._of_node.setdefault(node, []).append(work)

    def at_work(self, node: str) -> Planned | None:
        """The planned work that is going on at a node now, its grace not counted."""
        state = self._states.get(node)
        if state is not None and state.state in OUT:
            return Planned(state.since or self._now, None, _taken_out(state))
        for work in self._of_node.get(node, ()):
            if work.start - EARLY <= self._now <= work.end:
                return Planned(work.start - EARLY, work.end, _said(work))
        return None

    def excuses(self, node: str, began: datetime, *, own: bool = False) -> Planned | None:
        """The planned work by which something that began then may be; None if none, or too late.

        ``own`` is for what planned work does not do to a node, such as a part's failure: only
        the node's own turn excuses it.
        """
        turn = self._turns.get(node)
        if turn is not None and began >= turn.since:
            if turn.until is None:
                return Planned(turn.since, None, turn.what)
            if max(began, self._now) <= turn.until + GRACE:
                return Planned(turn.since, turn.until, turn.what)
        for work in self._of_node.get(node, ()):
            if not work.start - EARLY <= began <= self._now <= work.end + GRACE:
                continue
            had_turn = turn is not None and turn.since >= work.start - EARLY
            if not own and not had_turn:
                return Planned(work.start - EARLY, work.end, _said(work))
        return None

    def during(self, node: str, time: datetime) -> bool:
        """Whether something that happened then fell into planned work, however long ago."""
        turn = self._turns.get(node)
        if turn is not None and turn.since <= time:
            if turn.until is None or time <= turn.until + GRACE:
                return True
        else:
            turn = None
        return any(
            work.start - EARLY <= time <= work.end + GRACE
            and (turn is None or turn.since < work.start - EARLY)
            for work in self._of_node.get(node, ())
        )

    def late(self, node: str) -> Maintenance | None:
        """The window of work on a node that ended last, its grace over, too; None if none did."""
        over = [w for w in self._of_node.get(node, ()) if w.end + GRACE < self._now]
        return max(over, key=lambda w: w.end, default=None)


def _said(work: Maintenance) -> str:
    return f"planned work ({work.kind or 'maintenance'})"


def _taken_out(state: NodeState) -> str:
    reason = f": {state.reason}" if state.reason else ""
    return f"work on it ({state.state}{reason})"
