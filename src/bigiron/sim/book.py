"""Plans in the making: who is booked when, so that a node has one episode at a time."""

from dataclasses import dataclass, field

import numpy as np

from bigiron.sim.scene import Plan
from bigiron.sim.site import GPUS, Site
from bigiron.sim.streams import stream

NODE_KINDS = frozenset(
    {
        *("fan_failure", "power_brake", "straggler", "node_crash", "driver_hang", "lemon"),
        *("unattributed_failure", "exporter_restart", "exporter_death", "operator_drain"),
        "reenumeration",
    }
)
"""Classes of a node as a whole; config_drift is of either."""


@dataclass(slots=True, repr=False)
class Book:
    """Plans made so far. Every class draws from a stream of its own, and counts for itself."""

    site: Site
    seed: int
    span_s: float
    rate: float = 0.0
    """Failures per 1,000 node-days of a node that is no lemon."""
    plans: list[Plan] = field(default_factory=list)
    _booked: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def rng(self, kind: str) -> np.random.Generator:
        """A class's own stream."""
        return stream(self.seed, "plans", kind)

    def add(
        self,
        kind: str,
        rng: np.random.Generator,
        at_s: float,
        holds_s: float,
        *,
        size: float | None = None,
        sigma: float | None = None,
        lasts_s: float | None = None,
        fails_after_s: float | None = None,
        mode: str = "",
        whole: bool | None = None,
    ) -> bool:
        """Plans an episode on a node that is free for as long as it holds it; False: none is.

        ``whole``: of the node as such, not of a device; None leaves it to the class.
        """
        node = self._node(rng, at_s, at_s + holds_s)
        device = int(rng.integers(GPUS))
        if whole is None:
            whole = kind in NODE_KINDS or (kind == "config_drift" and rng.uniform() < 0.5)
        if whole:
            device = -1
        if node is None:
            return False
        self.plans.append(
            Plan(
                *(kind, at_s, self._number(kind), node, device),
                size=size,
                sigma=sigma,
                lasts_s=lasts_s,
                fails_after_s=fails_after_s,
                mode=mode,
            )
        )
        return True

    def add_group(self, kind: str, rng: np.random.Generator, at_s: float, by: str) -> None:
        """Plans an episode of a group, drawn among those of at least two nodes."""
        groups = [name for name, nodes in self.site.groups(by).items() if name and len(nodes) > 1]
        if groups:
            group = groups[int(rng.integers(len(groups)))]
            self.plans.append(Plan(kind, at_s, self._number(kind), by=by, group=group))

    def add_site(self, kind: str, at_s: float, by: str, group: str) -> None:
        """Plans what has no node or group to draw."""
        self.plans.append(Plan(kind, at_s, self._number(kind), by=by, group=group))

    def _number(self, kind: str) -> int:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return self._counts[kind]

    def _node(self, rng: np.random.Generator, begin_s: float, end_s: float) -> int | None:
        for node in rng.permutation(len(self.site.nodes)):
            taken = self._booked.setdefault(int(node), [])
            if all(end_s < a or b < begin_s for a, b in taken):
                taken.append((begin_s, end_s))
                return int(node)
        return None
