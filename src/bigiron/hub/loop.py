"""The live hub: what has arrived is remembered, judged and written, turn after turn.

Level-triggered and restartable at any moment: all it needs is in the ledger. It only ever asks
and writes down (shadow mode); nothing here touches a node or a scheduler.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic

import msgspec

from bigiron.errors import Temporary
from bigiron.hub.memory import Limits
from bigiron.hub.meters import Meters
from bigiron.hub.plausible import plausible
from bigiron.hub.poller import Arrival, Pulse
from bigiron.hub.restore import CLOSED, STANDING, folds, remainder, restore, restored_names
from bigiron.hub.turn import Outcome, Settings, turn
from bigiron.hub.twice import Twice
from bigiron.model import Batch, Closing, FindingChange, Note
from bigiron.store.ledger import Ledger
from bigiron.store.rows import JOINED
from bigiron.store.samples import Samples
from bigiron.store.turn import Turn

log = logging.getLogger(__name__)

BEAT_S = 5.0
"""How often the ledger hears from a hub that has nothing else to write."""
FOLD_S = 60.0
"""How often the folds are written: a hub that is killed folds at most so much time again."""
BACK_SLACK = timedelta(seconds=5)
"""A clock set back by less is waited for; by more, what is remembered is read again."""
HUB = "hub"


class Hub:
    """One hub. ``step`` is given what has arrived and the time; it alone knows no clock."""

    def __init__(
        self,
        ledger: Ledger,
        now: datetime,
        settings: Settings | None = None,
        limits: Limits | None = None,
        *,
        samples: Samples | None = None,
        tell: Callable[[FindingChange], None] = lambda _: None,
    ) -> None:
        self.ledger = ledger
        self.samples = samples
        self.meters = Meters()
        self.pulses: Mapping[str, Pulse] = {}
        self._settings = settings or Settings()
        self._limits = limits or Limits()
        self._tell = tell
        self._arrived: deque[Arrival] = deque()
        self._taken: list[Batch] = []
        self._cursors: dict[str, str] = {}
        self._unwritten: Turn | None = None
        self._notes: list[Note] = []
        self._beat = self._folded = float("-inf")
        self._problem = ""
        self._memory, self._standing = restore(ledger, self._limits, now)
        self._closed = self._standing.closed
        self._twice = Twice()
        self._names = restored_names(ledger, self._memory)

    @property
    def full(self) -> bool:
        """Whether a turn waits to be written: nothing more should be brought until it is."""
        return self._unwritten is not None

    def step(self, arrivals: Iterable[Arrival], now: datetime) -> None:
        """One turn over what has arrived. Raises Temporary: step again later, nothing is lost."""
        self._arrived.extend(arrivals)
        try:
            if self._unwritten is None:
                self._unwritten = self._turn(self._right(now))
            if self._unwritten is not None:
                self._write(self._unwritten)
        except Temporary as error:
            self.meters.failed_commits += 1
            self._problem = str(error)
            raise
        self._unwritten = None
        self._problem = ""
        self._flush(force=False)

    def close(self, now: datetime) -> None:
        """Write all that is still held. Raises Temporary if it cannot be."""
        self._beat = self._folded = float("-inf")
        self.step([], now)
        self._flush(force=True)

    def _right(self, now: datetime) -> datetime:
        """The time of this turn; it never runs back, unless the clock was set back."""
        last = self._standing.time
        if last is None or now >= last:
            return now
        if last - now < BACK_SLACK:
            return last
        text = f"the clock was set back by {last - now}"
        log.warning("%s; what is remembered is read again", text)
        self._notes.append(Note(HUB, "the clock was set back"))
        self._memory, self._standing = restore(self.ledger, self._limits, now)
        self._closed = self._standing.closed
        return now

    def _turn(self, now: datetime) -> Turn | None:
        began = monotonic()
        closings = self.ledger.asked_to_close()
        self._take(now)
        outcome = self._judge(now, closings)
        self.meters.turned(monotonic() - began)
        notes = (
            *self._notes,
            *outcome.notes,
            *(self.samples.notes() if self.samples is not None else ()),
        )
        if notes:
            self._taken.append(Batch(now, HUB, notes=notes))
        written = self._to_write(now, outcome)
        self._notes, self._taken, self._cursors = [], [], {}
        return written

    def _take(self, now: datetime) -> None:
        """Remember what has arrived, each batch without what the ledger holds already."""
        believed = deque(plausible(arrival.batch, now) for arrival in self._arrived)
        self._notes += self._names.learn(believed)
        while self._arrived:
            arrival = self._arrived[0]
            batch, repeated = self.ledger.unseen(self._names.renamed(believed[0]))
            self._arrived.popleft()
            believed.popleft()
            batch, again = self._twice.once(batch)
            self.meters.events_repeated += repeated + again
            self._memory.take(batch)
            if self.samples is not None:
                self.samples.add(batch)
            # Samples have gone their own way; holding them for a retry would cost their memory.
            self._taken.append(msgspec.structs.replace(batch, samples=()))
            self._cursors[arrival.source] = arrival.cursor

    def _judge(self, now: datetime, closings: Sequence[Closing]) -> Outcome:
        try:
            self._standing, outcome = turn(
                self._memory, self._standing, now, self._settings, closings
            )
        except Exception as error:
            # What came in is still written; a later turn judges it from memory or ledger.
            self.meters.failed_turns += 1
            log.exception("turn failed")
            return Outcome(notes=(Note(HUB, f"turn failed: {type(error).__name__}: {error}"),))
        return outcome

    def _to_write(self, now: datetime, outcome: Outcome) -> Turn | None:
        """What is to be written of a turn; None if it brought nothing and no beat is due."""
        at = monotonic()
        beat, folded = at - self._beat >= BEAT_S, at - self._folded >= FOLD_S
        brought = (
            self._taken
            or outcome.changes
            or outcome.verdicts
            or outcome.actions
            or outcome.answered
        )
        if not (brought or beat or folded):
            return None
        state = {STANDING: remainder(self._standing)}
        if self._standing.closed is not self._closed:
            self._closed = self._standing.closed
            state[CLOSED] = msgspec.json.encode(self._closed)
        if self._names.changed:
            state[JOINED] = msgspec.json.encode(self._names.joined)
            self._names.changed = False
        if beat:
            self._beat = at
        if folded:
            self._folded = at
            state |= folds(self._standing)
        return Turn(
            now,
            self._taken,
            self._cursors,
            outcome.changes,
            tuple(self._standing.verdicts.values()),
            outcome.actions,
            state,
            folded,
            self.meters.all(self.pulses, self._problem) if beat else (),
            outcome.answered,
        )

    def _write(self, written: Turn) -> None:
        began = monotonic()
        self.ledger.commit_turn(written)
        self.meters.committed(monotonic() - began)
        for change in written.changes:
            self._tell(change)

    def _flush(self, *, force: bool) -> None:
        if self.samples is None or not (force or self.samples.due()):
            return
        try:
            self.samples.flush()
        except Temporary as error:
            log.warning("%s", error)
            self._notes.append(Note(HUB, "samples could not be written"))
