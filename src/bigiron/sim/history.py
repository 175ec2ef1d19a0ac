"""A fleet's history as it unfolds: events in order of time, and what they leave behind.

Times are seconds since the recording's start. Nothing here knows the physics: episodes leave
effects and strokes, from which the telemetry is worked out afterwards.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bigiron.sim import kernel
from bigiron.sim.effects import ALL, FOREVER, Effect, Stroke
from bigiron.sim.site import Site
from bigiron.sim.streams import stream

Action = Callable[[float], None]
DRIVER, OLD_DRIVER, NEW_DRIVER = "570.124.06", "570.86.15", "570.158.01"
KERNEL, OLD_KERNEL = "5.15.0-126-generic", "5.15.0-112-generic"
BIOS, OLD_BIOS, NEW_BIOS = "2.4.1", "2.3.5", "2.5.0"
NIC_FIRMWARE = {"ConnectX-7": "28.39.3004", "ConnectX-6": "20.39.3004"}
NEW_NIC_FIRMWARE = {"ConnectX-7": "28.43.1014", "ConnectX-6": "20.43.1014"}
OLD_NIC_FIRMWARE = {"ConnectX-7": "28.37.1014", "ConnectX-6": "20.37.1014"}


@dataclass(slots=True)
class Truth:
    """One line of truth.jsonl; ``extra`` holds fields beyond those of every line."""

    kind: str
    label: str
    subject: dict[str, Any]
    onset_s: float
    fails_s: float | None = None
    end_s: float | None = None
    effect: float = 0.0
    precursor: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, repr=False)
class History:
    """Everything that happened, filled in by ``run``."""

    site: Site
    seed: int
    start: float
    """Epoch seconds of the recording's start."""
    span_s: float
    effects: list[Effect] = field(default_factory=list)
    strokes: list[Stroke] = field(default_factory=list)
    lines: list[tuple[float, int, str]] = field(default_factory=list)
    facts: list[tuple[float, int, str, dict[str, Any]]] = field(default_factory=list)
    states: list[tuple[float, int, str, str]] = field(default_factory=list)
    maintenance: list[tuple[float, float, tuple[int, ...], str]] = field(default_factory=list)
    truths: list[Truth] = field(default_factory=list)
    drivers: list[str] = field(default_factory=list)
    _heap: list[tuple[float, int, Action]] = field(default_factory=list)
    _serial: int = 0
    _swaps: int = 0

    def __post_init__(self) -> None:
        self.drivers = [DRIVER] * len(self.site.nodes)
        self._chatter()

    def at(self, time_s: float, action: Action) -> None:
        """Does something at a time, unless the recording ends before."""
        if time_s < self.span_s:
            self._serial += 1
            heapq.heappush(self._heap, (time_s, self._serial, action))

    def run(self) -> None:
        """Lets everything happen, in order of time."""
        while self._heap:
            time_s, _, action = heapq.heappop(self._heap)
            action(time_s)

    def effect(
        self,
        key: str,
        node: int | tuple[int, ...],
        size: float,
        start_s: float,
        end_s: float = FOREVER,
        *,
        device: int = ALL,
        ramp_s: float = 0.0,
        fall_s: float = 0.0,
        growth_s: float = 0.0,
    ) -> None:
        """Puts an effect in force."""
        nodes = node if isinstance(node, tuple) else (node,)
        self.effects.append(
            Effect(key, nodes, device, size, start_s, end_s, ramp_s, fall_s, growth_s)
        )

    def end_effects(self, node: int, device: int, time_s: float, keys: tuple[str, ...]) -> None:
        """Ends what is in force there: repaired, or swapped."""
        for k, e in enumerate(self.effects):
            here = e.nodes == (node,) and e.device in (device, ALL) and e.key in keys
            if here and e.start_s <= time_s < e.end_s:
                self.effects[k] = Effect(
                    *(e.key, e.nodes, e.device, e.size, e.start_s, time_s),
                    *(e.ramp_s, 0.0, e.growth_s),
                )

    def stroke(
        self, what: str, node: int, at_s: float, value: float = 0.0, device: int = ALL
    ) -> None:
        """Does something once to the counters and states."""
        self.strokes.append(Stroke(at_s, what, node, device, value))

    def say(self, node: int, at_s: float, *messages: str) -> None:
        """Kernel messages, one after the other."""
        for k, message in enumerate(messages):
            self.lines.append((at_s + k * 1e-3, node, message))

    def tell(self, node: int, at_s: float, lines: kernel.Lines) -> None:
        """Kernel messages with their own times after ``at_s``."""
        self.lines += [(at_s + after, node, message) for after, message in lines]

    def fact(self, node: int, at_s: float, device: str = "", **facts: Any) -> None:
        """Facts as an inventory run found them."""
        self.facts.append((at_s, node, device, facts))

    def state(self, node: int, at_s: float, word: str, reason: str = "") -> None:
        """The scheduler's word on a node."""
        self.states.append((at_s, node, word, reason))

    def restart(self, node: int, down_s: float, minutes: float) -> float:
        """A reboot: silence, a fresh kernel and driver, counters from zero; when it is back."""
        up_s = down_s + 60 * minutes
        self.effect("off.node", node, 1.0, down_s, up_s)
        self.effect("off.dcgm", node, 1.0, down_s, up_s + 75)
        self.stroke("reboot", node, up_s)
        rng = stream(self.seed, "boots", node, int(down_s))
        model = self.site.skus[node].nic
        lines = kernel.start_up(self.site, node, self.drivers[node], KERNEL, NIC_FIRMWARE[model])
        self.at(up_s, lambda t: self.tell(node, t, lines))
        self.at(up_s, lambda t: self.fact(node, t, boot_id=rng.bytes(8).hex()))
        return up_s

    def reload(self, node: int, at_s: float) -> float:
        """The driver is loaded again, without a reboot: the GPUs' volatile counters start from
        zero, their samples are away for some minutes; when it is done."""
        up_s = at_s + 90
        self.effect("off.dcgm", node, 1.0, at_s, up_s + 75)
        self.stroke("reload", node, up_s)
        self.at(up_s, lambda t: self.say(node, t, kernel.loading(self.drivers[node])))
        return up_s

    def swap_nic(self, node: int, nic: int, at_s: float) -> None:
        """Another NIC in the slot."""
        rng = stream(self.seed, "swaps", node, f"nic{nic}", self._swaps)
        self._swaps += 1
        self.site.guids[node][nic] = guid = f"0x{rng.integers(2**62):016x}"
        self.fact(node, at_s, f"nic{nic}", guid=guid)

    def swap(self, node: int, socket: int, at_s: float) -> None:
        """Another GPU in the socket: identity and temper are new."""
        rng = stream(self.seed, "swaps", node, socket, self._swaps)
        self._swaps += 1
        site = self.site
        site.uuids[node][socket] = f"GPU-{_uuid(rng)}"
        site.serials[node][socket] = f"16{rng.integers(10**11):011d}"
        self.stroke("swap", node, at_s, float(rng.integers(2**31)), socket)
        index = site.index_of(node, socket)
        self.fact(
            *(node, at_s, f"gpu{index}"),
            uuid=site.uuids[node][socket],
            serial=site.serials[node][socket],
        )

    def _chatter(self) -> None:
        rng = stream(self.seed, "chatter")
        nodes = len(self.site.nodes)
        count = rng.poisson(kernel.CHATTER_PER_NODE_HOUR * nodes * self.span_s / 3600)
        times = rng.uniform(0, self.span_s, count)
        where = rng.integers(nodes, size=count)
        for at_s, node in zip(times, where, strict=True):
            self.lines.append((float(at_s), int(node), kernel.chatter(rng)))


def _uuid(rng: np.random.Generator) -> str:
    digits = rng.bytes(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
