"""Storms: the same fault on the same device, thousands of times.

Each is told by itself up to a cap; the rest are counted into one last event, which keeps the
words and the time of the last one. No number is lost and memory stays bounded.
"""

from collections.abc import Iterator

import msgspec

from bigiron.model import Event, Note

STORM_CAP = 10_000
"""Events of one code and device told one by one in a document."""
KEY_LIMIT = 100_000
"""Different nodes, codes and devices counted apart; beyond it only the code counts."""

Key = tuple[str, str, str]


class Storms:
    """Counts events of one document by node, code and device."""

    def __init__(self, cap: int = STORM_CAP) -> None:
        self._cap = cap
        self._told: dict[Key, int] = {}
        self._last: dict[Key, Event] = {}
        self._folded: dict[Key, int] = {}

    def take(self, event: Event) -> Event | None:
        """The event if it is to be told now; None if it was only counted."""
        key = (event.node, event.code, event.device)
        told = self._told.get(key)
        if told is None and len(self._told) >= KEY_LIMIT:
            key = ("", event.code, "")
            told = self._told.get(key)
        told = told or 0
        if told < self._cap - 1:
            self._told[key] = told + 1
            return event
        first = self._last.get(key)
        since = first.attrs.get("first_time", "") if first else _when(event)
        attrs = {**event.attrs, "first_time": since} if since else event.attrs
        self._last[key] = msgspec.structs.replace(event, attrs=attrs)
        self._folded[key] = self._folded.get(key, 0) + event.count
        return None

    def rest(self, source: str) -> Iterator[Event | Note]:
        """What was only counted: one event a storm, in the order of their last lines."""
        for key, last in sorted(self._last.items(), key=lambda item: item[1].line):
            yield msgspec.structs.replace(last, count=self._folded[key])
        folded = sum(self._folded.values())
        if folded > len(self._last):
            what = f"repeated faults beyond {self._cap:,} of a kind, counted in one event each"
            yield Note(source, what, folded)


def _when(event: Event) -> str:
    return event.time.isoformat() if event.time else ""
