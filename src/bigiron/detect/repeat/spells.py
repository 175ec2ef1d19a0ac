"""From notes to what is counted: incidents under their first cause, crashes, remaps, turns."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from bigiron.detect.chains import CHAIN_S, entry_of
from bigiron.detect.incidents import NODE_WITHIN_S, REBOOT, Incident, incidents
from bigiron.detect.planned import TAKEN_FOR_IT
from bigiron.detect.repeat.past import AFTER_S, OWN, REMAPS, RESET, Note, Turn, crash, grave
from bigiron.detect.repeat.rows import Counts
from bigiron.model import Blame, Event, Severity


class Spell(NamedTuple):
    """One thing that counts once: when it began and ended (epoch seconds), what, on which part.

    ``kind`` tells kinds apart: the code, and of a crash its signature.
    """

    at_s: float
    last_s: float
    code: str
    device: str
    unit: str
    kind: str
    cpu: str = ""
    fatal: bool = False

    @property
    def part(self) -> str:
        """The part's identity, or where it is."""
        return self.unit or self.device


class History:
    """What one node went through, from its notes and turns; each kind in order of time."""

    def __init__(self, node: str, notes: Sequence[Note], turns: Sequence[Turn]) -> None:
        self.notes, self.turns = notes, turns
        self._grave = sorted(_grave(node, notes))

    def spells(self, counts: Counts) -> list[Spell]:
        """What a rule counts."""
        match counts:
            case Counts.FATAL:
                return [spell for spell in self._grave if spell.fatal]
            case Counts.GRAVE:
                return self._grave
            case Counts.REMAP:
                return [_of(n) for n in self.notes if n.code in REMAPS and not n.void]
            case Counts.CRASH:
                return list(_crashes(self.notes))
            case Counts.TURN:
                return list(self._turns())

    def restarted(self, before: Spell, after: Spell) -> bool:
        """Whether the node booted or the part was reset between two incidents."""
        return any(
            before.last_s <= note.first_s <= after.at_s
            and (note.code == REBOOT or (note.code == RESET and note.device == after.device))
            for note in self.notes
        )

    def returned(self, before: Spell, after: Spell) -> bool:
        """Whether the node was taken out of service for the one and put back before the other."""
        return any(
            turn.until_s is not None
            and before.at_s - TAKEN_FOR_IT.total_seconds() <= turn.since_s
            and turn.until_s <= after.at_s
            for turn in self.turns
        )

    def _turns(self) -> Iterator[Spell]:
        """The times out of service shortly after something grave; planned work is none."""
        back_s = float("-inf")
        for turn in self.turns:
            until_s = turn.since_s + TAKEN_FOR_IT.total_seconds()
            since_s = max(back_s, turn.since_s - AFTER_S)
            why = [s for s in self._grave if since_s < s.at_s <= until_s]
            if why:
                last_s = turn.since_s if turn.until_s is None else turn.until_s
                of = why[-1]
                yield Spell(turn.since_s, last_s, of.code, of.device, of.unit, of.code)
            back_s = turn.until_s if turn.until_s is not None else float("inf")


def _of(note: Note) -> Spell:
    kind = f"{note.code} {note.sign}" if note.sign else note.code
    return Spell(note.first_s, note.last_s, note.code, note.device, note.unit, kind, note.cpu)


def _crashes(notes: Iterable[Note]) -> Iterator[Spell]:
    """Crashes: what the kernel says within five minutes is one, of the kind it begins with."""
    last: Spell | None = None
    for note in notes:
        if not crash(note.code) or note.void:
            continue
        if last is not None and note.first_s - last.last_s <= CHAIN_S:
            last = last._replace(last_s=note.last_s, cpu=last.cpu or note.cpu)
            continue
        if last is not None:
            yield last
        last = _of(note)
    if last is not None:
        yield last


def _grave(node: str, notes: Sequence[Note]) -> Iterator[Spell]:
    for incident in incidents(_events(node, notes)):
        own = sorted({stamped.event.line for stamped in incident.events})
        first = [notes[line] for line in own]
        if incident.devices:
            first = _together(first)
        for nth, note in enumerate(first):
            until_s = first[nth + 1].first_s if nth + 1 < len(first) else float("inf")
            worst = _worst(incident, note.first_s - CHAIN_S if nth == 0 else note.first_s, until_s)
            if worst is not None and not note.void:
                device = "" if incident.devices else note.device
                unit = "" if incident.devices else note.unit
                spell = _of(note)._replace(device=device, unit=unit, fatal=worst)
                yield spell


def _events(node: str, notes: Sequence[Note]) -> list[Event]:
    """Each burst's first and last moment; ``line`` is the number of its note."""
    found: list[Event] = []
    for line, note in enumerate(notes):
        for at_s in sorted({note.first_s, note.last_s}):
            time = datetime.fromtimestamp(at_s, UTC)
            found.append(Event(node, note.code, "", note.device, time, line=line))
    return found


def _together(notes: Iterable[Note]) -> list[Note]:
    """The first of those that several parts told at once."""
    left: list[Note] = []
    for note in notes:
        if not left or note.first_s - left[-1].first_s > NODE_WITHIN_S:
            left.append(note)
    return left


def _worst(incident: Incident, since_s: float, until_s: float) -> bool | None:
    """Whether an incident was fatal, by its cause or by what followed on its part in a stretch
    of time; None if it was not grave at all, or its cause is not the part's own.
    """
    if incident.fault.blame not in OWN:
        return None
    followed = {
        s.event.code
        for s in incident.followers
        if s.event.device == incident.device and since_s <= s.t < until_s
    }
    followed = {code for code in followed if entry_of(code).blame is not Blame.APPLICATION}
    if not any(map(grave, (incident.code, *followed))):
        return None
    return any(entry_of(code).severity is Severity.FATAL for code in (incident.code, *followed))
