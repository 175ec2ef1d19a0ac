"""One metric at one step: what of it is usable, by how much it grew, whether it stands still."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect.hygiene.possible import bounds, is_counter, is_gauge, outlives_boot
from bigiron.detect.hygiene.state import Track
from bigiron.detect.state import carried

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

STILL = 3
"""A reading that always moves and has repeated so many times is an old one told again."""

LIVELY, LIVELY_STEPS = 0.9, 12
"""A metric always moves if over so many steps this share of the readings differed from the one
before: four alike in a row are then one in ten thousand at most. Powers and voltages do, whole
degrees do not."""

MOVING = 0.5
"""Only while at least this share of a metric's other readings moves is one that does not stale."""

LEARNING = 0.02

COVERED_STEPS = 12
_COVERED = np.uint16((1 << COVERED_STEPS) - 1)
_NOTHING: NDArray[np.uint8] = np.zeros(0, np.uint8)
_NO_AGE: NDArray[np.float32] = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric after hygiene. Either ``values`` or ``increments`` and ``spans`` are set.

    ``fresh`` is what had a possible value, ``moved`` what differs from the value before,
    ``stale`` what stands still though such readings always move.
    """

    track: Track
    fresh: Flags
    moved: Flags
    stale: Flags
    values: Floats
    increments: Floats | None = None
    spans: Floats | None = None
    impossible: int = 0
    dropped: int = 0

    def without(self, frozen: Flags) -> "Reading":
        """The same with nothing of units that repeat all they tell."""
        gone = frozen & self.fresh
        count = int(np.count_nonzero(gone))
        if not count:
            return self
        track = self.track
        recent = np.where(gone, track.recent & ~np.uint16(1), track.recent)
        track = msgspec.structs.replace(track, recent=recent)
        dropped = int(np.count_nonzero(gone | self.stale))
        if self.increments is None or self.spans is None:
            values = np.where(gone, np.nan, self.values)
            return replace(self, track=track, values=values, dropped=dropped)
        # What it grows by until it moves again belongs to the whole time it stood still.
        age_s = np.where(gone, self.spans, track.age_s)
        age_s = np.where(np.isnan(age_s), track.age_s, age_s).astype(np.float32)
        return replace(
            self,
            track=msgspec.structs.replace(track, age_s=age_s),
            increments=np.where(gone, np.nan, self.increments),
            spans=np.where(gone, np.nan, self.spans),
            dropped=dropped,
        )


class Coverage(Mapping[str, Floats]):
    """The share of the last steps with a usable sample, by metric, made when asked for."""

    def __init__(self, tracks: Mapping[str, Track]) -> None:
        self._tracks = tracks

    def __getitem__(self, metric: str) -> Floats:
        track = self._tracks[metric]
        return np.bitwise_count(track.recent) / max(track.steps, 1)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tracks)

    def __len__(self) -> int:
        return len(self._tracks)


def moved(track: Track, index: NDArray[np.intp] | None) -> Track:
    """A track whose rows follow ``state.follow``'s index."""
    if index is None:
        return track
    return msgspec.structs.replace(
        track,
        value=carried(track.value, index, np.nan),
        age_s=carried(track.age_s, index, 0.0) if len(track.age_s) else track.age_s,
        held=carried(track.held, index, 0) if len(track.held) else track.held,
        recent=carried(track.recent, index, 0),
    )


def read(
    metric: str, track: Track | None, values: Floats | None, booted: Flags, elapsed_s: float
) -> Reading:
    """One metric's rows at a step: NaN, or no ``values`` at all, where nothing was told."""
    n = len(booted)
    counts = is_counter(metric)
    if track is None:
        track = Track(
            np.full(n, np.nan, np.float64 if counts else np.float32),
            np.zeros(n, np.float32) if counts else _NO_AGE,
            np.zeros(n, np.uint8) if is_gauge(metric) else _NOTHING,
            np.zeros(n, np.uint16),
        )
    if values is None:
        values = np.full(n, np.nan)
    low, high = bounds(metric)
    wrong = (values < low) | (values > high)
    impossible = int(np.count_nonzero(wrong))
    if impossible:
        values = np.where(wrong, np.nan, values)
    track = msgspec.structs.replace(track, steps=min(track.steps + 1, COVERED_STEPS))
    if counts:
        reading = _counter(metric, track, values, booted, elapsed_s)
    else:
        reading = _plain(track, values)
    return replace(reading, impossible=impossible)


def _plain(track: Track, values: Floats) -> Reading:
    """A gauge, a state or a mask."""
    fresh = values == values
    told = values.astype(np.float32)
    same = told == track.value
    changed = fresh & ~same
    held, stale = track.held, np.zeros(len(values), np.bool_)
    if len(held):
        held = np.where(fresh, np.where(same, np.minimum(held, 254) + 1, 0), held).astype(np.uint8)
        track, stale = _lively(track, fresh & (values != 0), changed, held)
    count = int(np.count_nonzero(stale))
    track = msgspec.structs.replace(
        track,
        value=np.where(fresh, told, track.value),
        held=held,
        recent=_recent(track.recent, fresh & ~stale),
    )
    values = np.where(stale, np.nan, values) if count else values
    return Reading(track, fresh, changed, stale, values, dropped=count)


def _lively(
    track: Track, fresh: Flags, changed: Flags, held: NDArray[np.uint8]
) -> tuple[Track, Flags]:
    """Which readings stand still though their like always move, and how often they do move.

    Zero is where idle parts rest, and is never stale.
    """
    still = held >= STILL
    judged = fresh & (track.value == track.value) & ~still
    count = int(np.count_nonzero(judged))
    if not count:
        return track, np.zeros(len(held), np.bool_)
    share = int(np.count_nonzero(judged & changed)) / count
    stale = fresh & still
    if track.moves < LIVELY or track.settled < LIVELY_STEPS or share < MOVING:
        stale = np.zeros(len(held), np.bool_)
    weight = max(1.0 / (track.settled + 1), LEARNING)
    moves = track.moves + weight * (share - track.moves)
    settled = min(track.settled + 1, 1_000_000)
    return msgspec.structs.replace(track, moves=moves, settled=settled), stale


def _counter(metric: str, track: Track, values: Floats, booted: Flags, elapsed_s: float) -> Reading:
    """A counter: what it grew by, unless it started again or the machine did."""
    before = track.value
    if not outlives_boot(metric) and booted.any():
        before = np.where(booted, np.nan, before)
    fresh = values == values
    growth = values - before
    growth = np.where(growth >= 0, growth, np.nan)
    age_s = track.age_s + np.float32(elapsed_s)
    spans = np.where(growth == growth, age_s, np.nan)
    track = msgspec.structs.replace(
        track,
        value=np.where(fresh, values, before),
        age_s=np.where(fresh, np.float32(0), age_s),
        recent=_recent(track.recent, growth == growth),
    )
    changed = fresh & ~(growth == 0)
    return Reading(track, fresh, changed, np.zeros(len(fresh), np.bool_), values, growth, spans)


def _recent(recent: NDArray[np.uint16], usable: Flags) -> NDArray[np.uint16]:
    return ((recent << np.uint16(1)) | usable) & _COVERED
