"""Measures the live hub: 64 nodes of 8 GPUs with 60 metrics each, a growing log beside them.

Prints the time of a turn, the memory in use, and how long a fault takes from its line in the log,
or its sample on the exporter's page, to its finding in the ledger. Usage: hub.py [SECONDS].
"""

import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bigiron.hub.loop import Hub
from bigiron.hub.memory import Limits
from bigiron.hub.meters import percentile, resident_bytes
from bigiron.hub.poller import Arrival
from bigiron.hub.runner import Pace, run
from bigiron.model import Batch, Change, Device, Event, FindingChange, Node, Sample
from bigiron.signals import SIGNALS
from bigiron.store.ledger import Ledger
from bigiron.store.samples import Samples

NODES, GPUS, METRICS, EVERY_S = 64, 8, 60, 15.0
NAMES = [f"n{n:03d}" for n in range(NODES)]
DEVICES = [f"gpu{g}" for g in range(GPUS)]
BAD = "gpu_row_remap_failure"
METRIC_NAMES = [BAD, *(n for n in SIGNALS if n.startswith("gpu_") and n != BAD)][:METRICS]
HISTORY = timedelta(minutes=30)
CALM = {"gpu_temp_celsius": 55.0, "gpu_memory_temp_celsius": 60.0, "gpu_power_watts": 400.0}


class Fleet:
    """A scraped fleet in good health; ``break_one`` makes one GPU report a failed row remap."""

    name = "scrape"
    every_s = EVERY_S

    def __init__(self) -> None:
        self.broken: dict[tuple[str, str], float] = {}
        self.shown: dict[str, float] = {}

    def poll(self, _: str) -> tuple[Batch, str]:
        """The whole fleet's samples now."""
        now = datetime.now(UTC)
        for (node, device), at in self.broken.items():
            self.shown.setdefault(f"{node}/{device}", max(at, time.monotonic()))
        return self.batch(now), ""

    def batch(self, now: datetime) -> Batch:
        """The whole fleet's samples at a time."""
        return Batch(
            now,
            self.name,
            nodes=tuple(Node(name, rack=f"r{n // 8}") for n, name in enumerate(NAMES)),
            devices=tuple(Device(n, d, "gpu") for n in NAMES for d in DEVICES),
            samples=tuple(self._samples(now)),
        )

    def break_one(self, node: str, device: str) -> None:
        """From the next scrape on."""
        self.broken[node, device] = time.monotonic()

    def _samples(self, now: datetime) -> Iterator[Sample]:
        for metric in METRIC_NAMES:
            calm = CALM.get(metric, 0.0)
            for node in NAMES:
                for device in DEVICES:
                    bad = metric == BAD and (node, device) in self.broken
                    yield Sample(node, device, metric, 1.0 if bad else calm, now)


class Log:
    """A log that grows; each line is an XID 79 of a node of its own."""

    name = "kern.log"
    every_s = 0.25

    def __init__(self) -> None:
        self.written: list[tuple[str, str, float]] = []
        self._lock = threading.Lock()

    def write(self, node: str, device: str) -> None:
        """Add a line now."""
        with self._lock:
            self.written.append((node, device, time.monotonic()))

    def poll(self, cursor: str) -> tuple[Batch, str]:
        """The lines after ``cursor``."""
        now = datetime.now(UTC)
        start = int(cursor or 0)
        with self._lock:
            lines = self.written[start:]
        text = "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."
        events = tuple(
            Event(node, "xid.79", text, device, now, source=self.name, line=start + i + 1)
            for i, (node, device, _) in enumerate(lines)
        )
        return Batch(now, self.name, events=events), str(start + len(lines))


def fill(hub: Hub, fleet: Fleet, now: datetime) -> list[float]:
    """Give the hub half an hour of history; seconds of each turn."""
    took = []
    at = now - HISTORY
    while at < now:
        arrival = Arrival(fleet.name, fleet.batch(at), "", 0.0)
        began = time.monotonic()
        hub.step([arrival], at)
        took.append(time.monotonic() - began)
        at += timedelta(seconds=EVERY_S)
    return took


def faults(log: Log, fleet: Fleet, stop: threading.Event) -> None:
    """Break things at random moments, each once."""
    chance = random.Random(7)
    parts = [(node, device) for node in NAMES for device in DEVICES]
    chance.shuffle(parts)
    for number, (node, device) in enumerate(parts):
        if stop.wait(chance.uniform(0.05, 0.4)):
            return
        if number % 4:
            log.write(f"m{number:03d}", device)
        else:
            fleet.break_one(node, device)


def main() -> None:
    """Run and print."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    found: dict[tuple[str, str], float] = {}

    def tell(change: FindingChange) -> None:
        if change.change is Change.OPEN:
            subject, fault = change.finding.subject, change.finding.fault
            found.setdefault((subject.key, fault), time.monotonic())

    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder)) as ledger:
        fleet, log, stop = Fleet(), Log(), threading.Event()
        now = datetime.now(UTC)
        samples = Samples(Path(folder) / "samples")
        hub = Hub(ledger, now - HISTORY, limits=Limits(series_s=1800.0), samples=samples, tell=tell)
        began = time.process_time()
        turns = fill(hub, fleet, now)
        used = time.process_time() - began
        print(
            f"turn with a scrape of {NODES * GPUS * METRICS} samples: "
            f"p50 {percentile(turns, 0.5):.3f} s, p99 {percentile(turns, 0.99):.3f} s, "
            f"processor {used / len(turns):.3f} s"
        )
        print(f"resident with {HISTORY} of history: {resident_bytes() / 1e6:.0f} MB")
        breaker = threading.Thread(target=faults, args=(log, fleet, stop), daemon=True)
        threading.Timer(seconds, stop.set).start()
        breaker.start()
        began, used = time.monotonic(), time.process_time()
        run(hub, [fleet, log], Pace(0.5), stop)
        share = (time.process_time() - used) / (time.monotonic() - began)
        report(found, log, fleet, time.monotonic() - 3.0)
        print(
            f"resident at the end: {resident_bytes() / 1e6:.0f} MB; processor {share:.0%} of a core"
        )


def report(found: dict[tuple[str, str], float], log: Log, fleet: Fleet, until: float) -> None:
    """Print latencies of what was written before ``until``."""
    lines = [
        found.get((f"{node}/{device}", "xid.79"), float("inf")) - at
        for node, device, at in log.written
        if at < until
    ]
    print(
        f"log line to finding, {len(lines)} lines: p50 {percentile(lines, 0.5):.2f} s, "
        f"p99 {percentile(lines, 0.99):.2f} s, max {max(lines, default=0):.2f} s"
    )
    pages = [
        found.get((key, "gpu.row_remap_failure"), float("inf")) - at
        for key, at in fleet.shown.items()
        if at < until
    ]
    print(
        f"scrape to finding, {len(pages)} samples: p50 {percentile(pages, 0.5):.2f} s, "
        f"p99 {percentile(pages, 0.99):.2f} s, max {max(pages, default=0):.2f} s"
    )


if __name__ == "__main__":
    main()
