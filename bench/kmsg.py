"""Kernel messages followed: how soon a fault line is an event, and what a flood costs.

    python bench/kmsg.py [--seconds 5] [--faults 200]

Another process writes records as /dev/kmsg gives them into a socket that stands for the ring: it
holds a few hundred records as a small ring does, and makes the writer wait instead of losing any.
Fault lines carry when they were written. CPU is of the follower alone, all of it.
"""

import argparse
import multiprocessing
import os
import random
import resource
import socket
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bigiron.collect.kmsg import Kmsg
from bigiron.collect.kmsg_ring import Device
from bigiron.host import Host
from bigiron.model import Event

QUIET = (
    "br-3f21: port 2(veth{n:x}) entered forwarding state",
    "perf: interrupt took too long ({n} > {n}), lowering kernel.perf_event_max_sample_rate",
    "TCP: request_sock_TCP: Possible SYN flooding on port {n}. Sending cookies.",
    "audit: type=1400 audit(1772323200.{n}:{n}): apparmor=\"STATUS\" operation=\"profile_load\"",
    "nvidia-nvswitch2: open (major=510)",
)  # fmt: skip
STORM = "NVRM: Xid (PCI:0000:1b:00): 31, pid={n}, name=python3, Ch 00000007, MMU Fault"


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=5.0)
    options.add_argument("--faults", type=int, default=200)
    chosen = options.parse_args()
    cases = (
        ("quiet", 0, QUIET),
        ("1,000 lines/s", 1_000, QUIET),
        ("100,000 lines/s", 100_000, QUIET),
        ("as fast as it goes", 10_000_000, QUIET),
        ("as fast, all faults", 10_000_000, (STORM,)),
    )
    head = f"{'case':22}{'lines/s':>10}{'us/line':>9}{'CPU':>7}{'events':>8}"
    print(f"{head}{'fault to event: p50':>21}{'p99 ms':>8}{'RSS MiB':>9}")
    for title, rate, words in cases:
        lines, cpu_s, wall_s, events, waits = measure(rate, words, chosen.seconds, chosen.faults)
        p50 = statistics.median(waits) * 1e3
        p99 = sorted(waits)[max(0, round(len(waits) * 0.99) - 1)] * 1e3
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{title:22}{lines / wall_s:>10,.0f}{cpu_s / lines * 1e6:>9.2f}{cpu_s / wall_s:>7.1%}"
            f"{events:>8,}{p50:>21.1f}{p99:>8.1f}{rss:>9.0f}",
            flush=True,
        )


def measure(
    rate: int, words: tuple[str, ...], seconds: float, faults: int
) -> tuple[int, float, float, int, list[float]]:
    """Lines, CPU and wall seconds, events, and each fault line's seconds until it was an event."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * 1024 * 1024)
    ours.setblocking(False)
    kmsg = Kmsg(Host(), open_ring=lambda _: Device(os.dup(ours.fileno())))
    kmsg.poll("", 0.0)
    writer = multiprocessing.get_context("fork").Process(
        target=write, args=(theirs, rate, words, seconds, faults)
    )
    writer.start()
    theirs.close()
    waits: list[float] = []
    events, cursor = 0, ""
    wall, cpu = time.monotonic(), time.process_time()
    while time.monotonic() - wall < seconds + 1.5 and (writer.is_alive() or len(waits) < faults):
        seen, cursor = kmsg.poll(cursor, 0.5)
        now = time.monotonic()
        for one in seen:
            if isinstance(one, Event):
                events += one.count
                if one.code == "xid.79":
                    waits.append(now - float(one.attrs["pid"]) / 1e6)
    spent, took = time.process_time() - cpu, time.monotonic() - wall
    writer.join()
    kmsg.close()
    lines = int(cursor.rpartition(":")[2]) if cursor else 0
    return lines, spent, took, events, waits


def write(
    there: socket.socket, rate: int, words: tuple[str, ...], seconds: float, faults: int
) -> None:
    """Lines at a rate, and among them so many faults that tell when they were written."""
    texts = [random.Random(n).choice(words).format(n=n) for n in range(5000)]
    start, at = time.monotonic(), 0
    due = iter_times(start, seconds, faults)
    next_fault = next(due)
    while (now := time.monotonic()) < start + seconds:
        if now >= next_fault:
            bus = f"{at % 200 + 16:02x}"
            said = (
                f"NVRM: Xid (PCI:0000:{bus}:00): 79, pid={int(now * 1e6)}, name=a, GPU has fallen"
            )
            there.send(f"4,{at},{at},-;{said} off the bus.\n".encode())
            at += 1
            next_fault = next(due)
        behind = min(200, int((now - start) * rate) - at)
        for _ in range(behind):
            there.send(f"6,{at},{at},-;{texts[at % 5000]}\n".encode())
            at += 1
        if behind <= 0:
            time.sleep(0.0005)


def iter_times(start: float, seconds: float, faults: int) -> Iterator[float]:
    """When the faults are due; then never."""
    for number in range(faults):
        yield start + (number + 0.5) * seconds * 0.95 / faults
    while True:
        yield float("inf")


if __name__ == "__main__":
    if not Path("/proc/sys/kernel/random/boot_id").exists():
        raise SystemExit("needs Linux")
    main()
