"""The stateful detectors' part of a turn: hygiene, then every fold over the cleaned step.

It needs nothing of what stands but the folds' own states, so that a replay can let another
process run ahead with it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from bigiron.detect import Block, StatefulDetector, fold
from bigiron.detect.hygiene import Clean
from bigiron.detect.state import dec_hook
from bigiron.hub.memory import Memory
from bigiron.model import Finding, Note, Recovery
from bigiron.registry import Plugin

S = TypeVar("S")

HYGIENE = "hygiene"
"""Its state is kept among the folds'."""


@dataclass(slots=True)
class Found:
    """What detectors claim, what they saw end, which of them ran and read what, what failed."""

    claims: list[Finding] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def run(self, name: str, run: Callable[[], Iterable[Finding | Recovery]]) -> bool:
        """Whether a detector ran; one that fails is noted, and what it found before stands."""
        try:
            found = list(run())
        except Exception as error:  # noqa: BLE001  (one detector's bug must not stop the others)
            what = f"failed: {type(error).__name__}: {error}"
            self.notes.append(Note(f"detector {name}", what))
            return False
        for one in found:
            if isinstance(one, Finding):
                self.claims.append(one)
            else:
                self.recoveries.append(one)
        return True

    def add(self, other: "Found") -> None:
        """What others found, after what was found so far."""
        self.claims += other.claims
        self.recoveries += other.recoveries
        self.reads |= other.reads
        self.notes += other.notes


@dataclass(slots=True)
class Folded:
    """What the folds found at a step, and their states after it."""

    found: Found = field(default_factory=Found)
    states: dict[str, Any] = field(default_factory=dict)


def fold_step(
    memory: Memory,
    states: Mapping[str, Any],
    since: int,
    now: datetime,
    *,
    step_s: float,
    false_per_node_day: float,
    off: Iterable[str] = (),
) -> Folded:
    """Step each stateful detector over what came after the batch numbered ``since``."""
    block = memory.block(since, now)
    block = replace(block, step_s=step_s, false_per_node_day=false_per_node_day)
    return _Folding(block, states, frozenset(off)).run()


def remembered(states: Mapping[str, Any], name: str, start: S, notes: list[Note]) -> S:
    """What a fold remembers; ``start`` if nothing yet, or nothing this version can read."""
    state = states.get(name, start)
    if isinstance(state, type(start)):
        return state
    try:
        return msgspec.convert(state, type(start), dec_hook=dec_hook)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        what = f"what it remembered cannot be read ({error}); it starts anew"
        notes.append(Note(f"detector {name}", what))
        return start


class _Folding:
    def __init__(self, block: Block, states: Mapping[str, Any], off: frozenset[str]) -> None:
        self._block, self._before, self._off = block, states, off
        self._folded = Folded()

    def run(self) -> Folded:
        found = self._folded.found
        found.run(HYGIENE, self._clean)
        for plugin in fold:
            if plugin.name in self._off:
                continue
            if found.run(plugin.name, partial(self._step, plugin)):
                found.reads[plugin.name] = plugin.reads
        return self._folded

    def _clean(self) -> tuple[Finding, ...]:
        from bigiron.detect.hygiene.clean import clean  # it needs numpy
        from bigiron.detect.hygiene.state import State

        told: Clean | None
        state, told = clean(self._state(HYGIENE, State()), self._block)
        self._folded.states[HYGIENE] = state
        self._block = replace(self._block, clean=told)
        return ()

    def _step(self, plugin: Plugin[[], StatefulDetector[Any]]) -> list[Finding | Recovery]:
        folding = plugin.run()
        before = self._state(plugin.name, folding.start(self._block.fleet))
        state, found = folding.step(before, self._block)
        self._folded.states[plugin.name] = state
        return found

    def _state(self, name: str, start: S) -> S:
        state = remembered(self._before, name, start, self._folded.found.notes)
        self._folded.states[name] = state
        return state
