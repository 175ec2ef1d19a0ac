"""Runs a hub: the sources' threads, the clock, the signals' wish to stop, the hourly housework."""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

from bigiron.errors import Temporary
from bigiron.hub.loop import Hub
from bigiron.hub.poller import Arrival, Poller
from bigiron.ingest import Source

log = logging.getLogger(__name__)

FIRST_S = 10.0
"""The first turn waits so long for every source's first word: a hub that has just started must
not take what it has not yet asked for as missing."""
HOUSEWORK_S = 3600.0
STOP_S = 5.0
ARRIVALS_MAX = 256
"""Batches taken into one turn."""


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a hub runs: seconds between turns, and after how many to end (None: not by itself)."""

    turn_s: float = 0.5
    turns: int | None = None
    once: bool = False


def run(
    hub: Hub,
    sources: Sequence[Source],
    pace: Pace,
    stop: threading.Event,
    clock: Callable[[], datetime] = utc_now,
) -> None:
    """Run until told to stop, then finish the turn and write all that is held.

    Raises Permanent where the ledger can no longer be written.
    """
    inbox: queue.Queue[Arrival] = queue.Queue(maxsize=max(8, 2 * len(sources)))
    ended = threading.Event()
    cursors = hub.ledger.cursors()
    pollers = [Poller(s, cursors.get(s.name, ""), inbox, ended) for s in sources]
    hub.pulses = {poller.source.name: poller.pulse for poller in pollers}
    for poller in pollers:
        poller.start()
    try:
        first = _first_words(pollers, inbox, stop)
        _turns(hub, inbox, first, pace, stop, clock)
    finally:
        ended.set()
        _end(pollers)
    _close(hub, inbox, clock)


def _first_words(
    pollers: Sequence[Poller], inbox: "queue.Queue[Arrival]", stop: threading.Event
) -> list[Arrival]:
    """What came until every source had answered or failed once."""
    until = monotonic() + FIRST_S
    arrivals: list[Arrival] = []
    while not stop.is_set() and monotonic() < until:
        arrivals += _waiting(inbox, 0.05)
        if all(poller.heard.is_set() for poller in pollers):
            break
    return arrivals + _waiting(inbox, 0.0)


def _turns(
    hub: Hub,
    inbox: "queue.Queue[Arrival]",
    arrivals: list[Arrival],
    pace: Pace,
    stop: threading.Event,
    clock: Callable[[], datetime],
) -> None:
    turns = 0
    housework = _Housework(hub)
    while True:
        began = monotonic()
        wait_s = _step(hub, arrivals, clock)
        turns += 1
        if stop.is_set() or pace.once or (pace.turns is not None and turns >= pace.turns):
            return
        housework.do(clock())
        arrivals = []
        if wait_s:
            stop.wait(wait_s)
            continue
        arrivals = _waiting(inbox, pace.turn_s)
        # A busy log must not make a turn of every line: they are half a second apart.
        stop.wait(max(0.0, began + pace.turn_s - monotonic()))
        arrivals += _waiting(inbox, 0.0)


def _step(hub: Hub, arrivals: Sequence[Arrival], clock: Callable[[], datetime]) -> float:
    """One turn; seconds to wait before it can be tried again, 0 if it is done."""
    try:
        hub.step(arrivals, clock())
    except Temporary as error:
        log.warning("%s", error)
        return error.retry_after_s
    return 0.0


def _waiting(inbox: "queue.Queue[Arrival]", timeout_s: float) -> list[Arrival]:
    """What has arrived, or arrives first within ``timeout_s``."""
    arrivals: list[Arrival] = []
    while len(arrivals) < ARRIVALS_MAX:
        try:
            if timeout_s and not arrivals:
                arrivals.append(inbox.get(timeout=timeout_s))
            else:
                arrivals.append(inbox.get_nowait())
        except queue.Empty:
            break
    return arrivals


def _end(pollers: Sequence[Poller]) -> None:
    until = monotonic() + STOP_S
    for poller in pollers:
        poller.join(max(0.0, until - monotonic()))
        if poller.is_alive():
            log.warning("source %s does not end; left behind", poller.source.name)


def _close(hub: Hub, inbox: "queue.Queue[Arrival]", clock: Callable[[], datetime]) -> None:
    """Take what had still arrived and write everything; what cannot be written is asked again."""
    try:
        if not hub.full:
            hub.step(_waiting(inbox, 0.0), clock())
        hub.close(clock())
    except Temporary as error:
        log.warning("%s; what was not written is asked for again at the next start", error)


class _Housework:
    """What is done now and then: pruning, and the archiving of samples in a thread of its own."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._next = monotonic() + HOUSEWORK_S
        self._thread: threading.Thread | None = None

    def do(self, now: datetime) -> None:
        """Do what it is time for."""
        samples = self._hub.samples
        idle = self._thread is None or not self._thread.is_alive()
        if samples is not None and idle and samples.archive_due():
            self._thread = threading.Thread(
                target=samples.archive, args=(now,), name="samples", daemon=True
            )
            self._thread.start()
        if monotonic() < self._next:
            return
        self._next = monotonic() + HOUSEWORK_S
        try:
            self._hub.ledger.prune(now)
        except Temporary as error:
            log.warning("%s", error)
