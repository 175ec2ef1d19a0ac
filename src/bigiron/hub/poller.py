"""Sources asked again and again, each in its own thread, at its own pace.

A source that fails, or never answers, costs nobody else anything: its errors are counted and
shown, and it is asked again later.
"""

import logging
import queue
import threading
from dataclasses import dataclass, field
from time import monotonic

from bigiron.errors import BigironError, NoData, Temporary
from bigiron.ingest import Source
from bigiron.model import Batch

log = logging.getLogger(__name__)

WAIT_MAX_S = 600.0
"""Longest wait until a failing source is asked again."""
ABSENT_WAIT_S = 60.0
PERMANENT_WAIT_S = 30.0
OVERDUE_S = 60.0
"""A poll that has not answered for this long is shown as hanging."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch, the cursor that stands behind it, and when (``monotonic``) it came."""

    source: str
    batch: Batch
    cursor: str
    came: float


@dataclass(slots=True)
class Pulse:
    """How a source does. Written by its thread, read by the hub."""

    polls: int = 0
    errors: int = 0
    failing: int = 0
    """Errors in a row."""
    said: str = ""
    """The last error's words; "" once it has answered again."""
    answered: float = field(default_factory=monotonic)
    asked: float = 0.0
    """Since when (``monotonic``) a poll is under way; 0 if none is."""

    def problem(self, now: float) -> str:
        """What is wrong with it now, in words; "" if nothing is."""
        if self.asked and now - self.asked > OVERDUE_S:
            return f"no answer for {now - self.asked:.0f} s"
        return self.said


class Poller(threading.Thread):
    """Asks one source. ``cursor`` runs ahead of the committed one by what is in ``inbox``."""

    def __init__(
        self, source: Source, cursor: str, inbox: "queue.Queue[Arrival]", stop: threading.Event
    ) -> None:
        # A daemon: a source that hangs must not keep the hub from ending.
        super().__init__(name=f"source {source.name}", daemon=True)
        self.source = source
        self.cursor = cursor
        self.pulse = Pulse()
        self.heard = threading.Event()
        """Set once it has answered or failed for the first time."""
        self._inbox = inbox
        self._stopping = stop

    def run(self) -> None:
        """Ask until told to stop."""
        while not self._stopping.is_set():
            began = monotonic()
            wait_s = self._poll_once()
            self.heard.set()
            self._stopping.wait(max(0.0, began + wait_s - monotonic()))

    def _poll_once(self) -> float:
        """Ask once; seconds from its beginning until the next time."""
        pulse = self.pulse
        pulse.asked = monotonic()
        pulse.polls += 1
        try:
            batch, cursor = self.source.poll(self.cursor)
        except BigironError as error:
            return self._failed(error)
        except Exception as error:
            log.exception("source %s", self.source.name)
            return self._failed(error)
        finally:
            pulse.asked = 0.0
        if pulse.said:
            log.warning("source %s answers again", self.source.name)
        pulse.failing, pulse.said, pulse.answered = 0, "", monotonic()
        if cursor != self.cursor or _holds_anything(batch):
            self._hand_in(Arrival(self.source.name, batch, cursor, monotonic()))
            self.cursor = cursor
        return self.source.every_s

    def _hand_in(self, arrival: Arrival) -> None:
        """Wait for room: a hub that cannot write makes its sources wait, and loses nothing."""
        while not self._stopping.is_set():
            try:
                self._inbox.put(arrival, timeout=0.5)
            except queue.Full:
                continue
            return

    def _failed(self, error: Exception) -> float:
        pulse = self.pulse
        said = str(error) if isinstance(error, BigironError) else f"{type(error).__name__}: {error}"
        pulse.errors += 1
        pulse.failing += 1
        if said != pulse.said:
            log.warning("source %s", _once(self.source.name, said))
        pulse.said = said
        if isinstance(error, NoData):
            return max(self.source.every_s, ABSENT_WAIT_S)
        if isinstance(error, Temporary):
            return min(WAIT_MAX_S, max(self.source.every_s, error.retry_after_s))
        return min(WAIT_MAX_S, PERMANENT_WAIT_S * 2.0 ** min(pulse.failing - 1, 10))


def _once(name: str, said: str) -> str:
    """The source and what is wrong with it; an address that both name is told once."""
    kind, _, address = name.partition(":")
    if name in said:
        return said
    return f"{kind}: {said}" if address and address in said else f"{name}: {said}"


def _holds_anything(batch: Batch) -> bool:
    return any(
        isinstance(value, tuple) and value
        for value in (getattr(batch, name) for name in batch.__struct_fields__)
    )
