"""A small fleet on which things happen minute by minute, judged by the pure turn."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from bigiron.detect.state import enc_hook
from bigiron.hub.memory import Limits, Memory
from bigiron.hub.turn import Outcome, Settings, Standing, fold_reads, turn
from bigiron.model import (
    Action,
    Batch,
    Change,
    CheckResult,
    Closing,
    Device,
    Event,
    Fact,
    FactValue,
    Finding,
    Health,
    Job,
    Maintenance,
    Node,
    NodeState,
    Sample,
)

T0 = datetime(2026, 5, 4, 8, 0, tzinfo=UTC)
HEARTBEAT = "node_load1"

ADDRESSES = tuple(
    f"0000:{bus:02x}:00.0" for bus in (0x1B, 0x3C, 0x4E, 0x6F, 0x8A, 0x9B, 0xBC, 0xCD)
)


class Stage:
    """``run`` advances a minute at a time: samples, then a turn. What stays true stays said."""

    def __init__(
        self,
        nodes: Iterable[str] = ("a1",),
        *,
        gpus: int = 8,
        sku: str = "box8",
        settings: Settings | None = None,
        step_s: float = 60.0,
        **places: str,
    ) -> None:
        self.settings = settings or Settings(keep_intervals=False)
        self.now = T0
        self.step = timedelta(seconds=step_s)
        self.memory = Memory(Limits(gap_s=step_s / 2), fold_reads())
        self.standing = Standing()
        self.said: dict[tuple[str, str, str], float] = {}
        self.closings: list[Closing] = []
        self.outcomes: list[Outcome] = []
        self.names = tuple(nodes)
        self.memory.take(
            Batch(
                T0,
                nodes=tuple(Node(n, sku=sku, **places) for n in self.names),
                devices=tuple(
                    Device(n, f"gpu{i}", "gpu", f"GPU-{n}-{i}", ADDRESSES[i], "Model M")
                    for n in self.names
                    for i in range(gpus)
                ),
            )
        )
        for node in self.names:
            self.said[node, "", HEARTBEAT] = 1.0

    def says(self, node: str, device: str, **metrics: float) -> None:
        """From now on these metrics have these values."""
        for metric, value in metrics.items():
            self.said[node, device, metric] = value

    def place(self, node: str, **where: str) -> None:
        """Where a node is: rack, leaf, pdu, cooling, ring ..."""
        self.memory.take(Batch(self.now, nodes=(Node(node, **where),)))

    def silent(self, node: str, *metrics: str) -> None:
        """From now on these metrics (or all) of a node are not seen any more."""
        for key in [k for k in self.said if k[0] == node and (not metrics or k[2] in metrics)]:
            del self.said[key]

    def happens(
        self, node: str, code: str, device: str = "", ago_s: float = 0.0, **attrs: str
    ) -> None:
        """A log line that means ``code``."""
        at = self.now - timedelta(seconds=ago_s)
        event = Event(node, code, f"line that means {code}", device, at, attrs=attrs)
        self.memory.take(Batch(self.now, events=(event,)))

    def facts(self, node: str, device: str = "", **facts: FactValue) -> None:
        """Facts read now."""
        told = tuple(Fact(node, k, v, device, self.now) for k, v in facts.items())
        self.memory.take(Batch(self.now, facts=told))

    def take(
        self,
        *,
        jobs: tuple[Job, ...] = (),
        states: tuple[NodeState, ...] = (),
        checks: tuple[CheckResult, ...] = (),
        maintenance: tuple[Maintenance, ...] = (),
    ) -> None:
        """Anything else."""
        self.memory.take(
            Batch(self.now, jobs=jobs, states=states, checks=checks, maintenance=maintenance)
        )

    def closes(self, *ids: str, because: str = "it was changed", ago_s: float = 0.0) -> None:
        """A person says that these findings are over: it is so from the next turn on."""
        at = self.now - timedelta(seconds=ago_s)
        self.closings += [Closing(at, id_, "alice", because, 1) for id_ in ids]

    def run(self, minutes: float = 1) -> Outcome:
        """So much time passes; the last turn's outcome."""
        outcome = Outcome()
        end = self.now + timedelta(minutes=minutes)
        while self.now < end:
            self.now += self.step
            outcome = self.turn()
        return outcome

    def turn(self) -> Outcome:
        """One turn now, through JSON and back: a restart must change nothing."""
        samples = tuple(
            Sample(node, device, metric, value, self.now)
            for (node, device, metric), value in self.said.items()
        )
        self.memory.take(Batch(self.now, samples=samples))
        after, outcome = turn(
            self.memory, self.standing, self.now, self.settings, tuple(self.closings)
        )
        self.closings.clear()
        self.standing = msgspec.json.decode(
            msgspec.json.encode(after, enc_hook=enc_hook), type=Standing
        )
        self.outcomes.append(outcome)
        return outcome

    @property
    def open(self) -> dict[str, Finding]:
        """The standing findings, by fault and subject: ``xid.79 a1/gpu3``."""
        held = (h.finding for h in self.standing.open.values())
        return {f"{f.fault} {f.subject.key}": f for f in held}

    def health(self, node: str) -> Health:
        """How a node stands."""
        return self.standing.verdicts[node].health

    @property
    def actions(self) -> list[Action]:
        """Every action asked for so far, held ones included."""
        return [a for outcome in self.outcomes for a in outcome.actions]

    def changes(self, change: Change) -> list[str]:
        """The faults that opened, were updated or closed so far."""
        return [
            c.finding.fault
            for outcome in self.outcomes
            for c in outcome.changes
            if c.change is change
        ]


def busy(stage: Stage, nodes: Iterable[str], gpus: int = 8, **other: float) -> None:
    """GPUs at ordinary work; ``wobble`` must be called each minute for readings that live."""
    for node in nodes:
        for i in range(gpus):
            stage.says(node, f"gpu{i}", **{**WORK, **other})


WORK: Mapping[str, float] = {
    "gpu_utilization_ratio": 0.97,
    "gpu_power_watts": 610.0,
    "gpu_temp_celsius": 62.0,
    "gpu_sm_clock_hertz": 1.755e9,
}


def wobble(stage: Stage, minute: int) -> None:
    """Readings move a little, each GPU in its own way."""
    for node, device, metric in list(stage.said):
        if metric == "gpu_power_watts":
            shift = (minute * 7 + len(device) + int(device[-1]) * 3) % 11
            stage.says(node, device, gpu_power_watts=605.0 + shift)
