"""What really happened in a recording, and by when a finding on it is still useful.

The classes and hours are those of docs/formats.md ("Classes of episodes"). Times are seconds since
1970.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bigiron.model import Subject

USEFUL_H: Mapping[str, float] = MappingProxyType(
    {
        "thermal_degradation": 240,
        "fan_failure": 24,
        "power_brake": 96,
        "slow_clock": 72,
        "straggler": 96,
        "pcie_downtrain": 6,
        "pcie_replay": 120,
        "hbm_correctable": 144,
        "hbm_remap": 168,
        "hbm_uncorrectable": 0.25,
        "nvlink_errors": 72,
        "nvlink_fail": 0.25,
        "ib_errors": 72,
        "ib_link_down": 0.25,
        "gpu_off_bus": 0.25,
        "gsp_timeout": 0.25,
        "node_crash": 0.5,
        "driver_hang": 1,
        "config_drift": 6,
        "lemon": math.inf,
        "cooling_excursion": 3,
        "leaf_bad": 4,
        "pdu_blip": 0.5,
    }
)
"""Hours after the onset by which a finding is still useful."""

NOT_SCORED = frozenset({"unattributed_failure"})
"""Nothing could say whose fault it was: neither found nor missed, and no suspect there is false."""

SHARED = frozenset({"cooling_excursion", "leaf_bad", "pdu_blip"})
"""One shared part: the group is to be named, and no member is to blame, whatever the label."""

SLOWER = frozenset({"slow_clock", "straggler"})
"""Classes whose effect is a loss of speed."""

AFTER_FAILURE_S = 900.0
"""An episode with a precursor that fails: a finding is useful until this long after the failure."""

AFTER_END_S = 3600.0
"""What is raised this soon after an episode's end is still about it: a repair's own traces."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One line of truth.jsonl. ``nodes`` are the subject's node or the group's members.

    ``strength`` says how large a gradual fault is ("3 sigma", "5 % slower"), where that is known.
    """

    name: str
    kind: str
    fault: bool
    subject: Subject
    onset_s: float
    fails_s: float | None = None
    end_s: float | None = None
    precursor: bool = False
    nodes: tuple[str, ...] = ()
    strength: str = ""

    @property
    def shared(self) -> bool:
        """Whether a group is to be named and no member to be blamed."""
        return self.kind in SHARED and bool(self.subject.by)

    @property
    def scored(self) -> bool:
        """Whether it can be found or missed."""
        return self.shared or (self.fault and self.kind not in NOT_SCORED)

    @property
    def blames_node(self) -> bool:
        """Whether a suspect on its node is right while it lasts."""
        return self.fault and not self.shared and not self.subject.by

    def deadline_s(self) -> float:
        """The last moment at which a finding is still useful; infinite for a lemon."""
        if self.precursor and self.fails_s is not None:
            return self.fails_s + AFTER_FAILURE_S
        return self.onset_s + 3600.0 * USEFUL_H.get(self.kind, math.inf)

    def lasts(self, time_s: float) -> bool:
        """Whether it is going on at a time, or ended less than an hour before."""
        end = math.inf if self.end_s is None else self.end_s + AFTER_END_S
        return self.onset_s <= time_s <= end


def strength(kind: str, effect: float, sigma: float | None) -> str:
    """How large a fault is, in words; "" where its size has no common measure.

    ``sigma`` is in standard deviations of the hourly short-term noise; ``effect`` of what slows a
    node down is the share of its speed that is lost.
    """
    if sigma is not None:
        return f"{sigma:g} sigma"
    return f"{effect:.0%} slower".replace("%", " %") if kind in SLOWER and effect > 0 else ""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A finding when it first was a warning or worse."""

    time_s: float
    id: str
    detector: str
    fault: str
    subject: Subject


@dataclass(frozen=True, slots=True)
class Drain:
    """A node that was asked to be drained."""

    time_s: float
    node: str


@dataclass(frozen=True, slots=True)
class Scene:
    """The fleet and the stretch of time that is judged."""

    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float

    @property
    def days(self) -> float:
        """How long each node was watched."""
        return max(0.0, self.end_s - self.start_s) / 86_400
