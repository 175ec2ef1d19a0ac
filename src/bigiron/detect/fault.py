"""Known faults: events to incidents. The first cause keeps the blame; what follows is evidence.

What a code means, how bad it is and what to do comes from the catalogue. A program's own error
is told, and never blamed on the node, unless it follows the device across users.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import NamedTuple

from bigiron.detect import Window, detector
from bigiron.detect.incidents import REBOOT, Incident, Stamped, incidents
from bigiron.detect.tenants import Tenants
from bigiron.detect.words import at, told
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
    for node, events in _by_node(window.events).items():
        if window.touched is not None and node not in window.touched:
            continue
        for incident in incidents(events, booted_s(window, node)):
            why = ended(incident, window, events)
            if (why and not window.single_look) or _young(incident, window):
                continue
            yield _finding(incident, window, why, tenants)
            for device in incident.devices:
                alone = Subject(node=node, device=device).key
                yield Recovery(f"{NAME}|{incident.code}|{alone}", f"part of what {node} has")


def recoveries(standing: Iterable[Finding], window: Window) -> Iterator[Recovery]:
    """The standing incidents that a later boot, reset or quiet time has ended."""
    nodes: dict[str, dict[str, Finding]] = {}
    for finding in standing:
        if finding.detector == NAME:
            nodes.setdefault(finding.subject.node, {})[finding.key] = finding
    if not nodes:
        return
    by_node = _by_node(e for e in window.events if e.node in nodes)
    for node, findings in nodes.items():
        events = by_node.get(node, [])
        ends: dict[str, str] = {}
        for incident in incidents(events, booted_s(window, node)):
            key = f"{NAME}|{incident.code}|{_subject(incident).key}"
            ends[key] = ended(incident, window, events)  # the newest of one key comes last
        for key, finding in findings.items():
            why = ends.get(key)
            if why is None:
                why = _ended_alone(finding, window, events)
            if why:
                yield Recovery(key, why)


GOOD = {"ib.link_down": "ib.link_up", "nfs.not_responding": "nfs.ok"}
"""What says that something is well again."""

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
    if not times or entry.clears == "person":
        return ""
    last_s = max(times).timestamp()
    node, device = finding.subject.node, finding.subject.device
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
        quiet = window.now.timestamp() - lasting.last_s
        if quiet >= lasting.quiet_s and seen_s is not None and seen_s > lasting.last_s:
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
    """When the node last booted, in epoch seconds, where a metric says so."""
    series = window.series.get("node_boot_time_seconds", {}).get((node, ""))
    return series.last if series is not None and series.values else None


def _ago(window: Window, time_s: float) -> str:
    return f"{timedelta(seconds=int(window.now.timestamp() - time_s))} ago"


def _by_node(events: Iterable[Event]) -> dict[str, list[Event]]:
    by_node: dict[str, list[Event]] = {}
    for event in events:
        by_node.setdefault(event.node, []).append(event)
    return by_node


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


def _finding(incident: Incident, window: Window, why_ended: str, tenants: Tenants) -> Finding:
    entry = incident.fault
    severity, action, when = _worst(incident)
    because = [told(window, incident)]
    if entry.meaning:
        because.append(entry.meaning)
    confidence = 1.0
    if entry.code.endswith(".unknown"):
        confidence = UNKNOWN_CONFIDENCE
    blame = entry.blame
    if incident.application:
        severity, action, when = Severity.INFO, ActionKind.NONE, When.NEVER
        if follows := tenants.follows_device(incident):
            severity, blame = Severity.WARNING, Blame.DEVICE
            action, when = ActionKind.CHECK, When.JOB_END
            confidence = 0.6
            because.insert(1, follows)
    if incident.earlier_boot or why_ended:
        severity = min(severity, Severity.WARNING, key=lambda s: s.rank)
        action, when = min(action, ActionKind.CHECK, key=lambda a: _ACTION_RANK[a]), When.NEVER
        if why_ended:
            because.insert(1, f"It is over: {why_ended}.")
    return Finding(
        detector=NAME,
        fault=incident.code,
        severity=severity,
        subject=_subject(incident),
        since=incident.first.event.time,
        because=tuple(because),
        confidence=confidence,
        blame=blame,
        action=action,
        when=when,
        evidence=_evidence(incident),
        look=entry.look,
    )


def _worst(incident: Incident) -> tuple[Severity, ActionKind, When]:
    """Severity, action and time: the cause's own, or of what it led to on its device if worse."""
    best = _asked(incident.fault, incident.first.event)
    for stamped in _escalating(incident):
        other = _asked(catalogue().find(stamped.event.code), stamped.event)
        if (other[0].rank, _ACTION_RANK[other[1]]) > (best[0].rank, _ACTION_RANK[best[1]]):
            best = other
    return best


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
