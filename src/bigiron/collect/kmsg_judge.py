"""What the lines of the kernel's ring mean: events, with what only the ring tells of them.

The parser is that of logs everywhere; here come the severity, the device that the kernel itself
names, the time of day, and the counting of what repeats.
"""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import msgspec

from bigiron.collect.kmsg_clock import KernelClock
from bigiron.collect.kmsg_lines import Run
from bigiron.collect.kmsg_ring import DEVICE, Record, record
from bigiron.ingest import pci_address
from bigiron.ingest.kernel_log import KernelLog
from bigiron.ingest.log_events import Dumps, LineEvents
from bigiron.ingest.log_scan import hits
from bigiron.ingest.log_storm import Storms
from bigiron.model import Event, Fact

CAP = 10
"""Events of one fault of one device in a poll; the rest of them are one with a count."""
SAME = 3
"""Lines with the same words are judged so often in a poll; then they are only counted."""
READ_AHEAD = 128
"""Lines judged before the ring is looked at again."""
LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_FACILITIES = ("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron")
_NAMED = re.compile(r"\+nvme:(nvme\d{1,4})$")


class Judge:
    """Judges the lines of one ring; ``clock`` is None where its time of day is not known."""

    def __init__(self, reader: KernelLog, clock: KernelClock | None) -> None:
        self._catalogue = reader.knowledge.catalogue
        self._search = reader.search
        self._knowledge = reader.knowledge
        self._clock = clock
        self.forget()
        self.storm = False
        """Whether a fault repeated beyond the cap in what was judged last."""

    def forget(self) -> None:
        """What was said before: facts are told again."""
        self._lines = LineEvents(self._knowledge, DEVICE, datetime.now(UTC))

    def judged(self, runs: Iterable[Run], between: Callable[[], None]) -> list[Event | Fact]:
        """What the lines say; ``between`` is called now and then while there are many."""
        storms = Storms(1 if self.storm else CAP)
        seen: list[Event | Fact] = []
        times: dict[bytes, int] = {}
        again: dict[bytes, tuple[int, bytes, bytes]] = {}
        count = 0
        for run in runs:
            for number, line, _ in hits(run.block(), self._search):
                count += 1
                if count % READ_AHEAD == 0:
                    between()
                words = line.partition(b";")[2]
                times[words] = said = times.get(words, 0) + 1
                raw = run.raws[number - run.first]
                if said > SAME:
                    again[words] = number, line, raw
                else:
                    self._take(storms, seen, (number, line, raw), 1)
        for words, last in again.items():
            self._take(storms, seen, last, times[words] - SAME)
        folded = [one for one in storms.rest(DEVICE) if isinstance(one, Event)]
        self.storm = any(one.count > 1 for one in folded) or bool(again)
        return seen + folded

    def notes(self) -> dict[str, int]:
        """What was not used since this was asked last, by what it was."""
        told, self._lines.notes = self._lines.notes, {}
        return told

    def _take(
        self,
        storms: Storms,
        seen: list[Event | Fact],
        hit: tuple[int, bytes, bytes],
        times: int,
    ) -> None:
        number, line, raw = hit
        whole = record(raw)
        for one in self._lines.read(number, line):
            if isinstance(one, Fact):
                seen.append(one)
            elif (told := storms.take(self._told(one, whole, times))) is not None:
                seen.append(told)
        if self._lines.dump.open:  # a line like the head of a crash dump: there is none in a ring
            self._lines.dump = Dumps()

    def _told(self, event: Event, whole: Record | None, times: int) -> Event:
        attrs = dict(event.attrs)
        device, time = event.device, event.time
        if whole is not None:
            attrs.setdefault("level", LEVELS[whole.priority & 7])
            if whole.facility:
                attrs.setdefault("facility", _facility(whole.facility))
            device = device or self._device(event.code, whole)
        if time is None and event.uptime_s is not None and self._clock is not None:
            time = self._clock.wall(event.uptime_s)
        return msgspec.structs.replace(
            event, attrs=attrs, device=device, time=time, count=event.count * times
        )

    def _device(self, code: str, whole: Record) -> str:
        """Which part the kernel says that a message of a part's fault is about."""
        if not self._catalogue.find(code).device:
            return ""
        named = whole.told(b"DEVICE")
        if named.startswith("+pci:"):
            return pci_address(named.removeprefix("+pci:"))
        found = _NAMED.match(named)
        return found[1] if found else ""


def _facility(number: int) -> str:
    return _FACILITIES[number] if number < len(_FACILITIES) else str(number)
