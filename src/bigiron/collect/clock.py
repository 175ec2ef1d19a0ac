"""The host's clock: followed, right, steady.

The offset is what the time service says; without one, whether the kernel takes its clock for
set is asked of ``adjtimex(2)``. A jump is a change of the wall clock that the clock since boot did
not make: chrony steps by design at boot only, a slewed clock moves at most 0.5 ms a second.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bigiron.collect import Seen, collector
from bigiron.collect.standing import standing
from bigiron.collect.time_service import Tracking, chrony, ntpq
from bigiron.errors import NoData, Permanent, Temporary
from bigiron.host import Host
from bigiron.model import Event, Fact, Sample

JUMP_S = 1.0
OFF_S = 1.0
"""Logs cannot be ordered; one half of a heartbeat of most cluster services is a second."""
ASK_EVERY = 5
"""Calls between two questions to the time service: it is a process each time."""
_SOURCES = "/sys/devices/system/clocksource/clocksource0"
_SLOW = frozenset({"hpet", "acpi_pm", "jiffies"})
_UNSYNCHRONIZED = 0x40
"""STA_UNSYNC of timex(3)."""


@dataclass(slots=True)
class _State:
    """What earlier looks read; ``apart`` is the wall clock less the clock since boot."""

    calls: int = 0
    apart: float | None = None
    unset: int = 0
    tracking: Tracking | None = None


@collector(every_s=60.0, timeout_s=20.0)
def clock(host: Host) -> Iterator[Seen]:
    """Offset, whether a time service is followed, jumps, and the clock source."""
    state = host.held("clock", _State)
    ask = state.calls % ASK_EVERY == 0
    state.calls += 1
    seen = list(_jump(host, state))
    if ask:
        state.tracking = _tracking(host)
    tracking = state.tracking
    source = _source(host)
    if tracking is None and source is None and not seen:
        raise NoData("no clock source, and no time service")
    told: list[Event] = []
    if tracking is not None:
        yield Sample("", "", "node_time_synchronized", float(tracking.followed))
        if tracking.offset_s is not None:
            yield Sample("", "", "node_time_offset_seconds", tracking.offset_s)
        if ask:
            state.unset = 0 if tracking.followed else state.unset + 1
        told += _wrong(tracking, state)
    if source is not None:
        yield from standing(host, "clock").fresh([Fact("", "clocksource", source)])
        if source in _SLOW:
            text = f"clock source {source} in use: the processor's own was found unstable or is off"
            told.append(Event("", "kernel.clocksource_unstable", text, source=_SOURCES))
    yield from seen
    yield from standing(host, "clock").news(told)


def _wrong(tracking: Tracking, state: _State) -> Iterator[Event]:
    offset = tracking.offset_s
    if offset is not None and abs(offset) >= OFF_S:
        text = f"the clock is {abs(offset):.3f} s {'ahead' if offset > 0 else 'behind'}"
        attrs = {"offset_s": f"{offset:.6f}", "reference": tracking.reference}
        yield Event("", "node.clock_offset", text, source=tracking.told_by, attrs=attrs)
    if state.unset >= 2:
        text = "the clock follows no time source"
        yield Event("", "node.clock_unsynchronized", text, source=tracking.told_by)


def _jump(host: Host, state: _State) -> Iterator[Event]:
    """The wall clock moved against the clock since boot since the last look."""
    clocks = host.held("clocks", lambda: _clocks(host))
    if clocks is None:
        return
    apart = clocks()
    before, state.apart = state.apart, apart
    moved = 0.0 if before is None else apart - before
    if abs(moved) >= JUMP_S:
        text = f"the clock was set {'forward' if moved > 0 else 'back'} by {abs(moved):,.1f} s"
        attrs = {"seconds": f"{moved:.3f}"}
        yield Event("", "node.clock_jump", text, source="clock_gettime", attrs=attrs)


def _clocks(host: Host) -> Callable[[], float] | None:
    """The wall clock less the clock since boot, in seconds; none of a captured tree."""
    if host.captured:
        return None
    return lambda: time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def _tracking(host: Host) -> Tracking | None:
    """What the time service says, else the kernel."""
    asked = (
        (["chronyc", "-n", "-c", "tracking"], chrony),
        (["ntpq", "-n", "-c", "rv"], ntpq),
    )
    for argv, read in asked:
        try:
            said = host.run(argv, timeout_s=5.0)
        except (NoData, Permanent, Temporary):  # not installed, or its daemon is not running
            continue
        found = read(said)
        if found is not None:
            return found
    return host.held("adjtimex", lambda: _kernel(host))()


def _kernel(host: Host) -> Callable[[], Tracking | None]:
    if host.captured:
        return lambda: None
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "adjtimex", None)

    def ask() -> Tracking | None:
        # struct timex is 208 bytes; modes (0: only read), then at 40 (64-bit) the status
        room = ctypes.create_string_buffer(512)
        if call is None or call(room) < 0:
            return None
        status = int.from_bytes(room.raw[40:44], "little", signed=True)
        return Tracking(not status & _UNSYNCHRONIZED, None, "", "adjtimex")

    return ask


def _source(host: Host) -> str | None:
    try:
        return host.read(f"{_SOURCES}/current_clocksource")[:40] or None
    except (NoData, Permanent):
        return None
