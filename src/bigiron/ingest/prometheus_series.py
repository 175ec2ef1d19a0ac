"""From a server's series to canonical samples, remembering what each series means.

A series' labels are compared as the bytes in which they stand in the answer: a series that was
seen before costs one look-up.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from bigiron import signals
from bigiron.ingest.openmetrics_facts import INFO_NAMES, Inventory
from bigiron.ingest.openmetrics_series import Names, Place, Rule, Series, node_of, rule
from bigiron.ingest.prometheus_api import Matrix
from bigiron.model import Note, Sample

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LABELS = msgspec.json.Decoder(dict[str, str])
_KEPT = 500_000
"""More series than any fleet has at once; beyond it what is known is learned anew."""


@dataclass(frozen=True, slots=True)
class _Meaning:
    series: Series
    rule: Rule
    rank: int


class SeriesReader:
    """Remembers the meaning of series and the last sample taken of each."""

    def __init__(self) -> None:
        self.names = Names()
        self.inventory = Inventory()
        self.changed = False
        self.newest = float("-inf")
        self._known: dict[bytes, _Meaning | None] = {}
        self._unplaced: set[bytes] = set()
        self._jobs: set[str] = set()
        self._last: dict[bytes, float] = {}
        self._floor = float("-inf")

    def start_at(self, floor: float) -> None:
        """Forget which samples were taken; take only those after ``floor``."""
        self._last = {}
        self._floor = self.newest = floor
        self.changed = True

    def forget_before(self, time: float) -> None:
        """Drop what is known of series whose last sample is older."""
        self._last = {raw: last for raw, last in self._last.items() if last >= time}

    def read(self, answers: Sequence[Matrix], source: str) -> tuple[list[Sample], list[Note]]:
        """New samples in the order of time within each series, and what was not used."""
        rows = [(bytes(one.metric), one.values) for one in answers]
        self._learn([raw for raw, _ in rows], rows)
        taken: dict[Series, list[tuple[_Meaning, Sequence[tuple[float, str]]]]] = {}
        unplaced = 0
        for raw, values in rows:
            meaning = self._known.get(raw)
            fresh = self._fresh(raw, values)
            if meaning is None:
                unplaced += raw in self._unplaced
            elif fresh:
                taken.setdefault(meaning.series, []).append((meaning, fresh))
        samples: list[Sample] = []
        blank = 0
        for series, given in taken.items():
            blank += _add(samples, series, given)
        notes = [
            Note(source, what, count)
            for what, count in (
                ("series whose labels name no node or no device", unplaced),
                ("values the exporter marks as not supported", blank),
            )
            if count
        ]
        return samples, notes

    def learn_names(self, answers: Iterable[Matrix]) -> None:
        """What series tell of nodes, from an answer that is not itself wanted."""
        for one in answers:
            labels = _LABELS.decode(one.metric)
            self.names.learn(labels.get("__name__", ""), labels, 0.0)

    def _fresh(self, raw: bytes, values: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
        last = self._last.get(raw, self._floor)
        if not values or values[-1][0] <= last:
            return []
        self._last[raw] = values[-1][0]
        self.newest = max(self.newest, values[-1][0])
        return [value for value in values if value[0] > last]

    def _learn(
        self, raws: list[bytes], rows: Sequence[tuple[bytes, list[tuple[float, str]]]]
    ) -> None:
        """Settle the meaning of every series not seen before."""
        new = [row for row in rows if row[0] not in self._known]
        if not new:
            return
        before = dict(self.names.hosts), dict(self.names.gpus)
        labelled = [(raw, _LABELS.decode(raw), values) for raw, values in new]
        for _, labels, values in labelled:
            value = float(values[-1][1]) if values else 0.0
            self.names.learn(labels.get("__name__", ""), labels, value)
        if before != (self.names.hosts, self.names.gpus) or len(self._known) > _KEPT:
            # An address got a node's name: whatever was known by the address is known anew.
            self._known, self._unplaced = {}, set()
            self.inventory = Inventory()
            labelled = [(raw, _LABELS.decode(raw), []) for raw in raws]
        for raw, labels, _ in labelled:
            if not _is_scrape(labels):
                self.changed = True
                self._known[raw] = self._settle(labels)
                if self._known[raw] is None and labels.get("__name__") not in INFO_NAMES:
                    self._unplaced.add(raw)
        for raw, labels, _ in labelled:
            # Of the server's other targets nothing is kept; a job may yet turn out to be ours.
            if _is_scrape(labels) and labels.get("job", "") in self._jobs:
                self._known[raw] = self._settle(labels)

    def _settle(self, labels: Mapping[str, str]) -> _Meaning | None:
        name = labels.get("__name__", "")
        place = Place(labels, self.names, node_of(labels, self.names))
        meaning = rule(name)
        if meaning is None:
            if name in INFO_NAMES:
                self.inventory.see_info(name, place)
            return None
        found = place.device(meaning)
        if found is None or not place.node:
            return None
        self._jobs.add(labels.get("job", ""))
        if meaning.family.startswith(("gpu", "amd")):
            self.inventory.see_gpu(place)
        device, behind, metric = found
        series = (metric or meaning.metric, place.node, device)
        return _Meaning(series, meaning, meaning.rank + behind)


def _is_scrape(labels: Mapping[str, str]) -> bool:
    name = labels.get("__name__", "")
    return name == "up" or name.startswith("scrape_")


def _add(
    samples: list[Sample],
    series: Series,
    given: list[tuple[_Meaning, Sequence[tuple[float, str]]]],
) -> int:
    """The samples of one series from all that speak of it; how many values were blank."""
    metric, node, device = series
    best: dict[float, float] = {}
    blank = 0
    for meaning, values in sorted(given, key=lambda one: -one[0].rank):
        convert, may_be_blank = meaning.rule.source.convert, meaning.rule.blanks
        for time, text in values:
            raw = float(text)
            value = convert(raw)
            if value != value or (may_be_blank and signals.is_blank(raw)):
                blank += 1
            elif metric != "gpu_health" or value < best.get(time, math.inf):
                best[time] = value
    samples += [
        Sample(node, device, metric, best[time], _EPOCH + timedelta(seconds=time))
        for time in sorted(best)
    ]
    return blank
