"""Processes stuck in the kernel.

A process that waits uninterruptibly (state D) and uses no processor time from look to look is
stuck: in a driver that does not answer, or on storage that is away. The kernel's own watch
(``hung_task``) is off on many hosts and stops talking after ten lines. Main threads only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic

from bigiron.collect import Seen, collector
from bigiron.collect.processes import Process, Processes, processes
from bigiron.collect.standing import standing
from bigiron.host import Host
from bigiron.model import Event, Sample

SCAN_EVERY_S = 300.0
STUCK_S = 120.0
"""The kernel's own limit (sysctl kernel.hung_task_timeout_secs)."""
TOLD_LIMIT = 8
FOLLOWED_LIMIT = 2000


@dataclass(slots=True)
class _Watch:
    """Since when each process in state D has been seen there, doing nothing."""

    since: dict[int, tuple[float, Process]] = field(default_factory=dict)
    scanned_s: float | None = None


@collector(every_s=30.0, timeout_s=20.0)
def tasks(host: Host) -> Iterator[Seen]:
    """Processes stuck in the kernel (state D) for two minutes and more."""
    watch = host.held("tasks", _Watch)
    table = processes(host)
    now = monotonic()
    if watch.scanned_s is None or now - watch.scanned_s >= SCAN_EVERY_S:
        found = table.scan(SCAN_EVERY_S).of.values()
        watch.scanned_s = now
        seen = [p for p in found if p.state == "D"][:FOLLOWED_LIMIT]
        watch.since = {p.pid: watch.since.get(p.pid, (now, p)) for p in seen}
    _follow(watch, table, now)
    stuck = sorted(
        ((now - since, p) for since, p in watch.since.values() if now - since >= STUCK_S),
        key=lambda pair: pair[1].pid,
    )
    yield Sample("", "", "node_tasks_stuck", float(len(stuck)))
    yield from standing(host, "tasks").news(_event(*one) for one in stuck[:TOLD_LIMIT])


def _follow(watch: _Watch, table: Processes, now: float) -> None:
    """Look again at those followed: who moved, ran or ended is not stuck."""
    for pid, (since, before) in list(watch.since.items()):
        process = table.look(pid)
        if process is None or process.start != before.start or process.state != "D":
            del watch.since[pid]
        elif process.ticks != before.ticks:
            watch.since[pid] = now, process
        else:
            watch.since[pid] = since, process


def _event(for_s: float, process: Process) -> Event:
    name = "".join(c if c.isprintable() else "?" for c in process.name)
    text = f"task {name}:{process.pid} has been stuck in the kernel for {for_s:.0f} seconds"
    attrs = {"process": name, "pid": str(process.pid), "seconds": f"{for_s:.0f}"}
    return Event("", "kernel.hung_task", text, source="/proc", attrs=attrs)
