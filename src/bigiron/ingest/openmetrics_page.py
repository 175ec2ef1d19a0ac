"""Pages of one exporter, scrape after scrape.

An exporter writes the same lines in the same order each time and only the numbers differ. A
``PageParser`` learns the layout of a page once: the bytes between the numbers. The next page is
walked by comparing those bytes where they must stand, which is a memory compare, and taking what
lies between. The first byte that differs, and the page is learned anew: both ways give the same.
"""

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from bigiron.ingest.openmetrics_facts import INFO_NAMES, Inventory
from bigiron.ingest.openmetrics_line import NAME, parse_labels, parse_tail, split_line
from bigiron.ingest.openmetrics_series import Names, Place, Rule, Series, node_of, rule
from bigiron.ingest.openmetrics_values import Conversion
from bigiron.model import Device, Fact, Note, Sample

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INFO = frozenset(name.encode() for name in INFO_NAMES)


@dataclass(slots=True)
class Counts:
    """What a page held and how much of it was of use. ``lines`` are those with a sample."""

    lines: int = 0
    unknown: int = 0
    unplaced: int = 0
    repeated: int = 0
    malformed: int = 0
    first_malformed: int = 0


@dataclass(slots=True)
class _Layout:
    """``rows``: the bytes up to a value, their length and whether the value is wanted."""

    rows: list[tuple[bytes, int, bool]] = field(default_factory=list)
    end: bytes = b""
    taken: list[Series] = field(default_factory=list)
    row_of: list[int] = field(default_factory=list)
    series: tuple[Series, ...] = ()
    several: list[tuple[int, list[int]]] = field(default_factory=list)
    single: list[int] | None = None
    counts: Counts = field(default_factory=Counts)
    inventory: Inventory = field(default_factory=Inventory)
    conversion: Conversion = field(default_factory=lambda: Conversion(()))


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
        for place, one in enumerate(self.series):
            value = self.values[place]
            if value != value:
                continue
            own = times[place] if times else math.nan
            at = time if own != own else _EPOCH + timedelta(seconds=own)
            yield Sample(one.node, one.device, one.metric, value, at)

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
        self._layout: _Layout | None = None
        self._names = Names()
        self._places: dict[bytes, Place | None] = {}
        self._rules: dict[bytes, Rule | None] = {}

    def parse(self, page: bytes) -> Page:
        """One scrape's samples. Never fails: what cannot be read is counted."""
        if not page.endswith(b"\n"):
            page += b"\n"
        if self._layout is not None and (tails := _walk(self._layout, page)) is not None:
            found = _numbers(tails)
            if found is not None:
                return _page(self._layout, *found)
        return self._learn(page)

    def _learn(self, page: bytes) -> Page:
        layout = _Layout()
        self._places, self._rules, self._names = {}, {}, Names()
        if b"nvidia_smi_index" in page:
            self._learn_names(page)
        raw, times = array("d"), array("d")
        pending: list[bytes] = []
        for number, line in enumerate(page.split(b"\n")[:-1], 1):
            if line[:1] == b"#" or not line.strip():
                pending += (line, b"\n")
            elif not self._line(layout, pending, line, raw, times):
                layout.counts.malformed += 1
                layout.counts.first_malformed = layout.counts.first_malformed or number
                pending += (line, b"\n")
        layout.end = b"".join(pending)
        self._settle(layout)
        self._layout = layout
        timed = any(time == time for time in times)
        return _page(layout, raw, times if timed else None)

    def _line(
        self,
        layout: _Layout,
        pending: list[bytes],
        line: bytes,
        raw: "array[float]",
        times: "array[float]",
    ) -> bool:
        """One sample's line; False if it is none."""
        split = split_line(line)
        if split is None:
            return False
        name, block, start = split
        place = self._place(block)
        if place is None:
            return False
        if not name:
            name = place.labels.get("__name__", "").encode()
        known, meaning = self._rule(name)
        tail = _tail(line[start:]) if known else None
        if tail is None:
            return False
        if name == b"nvidia_smi_index":  # a GPU that moved is another layout
            pending += (line, b"\n")
            return True
        one = self._series(layout, name, meaning, place)
        if one is not None:
            layout.taken.append(one)
            layout.row_of.append(len(layout.rows))
            raw.append(tail[0])
            times.append(tail[1])
        pending.append(line[:start])
        key = b"".join(pending)
        pending.clear()
        layout.rows.append((key, len(key), one is not None))
        return True

    def _series(
        self, layout: _Layout, name: bytes, meaning: Rule | None, place: Place
    ) -> Series | None:
        layout.counts.lines += 1
        if meaning is None:
            if name in _INFO:
                layout.inventory.see_info(name.decode(), place)
            else:
                layout.counts.unknown += 1
            return None
        one = place.series(meaning)
        if one is None:
            layout.counts.unplaced += 1
        elif not place.seen and meaning.family.startswith(("gpu", "amd")):
            place.seen = True
            layout.inventory.see_gpu(place)
        return one

    def _rule(self, name: bytes) -> tuple[bool, Rule | None]:
        """Whether it can be a name at all, and its meaning if it is catalogued."""
        if name in self._rules:
            return True, self._rules[name]
        if not NAME.fullmatch(name) and not (name and b"." in name):
            return False, None
        self._rules[name] = found = rule(name.decode("utf-8", "replace"))
        return True, found

    def _place(self, block: bytes) -> Place | None:
        if block in self._places:
            return self._places[block]
        parsed = parse_labels(block)
        if parsed is None:
            return None
        name, labels = parsed
        if name:
            labels["__name__"] = name
        node = self._node if self._fixed else node_of(labels, self._names) or self._node
        found = self._places[block] = Place(labels, self._names, node)
        return found

    def _learn_names(self, page: bytes) -> None:
        """First what tells of others: the index of each GPU that is known by its UUID."""
        for line in page.split(b"\n"):
            split = split_line(line) if line.startswith(b"nvidia_smi_index") else None
            parsed = parse_labels(split[1]) if split else None
            tail = parse_tail(line[split[2] :]) if split else None
            if split and parsed and tail and tail[0] == tail[0]:
                self._names.learn(split[0].decode(), parsed[1], tail[0])

    def _settle(self, layout: _Layout) -> None:
        """Which lines speak of the same series, and which of them to believe."""
        slots: dict[tuple[str, str, str], list[int]] = {}
        for number, one in enumerate(layout.taken):
            slots.setdefault((one.metric, one.node, one.device), []).append(number)
        for slot, numbers in enumerate(slots.values()):
            if len(numbers) > 1:
                texts = [layout.rows[layout.row_of[n]][0].rpartition(b"\n")[2] for n in numbers]
                layout.counts.repeated += len(texts) - len(set(texts))
                numbers.sort(key=lambda n: (layout.taken[n].rank, -n))
                layout.several.append((slot, numbers))
        chosen = [numbers[0] for numbers in slots.values()]
        layout.series = tuple(layout.taken[number] for number in chosen)
        layout.single = chosen if layout.several else None
        layout.conversion = Conversion(layout.taken, vector=self._vector)


def _walk(layout: _Layout, page: bytes) -> list[bytes] | None:
    """What stands where the values stood; None if anything else differs."""
    tails: list[bytes] = []
    take, starts, find = tails.append, page.startswith, page.find
    position = 0
    for key, length, wanted in layout.rows:
        if not starts(key, position):
            return None
        position += length
        stop = find(b"\n", position)
        if wanted:
            take(page[position:stop])
        position = stop + 1
    return tails if page[position:] == layout.end else None


def _tail(text: bytes) -> tuple[float, float] | None:
    """``parse_tail``, the common case first."""
    try:
        value = float(text)
    except ValueError:
        return parse_tail(text)
    return (value, math.nan) if b"_" not in text else None


def _numbers(tails: list[bytes]) -> "tuple[array[float], array[float] | None] | None":
    """Values and, if any line has one, times; None if a line has no number."""
    try:
        raw = array("d", map(float, tails))
    except ValueError:
        return _numbers_each(tails)
    # float() would take 1_000, which is no number here.
    return (raw, None) if b"_" not in b"".join(tails) else None


def _numbers_each(tails: list[bytes]) -> "tuple[array[float], array[float] | None] | None":
    raw, times = array("d"), array("d")
    for tail in tails:
        found = parse_tail(tail)
        if found is None:
            return None
        raw.append(found[0])
        times.append(found[1])
    timed = any(time == time for time in times)
    return raw, times if timed else None


def _page(layout: _Layout, raw: "array[float]", times: "array[float] | None") -> Page:
    values = layout.conversion.apply(raw)
    if layout.single is not None:
        values, times = _choose(layout, values, times)
    return Page(layout.series, values, times, layout.counts, layout.inventory)


def _choose(
    layout: _Layout, values: "array[float]", times: "array[float] | None"
) -> "tuple[array[float], array[float] | None]":
    """Of several lines for one series the best that has a value; of a health, the worst."""
    single = layout.single or []
    chosen = array("d", [values[number] for number in single])
    when = array("d", [times[number] for number in single]) if times is not None else None
    for slot, numbers in layout.several:
        live = [number for number in numbers if values[number] == values[number]] or numbers
        best = live[0]
        if layout.series[slot].metric == "gpu_health":
            best = min(live, key=lambda number: values[number])
        chosen[slot] = values[best]
        if when is not None and times is not None:
            when[slot] = times[best]
    return chosen, when
