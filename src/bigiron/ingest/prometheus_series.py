"""From a server's series to canonical samples, remembering what each series means.

A series' labels are compared as the bytes in which they stand in the answer: a series that was
seen before costs one look-up.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from bigiron import signals
from bigiron.ingest.openmetrics_facts import INFO_NAMES, Inventory
from bigiron.ingest.openmetrics_series import Names, Place, Rule, Series, node_of, rule
from bigiron.ingest.prometheus_api import Matrix
from bigiron.model import Note, Sample

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAME = b'"__name__":"'
_LABELS = msgspec.json.Decoder(dict[str, str])
_FIRST_SAMPLES = 8
_KEPT = 10_000
"""Pods come and go and their names are labels: with this many series beyond twice those that
live, what is known is learned anew."""


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
        self._indexes: dict[bytes, str] = {}
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

    def trim(self, answers: Sequence[Matrix]) -> None:
        """Keep of each series only what is new, and at first a few samples.

        An answer repeats what earlier ones held; without this, ninety seconds of a fleet scraped
        every second would be held at once.
        """
        for one in answers:
            last = self._last.get(bytes(one.metric), self._floor)
            if not math.isfinite(last):
                every = -(-len(one.values) // _FIRST_SAMPLES)
                one.values = one.values[:: -every or -1][::-1]
            elif one.values and one.values[0][0] <= last:
                one.values = [value for value in one.values if value[0] > last]

    def read(
        self, answers: Sequence[Matrix], source: str, skew_s: float = 0.0
    ) -> tuple[list[Sample], list[Note]]:
        """New samples in the order of time within each series, and what was not used.

        ``skew_s`` is by how much the server's clock is ahead: the samples get this machine's time.
        """
        rows = [(bytes(one.metric), one.values) for one in answers]
        self._see_moves(rows)
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
            blank += _add(samples, series, given, skew_s)
        notes = [
            Note(source, what, count)
            for what, count in (
                ("series whose labels name no node or no device", unplaced),
                ("values that are none: not supported, or no number", blank),
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

    def _see_moves(self, rows: Sequence[tuple[bytes, list[tuple[float, str]]]]) -> None:
        """GPUs that are known by their UUID may get another index at a reboot."""
        if self._indexes and any(
            values and values[-1][1] != self._indexes.get(raw, values[-1][1])
            for raw, values in rows
        ):
            self._known, self._indexes = {}, {}
            self.names.gpus.clear()
            self.inventory = Inventory()

    def _learn(
        self, raws: list[bytes], rows: Sequence[tuple[bytes, list[tuple[float, str]]]]
    ) -> None:
        """Settle the meaning of every series not seen before."""
        new = [row for row in rows if row[0] not in self._known]
        if not new:
            return
        blocks: dict[bytes, dict[str, str]] = {}
        named = [(raw, *_split(raw, blocks)) for raw, _ in new]
        if self._learn_names(named, new, blocks) or len(self._known) > 2 * len(raws) + _KEPT:
            # An address got a node's name: whatever was known by the address is known anew.
            self._known, self._unplaced = {}, set()
            self.inventory = Inventory()
            named = [(raw, *_split(raw, blocks)) for raw in raws]
        places = {
            block: Place(labels, self.names, node_of(labels, self.names))
            for block, labels in blocks.items()
        }
        for raw, name, block in named:
            if not _is_scrape(name):
                self.changed = True
                self._known[raw] = self._settle(name, places[block])
                if self._known[raw] is None and name not in INFO_NAMES:
                    self._unplaced.add(raw)
        for raw, name, block in named:
            # Of the server's other targets nothing is kept; a job may yet turn out to be ours.
            if _is_scrape(name) and blocks[block].get("job", "") in self._jobs:
                self._known[raw] = self._settle(name, places[block])

    def _learn_names(
        self,
        named: Sequence[tuple[bytes, str, bytes]],
        rows: Sequence[tuple[bytes, list[tuple[float, str]]]],
        blocks: Mapping[bytes, dict[str, str]],
    ) -> bool:
        """What new series tell of others; whether that changes what was known."""
        before = dict(self.names.hosts), dict(self.names.gpus)
        for (raw, name, block), (_, values) in zip(named, rows, strict=True):
            if name == "nvidia_smi_index" and values:
                self.names.learn(name, blocks[block], number(values[-1][1]))
                self._indexes[raw] = values[-1][1]
        for labels in blocks.values():
            self.names.learn("", labels, 0.0)
        return before != (self.names.hosts, self.names.gpus)

    def _settle(self, name: str, place: Place) -> _Meaning | None:
        meaning = rule(name)
        if meaning is None:
            if name in INFO_NAMES:
                self.inventory.see_info(name, place)
            return None
        found = place.device(meaning)
        if found is None or not place.node:
            return None
        self._jobs.add(place.labels.get("job", ""))
        if not place.seen and meaning.family.startswith(("gpu", "amd")):
            place.seen = True
            self.inventory.see_gpu(place)
        device, behind, metric = found
        series = (metric or meaning.metric, place.node, device)
        return _Meaning(series, meaning, meaning.rank + behind)


def _split(raw: bytes, blocks: dict[bytes, dict[str, str]]) -> tuple[str, bytes]:
    """A series' name, and its other labels as they stand in the answer: a key of ``blocks``.

    The same labels stand behind each metric of a device and are read once.
    """
    start = raw.find(_NAME)
    end = raw.find(b'"', start + len(_NAME))
    if start < 0 or b"\\" in raw[start:end]:
        labels = _LABELS.decode(raw)
        name, block = labels.pop("__name__", ""), raw
        blocks[block] = labels
        return name, block
    block = raw[:start] + raw[end + 1 :]
    if block not in blocks:
        blocks[block] = _LABELS.decode(raw)
    return raw[start + len(_NAME) : end].decode("utf-8", "replace"), block


def _is_scrape(name: str) -> bool:
    return name == "up" or name.startswith("scrape_")


def _add(
    samples: list[Sample],
    series: Series,
    given: list[tuple[_Meaning, Sequence[tuple[float, str]]]],
    skew_s: float,
) -> int:
    """The samples of one series from all that speak of it; how many values were blank."""
    metric, node, device = series
    best: dict[float, float] = {}
    blank = 0
    if len(given) > 1:
        given.sort(key=lambda one: -one[0].rank)
    for meaning, values in given:
        convert, may_be_blank = meaning.rule.source.convert, meaning.rule.blanks
        for time, text in values:
            raw = number(text)
            value = convert(raw)
            if not math.isfinite(value) or (may_be_blank and signals.is_blank(raw)):
                blank += 1
            elif metric != "gpu_health" or value < best.get(time, math.inf):
                best[time] = value
    times = best if len(given) == 1 else sorted(best)
    samples += [Sample(node, device, metric, best[time], _at(time - skew_s)) for time in times]
    return blank


def number(text: str) -> float:
    """A sample's value; NaN where it is no number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


@lru_cache(maxsize=65_536)
def _at(time: float) -> datetime:
    return _EPOCH + timedelta(seconds=time)
