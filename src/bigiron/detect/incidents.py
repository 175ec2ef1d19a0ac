"""Events to incidents: what happened together on one node, under its first cause.

An event follows an earlier one if the catalogue says that its fault ``follows`` the other's, or
if a rule below does. The chain's first event keeps the blame; the others are its evidence.
Chains never reach across a boot.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from bigiron.faults import catalogue
from bigiron.model import Blame, Event, Fault

CHAIN_S = 300.0
"""Longest pause between a cause and what follows it, where no rule says otherwise."""

TOGETHER_S = 10.0
"""Reports of one event from several devices (both ends of a link) lie within this time."""

SLACK_S = 1.0
"""Sources stamp one happening this far apart, so a cause may be written after its effect."""

UNTIL_BOOT_S = float("inf")

REBOOT = "kernel.reboot"
SILENT = frozenset({REBOOT, "ib.link_up", "recovery.0", "nfs.ok"})
"""Good news: used to end incidents, never one itself."""


class Rule(NamedTuple):
    """``follower`` events within ``within_s`` after ``cause`` are its consequence.

    ``where`` is ``device`` (the same one), ``other`` (another device of the node) or ``node``.
    """

    cause: str
    follower: str
    where: str
    within_s: float


# Sources: NVIDIA's XID catalogue and its workflows for 45, 48, 74 and 154; the chains measured on
# Delta (arXiv 2503.11901: PMU to MMU, GSP to dead GPU, NVLink to peers); kernel logs of fleets.
RULES = (
    # A GPU that is off the bus says nothing true any more, until the node boots.
    Rule("xid.79", "xid", "device", UNTIL_BOOT_S),
    Rule("xid.79", "nvrm", "device", UNTIL_BOOT_S),
    Rule("xid.79", "gsp", "device", UNTIL_BOOT_S),
    Rule("xid.79", "sxid", "node", CHAIN_S),
    Rule("xid.79", "xid.74", "other", 60.0),
    Rule("xid.79", "nvrm", "node", 60.0),
    Rule("nvrm.fallen_off", "xid.79", "device", SLACK_S),
    # A GPU system processor that stopped answering takes the GPU with it.
    Rule("xid.119", "xid", "device", CHAIN_S),
    Rule("xid.120", "xid", "device", CHAIN_S),
    Rule("xid.119", "nvrm", "node", CHAIN_S),
    Rule("xid.120", "nvrm", "node", CHAIN_S),
    Rule("gsp", "xid", "device", CHAIN_S),
    Rule("xid.119", "gsp", "device", CHAIN_S),
    # One memory error: the error, its remapping, containment and the recovery asked for.
    Rule("xid.48", "xid.63", "device", CHAIN_S),
    Rule("xid.48", "xid.64", "device", CHAIN_S),
    Rule("xid.48", "xid.94", "device", CHAIN_S),
    Rule("xid.48", "xid.95", "device", CHAIN_S),
    Rule("xid.48", "xid.171", "device", CHAIN_S),
    Rule("xid.48", "xid.172", "device", CHAIN_S),
    Rule("xid.171", "xid.48", "device", SLACK_S),
    Rule("xid.172", "xid.48", "device", SLACK_S),
    Rule("xid.63", "xid.64", "device", 60.0),
    Rule("xid.94", "xid.63", "device", CHAIN_S),
    Rule("xid.94", "xid.95", "device", CHAIN_S),
    Rule("xid.95", "xid.63", "device", CHAIN_S),
    Rule("xid.95", "xid.64", "device", CHAIN_S),
    Rule("xid.140", "xid.48", "device", CHAIN_S),
    Rule("xid.48", "xid.140", "device", CHAIN_S),
    # What a faulty GPU does to the program on it.
    *(
        Rule(cause, follower, "device", 60.0)
        for cause in ("xid.48", "xid.94", "xid.95", "xid.62", "xid.74", "xid.122", "xid.140")
        for follower in ("xid.13", "xid.31", "xid.43")
    ),
    # Both ends of a link, and the switch between them, report one fault.
    Rule("xid.74", "xid.74", "other", TOGETHER_S),
    Rule("xid.74", "sxid", "node", 60.0),
    Rule("sxid", "xid.74", "node", 60.0),
    Rule("sxid", "sxid", "node", 60.0),
    *(
        Rule(f"xid.{one}", f"xid.{other}", "node", TOGETHER_S)
        for one in (*range(144, 151), 155)
        for other in (*range(144, 151), 155)
    ),
    Rule("xid.137", "xid.31", "device", 60.0),
    # 45 cleans up after something, 154 says what recovery is needed now: neither is a cause.
    Rule("xid", "xid.45", "node", CHAIN_S),
    Rule("xid", "xid.154", "device", CHAIN_S),
    Rule("xid", "recovery", "device", CHAIN_S),
    # A program that broke its context cannot be switched out either.
    Rule("xid.13", "xid.109", "device", CHAIN_S),
    Rule("xid.13", "xid.43", "device", CHAIN_S),
    Rule("xid.31", "xid.43", "device", CHAIN_S),
    Rule("xid.31", "xid.109", "device", CHAIN_S),
    Rule("xid.109", "xid.43", "device", CHAIN_S),
    # The bus under a GPU that then is gone: named by the GPU's own code (see ABSORBS).
    Rule("amdgpu.ras_uncorrectable", "amdgpu", "device", CHAIN_S),
    Rule("amdgpu.poison", "amdgpu", "device", CHAIN_S),
    Rule("amdgpu.ring_timeout", "amdgpu.gpu_reset", "device", CHAIN_S),
    Rule("amdgpu.ring_timeout", "amdgpu.reset_failed", "device", CHAIN_S),
    Rule("amdgpu.lost", "amdgpu", "device", UNTIL_BOOT_S),
    Rule("amdgpu.xgmi_error", "amdgpu.gpu_reset", "node", CHAIN_S),
    # Programs die of the hardware under them.
    *(
        Rule(cause, follower, "node", 600.0)
        for cause in ("xid.79", "xid.119", "xid.95", "xid.48", "xid.74", "ib.link_down")
        for follower in ("nccl", "kernel.segfault_nccl", "kernel.hung_task")
    ),
)

ABSORBS = (
    Rule("xid.79", "pcie", "node", 60.0),
    Rule("xid.79", "nvrm.fallen_off", "device", 60.0),
    Rule("xid.79", "nvrm.gpu_lost", "device", 60.0),
    Rule("amdgpu.lost", "pcie", "node", 60.0),
    # Remapping is bookkeeping: logged first or last, the error it answers is the cause.
    *(
        Rule(cause, sign, "device", 60.0)
        for cause in ("xid.48", "xid.94", "xid.95")
        for sign in ("xid.63", "xid.64")
    ),
    Rule("xid.48", "xid.94", "device", SLACK_S),
    Rule("xid.48", "xid.95", "device", SLACK_S),
)
"""Events *before* the named cause that are its first signs and better told under its name."""

LINK_CODES = frozenset({"xid.74", "xid.155", *(f"xid.{n}" for n in range(144, 151))})


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
        if cause is not None and _asks(event.code) and _entry(cause[1]).blame is Blame.APPLICATION:
            cause = None  # a program's error that the driver wants a reset for is more than that
        latest[key] = stamped.t
        root = root_of.get(cause, cause) if cause is not None else None
        if root is not None and root != key and root in found:
            found[root].followers.append(stamped)
            root_of.setdefault(key, root)
            continue
        incident = found.get(key)
        if incident is None:
            fault = _entry(event.code)
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
        within_s = _explains(other[1], key[1], _where(other[0], key[0]))
        if within_s is not None and t - other_t <= within_s and other_t < best_t:
            best, best_t = other, other_t
    return best


def _where(cause: str, follower: str) -> str:
    if not cause or not follower:
        return "unsaid"
    return "device" if cause == follower else "other"


@cache
def _explains(cause: str, follower: str, where: str) -> float | None:
    """For how many seconds after ``cause`` a ``follower`` is its consequence; None if never."""
    longest: float | None = None
    for rule in RULES:
        if not (_is(cause, rule.cause) and _is(follower, rule.follower)):
            continue
        if where in ("unsaid", rule.where) or rule.where == "node":
            longest = max(longest or 0.0, rule.within_s)
    if longest is None and _follows(cause, follower, where):
        longest = CHAIN_S
    return longest


def _follows(cause: str, follower: str, where: str) -> bool:
    """Whether the catalogue says so; of two devices of one kind each has its own troubles."""
    entry = _entry(follower)
    if not any(_is(cause, code) for code in entry.follows):
        return False
    return where != "other" or entry.device != _entry(cause).device


def _is(code: str, general: str) -> bool:
    return code == general or code.startswith(f"{general}.")


@cache
def _entry(code: str) -> Fault:
    return catalogue().find(code)


def _absorbed(found: list[Incident]) -> list[Incident]:
    """Without the first signs of something that then showed itself under its own name."""
    left: list[Incident] = []
    for incident in found:
        into = next((o for o in found if o is not incident and _takes(o, incident)), None)
        if into is None:
            left.append(incident)
        else:
            into.followers += incident.events + incident.followers
            into.followers.sort(key=lambda s: s.t)
    return left


def _takes(cause: Incident, sign: Incident) -> bool:
    where = _where(cause.device, sign.device)
    gap_s = cause.first.t - sign.last.t
    for rule in ABSORBS:
        if _is(cause.code, rule.cause) and _is(sign.code, rule.follower):
            fits = where in ("unsaid", rule.where) or rule.where == "node"
            if fits and 0 <= gap_s <= rule.within_s:
                return True
    within_s = _explains(cause.code, sign.code, where)
    worse = cause.fault.severity.rank > sign.fault.severity.rank
    return within_s is not None and worse and 0 <= gap_s <= SLACK_S


def _asks(code: str) -> bool:
    return _is(code, "recovery") or code == "xid.154"


NODE_DEVICES = 3
"""The same thing on so many devices of a node within a minute is one thing about the node."""

NODE_WITHIN_S = 60.0


def _merged(found: list[Incident]) -> Iterator[Incident]:
    by_code: dict[str, list[Incident]] = {}
    for incident in found:
        by_code.setdefault(incident.code, []).append(incident)
    for code, same in by_code.items():
        first = min(i.first.t for i in same)
        near = [i for i in same if i.device and i.first.t - first <= NODE_WITHIN_S]
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
