"""Follows /dev/kmsg: every message that the ring still holds, once, across restarts of the agent.

The cursor is the boot and the sequence of the next record, so what a poll gives depends on
nothing but the ring and the cursor. What was overwritten before it could be read is counted by its
sequence and told. Lines are judged by the parser that reads logs elsewhere (``ingest``): the same
line is the same event, whoever reads it.

Under a flood, reading goes before judging: lines are read ahead while others are judged, equal
ones are judged a few times and counted, and what repeats is one event a poll.
"""

import re
from collections.abc import Callable, Iterator
from time import monotonic, sleep

from bigiron.collect import Seen
from bigiron.collect.kmsg_clock import SLEPT_S, KernelClock, clock
from bigiron.collect.kmsg_judge import Judge
from bigiron.collect.kmsg_lines import Lines, unfinished
from bigiron.collect.kmsg_ring import DEVICE, Records, Ring, opened, record
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.ingest.kernel_log import KernelLog, shipped
from bigiron.model import Event, Note

BATCH = 16_384
"""Records judged in one poll."""
PAUSE_S = 0.01
"""After the first record of many: to read them together. A ring of 128 KiB holds 40 ms of a
hundred thousand lines a second."""
STORM_S = 0.5
"""While a fault storms, polls are at least so far apart."""
HELD_S = 0.2
"""How long the beginning of a line waits for its end."""
TELL_S = 10.0
"""Seconds between two words of what was lost or not used."""
_CURSOR = re.compile(r"kmsg:([0-9a-f-]{0,40}):(\d{1,20})")


class Kmsg:
    """One host's ring. Raises NoData or Permanent where there is none or it is closed to us."""

    def __init__(
        self,
        host: Host,
        *,
        reader: KernelLog | None = None,
        open_ring: Callable[[Host], Records] = opened,
        kernel_clock: KernelClock | None = None,
    ) -> None:
        self._host, self._open = host, open_ring
        self._boot = _boot_id(host)
        self._ring: Ring | None = Ring(open_ring(host))
        self._clock = kernel_clock or clock(host)
        self._judge = Judge(reader or shipped(), self._clock)
        self._fresh = True
        self._cursor: str | None = None
        self._next: int | None = None
        self._started = 0.0
        self._held_at = 0.0
        self._slept_s = 0.0
        self._unread = _Unread()

    def poll(self, cursor: str, wait_s: float) -> tuple[list[Seen], str]:
        """What is new since ``cursor`` ("": all that the ring holds), and where to go on.

        Waits at most ``wait_s`` seconds for anything. Raises NoData, Temporary, Permanent: then
        nothing was told, and the same cursor gives all of it again.
        """
        try:
            return self._poll(cursor, wait_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the ring; the next poll opens it anew."""
        if self._ring is not None:
            self._ring.close()
            self._ring = None
        self._held_at = 0.0
        self._judge.forget()

    def _poll(self, cursor: str, wait_s: float) -> tuple[list[Seen], str]:
        seen: list[Seen] = []
        ring = self._go_to(cursor)
        live = self._gather(ring, wait_s)
        self._started = monotonic()
        raws = self._taken(ring)
        lines = Lines(self._next)
        lines.take(raws)
        if self._is_past(ring, lines):
            self.close()
            return [Note(DEVICE, "a cursor past the ring's end: read from its beginning")], ""
        if raws:
            self._fresh = False
        if self._clock is not None:
            last = record(raws[-1]) if live and raws else None
            self._clock.look(last.time_us if last else None)
            seen += self._sleep(self._clock.slept_s)
        seen += self._judge.judged(lines.runs, ring.fill)
        seen += self._unread.told(lines, self._judge.notes())
        self._next = lines.next
        if lines.next is not None:
            self._cursor = f"kmsg:{self._boot}:{lines.next}"
        return seen, self._cursor or cursor

    def _go_to(self, cursor: str) -> Ring:
        """The ring where the cursor stands, opened anew if it is read elsewhere."""
        if self._ring is not None and cursor == self._cursor:
            return self._ring
        if not self._fresh:
            self.close()
        if self._ring is None:
            self._boot = _boot_id(self._host)
            self._ring, self._fresh = Ring(self._open(self._host)), True
        found = _CURSOR.fullmatch(cursor)
        here = found is not None and found[1] == self._boot
        self._next = int(found[2]) if found is not None and here else None
        self._unread.begins(cursor, found is not None, here)
        self._cursor = cursor
        return self._ring

    def _gather(self, ring: Ring, wait_s: float) -> bool:
        """Read what waits, or wait for it. Whether it was written while we waited."""
        live = False
        if len(ring) == 0 or self._held_at:
            limit = min(wait_s, HELD_S) if self._held_at else wait_s
            if not ring.wait(0.0):
                live = limit > 0 and ring.wait(limit)
            if wait_s > 0:
                sleep(PAUSE_S)
        ring.fill()
        until = self._started + (min(STORM_S, wait_s) if self._judge.storm else 0.0)
        while len(ring) < BATCH and monotonic() < until:
            sleep(PAUSE_S)
            ring.fill()
        return live and ring.drained

    def _taken(self, ring: Ring) -> list[bytes]:
        """The next records but the beginning of a line whose end may still come."""
        raws = ring.take(BATCH)
        held = unfinished(raws)
        if held and (not self._held_at or monotonic() < self._held_at + HELD_S):
            self._held_at = self._held_at or monotonic()
            ring.put_back(raws[-held:])
            return raws[:-held]
        self._held_at = 0.0
        return raws

    def _is_past(self, ring: Ring, lines: Lines) -> bool:
        """Whether all there is comes before the cursor, and more is missing between them."""
        end = lines.old > 0 and ring.drained and not len(ring)
        return end and self._next is not None and lines.newest + 1 < self._next

    def _sleep(self, slept_s: float) -> Iterator[Note]:
        if slept_s > self._slept_s + SLEPT_S:
            self._slept_s = slept_s
            what = f"slept for {slept_s:,.0f} s since boot: what was written before is dated late"
            yield Note(DEVICE, what)


class _Unread:
    """What could not be read or used: counted, and told now and then."""

    def __init__(self) -> None:
        self._new_boot = False
        self._lost = 0
        self._notes: dict[str, int] = {}
        self._told_at = -TELL_S

    def begins(self, cursor: str, ours: bool, here: bool) -> None:
        """A cursor is gone to."""
        self._new_boot = ours and not here
        if cursor and not ours:
            self._add("a cursor of another source: read from the ring's beginning", 1)

    def told(self, lines: Lines, notes: dict[str, int]) -> Iterator[Seen]:
        """What is to be told after a poll: at once if nothing was for a while."""
        if self._new_boot and lines.oldest is not None:
            self._new_boot = False
            if lines.oldest:
                self._add("messages of this boot overwritten before the first look", lines.oldest)
        if lines.lost:
            self._lost += lines.lost
        if lines.junk:
            self._add("records that are none", lines.junk)
        for what, count in notes.items():
            self._add(what, count)
        if not (self._lost or self._notes) or monotonic() < self._told_at + TELL_S:
            return
        self._told_at = monotonic()
        if self._lost:
            text = f"{self._lost:,} kernel messages were overwritten before they could be read"
            attrs = {"lost": str(self._lost)}
            yield Event("", "kernel.log_lost", text, source=DEVICE, attrs=attrs)
        for what, count in self._notes.items():
            yield Note(DEVICE, what, count)
        self._lost, self._notes = 0, {}

    def _add(self, what: str, count: int) -> None:
        self._notes[what] = self._notes.get(what, 0) + count


def _boot_id(host: Host) -> str:
    """The running boot; "" where the machine does not tell."""
    try:
        said = host.read("/proc/sys/kernel/random/boot_id")
    except (NoData, Permanent):
        return ""
    return said if _CURSOR.fullmatch(f"kmsg:{said}:0") else ""
