"""Pages of one exporter, scrape after scrape.

An exporter writes the same lines in the same order each time and only the numbers differ. A
``PageParser`` learns the layout of a page once: each line up to its number. Of the next page it
compares those bytes, all in C, and takes what follows them. Where any differ the page is learned
anew, so both ways give the same.
"""

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import compress

from bigiron.ingest.openmetrics_facts import Inventory
from bigiron.ingest.openmetrics_layout import Counts, Layout, Learner, read_numbers
from bigiron.ingest.openmetrics_series import Series
from bigiron.model import Device, Fact, Note, Sample

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CUT: Callable[[bytes, slice], bytes] = bytes.__getitem__


@dataclass(frozen=True, slots=True)
class Page:
    """One scrape: ``values[i]`` belongs to ``series[i]``, NaN where the exporter had none.

    ``times[i]`` is seconds since 1970 or NaN; None where no line of the page carries a time.
    """

    series: tuple[Series, ...]
    values: "array[float]"
    times: "array[float] | None"
    counts: Counts
    inventory: Inventory

    def samples(self, time: datetime | None) -> Iterator[Sample]:
        """One for each series with a value; ``time`` where its line carries none."""
        times: Sequence[float] = self.times or ()
        for place, (metric, node, device) in enumerate(self.series):
            value = self.values[place]
            if value != value:
                continue
            own = times[place] if times else math.nan
            at = time if own != own else _EPOCH + timedelta(seconds=own)
            yield Sample(node, device, metric, value, at)

    def devices(self) -> tuple[Device, ...]:
        """The devices that labels tell of."""
        return self.inventory.devices()

    def facts(self, time: datetime | None) -> tuple[Fact, ...]:
        """The facts that labels tell of."""
        return self.inventory.facts(time)

    def notes(self, source: str) -> Iterator[Note]:
        """What was not used."""
        counts = self.counts
        blank = sum(value != value for value in self.values)
        line = f" (first on line {counts.first_malformed})" if counts.malformed else ""
        for what, count in (
            ("series of metrics that are not catalogued", counts.unknown),
            ("series whose labels name no device", counts.unplaced),
            ("series given twice: the last value was kept", counts.repeated),
            ("values the exporter marks as not supported", blank),
            (f"lines that are not exposition text{line}", counts.malformed),
        ):
            if count:
                yield Note(source, what, count)


class PageParser:
    """Reads one target's pages. ``node`` is whose they are where labels do not tell, or, with
    ``fixed``, whatever labels tell. Keeps the last layout: about as large as a page.
    """

    def __init__(self, node: str = "", *, fixed: bool = False, vector: bool = True) -> None:
        self._node = node
        self._fixed = fixed
        self._vector = vector
        self._layout: Layout | None = None

    def parse(self, page: bytes) -> Page:
        """One scrape's samples. Never fails: what cannot be read is counted."""
        lines = page.split(b"\n")
        layout = self._layout
        if layout is not None and (tails := _tails(layout, lines)) is not None:
            found = read_numbers(tails)
            if found is not None:
                return _page(layout, *found)
        learner = Learner(self._node, fixed=self._fixed, vector=self._vector)
        self._layout, found = learner.learn(lines)
        return _page(self._layout, *found)


def _tails(layout: Layout, lines: list[bytes]) -> list[bytes] | None:
    """What follows the keys on the wanted lines; None if the page has another layout."""
    keys = layout.keys
    if len(lines) != len(keys) or not all(map(bytes.startswith, lines, keys)):
        return None
    if any(len(lines[number]) != len(keys[number]) for number in layout.whole):
        return None
    return list(map(_CUT, compress(lines, layout.wanted), layout.cuts))


def _page(layout: Layout, raw: "array[float]", times: "array[float] | None") -> Page:
    values = layout.conversion.apply(raw)
    if layout.chosen:
        values, times = _choose(layout, values, times)
    return Page(layout.series, values, times, layout.counts, layout.inventory)


def _choose(
    layout: Layout, values: "array[float]", times: "array[float] | None"
) -> "tuple[array[float], array[float] | None]":
    """Of several lines for one series the best that has a value; of a health, the worst."""
    best_of = layout.chosen[:]
    for slot, numbers in layout.several:
        live = [number for number in numbers if values[number] == values[number]] or numbers
        best_of[slot] = live[0]
        if layout.series[slot][0] == "gpu_health":
            best_of[slot] = min(live, key=values.__getitem__)
    chosen = array("d", map(values.__getitem__, best_of))
    return chosen, array("d", map(times.__getitem__, best_of)) if times is not None else None
