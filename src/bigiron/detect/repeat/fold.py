"""The fold: notes of what comes, rules over the nodes that have something new, what stands."""

from collections import defaultdict
from datetime import UTC, datetime

from bigiron.detect import Block, Fleet
from bigiron.detect.incidents import REBOOT
from bigiron.detect.planned import GRACE, OUT, meant_from
from bigiron.detect.repeat.judged import NAME, Broken, broken, finding
from bigiron.detect.repeat.past import (
    Note,
    State,
    Told,
    Turn,
    at_once,
    gathered,
    joined,
    noted,
    pruned,
    voided,
    wanted,
)
from bigiron.detect.repeat.rows import LONGEST_S
from bigiron.detect.repeat.spells import History
from bigiron.detect.scheduler import SERVING
from bigiron.model import Event, Finding, Recovery

BOOT_S = 60.0
"""Boot times are computed from an uptime and wobble by seconds; more is another boot."""

BOOTED_S = 86_400.0
"""A boot is told of within a day, or its node was not heard at all."""

TIDY_S = 3600.0

AWAY = OUT | {"down"}


class Repeat:
    """Counts incidents of parts and nodes over days and weeks."""

    name: str = NAME
    reads: tuple[str, ...] = ()

    def start(self, fleet: Fleet) -> State:
        """Nothing has happened."""
        del fleet
        return State()

    def step(self, state: State, block: Block) -> tuple[State, list[Finding | Recovery]]:
        """The state after a block, and who fails again and again."""
        look = _Look(state, block)
        look.tidy()
        look.turns()
        look.events()
        look.boots()
        look.moved()
        look.judge()
        return look.after()


class _Look:
    """One step."""

    def __init__(self, state: State, block: Block) -> None:
        self.block, self.now_s = block, block.time.timestamp()
        self.of_turns, self.lately = dict(state.turns), state.lately
        self.told = dict(state.told)
        self.found: list[Finding | Recovery] = []
        self.notes, self.tidied_s = dict(state.notes), state.tidied_s
        self.touched: set[str] = set()

    def tidy(self) -> None:
        """Throw away what is too old for any rule."""
        if self.now_s - self.tidied_s < TIDY_S:
            return
        every = ((node, pruned(notes, self.now_s)) for node, notes in self.notes.items())
        self.notes = {node: left for node, left in every if left}
        self.tidied_s = self.now_s

    def turns(self) -> None:
        """Who was taken out of service and who is back."""
        for node, state in self.block.states.items():
            turns = self.of_turns.get(node, ())
            out = bool(turns) and turns[-1].until_s is None
            if state.state in AWAY and not out:
                since_s = min((state.since or self.block.time).timestamp(), self.now_s)
                recent = [t for t in turns if self.now_s - t.since_s <= LONGEST_S]
                self.of_turns[node] = (*recent, Turn(since_s, None, state.state))
                self.touched.add(node)
            elif state.state in SERVING and out:
                back_s = min((state.since or self.block.time).timestamp(), self.now_s)
                last = turns[-1]._replace(until_s=max(back_s, turns[-1].since_s))
                self.of_turns[node] = (*turns[:-1], last)

    def events(self) -> None:
        """What came, as notes; what came to many nodes at once is not counted."""
        new: list[tuple[str, Note]] = []
        for event in sorted(filter(wanted, self.block.events), key=_order):
            at_s = min(_time_s(event, self.block), self.now_s)
            unit = self.block.fleet.units.get((event.node, event.device), "")
            void = self._meant(event.node, at_s)
            new.append((event.node, noted(event, at_s, unit, void=void)))
        for node, note in new:
            notes = joined(self.notes.get(node, ()), note)
            self.notes[node] = pruned(notes, self.now_s)
            self.touched.add(node)
        self.lately = gathered(self.lately, new, self.now_s)
        for _, note in new:
            if note.code != REBOOT:
                for other in at_once(self.lately[note.code], note.first_s):
                    kept = self.notes.get(other, ())
                    self.notes[other] = voided(kept, note.code, note.first_s)

    def boots(self) -> None:
        """The boots that only a metric tells: they part what came before from what comes after."""
        clean = self.block.clean
        if clean is None or not self.notes:
            return
        for row in (clean.booted_s > self.now_s - BOOTED_S).nonzero()[0].tolist():
            node, boot_s = clean.nodes[row], float(clean.booted_s[row])
            notes = self.notes.get(node)
            if notes is None or not notes[0].first_s < boot_s <= self.now_s:
                continue
            known = (n for n in notes if n.code == REBOOT)
            if not any(n.first_s - BOOT_S <= boot_s <= n.last_s + BOOT_S for n in known):
                self.notes[node] = tuple(joined(notes, Note(boot_s, boot_s, REBOOT)))

    def moved(self) -> None:
        """What stands of a part that is not any more where it was."""
        for key, told in list(self.told.items()):
            subject = told.finding.subject
            unit = self.block.fleet.units.get((subject.node, subject.device), told.unit)
            if told.unit and unit != told.unit:
                del self.told[key]
                self.found.append(Recovery(key, f"another part is there now ({unit})"))
                self.touched.add(subject.node)

    def judge(self) -> None:
        """The rules over the nodes that have something new."""
        for node in sorted(self.touched & self.notes.keys()):
            same: dict[tuple[str, str], list[Broken]] = defaultdict(list)
            notes, gone = self._placed(node)
            for one in broken(History(node, notes, self.of_turns.get(node, ()))):
                if not one.unit or one.unit not in gone:
                    same[one.fault, one.unit or one.device].append(one)
            for found in same.values():
                claimed = finding(node, found)
                until_s = max(one.until_s for one in found)
                self.told[claimed.key] = Told(claimed, found[0].unit, until_s)

    def after(self) -> tuple[State, list[Finding | Recovery]]:
        """The state after this step, what stands and what is over."""
        for key, told in list(self.told.items()):
            if self.now_s <= told.until_s:
                self.found.append(told.finding)
            elif self.now_s - told.until_s > LONGEST_S:
                del self.told[key]
        return State(self.notes, self.of_turns, self.lately, self.told, self.tidied_s), self.found

    def _placed(self, node: str) -> tuple[tuple[Note, ...], frozenset[str]]:
        """A node's notes under the present names of its parts, and the parts that have left it."""
        units, notes = self.block.fleet.units, self.notes[node]
        notes = tuple(
            note if note.unit else note._replace(unit=units.get((node, note.device), ""))
            for note in notes
        )
        moved = {n.unit for n in notes if n.unit and units.get((node, n.device), n.unit) != n.unit}
        if not moved:
            return notes, frozenset()
        here = {unit: key[1] for key, unit in units.items() if key[0] == node and unit in moved}
        placed = tuple(n._replace(device=here.get(n.unit, n.device)) for n in notes)
        return placed, frozenset(moved - here.keys())

    def _meant(self, node: str, at_s: float) -> bool:
        """Whether somebody had the node out of service at that time, or just put it back."""
        at = datetime.fromtimestamp(at_s, UTC)
        state = self.block.states.get(node)
        if state is not None and state.state in OUT and meant_from(state, self.block.time) <= at:
            return True
        return any(
            turn.word in OUT
            and turn.until_s is not None
            and turn.until_s <= at_s <= turn.until_s + GRACE.total_seconds()
            for turn in self.of_turns.get(node, ())
        )


def _time_s(event: Event, block: Block) -> float:
    return (event.time or block.time).timestamp()


def _order(event: Event) -> tuple[float, str, int, str, str]:
    """By time and line, whoever came first."""
    at_s = event.time.timestamp() if event.time is not None else float("inf")
    return at_s, event.node, event.line, event.code, event.device
