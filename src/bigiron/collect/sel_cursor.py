"""Where in a controller's event log one stands.

A log that was never read is told one week back: what was logged while nobody looked (and why the
node went down) is not lost, and what is older is history. Entries are known by their id and
time, for a log that was cleared starts its ids anew.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from bigiron.collect.sel import Entry
from bigiron.host import Host
from bigiron.model import Note

BACK = timedelta(days=7)
MOST = 256
"""Entries asked for at once; they come newest last."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Cursor:
    """The entries already told, by id and time, of those that are listed now."""

    now: Callable[[], datetime] = _now
    entries: int | None = None
    added: str = ""
    told: set[tuple[str, datetime | None, str]] = field(default_factory=set)
    first: bool = True

    def wanted(self, entries: int, added: str) -> int:
        """How many of the newest to ask for, by the log's count and when one was last added."""
        before, self.entries = self.entries, entries
        unchanged = before == entries and self.added == added
        self.added = added
        if unchanged or entries <= 0:
            return 0
        if before is None or entries <= before:
            return min(entries, MOST)
        return min(entries, MOST, entries - before + 8)

    def new(self, listed: Sequence[Entry]) -> Iterator[Entry | Note]:
        """Of those listed, what has not been told yet; at the first look, of the last days."""
        oldest = self.now() - BACK
        old = 0
        for entry in listed:
            key = entry.id, entry.time, entry.said
            if key in self.told:
                continue
            self.told.add(key)
            if self.first and entry.time is not None and entry.time < oldest:
                old += 1
            else:
                yield entry
        if old:
            yield Note("sel", "event log entries of more than a week ago, not told", old)
        self.first = False
        if len(self.told) > 4 * MOST:
            self.told = {(entry.id, entry.time, entry.said) for entry in listed}


def cursor(host: Host) -> Cursor:
    """A new one; ``now`` among what the host holds stands for the clock, in tests."""
    now: Callable[[], datetime] = host.held("now", lambda: _now)
    return Cursor(now)
