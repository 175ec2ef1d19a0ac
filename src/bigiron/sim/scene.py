"""What an episode can do: break things, end jobs, have a node taken out and brought back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bigiron.sim.cluster import FULL, Cluster
from bigiron.sim.history import History, Truth
from bigiron.sim.streams import lognormal, stream

HOUR_S = 3600.0
REPAIR_H, REPAIR_SPREAD = 5.0, 0.6
"""Median hours and spread of a repair, from drain to the reboot that ends it."""
SWAP_SHARE = 0.35
"""Share of hardware repairs that put another part in."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An episode to come. ``size`` and ``sigma`` None: drawn. ``device`` -1: the node's.

    ``lasts_s``: how long until someone repairs what has not failed (None: not in this recording);
    ``fails_after_s``: how long until it fails (None: it does not).
    """

    kind: str
    at_s: float
    number: int
    node: int = -1
    device: int = -1
    by: str = ""
    group: str = ""
    size: float | None = None
    sigma: float | None = None
    lasts_s: float | None = None
    fails_after_s: float | None = None
    mode: str = ""


@dataclass(slots=True, repr=False)
class Scene:
    """The history in the making, the cluster, and the rate of failures asked for."""

    history: History
    cluster: Cluster
    step_s: float
    rate: float
    """Failures per 1,000 node-days of the rest of the fleet: what a lemon multiplies."""
    noisy: float = 1.0
    """How large the noise is, times the usual: sizes in standard deviations go with it."""

    def rng(self, plan: Plan) -> np.random.Generator:
        """An episode's own stream."""
        return stream(self.history.seed, plan.kind, plan.number)

    def open(
        self,
        plan: Plan,
        at_s: float,
        *,
        label: str = "fault",
        effect: float = 0.0,
        precursor: bool = False,
        members: Sequence[int] = (),
        **extra: Any,
    ) -> Truth:
        """Enters an episode into the truth."""
        names = self.history.site.names
        if members:
            subject: dict[str, Any] = {"kind": "group", "by": plan.by, "group": plan.group}
            subject["members"] = [names[n] for n in members]
        elif plan.device >= 0:
            device = self.device(plan)
            subject = {"kind": "device", "node": names[plan.node], "device": device}
        else:
            subject = {"kind": "node", "node": names[plan.node]}
        if plan.sigma is not None:
            extra["sigma"] = plan.sigma
        truth = Truth(
            *(plan.kind, label, subject, at_s),
            effect=effect,
            precursor=precursor,
            extra={k: v for k, v in extra.items() if v is not None},
        )
        self.history.truths.append(truth)
        return truth

    def device(self, plan: Plan) -> str:
        """The device's name at the moment."""
        if plan.kind in NIC_KINDS:
            return f"nic{plan.device}"
        return f"gpu{self.history.site.index_of(plan.node, plan.device)}"

    def take_out(
        self,
        truth: Truth,
        plan: Plan,
        at_s: float,
        reason: str,
        *,
        kill: str = "",
        word: str = "drain",
        hours: float | None = None,
        swap: bool | None = None,
        reload: bool = False,
        undo: tuple[str, ...] = (),
        then: Callable[[float], None] | None = None,
    ) -> None:
        """Drains a node, repairs it, reboots it, gives it back; then the episode is over.

        ``kill``: the state that running jobs end in; "" lets them finish. ``reload``: a new start
        of the driver does instead of a reboot, where no part is swapped. ``undo``: the effects that
        the repair ends.
        """
        rng = stream(self.history.seed, "repairs", plan.kind, plan.number)
        took = hours if hours is not None else lognormal(rng, REPAIR_H, REPAIR_SPREAD)
        swaps = bool(rng.uniform() < SWAP_SHARE) if swap is None else swap
        minutes = float(rng.uniform(9, 22))
        node, history, cluster = plan.node, self.history, self.cluster

        def drained(time_s: float) -> None:
            if node in cluster.closed:
                history.at(time_s + 1800, drained)
                return
            cluster.close(node, time_s, word, reason)
            if kill:
                cluster.lose(node, time_s, kill, "0:0" if kill == "NODE_FAIL" else "1:0")
            cluster.when_empty(node, time_s, lambda t: history.at(t + HOUR_S * took, mended))

        def mended(time_s: float) -> None:
            if reload and not swaps:
                up_s = history.reload(node, time_s)
            else:
                up_s = history.restart(node, time_s, minutes)
            history.end_effects(node, plan.device, time_s, undo)
            if swaps and plan.device >= 0:
                swap = history.swap_nic if plan.kind in NIC_KINDS else history.swap
                history.at(up_s, partial(swap, node, plan.device))
            if then is not None:
                history.at(up_s, then)
            history.at(up_s + 240, back)

        def back(time_s: float) -> None:
            truth.end_s = time_s
            cluster.open(node, time_s)

        history.at(at_s, drained)

    def lose_jobs(self, node: int, at_s: float, state: str, code: str, socket: int = -1) -> None:
        """Ends what runs on a GPU (or the node); the scheduler queues it again."""
        mask = FULL if socket < 0 else 1 << socket
        self.cluster.lose(node, at_s, state, code, mask=mask)


NIC_KINDS = frozenset({"ib_errors", "ib_link_down", "single_flap"})
