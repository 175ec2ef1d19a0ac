"""What a page looks like without its numbers, and how one is learned."""

import re
from array import array
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress

import msgspec

from bigiron.ingest.openmetrics_facts import INFO_NAMES, Inventory
from bigiron.ingest.openmetrics_line import NAME, parse_labels, parse_tail, split_line
from bigiron.ingest.openmetrics_series import Names, Place, Rule, Series, node_of, rule
from bigiron.ingest.openmetrics_values import Conversion

_INFO = frozenset(name.encode() for name in INFO_NAMES)
_INDEX = re.compile(rb"nvidia_smi_index\b").match
_FLOATS = msgspec.json.Decoder(list[float])
Numbers = tuple["array[float]", "array[float] | None"]
"""Values and times; None where no line has a time."""


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
class Layout:
    """A page without its numbers.

    ``keys``: each line up to its number. ``wanted``: whether the number is; for those that are,
    ``cuts``: where it begins, ``lines``: on which line, ``taken``: whose it is. ``whole``: lines
    without a number, which must not grow one. ``several``: slots for which lines compete.
    """

    keys: list[bytes] = field(default_factory=list)
    wanted: list[bool] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    cuts: list[slice] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    taken: list[Series] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    series: tuple[Series, ...] = ()
    chosen: list[int] = field(default_factory=list)
    several: list[tuple[int, list[int]]] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    inventory: Inventory = field(default_factory=Inventory)
    conversion: Conversion = field(default_factory=lambda: Conversion([]))

    def malformed(self, number: int, line: bytes) -> None:
        """Line ``number`` (from 0) is no sample: it must stay as it is, or be read anew."""
        self.counts.malformed += 1
        self.counts.first_malformed = self.counts.first_malformed or number + 1
        self.keys[number] = line
        self.wanted[number] = False
        self.whole.append(number)

    def no_sample(self, number: int, line: bytes) -> None:
        """A line that is blank or malformed."""
        if line.strip():
            self.malformed(number, line)
        else:
            self.whole.append(number)


def read_numbers(tails: list[bytes]) -> Numbers | None:
    """Values and, if any line has one, times; None if a line has no number."""
    try:  # the JSON decoder reads numbers five times as fast as float() does
        plain = _FLOATS.decode(b"[" + b",".join(tails) + b"]")
    except msgspec.DecodeError:
        plain = []
    if len(plain) == len(tails):
        return array("d", plain), None
    raw, times = array("d"), array("d")
    for tail in tails:
        found = parse_tail(tail)
        if found is None:
            return None
        raw.append(found[0])
        times.append(found[1])
    timed = any(time == time for time in times)
    return raw, times if timed else None


class Learner:
    """Learns the layout of one page."""

    def __init__(self, node: str, *, fixed: bool, vector: bool) -> None:
        self._node = node
        self._fixed = fixed
        self._vector = vector
        self._names = Names()
        self._places: dict[bytes, Place] = {}
        self._rules: dict[bytes, Rule] = {}
        self._others: dict[bytes, bool] = {}
        """Names that are not catalogued, and whether they can be names at all."""

    def learn(self, lines: list[bytes]) -> tuple[Layout, Numbers]:
        """The layout of a page and the numbers that stand on it."""
        self._learn_names(lines)
        layout = Layout(keys=lines[:], wanted=[False] * len(lines))
        keys, wanted, rules, places = layout.keys, layout.wanted, self._rules, self._places
        take_line, take_cut = layout.lines.append, layout.cuts.append
        take_rule, take_rank = layout.rules.append, layout.ranks.append
        take, others = layout.taken.append, self._others
        left: list[tuple[int, int, bytes, bytes]] = []
        for number, line in enumerate(lines):
            if line.startswith(b"#"):
                continue
            # What nearly every line looks like goes straight on; split_line knows the rest.
            opened, close = line.find(b"{"), line.rfind(b"} ")
            if 0 < opened < close and b"#" not in line:
                name, block, start = line[:opened], line[opened : close + 1], close + 2
            elif split := split_line(line):
                name, block, start = split
            else:
                layout.no_sample(number, line)
                continue
            keys[number] = line[:start]
            if name in others:
                left.append((number, start, name, block))
                continue
            meaning, place = rules.get(name), places.get(block)
            if meaning is None or place is None:
                meaning, place = self._first_seen(name, block)
            found = None if meaning is None or place is None else place.device(meaning)
            if meaning is None or place is None or found is None:
                left.append((number, start, name, block))
                continue
            device, behind, metric = found
            wanted[number] = True
            take_line(number)
            take_cut(_cut(start))
            take_rule(meaning)
            take_rank(meaning.rank + behind)
            take((metric or meaning.metric, place.node, device))
        self._look_at(left, layout, lines)
        found_numbers = _only_numbers(layout, lines)
        self._settle(layout)
        return layout, found_numbers

    def _first_seen(self, name: bytes, block: bytes) -> tuple[Rule | None, Place | None]:
        """The meaning of a name and, if it has any, whose the labels are."""
        if not name:
            place = self._places.get(block) or self._place(block)
            meaning = rule(place.labels.get("__name__", "")) if place is not None else None
        else:
            meaning = self._rules.get(name) or rule(name.decode("utf-8", "replace"))
            if meaning is None:
                self._others[name] = NAME.fullmatch(name) is not None
                return None, None
            self._rules[name] = meaning
            place = self._places.get(block) or self._place(block)
        if place is not None and meaning is not None:
            place.seen = place.seen or meaning.family.startswith(("gpu", "amd"))
        return meaning, place

    def _look_at(
        self, left: list[tuple[int, int, bytes, bytes]], layout: Layout, lines: list[bytes]
    ) -> None:
        """Lines that give no sample: whether they are well formed, and what they tell instead."""
        tails = [lines[number][start:] for number, start, _, _ in left]
        sound = read_numbers(tails) is not None
        for (number, _, name, block), tail in zip(left, tails, strict=True):
            if not sound and parse_tail(tail) is None:
                layout.malformed(number, lines[number])
                continue
            place = self._places.get(block)
            well_formed = self._others.get(name, place is not None)
            if name in _INFO:
                well_formed = self._tell(layout, number, lines[number], name, block)
            elif name in self._others:
                layout.counts.unknown += well_formed
            elif place is not None and (said := name.decode() or place.labels.get("__name__")):
                known = rule(said) is not None
                layout.counts.unplaced += known
                layout.counts.unknown += not known
            else:
                well_formed = False
            if well_formed:
                layout.counts.lines += 1
            else:
                layout.malformed(number, lines[number])
        for place in self._places.values():
            if place.seen:
                layout.inventory.see_gpu(place)

    def _tell(self, layout: Layout, number: int, line: bytes, name: bytes, block: bytes) -> bool:
        """A series that exists for its labels; False if they are malformed."""
        place = self._places.get(block) or self._place(block)
        if place is None:
            return False
        layout.inventory.see_info(name.decode(), place)
        if name == b"nvidia_smi_index":  # a GPU that moved is another layout
            layout.keys[number] = line
            layout.whole.append(number)
        return True

    def _place(self, block: bytes) -> Place | None:
        parsed = parse_labels(block)
        if parsed is None:
            return None
        name, labels = parsed
        if name:
            labels["__name__"] = name
        node = self._node if self._fixed else node_of(labels, self._names) or self._node
        found = self._places[block] = Place(labels, self._names, node)
        return found

    def _learn_names(self, lines: list[bytes]) -> None:
        """First what tells of others: the index of each GPU that is known by its UUID."""
        for line in filter(_INDEX, lines):
            split = split_line(line)
            parsed = parse_labels(split[1]) if split else None
            tail = parse_tail(line[split[2] :]) if split else None
            if split and parsed and tail and tail[0] == tail[0]:
                labels = {**parsed[1]}
                node = self._node if self._fixed else node_of(labels, self._names) or self._node
                self._names.learn(split[0].decode(), labels, tail[0], node)

    def _settle(self, layout: Layout) -> None:
        """Which lines speak of the same series, and which of them to believe."""
        layout.counts.lines += len(layout.taken)
        layout.conversion = Conversion(layout.rules, vector=self._vector)
        layout.series = tuple(layout.taken)
        if len(set(layout.taken)) == len(layout.taken):
            return
        slots: dict[Series, list[int]] = {}
        for number, one in enumerate(layout.taken):
            slots.setdefault(one, []).append(number)
        for slot, numbers in enumerate(slots.values()):
            if len(numbers) > 1:
                texts = {layout.keys[layout.lines[number]] for number in numbers}
                layout.counts.repeated += len(numbers) - len(texts)
                numbers.sort(key=lambda number: (layout.ranks[number], -number))
                layout.several.append((slot, numbers))
        layout.chosen = [numbers[0] for numbers in slots.values()]
        layout.series = tuple(layout.taken[number] for number in layout.chosen)


@lru_cache(maxsize=4096)
def _cut(start: int) -> slice:
    return slice(start, None)


def _only_numbers(layout: Layout, lines: list[bytes]) -> Numbers:
    """The numbers of the wanted lines; those without one are wanted no more."""
    tails = [lines[number][cut] for number, cut in zip(layout.lines, layout.cuts, strict=True)]
    found = read_numbers(tails)
    if found is not None:
        return found
    good = [parse_tail(tail) is not None for tail in tails]
    for number, fine in zip(layout.lines, good, strict=True):
        if not fine:
            layout.malformed(number, lines[number])
    layout.lines = list(compress(layout.lines, good))
    layout.cuts = list(compress(layout.cuts, good))
    layout.taken = list(compress(layout.taken, good))
    layout.rules = list(compress(layout.rules, good))
    layout.ranks = list(compress(layout.ranks, good))
    return read_numbers(list(compress(tails, good))) or (array("d"), None)
