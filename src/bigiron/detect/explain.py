"""What is no node's own fault is taken from it before any finding opens.

Between the detectors' claims and ``settle``. Three reasons: a shared part that was found bad (a
claim on a group), many nodes of one group with the same trouble at once (found here, by the scan
of ``shared_cause``), and planned work. A claim so explained is held back; one that stands closes
with the reason. What is held is let go when its reason is over and it has not ended by then.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta

import msgspec

from bigiron.detect import Window
from bigiron.detect.claims import Asks, claim
from bigiron.detect.planned import REMEMBERED, Away, Calendar, away
from bigiron.detect.settle import Open
from bigiron.detect.shared_cause import families
from bigiron.detect.shared_cause.places import levels
from bigiron.detect.shared_cause.scan import Hit, scan
from bigiron.model import ActionKind, Blame, Evidence, Finding, Recovery, Severity, Subject, When

NAME = "shared_cause"

HARD_WITHIN = timedelta(seconds=120)
"""Hard events of one cause come at once; sources stamp them up to a minute apart."""

GRADUAL_WITHIN = timedelta(hours=1)
RECENT = timedelta(minutes=30)
"""How long ago a hard trouble may have begun and still be looked at together with others."""

BEFORE = timedelta(minutes=10)
"""A member may feel it this much before the group does: most must, for the group to be named."""

GRACE = timedelta(hours=1)
"""After a cause is over its members still show it: heat leaves slowly, means are of hours."""

KEPT = timedelta(days=1)
"""What a count of a day remembers of a cause is still that cause's."""

GROUP = Asks(
    Severity.WARNING, ActionKind.NONE, When.NEVER, Blame.FACILITY, "no node of it is to blame"
)

OWN = frozenset({"", "gpu", "memory"})
"""Families of what nobody plans: only a node's own turn excuses it, not the whole window."""

NEVER_PLANNED = frozenset({"golden"})
"""Who says what is wrong after planned work, and so must not be silenced by it."""


class Cause(msgspec.Struct, frozen=True):
    """Something shared that was found bad: whom it explains, of what, since and until when."""

    fault: str
    by: str
    group: str
    members: tuple[str, ...]
    since: datetime
    until: datetime
    marked: int = 0
    """How many members showed it when it was found from their claims; 0 if found otherwise."""

    def covers(self, time: datetime) -> bool:
        """Whether something that happened then may be its doing."""
        return self.since - BEFORE <= time <= self.until + GRACE


class Held(msgspec.Struct, frozen=True):
    """A claim held back, why (a cause's key, or planned work) and when it was last made."""

    finding: Finding
    why: str
    last: datetime


class Explaining(msgspec.Struct, frozen=True):
    """What the stage remembers: causes by the key of their finding, held claims, nodes away."""

    causes: dict[str, Cause] = {}
    held: dict[str, Held] = {}
    away: dict[str, Away] = {}


def explain(
    state: Explaining,
    claims: Sequence[Finding],
    recoveries: Sequence[Recovery],
    standing: Mapping[str, Open],
    window: Window,
    events_only: Set[str] = frozenset(),
) -> tuple[Explaining, list[Finding], list[Recovery]]:
    """The claims that remain and the recoveries, with those of standing findings now explained.

    ``events_only`` names the detectors that read events: what they claimed once they do not
    claim again.
    """
    stage = _Stage(state, claims, recoveries, standing, window, events_only)
    return stage.run()


def released(state: Explaining) -> Iterator[Finding]:
    """What is held: its end must be looked for like that of what stands."""
    return (held.finding for held in state.held.values())


class _Stage:
    """One run of the stage."""

    def __init__(
        self,
        state: Explaining,
        claims: Sequence[Finding],
        recoveries: Sequence[Recovery],
        standing: Mapping[str, Open],
        window: Window,
        events_only: Set[str],
    ) -> None:
        self.state, self.window, self.now = state, window, window.now
        self.claims = list(claims)
        self.recoveries = list(recoveries)
        self.events_only = events_only
        self.opened = {held.finding.key: (id_, held) for id_, held in standing.items()}
        self.away = away(state.away, window.states, self.now, REMEMBERED)
        self.calendar = Calendar(self.now, window.maintenance, window.states, self.away)
        self.causes = dict(state.causes)
        self.held: dict[str, Held] = {}

    def run(self) -> tuple[Explaining, list[Finding], list[Recovery]]:
        """Groups first, then their members."""
        self._known_groups()
        own = self._own()
        self._found_groups(own)
        left = [f for f in self.claims if f.subject.by]
        for finding in own.values():
            why = self._why(finding)
            if not why:
                left.append(finding)
                continue
            self.held[finding.key] = Held(finding, why, self._last(finding))
            if finding.key in self.opened:
                self.recoveries.append(Recovery(finding.key, self._because(why)))
        self._end_causes()
        return Explaining(self.causes, self.held, self.away), left, self.recoveries

    def _known_groups(self) -> None:
        """The causes that detectors claim now."""
        for finding in self.claims:
            subject = finding.subject
            if subject.by and finding.fault in families.EXPLAINS:
                since = finding.since or self.now
                known = self.causes.get(finding.key)
                if known is not None and known.until + GRACE < since:
                    self.causes[f"{finding.key}@{known.since:%Y%m%dT%H%M%S}"] = known
                elif known is not None:
                    since = min(since, known.since)
                self.causes[finding.key] = Cause(
                    finding.fault, subject.by, subject.group, subject.members, since, self.now
                )

    def _own(self) -> dict[str, Finding]:
        """What is claimed of nodes now, and what was held and has not ended, by key."""
        ended = {recovery.key for recovery in self.recoveries}
        own = {
            key: held.finding
            for key, held in self.state.held.items()
            if key not in ended and self._lasts(held)
        }
        own |= {f.key: f for f in self.claims if not f.subject.by}
        return own

    def _lasts(self, held: Held) -> bool:
        if held.finding.detector in self.events_only:
            return True
        return (self.now - held.last).total_seconds() <= 2 * self.window.fresh_s

    def _last(self, finding: Finding) -> datetime:
        before = self.state.held.get(finding.key)
        made = any(f.key == finding.key for f in self.claims) if before is not None else True
        return self.now if made or before is None else before.last

    # --- groups found from the members' own claims

    def _found_groups(self, own: Mapping[str, Finding]) -> None:
        recent: dict[str, dict[str, tuple[datetime, Finding]]] = {}
        for finding in own.values():
            family = families.family(finding.fault)
            if not family or finding.severity is Severity.INFO:
                continue
            began = self._began(finding)
            within = RECENT if family in families.HARD else GRADUAL_WITHIN
            node = finding.subject.node
            if self.now - began <= within and not self._why(finding):
                recent.setdefault(family, {}).setdefault(node, (began, finding))
        for family, of_node in recent.items():
            for hit in self._scan(family, of_node):
                self._cause(family, hit, of_node)
        for key, cause in self.causes.items():
            if cause.marked and cause.until < self.now:
                self._still(key, cause, own)

    def _scan(self, family: str, of_node: Mapping[str, tuple[datetime, Finding]]) -> list[Hit]:
        within = HARD_WITHIN if family in families.HARD else GRADUAL_WITHIN
        marked = _together({node: began for node, (began, _) in of_node.items()}, within)
        if len(marked) < 3:
            return []
        fleet = self.window.fleet.nodes
        places = levels(fleet, families.LEVELS[family], self.window.jobs, self.now)
        eligible = {n for n in fleet if self.calendar.at_work(n) is None or n in marked}
        return scan(marked, eligible, places)

    def _cause(
        self, family: str, hit: Hit, of_node: Mapping[str, tuple[datetime, Finding]]
    ) -> None:
        fault = families.named(family, hit.by)
        since = min(of_node[node][0] for node in hit.marked)
        members = tuple(sorted({*hit.members}))
        cause = Cause(fault, hit.by, hit.group, members, since, self.now, len(hit.marked))
        key = f"{NAME}|{fault}|{hit.by}:{hit.group}"
        before = self.causes.get(key)
        if before is None or before.marked or before.until + GRACE < since:
            self.causes[key] = cause
            shown = [of_node[node][1] for node in hit.marked[:5]]
            self.claims.append(_group(cause, family, hit, shown))

    def _still(self, key: str, cause: Cause, own: Mapping[str, Finding]) -> None:
        """A cause found from claims lasts while at least half of them do."""
        explains = families.EXPLAINS[cause.fault]
        members = set(cause.members)
        bad = {
            f.subject.node
            for f in own.values()
            if f.subject.node in members and families.family(f.fault) in explains
        }
        if len(bad) >= max(2, cause.marked / 2):
            self.causes[key] = msgspec.structs.replace(cause, until=self.now)
            known = self.opened.get(key)
            if known is not None:
                self.claims.append(known[1].finding)

    def _end_causes(self) -> None:
        for key, cause in list(self.causes.items()):
            if cause.until < self.now and cause.marked and key in self.opened:
                self.recoveries.append(Recovery(key, "most of its nodes are well again"))
            if self.now - cause.until > KEPT:
                del self.causes[key]

    # --- members

    def _why(self, finding: Finding) -> str:
        """The cause or the planned work that explains a claim; "" if it is the node's own."""
        for key, cause in self.causes.items():
            if finding.subject.node in cause.members and self._explains(cause, finding):
                return key
        return self._planned(finding)

    def _explains(self, cause: Cause, finding: Finding) -> bool:
        """Whether what a claim rests on all came while a cause it may have was on.

        A single event is let go soon after: what it did may last. A count of a day may have begun
        under an earlier cause of the same kind.
        """
        if families.family(finding.fault) not in families.EXPLAINS[cause.fault]:
            return False
        if self.now > cause.until + GRACE and finding.detector in self.events_only:
            return False
        times = [self._began(finding), *(e.time for e in finding.evidence if e.time is not None)]
        alike = [
            c for c in self.causes.values() if c.fault == cause.fault and c.group == cause.group
        ]
        return cause.covers(max(times)) and any(c.covers(min(times)) for c in alike)

    def _planned(self, finding: Finding) -> str:
        if finding.detector in NEVER_PLANNED or finding.severity is Severity.INFO:
            return ""
        own = families.family(finding.fault) in OWN
        began = self._began(finding)
        planned = self.calendar.excuses(finding.subject.node, began, own=own)
        return planned.what if planned is not None else ""

    def _began(self, finding: Finding) -> datetime:
        known = self.opened.get(finding.key)
        if known is not None:
            return min(known[1].opened, known[1].finding.since or known[1].opened)
        return finding.since or self.now

    def _because(self, why: str) -> str:
        cause = self.causes.get(why)
        if cause is None:
            return f"explained by {why}"
        known = self.opened.get(why)
        what = f"{cause.fault} of {cause.by} {cause.group}"
        return f"explained by {known[0]}: {what}" if known else f"explained by {what}"


def _together(began: Mapping[str, datetime], within: timedelta) -> set[str]:
    """The largest number of nodes whose trouble began within so much time of one another."""
    order = sorted(began, key=lambda node: (began[node], node))
    best: tuple[int, int] = (0, 0)
    first = 0
    for last, node in enumerate(order):
        while began[node] - began[order[first]] > within:
            first += 1
        if last + 1 - first > best[1] - best[0]:
            best = (first, last + 1)
    return set(order[best[0] : best[1]])


def _group(cause: Cause, family: str, hit: Hit, shown: Iterable[Finding]) -> Finding:
    odd, within = len(hit.marked), "two minutes" if family in families.HARD else "an hour"
    of = f"the {len(cause.members)} nodes of {cause.by} {cause.group}"
    text = f"{odd} of {of} show the same within {within}."
    chance = f"By chance so many would be together once in {1 / max(hit.chance, 1e-12):,.0f}."
    evidence = tuple(
        Evidence("event", f.because[0] if f.because else f.fault, f.since) for f in shown
    )
    return claim(
        NAME,
        cause.fault,
        Subject(by=cause.by, group=cause.group, members=cause.members),
        (text, chance, "What they share is at fault, no node of them."),
        since=cause.since,
        evidence=evidence,
        confidence=round(1 - min(hit.chance, 0.5), 3),
        otherwise=GROUP,
    )
