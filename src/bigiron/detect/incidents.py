"""Events to incidents: what happened together on one node, under its first cause.

An event follows an earlier one if a rule or the catalogue says so (``chains``). The chain's first
event keeps the blame; the others are its evidence. Chains never reach across a boot.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bigiron.detect.chains import (
    ABSORBS,
    SLACK_S,
    SWAP_S,
    announces,
    entry_of,
    explains,
    is_a,
    ruled,
    where_of,
)
from bigiron.model import Blame, Event, Fault

REBOOT = "kernel.reboot"
SILENT = frozenset({REBOOT, "ib.link_up", "recovery.0", "nfs.ok"})
"""Good news: used to end incidents, never one itself."""


@dataclass(slots=True)
class Stamped:
    """An event and its time in seconds on the clock of its group."""

    t: float
    event: Event


@dataclass(slots=True)
class Incident:
    """A first cause on a device (or the node), its repetitions and what followed."""

    fault: Fault
    code: str
    node: str
    device: str
    events: list[Stamped] = field(default_factory=list)
    followers: list[Stamped] = field(default_factory=list)
    rebooted: Event | None = None
    """The boot that came after it, if one did."""
    devices: list[str] = field(default_factory=list)
    """The devices of an incident that is about the whole node."""

    @property
    def count(self) -> int:
        """How often the cause was reported."""
        return sum(s.event.count for s in self.events)

    @property
    def first(self) -> Stamped:
        """Its first report."""
        return self.events[0]

    @property
    def last(self) -> Stamped:
        """The newest event of the cause itself."""
        return self.events[-1]

    @property
    def earlier_boot(self) -> bool:
        """Whether it is only known from what an earlier boot left behind."""
        return self.first.event.attrs.get("earlier_boot") == "yes"

    @property
    def application(self) -> bool:
        """Whether a program is to blame."""
        return self.fault.blame is Blame.APPLICATION


def incidents(events: Sequence[Event], booted_s: float | None = None) -> Iterator[Incident]:
    """The incidents of one node's events, oldest first within each boot.

    ``booted_s`` is when the node last booted, in epoch seconds, where a metric tells it: the
    kernel log may have missed the boot.
    """
    for group in _clocks(events):
        for session, boot in _boots(group):
            yield from _chains(session, boot, booted_s)


def _clocks(events: Sequence[Event]) -> list[list[Stamped]]:
    """The events apart by clock: wall time, or one source's uptime or line numbers; in order."""
    groups: dict[str, list[Stamped]] = {}
    for event in events:
        left = "left|" if event.attrs.get("earlier_boot") == "yes" else ""
        if event.time is not None:
            groups.setdefault(f"{left}wall", []).append(Stamped(event.time.timestamp(), event))
        elif event.uptime_s is not None:
            key = f"{left}up|{event.source}"
            groups.setdefault(key, []).append(Stamped(event.uptime_s, event))
        else:
            groups.setdefault(f"{left}line|{event.source}", []).append(Stamped(0.0, event))
    for key, group in groups.items():
        if "up|" in key:
            group.sort(key=lambda s: (s.event.line, s.t))
        elif "line|" in key:
            group.sort(key=lambda s: s.event.line)
        else:
            group.sort(key=lambda s: (s.t, s.event.line))
    return list(groups.values())


def _boots(group: Sequence[Stamped]) -> Iterator[tuple[list[Stamped], Event | None]]:
    """The events between boots, each with the boot that ended it."""
    session: list[Stamped] = []
    for stamped in group:
        back = bool(session) and stamped.t < session[-1].t - SLACK_S
        if stamped.event.code == REBOOT or back:
            yield session, stamped.event
            session = []
        session.append(stamped)
    yield session, None


def _chains(
    session: Sequence[Stamped], boot: Event | None, booted_s: float | None
) -> Iterator[Incident]:
    """The incidents between two boots; what a boot told only by a metric ended stays apart."""
    if boot is None and booted_s is not None and session and session[0].event.time is not None:
        before = [s for s in session if s.t < booted_s - SLACK_S]
        if before and len(before) < len(session):
            yield from _chains(before, None, None)
            session = session[len(before) :]
    found: dict[tuple[str, str], Incident] = {}
    latest: dict[tuple[str, str], float] = {}
    root_of: dict[tuple[str, str], tuple[str, str]] = {}
    for stamped in session:
        event = stamped.event
        if event.code in SILENT:
            continue
        key = (event.device, event.code)
        cause = _cause(key, stamped.t, latest)
        programs = cause is not None and entry_of(cause[1]).blame is Blame.APPLICATION
        if programs and _asks(event.code):
            cause = None  # a program's error that the driver wants a reset for is more than that
        latest[key] = stamped.t
        root = root_of.get(cause, cause) if cause is not None else None
        if root is not None and root != key and root in found:
            found[root].followers.append(stamped)
            root_of.setdefault(key, root)
            continue
        incident = found.get(key)
        if incident is None:
            fault = entry_of(event.code)
            incident = Incident(fault, event.code, event.node, event.device, rebooted=boot)
            found[key] = incident
        incident.events.append(stamped)
        root_of[key] = key
    yield from _merged(_absorbed(list(found.values())))


def _cause(
    key: tuple[str, str], t: float, latest: dict[tuple[str, str], float]
) -> tuple[str, str] | None:
    """The oldest earlier event that explains one with this device and code."""
    best: tuple[str, str] | None = None
    best_t = float("inf")
    for other, other_t in latest.items():
        if other == key:
            continue
        where, gap_s = where_of(other[0], key[0]), t - other_t
        within_s = explains(other[1], key[1], where)
        if within_s is None or gap_s > within_s or other_t >= best_t:
            continue
        if not announces(other[1], key[1], where, gap_s):
            best, best_t = other, other_t
    return best


def _absorbed(found: list[Incident]) -> list[Incident]:
    """Without the first signs of something that then showed itself under its own name."""
    into: dict[int, int] = {}
    for nth, sign in enumerate(found):
        takers = (n for n, other in enumerate(found) if n != nth and _takes(other, sign))
        if (taker := next(takers, None)) is not None and _root(into, taker) != nth:
            into[nth] = taker
    for nth in into:
        root = found[_root(into, nth)]
        root.followers += found[nth].events + found[nth].followers
        root.followers.sort(key=lambda s: s.t)
    return [incident for nth, incident in enumerate(found) if nth not in into]


def _root(into: Mapping[int, int], nth: int) -> int:
    while nth in into:
        nth = into[nth]
    return nth


def _takes(cause: Incident, sign: Incident) -> bool:
    """Whether a sign that came before belongs to a cause; of two that explain each other the
    worse does, else the first.
    """
    where = where_of(cause.device, sign.device)
    gap_s = cause.first.t - sign.last.t
    before_s = ruled(ABSORBS, cause.code, sign.code, where)
    if before_s is not None and 0 <= gap_s <= before_s:
        return True
    if not 0 <= gap_s <= SWAP_S or explains(cause.code, sign.code, where) is None:
        return False
    if explains(sign.code, cause.code, where) is None:
        return True
    return cause.fault.severity.rank > sign.fault.severity.rank


def _asks(code: str) -> bool:
    return is_a(code, "recovery") or code == "xid.154"


NODE_DEVICES = 3
"""The same thing on so many devices of a node within a minute is one thing about the node."""

NODE_WITHIN_S = 60.0


def _at_once(same: list[Incident]) -> list[Incident]:
    """The most of these incidents that began within a minute of one another."""
    same.sort(key=lambda i: i.first.t)
    best: list[Incident] = []
    for nth, first in enumerate(same):
        near = [i for i in same[nth:] if i.first.t - first.first.t <= NODE_WITHIN_S]
        best = max(best, near, key=len)
    return best


def _merged(found: list[Incident]) -> Iterator[Incident]:
    by_code: dict[str, list[Incident]] = {}
    for incident in found:
        by_code.setdefault(incident.code, []).append(incident)
    for code, same in by_code.items():
        near = _at_once([i for i in same if i.device])
        if len(near) < NODE_DEVICES:
            yield from same
            continue
        events = sorted((s for i in near for s in i.events), key=lambda s: s.t)
        followers = sorted((s for i in near for s in i.followers), key=lambda s: s.t)
        devices = [i.device for i in near]
        one = near[0]
        yield Incident(
            one.fault, code, one.node, "", events, followers, one.rebooted, sorted(devices)
        )
        yield from (i for i in same if i not in near)
