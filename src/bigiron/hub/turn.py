"""One turn: what is remembered and what stood before, to what stands now.

Pure: the same memory, standing, time and settings give the same outcome, live or over a recording.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from bigiron.decide.judge import NO_PAST, Judging, Past, counts, differs, judge, remember
from bigiron.decide.policy import Policy, Scene, plan
from bigiron.detect import FALSE_PER_NODE_DAY, Declared, Exempt, Window, detector, fold
from bigiron.detect.checks import recoveries as check_recoveries
from bigiron.detect.closing import Out, answer, returned, taken_out, unanswered
from bigiron.detect.explain import Explaining, explain, released
from bigiron.detect.fault import recoveries as fault_recoveries
from bigiron.detect.settle import Docket, Open, Pending, Rules, settle
from bigiron.hub.folding import Folded, Found, fold_step, remembered
from bigiron.hub.memory import Memory
from bigiron.model import (
    Action,
    Change,
    Closing,
    Finding,
    FindingChange,
    Health,
    Note,
    Verdict,
)

S = TypeVar("S")

EXPLAINED = "explained"
"""What the explaining stage remembers is kept among the folds' states."""

BAD = (Health.DEGRADED, Health.UNHEALTHY)

ENDED_EVERY_S = 10.0

PROMPT_S = 15.0
"""A detector that looks this often also looks as soon as new samples are there: a finding must
not wait for the detector's next turn after its sample has come."""


class Settings(msgspec.Struct, frozen=True):
    """What a turn may be told. ``off`` names detectors that do not run.

    ``fresh_s`` and ``sustain_s`` are those of ``detect.Window``; ``every`` says whether each
    detector's own interval is kept (live) or all run at every turn (a recording's steps).
    ``step_s`` is how long a step of the stateful detectors is: the time between two samples.
    ``false_per_node_day`` is what they may raise together of suspects that are none.
    """

    off: tuple[str, ...] = ()
    fresh_s: float = 180.0
    sustain_s: float = 600.0
    keep_intervals: bool = True
    step_s: float = 60.0
    false_per_node_day: float = FALSE_PER_NODE_DAY
    declared: tuple[Declared, ...] = ()
    exempt: tuple[Exempt, ...] = ()
    rules: Rules = Rules()
    judging: Judging = Judging()
    policy: Policy = Policy()


class Standing(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that a turn must remember of those before it. JSON there and back.

    ``open`` are the findings that stand, by id; ``pending`` the claims not yet believed, by key;
    ``verdicts`` the last verdict of each node; ``actions`` those asked for, by key; ``flagged``
    when each node that is not well began to be so; ``ran`` when each detector last ran;
    ``folds`` the stateful detectors' states; ``serial`` the newest batch seen. ``closed`` is when
    a person closed which claim, by key; ``out`` the nodes that a person took out of service.
    ``past`` is what verdicts need to know of those before them, of nodes that have such a past.
    """

    open: dict[str, Open] = {}
    pending: dict[str, Pending] = {}
    next_id: int = 1
    verdicts: dict[str, Verdict] = {}
    actions: dict[str, Action] = {}
    flagged: dict[str, datetime] = {}
    ran: dict[str, datetime] = {}
    folds: dict[str, Any] = {}
    closed: dict[str, datetime] = {}
    out: dict[str, Out] = {}
    past: dict[str, Past] = {}
    serial: int = 0
    time: datetime | None = None

    def findings_of(self, node: str) -> dict[str, Finding]:
        """The open findings about a node or one of its devices, by id."""
        return {
            id_: held.finding
            for id_, held in self.open.items()
            if held.finding.subject.node == node and not held.finding.subject.by
        }


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a turn brought: changes of findings, changed verdicts, new actions, failed detectors.

    ``answered`` are the numbers of the requests to close a finding that were dealt with.
    """

    changes: tuple[FindingChange, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    answered: tuple[int, ...] = ()


def fold_reads() -> frozenset[str]:
    """The metrics that stateful detectors fold: what a ``Memory`` is made with."""
    return frozenset(metric for plugin in fold for metric in plugin.reads)


def turn(
    memory: Memory,
    standing: Standing,
    now: datetime,
    settings: Settings | None = None,
    closings: Sequence[Closing] = (),
    folded: Folded | None = None,
) -> tuple[Standing, Outcome]:
    """One turn at ``now``. Neither memory nor standing is changed; a new standing is given.

    ``closings`` are what people asked to be closed since the turn before; ``folded`` is what
    ``fold_step`` gave for this turn where another process ran it.
    """
    settings = settings or Settings()
    window = memory.window(
        now,
        fresh_s=settings.fresh_s,
        sustain_s=settings.sustain_s,
        declared=settings.declared,
    )
    window = replace(window, exempt=settings.exempt)
    standing, told = _answered(standing, closings, memory, window)
    look = _Look(memory, standing, window, settings)
    look.stateless()
    look.stateful(folded)
    look.ended()
    look.found.claims = unanswered(look.found.claims, standing.closed, look.keys)
    look.explained()
    docket, changes = settle(
        Docket(standing.open, standing.pending, standing.next_id),
        look.found.claims,
        look.found.recoveries,
        window,
        reads=look.found.reads,
        rules=settings.rules,
    )
    findings = {id_: held.finding for id_, held in docket.open.items()}
    bench = _Bench(standing, window, settings.judging, (*told, *changes))
    verdicts = bench.verdicts(findings)
    scene = Scene(
        now,
        window.fleet.nodes.keys(),
        verdicts,
        findings,
        window.states,
        window.jobs,
        bench.flagged,
    )
    actions, new = plan(scene, standing.actions, settings.policy)
    after = Standing(
        open=docket.open,
        pending=docket.pending,
        next_id=docket.next_id,
        verdicts=verdicts,
        actions=actions,
        flagged=bench.flagged,
        ran=look.ran,
        folds=look.folds,
        closed=standing.closed,
        out=standing.out,
        past=bench.past,
        serial=memory.serial,
        time=now,
    )
    answered = tuple(closing.number for closing in closings)
    notes = tuple(look.found.notes)
    return after, Outcome((*told, *changes), tuple(bench.changed), new, notes, answered)


def _answered(
    standing: Standing, closings: Sequence[Closing], memory: Memory, window: Window
) -> tuple[Standing, list[FindingChange]]:
    """What stands after what people said of it and did with its nodes, and what that closed."""
    touched = memory.touched(standing.serial, window.now)
    out, back = taken_out(standing.out, window, touched)
    said = [*closings, *returned(back, standing.open, window)]
    open_, closed, changes = answer(standing.open, standing.closed, said, window.now)
    return msgspec.structs.replace(standing, open=open_, closed=closed, out=out), changes


class _Look:
    """The detectors' part of a turn: what ran, what it claims, what failed."""

    def __init__(
        self, memory: Memory, standing: Standing, window: Window, settings: Settings
    ) -> None:
        self.memory, self.standing, self.window = memory, standing, window
        self.settings = settings
        self.found = Found()
        self.keys = {held.finding.key for held in standing.open.values()}
        self.ran = dict(standing.ran)
        self.folds: dict[str, Any] = dict(standing.folds)

    def stateless(self) -> None:
        """Run each detector that is due over the window."""
        explained = self._state(EXPLAINED, Explaining())
        held = {finding.key for finding in released(explained)}
        window = replace(
            self.window,
            touched=self.memory.touched(self.standing.serial, self.window.now),
            standing=self.keys | held,
            away=explained.away,
        )
        for plugin in detector:
            if plugin.name in self.settings.off:
                continue
            if not self._due(plugin.name, plugin.every_s, plugin.reads):
                continue
            if self.found.run(plugin.name, partial(plugin.run, window)):
                self.found.reads[plugin.name] = plugin.reads
                self.ran[plugin.name] = self.window.now

    def stateful(self, folded: Folded | None) -> None:
        """Step each stateful detector over what is new, unless another has done so."""
        if folded is None:
            settings, before = self.settings, self.standing
            given = self.memory, before.folds, before.serial, self.window.now
            folded = fold_step(
                *given,
                step_s=settings.step_s,
                false_per_node_day=settings.false_per_node_day,
                off=settings.off,
            )
        self.found.add(folded.found)
        self.folds |= folded.states

    def _state(self, name: str, start: S) -> S:
        state = remembered(self.standing.folds, name, start, self.found.notes)
        self.folds[name] = state
        return state

    def ended(self) -> None:
        """What ended of that which stands and is not claimed anew at every look."""
        standing = [held.finding for held in self.standing.open.values()]
        self.found.run("checks ended", lambda: list(check_recoveries(standing, self.window)))
        if self._due("fault ended", ENDED_EVERY_S):
            held = released(self._state(EXPLAINED, Explaining()))
            every = [*standing, *held]
            self.found.run("fault ended", lambda: list(fault_recoveries(every, self.window)))
            self.ran["fault ended"] = self.window.now

    def explained(self) -> None:
        """Take from the nodes what is no fault of theirs; one look at a fleet has no past."""
        if self.window.single_look:
            return

        def step() -> Sequence[Finding]:
            before = self._state(EXPLAINED, Explaining())
            lasting = {plugin.name for plugin in detector if not plugin.reads}
            given = (
                self.found.claims,
                self.found.recoveries,
                self.standing.open,
                self.window,
                lasting,
            )
            after, self.found.claims, self.found.recoveries = explain(before, *given)
            self.folds[EXPLAINED] = after
            return ()

        self.found.run(EXPLAINED, step)

    def _due(self, name: str, every_s: float, reads: tuple[str, ...] = ()) -> bool:
        last = self.standing.ran.get(name)
        if last is None or not every_s or not self.settings.keep_intervals:
            return True
        if reads and every_s <= PROMPT_S and self.memory.sampled > self.standing.serial:
            return True
        if self.memory.factual > self.standing.serial and all(map(_is_fact, reads)) and reads:
            return True
        return (self.window.now - last).total_seconds() >= every_s


def _is_fact(name: str) -> bool:
    return name.startswith("fact:")


class _Bench:
    """The judge's part of a turn: every node's verdict, and which of them say something new."""

    def __init__(
        self,
        standing: Standing,
        window: Window,
        judging: Judging,
        changes: Iterable[FindingChange],
    ) -> None:
        self.standing, self.window, self.judging = standing, window, judging
        self.closed: dict[str, list[FindingChange]] = {}
        for change in changes:
            if change.change is Change.CLOSE:
                self.closed.setdefault(change.finding.subject.node, []).append(change)
        self.changed: list[Verdict] = []
        self.well: dict[str, Verdict] = {}
        self.past: dict[str, Past] = {}
        self.flagged: dict[str, datetime] = {}
        """Since when each node that is not well has been so."""

    def verdicts(self, findings: Mapping[str, Finding]) -> dict[str, Verdict]:
        """The verdicts by node; one that says nothing new is the one that stood."""
        of_node: dict[str, dict[str, Finding]] = {node: {} for node in self.window.fleet.nodes}
        for id_, finding in findings.items():
            if not finding.subject.by:
                of_node.setdefault(finding.subject.node, {})
                if counts(finding):
                    of_node[finding.subject.node][id_] = finding
        return {node: self._verdict(node, of_node[node]) for node in sorted(of_node)}

    def _verdict(self, node: str, findings: Mapping[str, Finding]) -> Verdict:
        now, seen = self.window.now, node in self.window.seen
        before = self.standing.past.get(node, NO_PAST)
        known = self.window.fleet.nodes.get(node)
        sku = known.sku if known is not None else ""
        if seen and before is NO_PAST and not findings and node not in self.closed:
            return self._well(node, sku)
        past = remember(
            *(before, findings, now),
            closed=self.closed.get(node, ()),
            seen=seen,
            judging=self.judging,
        )
        if past != NO_PAST:
            self.past[node] = past
        new = judge(node, findings, now, seen=seen, past=past, sku=sku, judging=self.judging)
        self._flag(new, before, past)
        return self._stands(new)

    def _well(self, node: str, sku: str) -> Verdict:
        """What is said of any node of a SKU that nothing stands against: most of a fleet."""
        well = self.well.get(sku)
        if well is None:
            well = self.well[sku] = judge(node, {}, self.window.now, sku=sku, judging=self.judging)
        old = self.standing.verdicts.get(node)
        if old is not None and not differs(old, well):
            return old
        return self._stands(msgspec.structs.replace(well, node=node))

    def _stands(self, new: Verdict) -> Verdict:
        old = self.standing.verdicts.get(new.node)
        if differs(old, new):
            self.changed.append(new)
            return new
        return old or new

    def _flag(self, verdict: Verdict, before: Past, past: Past) -> None:
        """A node that is only held for what is gone, and shows something anew, begins anew."""
        if verdict.health not in BAD:
            return
        again = past.evidence in BAD and before.evidence not in BAD
        since = None if again else self.standing.flagged.get(verdict.node)
        self.flagged[verdict.node] = since or self.window.now


def nodes_of(changes: Iterable[FindingChange]) -> set[str]:
    """The nodes that some changes are about; the members of a group each."""
    nodes: set[str] = set()
    for change in changes:
        subject = change.finding.subject
        nodes |= set(subject.members) if subject.by else {subject.node}
    return nodes
