"""What a source says that cannot be used: of the future, or of no node. It is counted and said."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from bigiron.detect.hygiene.possible import bounds
from bigiron.model import Batch, Event, Note, Sample
from bigiron.store.rows import GIVEN_TIME

AHEAD = timedelta(seconds=120)
"""A source's clock may run ahead of the hub's by this much."""


NUMBER = 1e20
"""Nothing measured is larger: a counter has 64 bits. NaN and infinity are no numbers either."""
NAME_LENGTH = 253
"""Longest host name (RFC 1035)."""


def plausible(batch: Batch, now: datetime) -> Batch:
    """The batch without samples of the future and without what names no node.

    A sample of the future would hide every later true one, and one beyond what can be at all
    (an infinite one, a temperature in other degrees) would poison each mean it entered. An event
    is too precious to drop: one of the future is dated ``now`` and keeps its claim. What names no
    node would be taken for one node's, whoever's it is; control characters, or more of any than a
    host name can have, name none.
    """
    batch = _numbers(_of_nodes(batch))
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
    told = {sample.node for sample in batch.samples}
    for of_node in (batch.events, batch.facts, batch.devices, batch.states, batch.checks):
        told.update(one.node for one in of_node)
    told.update(node.name for node in batch.nodes)
    nameless = {name for name in told if not _is_name(name)}
    if not nameless:
        return batch
    kept: dict[str, tuple[Any, ...]] = {
        "nodes": tuple(node for node in batch.nodes if node.name not in nameless),
        **{
            kind: tuple(one for one in getattr(batch, kind) if one.node not in nameless)
            for kind in ("samples", "events", "facts", "devices", "states", "checks")
        },
    }
    notes = [
        Note(batch.source, f"{kind} that name no node, left out", count)
        for kind, left in kept.items()
        if (count := len(getattr(batch, kind)) - len(left)) and kind != "devices"
    ]
    return msgspec.structs.replace(batch, notes=(*batch.notes, *notes), **kept)


def _is_name(name: str) -> bool:
    return bool(name) and len(name) <= NAME_LENGTH and name.isprintable()


def _numbers(batch: Batch) -> Batch:
    limits = {metric: bounds(metric) for metric in {sample.metric for sample in batch.samples}}
    kept, left = [], Counter[str]()
    for sample in batch.samples:
        least, most = limits[sample.metric]
        if least <= sample.value <= most and -NUMBER < sample.value < NUMBER:
            kept.append(sample)
        else:
            left[sample.metric] += 1
    if not left:
        return batch
    notes = (
        Note(batch.source, f"{metric} beyond what can be, left out: another unit?", count)
        for metric, count in sorted(left.items())
    )
    return msgspec.structs.replace(batch, samples=tuple(kept), notes=(*batch.notes, *notes))


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
