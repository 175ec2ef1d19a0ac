"""Conditions that last: told when they begin, and again while they stand.

A detector forgets an event in time (``quiet_s`` of the catalogue), so what still stands is told
again; told at every look it would flood. What is no longer seen is forgotten, and told as new
when it comes back.
"""

from collections.abc import Callable, Iterable, Iterator
from time import monotonic

from bigiron.collect import Seen
from bigiron.host import Host
from bigiron.model import Device, Event, Fact

AGAIN_S = 3600.0
"""Seconds until a condition that stands is told again: well below every ``quiet_s`` but minutes."""
LIMIT = 10_000


class Standing:
    """What stands now, by code and device, and when it was last told."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._told: dict[tuple[str, str], float] = {}
        self._known: dict[tuple[str, str], tuple[Seen, float]] = {}

    def news(self, seen: Iterable[Event]) -> Iterator[Event]:
        """Of all conditions seen in this look, those that are new or due to be told again.

        One code of one device is one condition.
        """
        now, before = self._clock(), self._told
        self._told = {}
        for event in seen:
            key = event.code, event.device
            if key in self._told or len(self._told) >= LIMIT:
                continue
            last = before.get(key)
            due = last is None or now - last >= AGAIN_S
            self._told[key] = now if due or last is None else last
            if due:
                yield event

    def fresh(self, seen: Iterable[Seen]) -> Iterator[Seen]:
        """The same without facts and devices that were told as they are less than an hour ago."""
        now = self._clock()
        for one in seen:
            if isinstance(one, Fact | Device):
                key = (one.device, one.name) if isinstance(one, Fact) else (one.name, "")
                before = self._known.get(key)
                if before is not None and before[0] == one and now - before[1] < AGAIN_S:
                    continue
                if key in self._known or len(self._known) < LIMIT:
                    self._known[key] = one, now
            yield one

    def stands(self, code: str, device: str = "") -> bool:
        """Whether the last look saw it."""
        return (code, device) in self._told


def standing(host: Host, name: str) -> Standing:
    """The conditions of one collector, kept between its calls."""
    return host.held(f"standing:{name}", Standing)
