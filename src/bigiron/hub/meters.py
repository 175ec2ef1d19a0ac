"""What the hub measures of itself; it is kept in the ledger and shown by `bigiron hub --status`."""

import os
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic

from bigiron.hub.poller import Pulse
from bigiron.store.turn import Meter

REMEMBERED = 1000
"""Turns that the percentiles are of."""


class Meters:
    """Counts and durations since the hub started."""

    def __init__(self) -> None:
        self.turns = 0
        self.failed_turns = 0
        self.failed_commits = 0
        self.events_repeated = 0
        self._turn_s: deque[float] = deque(maxlen=REMEMBERED)
        self._commit_s: deque[float] = deque(maxlen=REMEMBERED)

    def turned(self, seconds: float) -> None:
        """A turn was made in so many seconds."""
        self.turns += 1
        self._turn_s.append(seconds)

    def committed(self, seconds: float) -> None:
        """A turn was written in so many seconds."""
        self._commit_s.append(seconds)

    def all(self, pulses: Mapping[str, Pulse], problem: str) -> list[Meter]:
        """Every meter now; ``problem`` is what keeps the hub from writing, if anything."""
        return [
            Meter("hub_pid", float(os.getpid()), said=problem),
            Meter("hub_turns_total", float(self.turns)),
            Meter("hub_failed_turns_total", float(self.failed_turns)),
            Meter("hub_failed_commits_total", float(self.failed_commits)),
            Meter("hub_events_repeated_total", float(self.events_repeated)),
            Meter("hub_turn_seconds_p50", percentile(self._turn_s, 0.50)),
            Meter("hub_turn_seconds_p99", percentile(self._turn_s, 0.99)),
            Meter("hub_commit_seconds_p99", percentile(self._commit_s, 0.99)),
            Meter("hub_resident_bytes", float(resident_bytes())),
            *_of_sources(pulses),
        ]


def percentile(values: Iterable[float], share: float) -> float:
    """The value that ``share`` of them do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def resident_bytes() -> int:
    """The memory this process has in use."""
    pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _of_sources(pulses: Mapping[str, Pulse]) -> Iterable[Meter]:
    now = monotonic()
    for name, pulse in pulses.items():
        yield Meter("source_polls_total", float(pulse.polls), name)
        yield Meter("source_errors_total", float(pulse.errors), name)
        yield Meter("source_lag_seconds", now - pulse.answered, name, pulse.problem(now))
