"""Links that go down and come up again and again.

One flap is nothing: links retrain. Azure's checks call it a fault at five losses of carrier on
one port in 24 hours (azurehpc-health-checks) or three "link downed" counts in 3 hours
(cyclecloud-healthagent).
"""

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from bigiron.detect import Block, Fleet, fold
from bigiron.detect.claims import claim
from bigiron.detect.same_port import pairs
from bigiron.model import Evidence, Finding, Recovery, Subject

NAME = "flap"
READS = ("ib_link_downed_total",)
EVENTS = frozenset({"ib.link_down", "ib.cable_unplugged"})

SOON_COUNT, SOON_S = 3, 3 * 3600.0
DAY_COUNT, DAY_S = 5, 24 * 3600.0
KEEP = 64
"""Most times kept of one port; more say nothing new."""


class Port(msgspec.Struct, frozen=True):
    """One port: its counter's last value, and when it went down by counter and by log."""

    value: float | None = None
    counted: tuple[float, ...] = ()
    logged: tuple[float, ...] = ()


UNKNOWN = Port()


class Ports(msgspec.Struct, frozen=True):
    """The ports by ``node/device``; ``same`` are those that the log knows by another name."""

    ports: dict[str, Port] = {}
    same: dict[str, str] = {}


class Flap:
    """Counts how often each port went down; counters may start again from zero at any time."""

    name: str = NAME
    reads: tuple[str, ...] = READS

    def start(self, fleet: Fleet) -> Ports:
        """No port is known."""
        del fleet
        return Ports()

    def step(self, state: Ports, block: Block) -> tuple[Ports, list[Finding | Recovery]]:
        """The ports after a block, and those that flap now."""
        ports = dict(state.ports)
        for (node, device), value, at_s in block.told(READS[0]):
            key = f"{node}/{device}"
            ports[key] = _counted(ports.get(key, UNKNOWN), value, at_s)
        for event in block.events:
            if event.code in EVENTS and event.time is not None:
                key = f"{event.node}/{event.device}"
                ports[key] = _logged(ports.get(key, UNKNOWN), event.time.timestamp(), event.count)
        now_s = block.time.timestamp()
        found = _claims(ports, now_s)
        same = state.same | _named_twice(found) if len(found) > 1 else state.same
        return Ports(ports, same), _told_once(found, same)


@fold(reads=READS)
def flap() -> Flap:
    """Links that go down again and again within hours."""
    return Flap()


def _counted(port: Port, value: float, at_s: float) -> Port:
    """The port after a sample of its counter; a smaller value is a reset: all of it is new.

    A counter first seen, and one that only starts again after a reboot, tells nothing new.
    """
    if port.value == value:
        return port
    if port.value is None:
        return msgspec.structs.replace(port, value=value)
    new = int(value - port.value) if value >= port.value else int(value)
    times = (*port.counted, *[at_s] * min(new, KEEP)) if new > 0 else port.counted
    return Port(value, _recent(times, at_s), port.logged)


def _logged(port: Port, at_s: float, count: int) -> Port:
    times = (*port.logged, *[at_s] * min(count, KEEP))
    return msgspec.structs.replace(port, logged=_recent(times, at_s))


def _recent(times: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    if not times or (len(times) <= KEEP and times[0] >= now_s - DAY_S):
        return times
    return tuple(t for t in times if t >= now_s - DAY_S)[-KEEP:]


class _Flapping(NamedTuple):
    """A port that flaps, and the times by counter and by log that it went down."""

    finding: Finding
    counted: tuple[float, ...]
    logged: tuple[float, ...]


def _claims(ports: dict[str, Port], now_s: float) -> dict[str, _Flapping]:
    """The ports that flap now."""
    found: dict[str, _Flapping] = {}
    for key, port in ports.items():
        if not port.counted and not port.logged:
            continue
        counted = flaps(port.counted, now_s)
        logged = flaps(port.logged, now_s)
        times = max(counted, logged, key=len)
        if times:
            found[key] = _Flapping(_finding(key, times), counted, port.logged)
    return found


def _named_twice(found: dict[str, _Flapping]) -> dict[str, str]:
    """The ports that only counters tell of, and the log's name for each that has one."""
    of_node: dict[str, tuple[dict[str, tuple[float, ...]], dict[str, tuple[float, ...]]]] = {}
    for key, port in found.items():
        logged, counted = of_node.setdefault(key.partition("/")[0], ({}, {}))
        if not port.logged:
            counted[key] = tuple(sorted(set(port.counted)))
        elif not port.counted:
            logged[key] = port.logged
    same: dict[str, str] = {}
    for logged, counted in of_node.values():
        same |= pairs(logged, counted)
    return same


def _told_once(found: dict[str, _Flapping], same: dict[str, str]) -> list[Finding | Recovery]:
    """What flaps, each port under one name: the log's, which was told first."""
    told: list[Finding | Recovery] = []
    for key, port in found.items():
        other = same.get(key)
        if other in found:
            told.append(Recovery(port.finding.key, f"the same port as {other.partition('/')[2]}"))
        else:
            told.append(port.finding)
    return told


def _finding(key: str, times: tuple[float, ...]) -> Finding:
    node, _, device = key.partition("/")
    hours = (DAY_S if len(times) >= DAY_COUNT else SOON_S) / 3600
    because = f"{device or 'the link'} went down {len(times)} times within {hours:.0f} hours."
    last = datetime.fromtimestamp(times[-1], UTC)
    return claim(
        NAME,
        "ib.flap",
        Subject(node=node, device=device),
        (because, "Collectives stall each time the link retrains."),
        since=datetime.fromtimestamp(times[0], UTC),
        evidence=(Evidence("sample", "link went down", last, metric=READS[0]),),
    )


def flaps(times: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    """The times that make it flapping; () if they do not."""
    day = tuple(t for t in times if t >= now_s - DAY_S)
    soon = tuple(t for t in day if t >= now_s - SOON_S)
    if len(day) >= DAY_COUNT:
        return day
    return soon if len(soon) >= SOON_COUNT else ()
