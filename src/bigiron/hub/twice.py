"""One happening told by two sources: a node's own log, and the collector that it is sent to.

The same words about the same node in the same second, from another source, are the same line. A
source that says them twice itself means it: of each line as many are kept as the source that
told most of it has told.
"""

from collections import OrderedDict
from datetime import datetime

import msgspec

from bigiron.model import Batch, Event

REMEMBERED = 100_000
"""Lines whose tellers are remembered: hours of a fleet's faults."""

Key = tuple[str, str, str, int]


class Twice:
    """Remembers who told what lately."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._told: OrderedDict[Key, dict[str, int]] = OrderedDict()

    def once(self, batch: Batch) -> tuple[Batch, int]:
        """The batch without events that another source has told already, and how many."""
        kept = tuple(event for event in batch.events if self._is_new(event))
        again = len(batch.events) - len(kept)
        return (msgspec.structs.replace(batch, events=kept), again) if again else (batch, 0)

    def _is_new(self, event: Event) -> bool:
        if event.time is None:
            return True
        key = _key(event, event.time)
        tellers = self._told.get(key)
        if tellers is None:
            tellers = self._told[key] = {}
            if len(self._told) > self._remembered:
                self._told.popitem(last=False)
        before = max(tellers.values(), default=0)
        tellers[event.source] = tellers.get(event.source, 0) + 1
        return tellers[event.source] > before


def _key(event: Event, time: datetime) -> Key:
    return event.node, event.code, event.text, int(time.timestamp())
