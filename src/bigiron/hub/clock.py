"""Times that cannot be: what a source claims of the future is not believed, and said."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from bigiron.model import Batch, Event, Note, Sample
from bigiron.store.rows import GIVEN_TIME

AHEAD = timedelta(seconds=120)
"""A source's clock may run ahead of the hub's by this much."""


def believable(batch: Batch, now: datetime) -> Batch:
    """The batch without samples of the future; such events are dated ``now`` and keep their claim.

    A sample of the future would hide every later true one; an event is too precious to drop.
    """
    limit = now + AHEAD
    samples, ahead = _samples(batch.samples, limit)
    events, redated = _events(batch.events, now, limit)
    notes = list(batch.notes)
    if ahead:
        notes.append(Note(batch.source, "samples from the future, left out", ahead))
    if redated:
        notes.append(Note(batch.source, "events from the future or without offset", redated))
    if not (ahead or redated or batch.time > limit):
        return batch
    return msgspec.structs.replace(
        batch, time=min(batch.time, now), samples=samples, events=events, notes=tuple(notes)
    )


def _samples(samples: Sequence[Sample], limit: datetime) -> tuple[tuple[Sample, ...], int]:
    times = {sample.time for sample in samples}
    bad = {time for time in times if time is not None and time > limit}
    if not bad:
        return tuple(samples), 0
    kept = tuple(sample for sample in samples if sample.time not in bad)
    return kept, len(samples) - len(kept)


def _events(
    events: Sequence[Event], now: datetime, limit: datetime
) -> tuple[tuple[Event, ...], int]:
    redated = 0
    kept = []
    for event in events:
        time = event.time
        if time is not None and (time.tzinfo is None or time > limit):
            given = {**event.attrs, GIVEN_TIME: time.isoformat()}
            believed = time.replace(tzinfo=UTC) if time.tzinfo is None else now
            event = msgspec.structs.replace(event, time=min(believed, now), attrs=given)
            redated += 1
        kept.append(event)
    return tuple(kept), redated
