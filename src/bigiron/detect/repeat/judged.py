"""The rules over one node's history: which are broken, by whom, and the claim that says so."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from bigiron.detect.chains import entry_of
from bigiron.detect.claims import Asks, claim, entry
from bigiron.detect.repeat.past import BURST_S
from bigiron.detect.repeat.rows import CORE_SHARE, DAY_S, NODE, RULES, Apart, Counts, Rule
from bigiron.detect.repeat.spells import History, Spell
from bigiron.detect.words import KINDS, VERBS, kind_of, label
from bigiron.model import Blame, Evidence, Finding, Subject

NAME = "repeat"
SHOWN = 10


class Broken(NamedTuple):
    """A rule that a part (``device``; "" is the node) broke, and by what, in order of time."""

    rule: Rule
    device: str
    unit: str
    spells: tuple[Spell, ...]

    @property
    def fault(self) -> str:
        """The catalogue's entry: a part that is the node itself is the node's."""
        return self.rule.fault if self.device or self.rule.of_node else NODE

    @property
    def until_s(self) -> float:
        """Until when the count bears it: the oldest of them has left the window by then."""
        return self.spells[-1].at_s + self.rule.window_s


def broken(history: History) -> Iterator[Broken]:
    """The rules that a node's newest incidents break."""
    apart: dict[Apart, Callable[[Spell, Spell], bool]] = {
        Apart.TIME: lambda before, after: after.at_s - before.last_s > BURST_S,
        Apart.RESTART: history.restarted,
        Apart.TURN: history.returned,
    }
    for rule in RULES:
        groups: dict[tuple[str, str], list[Spell]] = defaultdict(list)
        for spell in history.spells(rule.counts):
            part = "" if rule.of_node else spell.part
            groups[part, spell.code if rule.alike else ""].append(spell)
        for _, spells in sorted(groups.items()):
            counted = _counted(spells, rule, apart[rule.apart])
            if _enough(counted, rule):
                newest = counted[-1]
                whose = ("", "") if rule.of_node else (newest.device, newest.unit)
                yield Broken(rule, *whose, tuple(counted))


def _counted(
    spells: Sequence[Spell], rule: Rule, apart: Callable[[Spell, Spell], bool]
) -> list[Spell]:
    """The newest and those before it, within the window, that lie apart as the rule wants."""
    counted = [spells[-1]]
    for spell in reversed(spells[:-1]):
        recent = spells[-1].at_s - spell.at_s <= rule.window_s
        if recent and apart(spell, counted[0]):
            counted.insert(0, spell)
    return counted


def _enough(counted: Sequence[Spell], rule: Rule) -> bool:
    worst = Counter(spell.part for spell in counted).most_common(1)[0][1]
    return (
        len(counted) >= rule.least
        and len({spell.kind for spell in counted}) >= rule.kinds
        and len(counted) - worst >= rule.others
    )


def finding(node: str, same: Sequence[Broken]) -> Finding:
    """One claim for all rules that one part broke; the first leads."""
    lead = same[0]
    spells = sorted({spell for one in same for spell in one.spells})
    known = entry(lead.fault)
    sentences = [_said(node, one) for one in same]
    return claim(
        NAME,
        lead.fault,
        Subject(node=node, device=lead.device),
        (*dict.fromkeys(sentences), known.meaning if known is not None else ""),
        since=_time(spells[0].at_s),
        evidence=tuple(_evidence(spell) for spell in spells[-SHOWN:]),
        confidence=0.9,
        asks=_asks(lead),
    )


def _asks(lead: Broken) -> Asks | None:
    """What the catalogue asks for, of whoever is to blame for the newest."""
    known = entry(lead.fault)
    if known is None or not lead.device:
        return None
    blame = entry_of(lead.spells[-1].code).blame
    blame = known.blame if blame is Blame.UNKNOWN else blame
    return Asks(known.severity, known.action, known.when, blame)


def _said(node: str, one: Broken) -> str:
    rule, spells = one.rule, one.spells
    who = f"{_noun(one.device)} of {node}" if one.device else node
    how_often = f"{len(spells)} times {_span(spells)} ({_codes(spells)})"
    match rule.counts, rule.apart:
        case Counts.TURN, _:
            text = f"was taken out of service with a fault {how_often}"
        case Counts.CRASH, _:
            kinds = len({spell.kind for spell in spells})
            text = f"crashed {how_often} in {kinds} ways{_core(spells)}"
        case Counts.REMAP, _:
            text = f"replaced memory rows {how_often}"
        case _, Apart.TURN:
            again = f"{_does(spells[-1])} again: {how_often}"
            text = f"was taken out of service and put back, and {again}"
        case _, Apart.RESTART:
            times = len(spells) - 1
            text = (
                f"{_does(spells[-1])} again after each of {times} restarts or resets: {how_often}"
            )
        case _:
            parts = len({spell.part for spell in spells}) if rule.of_node else 0
            of = f", in {parts} parts" if parts else ""
            text = f"had fatal faults {how_often}{of}"
    return f"{who} {text}."


def _noun(device: str) -> str:
    """``GPU 3`` of ``gpu3``; what has no such name as it is."""
    noun, number = KINDS.get(kind_of(device), ""), device.lstrip("abcdefghijklmnopqrstuvwxyz")
    return f"{noun} {number}" if noun and number.isdigit() else device


def _does(spell: Spell) -> str:
    return VERBS.get(spell.code, f"has {label(spell.code)}")


def _codes(spells: Sequence[Spell]) -> str:
    codes = Counter(spell.code for spell in spells)
    return ", ".join(label(code) for code, _ in codes.most_common(4))


def _span(spells: Sequence[Spell]) -> str:
    seconds = spells[-1].at_s - spells[0].at_s
    if seconds >= 2 * DAY_S:
        return f"in {seconds / DAY_S:.0f} days"
    hours = max(1, round(seconds / 3600))
    return f"in {hours} hours" if hours > 1 else "within an hour"


def _core(spells: Sequence[Spell]) -> str:
    """Which core most crashes name, if they do."""
    cores = Counter(spell.cpu for spell in spells if spell.cpu)
    core, count = next(iter(cores.most_common(1)), ("", 0))
    return f", {count} of them on CPU {core}" if count >= CORE_SHARE * len(spells) else ""


def _evidence(spell: Spell) -> Evidence:
    where = f"{spell.device}: " if spell.device else ""
    return Evidence("event", f"{where}{label(spell.code)}", _time(spell.at_s))


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
