"""Known faults: events to incidents. The first cause keeps the blame; what follows is evidence.

What a code means, how bad it is and what to do comes from the catalogue. A program's own error
is told, and never blamed on the node, unless it follows the device across users.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from bigiron.detect import Window, detector, flap, scheduler
from bigiron.detect.incidents import REBOOT, Incident, Stamped, incidents
from bigiron.detect.tenants import Group, Tenants
from bigiron.detect.words import at, label, told
from bigiron.faults import catalogue
from bigiron.model import (
    ActionKind,
    Blame,
    Event,
    Evidence,
    Fault,
    Finding,
    Recovery,
    Severity,
    Subject,
    When,
)

NAME = "fault"
EVIDENCE_LIMIT = 10
FOLLOWS_CONFIDENCE = 0.6

UNKNOWN_CONFIDENCE = 0.6
"""For a code that the catalogue does not hold."""

_CLEARS_RANK = {"quiet": 0, "reset": 1, "reboot": 2, "person": 3}
_ACTION_RANK = {
    kind: rank
    for rank, kind in enumerate(
        (
            ActionKind.NONE,
            ActionKind.RESUME,
            ActionKind.CHECK,
            ActionKind.DRAIN,
            ActionKind.RESET_GPU,
            ActionKind.REBOOT,
            ActionKind.DRAIN_NOW,
            ActionKind.REPAIR,
        )
    )
}


@detector()
def fault(window: Window) -> Iterator[Finding | Recovery]:
    """What the kernel log and its like say went wrong, one finding per cause."""
    tenants = Tenants(window)
    for node, events in window.events_of().items():
        if window.touched is not None and node not in window.touched:
            continue
        found = _incidents(window, node, events)
        for incident in found:
            why = ended(incident, window, events)
            if (why and not window.single_look) or _young(incident, window):
                continue
            finding = _finding(incident, window, why, tenants)
            group = _told_of(finding, tenants)
            if group is not None:
                yield Recovery(finding.key, f"it is the program's: see {group.by} {group.name}")
                continue
            yield finding
            for device in incident.devices:
                alone = Subject(node=node, device=device).key
                yield Recovery(f"{NAME}|{incident.code}|{alone}", f"part of what {node} has")
        yield from _taken_over(found, window)


def _told_of(finding: Finding, tenants: Tenants) -> Group | None:
    """The user or job whose programs fail wherever they run: told once of all of them."""
    if finding.blame is not Blame.APPLICATION or not tenants.groups():
        return None
    return tenants.group_of(finding.fault, finding.subject.node, finding.subject.device)


def _incidents(window: Window, node: str, events: Sequence[Event]) -> Sequence[Incident]:
    """The incidents of one node, sorted out anew when it has new events or has booted."""
    booted = booted_s(window, node)
    of = events, booted
    return window.memo.made(f"incidents {node}", of, lambda: list(incidents(events, booted)))


def _taken_over(found: Iterable[Incident], window: Window) -> Iterator[Recovery]:
    """What stands under its own name and, now that its cause is known, follows from that."""
    if not window.standing:
        return
    found = list(found)
    own = {_key(incident) for incident in found}
    for incident in found:
        for follower in incident.followers:
            event = follower.event
            key = f"{NAME}|{event.code}|{Subject(node=event.node, device=event.device).key}"
            if key not in own and window.stands(key):
                yield Recovery(key, f"it follows from {label(incident.code)}, told later")


def recoveries(standing: Iterable[Finding], window: Window) -> Iterator[Recovery]:
    """The standing incidents that a later boot, reset or quiet time has ended."""
    nodes: dict[str, dict[str, Finding]] = {}
    for finding in standing:
        if finding.detector == NAME:
            nodes.setdefault(finding.subject.node, {})[finding.key] = finding
    if not nodes:
        return
    by_node = window.events_of()
    for node, findings in nodes.items():
        events = by_node.get(node, ())
        # the newest of one key comes last
        newest = {_key(incident): incident for incident in _incidents(window, node, events)}
        for key, finding in findings.items():
            incident = newest.get(key)
            if incident is not None:
                why = ended(incident, window, events)
            else:
                why = _ended_alone(finding, window, events)
            if why:
                yield Recovery(key, why)


def waits_for_person(standing: Iterable[Finding], window: Window) -> Iterator[Finding]:
    """Those of one node's standing findings that nothing but a person's word ends."""
    standing = list(standing)
    demanding: set[str] = set()
    if any(finding.detector == NAME for finding in standing):
        node = standing[0].subject.node
        for incident in _incidents(window, node, window.events_of().get(node, ())):
            if _clears(incident)[0] == "person":
                demanding.add(_key(incident))
    for finding in standing:
        if finding.key in demanding or catalogue().find(finding.fault).clears == "person":
            yield finding


GOOD = {"ib.link_down": "ib.link_up", "nfs.not_responding": "nfs.ok"}
"""What says that something is well again."""

NOT_THE_NODE = frozenset({Blame.APPLICATION, Blame.SOFTWARE, Blame.FACILITY})
"""Where nothing is to be done to the node, these tell what happened on it, not what it has."""

CLOCK_S = 300.0
"""A node's clock may run ahead of ours by this much."""

YOUNG_S = 60.0
"""What may be well again in a moment is believed after this time: links retrain."""


def _young(incident: Incident, window: Window) -> bool:
    time = incident.last.event.time
    if incident.code not in GOOD or window.single_look or time is None:
        return False
    return (window.now - time).total_seconds() < YOUNG_S


def ended(incident: Incident, window: Window, events: Iterable[Event]) -> str:
    """Why an incident is over; "" if it is not. ``clears`` of the catalogue says what ends it."""
    last = max([incident.last, *_escalating(incident)], key=lambda s: s.t)
    if why := scheduler.over(window, incident.node, incident.device, incident.code, last.event):
        return why
    clears, quiet_s = _clears(incident)
    if incident.earlier_boot or clears == "person":
        return ""
    if incident.rebooted is not None:
        boot = incident.rebooted
        return f"the node booted at {at(boot.time)}" if boot.time else "the node booted since"
    if last.event.time is None:
        return ""
    lasting = _Lasting(incident.code, incident.node, incident.device, last.t, clears, quiet_s)
    return _over(window, lasting, events)


def _ended_alone(finding: Finding, window: Window, events: Iterable[Event]) -> str:
    """The same for a finding whose events are no longer remembered."""
    entry = catalogue().find(finding.fault)
    times = [e.time for e in finding.evidence if e.time is not None]
    node, device = finding.subject.node, finding.subject.device
    if why := scheduler.over(window, node, device, finding.fault, None):
        return why
    if not times or entry.clears == "person":
        return ""
    last_s = max(times).timestamp()
    lasting = _Lasting(finding.fault, node, device, last_s, entry.clears, entry.quiet_s)
    return _over(window, lasting, events)


class _Lasting(NamedTuple):
    """Something that happened last at ``last_s`` and what ends it."""

    code: str
    node: str
    device: str
    last_s: float
    clears: str
    quiet_s: float


def _over(window: Window, lasting: _Lasting, events: Iterable[Event]) -> str:
    boot_s = booted_s(window, lasting.node)
    if boot_s is not None and boot_s > lasting.last_s:
        return f"the node booted after it, {_ago(window, boot_s)}"
    for event in events:
        if event.time is not None and event.time.timestamp() >= lasting.last_s:
            why = _ends(event, lasting)
            if why:
                return f"{why} at {at(event.time)}"
    if lasting.clears == "quiet" and not window.single_look:
        seen_s = window.last_seen(lasting.node)
        if seen_s is not None and seen_s - lasting.last_s >= lasting.quiet_s:
            hours = lasting.quiet_s / 3600
            return f"not seen again for {hours:g} hours while the node was heard"
    return ""


def _ends(event: Event, lasting: _Lasting) -> str:
    if event.code == REBOOT:
        return "the node booted"
    if event.device != lasting.device:
        return ""
    if event.code == GOOD.get(lasting.code):
        return "well again"
    if event.code == "recovery.0" and lasting.clears == "reset":
        return "the device was reset"
    return ""


def booted_s(window: Window, node: str) -> float | None:
    """When the node last booted, in epoch seconds, where a metric says so.

    A node whose clock is wrong tells a time of the future, and with it nothing.
    """
    told_s = window.newest("node_boot_time_seconds", (node, ""))
    known = told_s is not None and 0 < told_s <= window.now.timestamp() + CLOCK_S
    return told_s if known else None


def _ago(window: Window, time_s: float) -> str:
    return f"{timedelta(seconds=int(window.now.timestamp() - time_s))} ago"


def _escalating(incident: Incident) -> list[Stamped]:
    """The followers on the same device that are themselves a reason to act."""
    if incident.application:
        return []
    return [
        s
        for s in incident.followers
        if s.event.device == incident.device
        and catalogue().find(s.event.code).blame is not Blame.APPLICATION
    ]


def _clears(incident: Incident) -> tuple[str, float]:
    """What ends it: the most demanding of the cause and of what it led to on its device."""
    entries = [incident.fault, *(catalogue().find(s.event.code) for s in _escalating(incident))]
    first = max(entries, key=lambda e: _CLEARS_RANK[e.clears])
    return first.clears, max(e.quiet_s for e in entries)


def _subject(incident: Incident) -> Subject:
    return Subject(node=incident.node, device=incident.device)


def _key(incident: Incident) -> str:
    """The key of an incident's finding."""
    return f"{NAME}|{incident.code}|{_subject(incident).key}"


class _Judged(NamedTuple):
    """What an incident amounts to."""

    severity: Severity
    action: ActionKind
    when: When
    blame: Blame
    confidence: float = 1.0


def _finding(incident: Incident, window: Window, why_ended: str, tenants: Tenants) -> Finding:
    entry, code = incident.fault, incident.code
    because = [told(window, incident), *_reason(incident), entry.meaning, *_worst_means(incident)]
    if window.single_look and _flapping(incident):
        code = "ib.flap"
        entry = catalogue().find(code)
        because, why_ended = [told(window, incident), entry.meaning], ""
    judged = _Judged(*_worst(incident), entry.blame)
    if code != incident.code:
        judged = _Judged(entry.severity, entry.action, entry.when, entry.blame)
    if entry.code.endswith(".unknown"):
        judged = judged._replace(confidence=UNKNOWN_CONFIDENCE)
    if incident.application:
        judged, follows = _of_program(incident, tenants)
        because.insert(1, follows)
    elif judged.action is ActionKind.NONE and judged.blame in NOT_THE_NODE:
        judged = judged._replace(severity=Severity.INFO)
    elif code == "ib.link_down" and not why_ended and not window.single_look:
        judged = _Judged(Severity.CRITICAL, ActionKind.DRAIN, When.JOB_END, Blame.LINK)
        because.insert(1, "It has not come back.")
    if incident.earlier_boot or why_ended:
        judged = _past(judged)
        because.insert(1, f"It is over: {why_ended}." if why_ended else "")
    return Finding(
        detector=NAME,
        fault=code,
        severity=judged.severity,
        subject=_subject(incident),
        since=incident.first.event.time,
        because=tuple(text for text in because if text),
        confidence=judged.confidence,
        blame=judged.blame,
        action=judged.action,
        when=judged.when,
        evidence=_evidence(incident),
        look=entry.look,
    )


def _worst_means(incident: Incident) -> Iterator[str]:
    """What the worst that followed on the device means, where it is worse than the cause."""
    followed = (catalogue().find(s.event.code) for s in _escalating(incident))
    worst = max(followed, key=lambda entry: entry.severity.rank, default=incident.fault)
    if worst.severity.rank > incident.fault.severity.rank:
        yield worst.meaning


def _reason(incident: Incident) -> Iterator[str]:
    """What the scheduler, or whoever took the node out of service, gave as the reason."""
    event = incident.last.event
    if incident.code.startswith(("slurm.", "k8s.")) and event.text:
        by = f", by {event.attrs['by']}" if event.attrs.get("by") else ""
        said = event.text.strip()[:300]
        only_state = said.replace("+", "").replace("_", "").isupper()
        yield f"Its state: {said}" if only_state else f"The reason given{by}: {said}"


def _of_program(incident: Incident, tenants: Tenants) -> tuple[_Judged, str]:
    """A program's own error, or the device's if it follows the device; and why."""
    follows = tenants.follows_device(incident)
    if not follows:
        blame = Blame.APPLICATION
        return _Judged(Severity.INFO, ActionKind.NONE, When.NEVER, blame), ""
    suspect = _Judged(
        Severity.WARNING, ActionKind.CHECK, When.JOB_END, Blame.DEVICE, FOLLOWS_CONFIDENCE
    )
    return suspect, follows


def _past(judged: _Judged) -> _Judged:
    """What is over, or of an earlier boot, is worth a warning and a look at most."""
    return judged._replace(
        severity=min(judged.severity, Severity.WARNING, key=lambda s: s.rank),
        action=min(judged.action, ActionKind.CHECK, key=lambda a: _ACTION_RANK[a]),
        when=When.NEVER,
    )


def _worst(incident: Incident) -> tuple[Severity, ActionKind, When]:
    """Severity, action and time: the cause's own, or of what it led to on its device if worse."""
    best = _asked(incident.fault, incident.first.event)
    for stamped in _escalating(incident):
        other = _asked(catalogue().find(stamped.event.code), stamped.event)
        if (other[0].rank, _ACTION_RANK[other[1]]) > (best[0].rank, _ACTION_RANK[best[1]]):
            best = other
    return best


def _flapping(incident: Incident) -> bool:
    """Whether a log seen at once tells of a link that went down again and again."""
    times = tuple(s.t for s in incident.events for _ in range(s.event.count))
    return incident.code in flap.EVENTS and bool(flap.flaps(times, times[-1]))


def _asked(entry: Fault, event: Event) -> tuple[Severity, ActionKind, When]:
    """What the catalogue asks for; an NVSwitch that calls its error non-fatal corrected it."""
    if event.code.startswith("sxid.") and event.attrs.get("severity_word") == "Non-fatal":
        return Severity.INFO, ActionKind.NONE, When.NEVER
    return entry.severity, entry.action, entry.when


def _evidence(incident: Incident) -> tuple[Evidence, ...]:
    shown = incident.events[: EVIDENCE_LIMIT // 2]
    if incident.last not in shown:
        shown = [*shown, incident.last]
    shown = [*shown, *incident.followers[: EVIDENCE_LIMIT - len(shown)]]
    return tuple(
        Evidence("event", s.event.text[:300], s.event.time, s.event.source, s.event.line)
        for s in shown
    )
