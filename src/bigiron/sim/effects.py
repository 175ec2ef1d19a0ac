"""What an episode does to the machines: effects in force for a time, and single strokes.

Everything that happens acts on the physics and the counters through these alone, so a class
cannot show anything but its own symptoms and what follows from them.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from bigiron.sim.noise import Floats
from bigiron.sim.site import GPUS

ALL: Final = -1
"""Every device of the node."""
FOREVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Effect:
    """``size`` of a ``key`` on a device (or ALL) of nodes, from ``start_s`` to ``end_s``.

    It rises linearly to its size over ``ramp_s`` and falls over ``fall_s`` before its end. With
    ``growth_s`` it doubles every so often instead of staying, at most ``64`` times.
    """

    key: str
    nodes: tuple[int, ...]
    device: int
    size: float
    start_s: float
    end_s: float = FOREVER
    ramp_s: float = 0.0
    fall_s: float = 0.0
    growth_s: float = 0.0

    def level(self, at_s: float) -> float:
        """How much of the effect is in force."""
        since = at_s - self.start_s
        if since < 0 or at_s >= self.end_s:
            return 0.0
        level = self.size
        if self.growth_s:
            level *= min(64.0, 2.0 ** (since / self.growth_s))
        if since < self.ramp_s:
            level *= since / self.ramp_s
        left = self.end_s - at_s
        if left < self.fall_s:
            level *= left / self.fall_s
        return level


@dataclass(frozen=True, slots=True)
class Stroke:
    """Something that is done once at ``at_s``: add to a counter, set a state, move an index."""

    at_s: float
    what: str
    node: int
    device: int = ALL
    value: float = 0.0


class Mods:
    """What is in force at one time, by key, as (nodes, 8); a key without any is all zero."""

    def __init__(self, nodes: int) -> None:
        self._zeros = np.zeros((nodes, GPUS))
        self._zeros.flags.writeable = False
        self._found: dict[str, Floats] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def __getitem__(self, key: str) -> Floats:
        return self._found.get(key, self._zeros)

    def node(self, key: str) -> Floats:
        """The node's own, as (nodes,)."""
        return self[key][:, 0]

    def add(self, effect: Effect, level: float) -> None:
        """Puts so much of an effect in force."""
        where = slice(None) if effect.device == ALL else effect.device
        if effect.key not in self._found:
            self._found[effect.key] = np.zeros_like(self._zeros)
        self._found[effect.key][list(effect.nodes), where] += level


@dataclass(slots=True, repr=False)
class InForce:
    """The effects of a whole history, handed out by time; times must not go back."""

    effects: list[Effect]
    nodes: int
    _next: int = 0
    _active: list[Effect] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.effects = sorted(self.effects, key=lambda e: (e.start_s, e.key, e.nodes, e.device))

    def at(self, time_s: float) -> Mods:
        """The sum of what is in force."""
        while self._next < len(self.effects) and self.effects[self._next].start_s <= time_s:
            self._active.append(self.effects[self._next])
            self._next += 1
        self._active = [e for e in self._active if e.end_s > time_s]
        found = Mods(self.nodes)
        for effect in self._active:
            if level := effect.level(time_s):
                found.add(effect, level)
        return found
