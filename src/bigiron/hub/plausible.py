"""What a source says that cannot be used: of the future, or of no node. It is counted and said."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from bigiron.model import Batch, Event, Note, Sample
from bigiron.store.rows import GIVEN_TIME

AHEAD = timedelta(seconds=120)
"""A source's clock may run ahead of the hub's by this much."""


def plausible(batch: Batch, now: datetime) -> Batch:
    """The batch without samples of the future and without what names no node.

    A sample of the future would hide every later true one. An event is too precious to drop: one
    of the future is dated ``now`` and keeps its claim. What names no node would be taken for one
    node's, whoever's it is.
    """
    batch = _of_nodes(batch)
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


def _of_nodes(batch: Batch) -> Batch:
    samples = batch.samples
    if any(not sample.node for sample in samples):
        samples = tuple(sample for sample in samples if sample.node)
    events = tuple(event for event in batch.events if event.node)
    facts = tuple(fact for fact in batch.facts if fact.node)
    devices = tuple(device for device in batch.devices if device.node)
    notes = [
        Note(batch.source, f"{what} that name no node, left out", count)
        for what, count in (
            ("samples", len(batch.samples) - len(samples)),
            ("events", len(batch.events) - len(events)),
            ("facts", len(batch.facts) - len(facts)),
        )
        if count
    ]
    if not notes and len(devices) == len(batch.devices):
        return batch
    return msgspec.structs.replace(
        batch,
        samples=samples,
        events=events,
        facts=facts,
        devices=devices,
        notes=(*batch.notes, *notes),
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
