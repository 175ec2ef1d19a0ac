"""What the ledger already holds as it stands, so that only what is new is written.

An exporter repeats every fact at every scrape; writing them all again would be most of the work.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import msgspec

from bigiron.model import Batch, Device, Fact, FactValue, Job, Node, NodeState, Note, Verdict
from bigiron.store.rows import attempt_of

JOBS_REMEMBERED = 100_000
NOTES_KEPT = 10_000
"""Distinct notes that are kept apart; further ones are counted together for their source."""
OTHER_NOTES = "further notes of other kinds"

NodeOrDevice = TypeVar("NodeOrDevice", Node, Device)
FactKey = tuple[str, str, str]


@dataclass(slots=True)
class Delta:
    """What some batches say that was not known before."""

    nodes: dict[str, Node] = field(default_factory=dict)
    devices: dict[tuple[str, str], Device] = field(default_factory=dict)
    facts: dict[FactKey, tuple[FactValue, datetime]] = field(default_factory=dict)
    states: dict[str, tuple[NodeState, datetime]] = field(default_factory=dict)
    state_changes: list[tuple[NodeState, datetime]] = field(default_factory=list)
    fact_changes: list[tuple[FactKey, FactValue, datetime]] = field(default_factory=list)
    jobs: dict[tuple[str, str], Job] = field(default_factory=dict)
    notes: dict[tuple[str, str], int] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)


@dataclass(slots=True)
class Known:
    """The current rows, as far as they decide what is new."""

    nodes: dict[str, Node] = field(default_factory=dict)
    devices: dict[tuple[str, str], Device] = field(default_factory=dict)
    facts: dict[FactKey, FactValue] = field(default_factory=dict)
    states: dict[str, NodeState] = field(default_factory=dict)
    jobs: dict[tuple[str, str], int] = field(default_factory=dict)
    notes: set[tuple[str, str]] = field(default_factory=set)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def compare(self, batch: Batch, delta: Delta) -> None:
        """Add to ``delta`` what this batch says that neither it nor the ledger holds."""
        for node in batch.nodes:
            before = delta.nodes.get(node.name) or self.nodes.get(node.name)
            if (merged := _merged(before, node)) != before:
                delta.nodes[node.name] = merged
        for device in batch.devices:
            at = (device.node, device.name)
            had = delta.devices.get(at) or self.devices.get(at)
            if (new := _merged(had, device)) != had:
                delta.devices[at] = new
        for fact in batch.facts:
            self._compare_fact(fact, batch.time, delta)
        for state in batch.states:
            self._compare_state(state, batch.time, delta)
        for job in batch.jobs:
            at_job = (job.id, attempt_of(job))
            if self.jobs.get(at_job) != hash(job):
                delta.jobs[at_job] = job
        for note in batch.notes:
            self.count(note, delta)

    def count(self, note: Note, delta: Delta) -> None:
        """Add a note to its count."""
        at = (note.source, note.what)
        if at not in self.notes and len(self.notes) + len(delta.notes) >= NOTES_KEPT:
            at = (note.source, OTHER_NOTES)
        delta.notes[at] = delta.notes.get(at, 0) + note.count

    def compare_verdict(self, verdict: Verdict, delta: Delta) -> None:
        """Add a verdict that says something else than the one that stands."""
        before = self.verdicts.get(verdict.node)
        if before is verdict:
            return
        if before is None or _said(before) != _said(verdict):
            delta.verdicts[verdict.node] = verdict

    def learn(self, delta: Delta) -> None:
        """Remember what has been committed."""
        self.nodes.update(delta.nodes)
        self.devices.update(delta.devices)
        self.facts.update({at: value for at, (value, _) in delta.facts.items()})
        self.states.update({node: state for node, (state, _) in delta.states.items()})
        if len(self.jobs) > JOBS_REMEMBERED:
            self.jobs.clear()
        self.jobs.update({at: hash(job) for at, job in delta.jobs.items()})
        self.notes.update(delta.notes)
        self.verdicts.update(delta.verdicts)

    def _compare_fact(self, fact: Fact, seen: datetime, delta: Delta) -> None:
        at = (fact.node, fact.device, fact.name)
        before = delta.facts[at][0] if at in delta.facts else self.facts.get(at)
        if before != fact.value or type(before) is not type(fact.value):
            delta.facts[at] = (fact.value, fact.time or seen)
            delta.fact_changes.append((at, *delta.facts[at]))

    def _compare_state(self, state: NodeState, seen: datetime, delta: Delta) -> None:
        had = delta.states.get(state.node)
        before = had[0] if had else self.states.get(state.node)
        if before is None or _word(before) != _word(state):
            delta.states[state.node] = (state, state.time or seen)
            delta.state_changes.append(delta.states[state.node])


def _word(state: NodeState) -> tuple[object, ...]:
    return state.state, state.reason, state.by, state.flags


def _said(verdict: Verdict) -> tuple[object, ...]:
    """What a verdict says; a probability that moves by less than 0.001 says the same."""
    p = round(verdict.p_fail_24h, 3), round(verdict.p_fail_7d, 3)
    return verdict.health, p, verdict.findings, verdict.because, verdict.held_until


def _merged(before: NodeOrDevice | None, said: NodeOrDevice) -> NodeOrDevice:
    """``said`` where it says something, what was known before where it does not."""
    if before is None:
        return said
    return msgspec.structs.replace(
        before, **{name: value for name in said.__struct_fields__ if (value := getattr(said, name))}
    )
