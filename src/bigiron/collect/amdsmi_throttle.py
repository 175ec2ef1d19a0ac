"""How long an AMD GPU was held back, and by what.

The firmware counts its own rounds (``accumulation_counter``) and those in which a limit held
(``..._residency_acc``); their ratio between two looks is the share of that time (AMD SMI
documentation, GPU violations). A round has no stated length, so shares become seconds by the
driver's clock. The totals begin at 0 with this program: they are counters like any other.

``amdsmi_get_violation_status`` tells the same, but sleeps 100 ms a GPU to do so.
"""

from collections import deque
from collections.abc import Iterator, Set

from bigiron.collect.amdsmi_gpu import Gpu
from bigiron.collect.amdsmi_library import counted
from bigiron.model import Event, Sample

CAUSES = {
    "ppt": ("power", ""),
    "socket_thm": ("thermal", "socket too hot"),
    "prochot": ("hw_thermal", "processor hot"),
    "vr_thm": ("vr_thermal", "voltage regulator too hot"),
    "hbm_thm": ("memory_thermal", "HBM too hot"),
}
"""The firmware's word, ours, and what heat it is. Held to its power limit a GPU is well."""

GIVES = frozenset(f"gpu_throttle_{ours}_seconds_total" for ours, _ in CAUSES.values())

WINDOW_S = 300.0
SUSTAINED = 0.5
"""Half of five minutes in violation is not well (OCI, GPU health checks); less comes and goes."""
LOOKS_MOST = 64

_Look = tuple[float, float, dict[str, float]]
"""The driver's clock in seconds, its rounds, and those held by each cause."""


class Throttle:
    """What is known between looks of one GPU."""

    def __init__(self) -> None:
        self._last: _Look | None = None
        self._total: dict[str, float] = {}
        self._recent: deque[tuple[float, dict[str, float]]] = deque(maxlen=LOOKS_MOST)
        """Of the last looks, seconds and those of them that each cause held."""

    def look(self, gpu: Gpu, leave: Set[str] = frozenset()) -> Iterator[Sample | Event]:
        """Seconds by cause, and an event of sustained heat or, of an MI200, of any limit."""
        now = _look(gpu.metrics)
        if now is not None:
            self._add(now)
            for cause in now[2]:
                metric = f"gpu_throttle_{CAUSES[cause][0]}_seconds_total"
                if metric not in leave:
                    yield Sample("", gpu.device, metric, self._total.setdefault(cause, 0.0))
            yield from self._hot(gpu.device)
        elif gpu.metrics.get("throttle_status") is True:
            text = f"{gpu.device}: its clocks are held down by one of its limits"
            yield Event("", "amdgpu.throttled", text, gpu.device, source="amdsmi")

    def _add(self, now: _Look) -> None:
        last, self._last = self._last, now
        if last is None or not (now[0] > last[0] and now[1] > last[1]):
            return
        span, rounds = now[0] - last[0], now[1] - last[1]
        held: dict[str, float] = {}
        for cause, count in now[2].items():
            grown = count - last[2].get(cause, count)
            held[cause] = span * min(1.0, max(0.0, grown / rounds))
            self._total[cause] = self._total.get(cause, 0.0) + held[cause]
        self._recent.append((span, held))
        while sum(span for span, _ in self._recent) - self._recent[0][0] >= WINDOW_S:
            self._recent.popleft()

    def _hot(self, device: str) -> Iterator[Event]:
        span = sum(span for span, _ in self._recent)
        if span < WINDOW_S:
            return
        shares = {
            cause: sum(held.get(cause, 0.0) for _, held in self._recent) / span
            for cause, (_, heat) in CAUSES.items()
            if heat
        }
        worst = max(shares, key=lambda cause: shares[cause])
        if shares[worst] >= SUSTAINED:
            share = f"{shares[worst]:.0%} of the last {span / 60:.0f} minutes"
            text = f"{device} throttles: {CAUSES[worst][1]} ({share})"
            attrs = {"violation": worst, "share": f"{shares[worst]:.2f}"}
            yield Event("", "clock.hw_thermal", text, device, source="amdsmi", attrs=attrs)


def _look(told: dict[str, object]) -> _Look | None:
    rounds, clock = (
        counted(told.get("accumulation_counter")),
        counted(told.get("system_clock_counter")),
    )
    if rounds is None or clock is None:
        return None
    counts = {cause: counted(told.get(f"{cause}_residency_acc")) for cause in CAUSES}
    return clock * 1e-9, rounds, {cause: n for cause, n in counts.items() if n is not None}
