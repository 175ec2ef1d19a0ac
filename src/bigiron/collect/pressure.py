"""Memory, load and pressure of the host: how much it has to wait, and who was killed for memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from bigiron.collect import Seen, collector
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.model import Event, Sample

_MEMORY = {
    "MemTotal": "node_memory_total_bytes",
    "MemAvailable": "node_memory_available_bytes",
    "HardwareCorrupted": "node_memory_corrupted_bytes",
}
_PRESSURE = (
    ("cpu", "some", "node_pressure_cpu_waiting_seconds_total"),
    ("memory", "some", "node_pressure_memory_waiting_seconds_total"),
    ("memory", "full", "node_pressure_memory_stalled_seconds_total"),
    ("io", "some", "node_pressure_io_waiting_seconds_total"),
    ("io", "full", "node_pressure_io_stalled_seconds_total"),
)


@dataclass(slots=True)
class _Before:
    """What the last look read."""

    kills: int | None = None


@collector(every_s=30.0, timeout_s=10.0)
def pressure(host: Host) -> Iterator[Seen]:
    """Memory, load, pressure stall times and OOM kills."""
    yield from memory(host.read("/proc/meminfo"))
    yield from _load(host)
    for resource, kind, metric in _PRESSURE:
        seconds = stalled(_optional(host, f"/proc/pressure/{resource}"), kind)
        if seconds is not None:
            yield Sample("", "", metric, seconds)
    yield from _kills(host)


def memory(text: str) -> Iterator[Sample]:
    """``/proc/meminfo``: kilobytes to bytes."""
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        metric = _MEMORY.get(name)
        value = _whole(rest.split()[:1])
        if metric is not None and value is not None:
            yield Sample("", "", metric, value * 1024.0)


def stalled(text: str, kind: str) -> float | None:
    """Seconds in total that ``some`` or all (``full``) tasks waited: ``/proc/pressure/*``."""
    for line in text.splitlines():
        if line.startswith(f"{kind} "):
            total = line.rpartition("total=")[2].split()[:1]
            microseconds = _whole(total)
            return None if microseconds is None else microseconds / 1e6
    return None


def killed(text: str) -> int | None:
    """Processes killed for memory since boot: ``oom_kill`` of ``/proc/vmstat`` (Linux 4.13)."""
    at = text.find("\noom_kill ")
    return None if at < 0 else _whole(text[at + 10 : at + 40].split()[:1])


def _load(host: Host) -> Iterator[Sample]:
    first = _optional(host, "/proc/loadavg").split()[:1]
    try:
        yield Sample("", "", "node_load1", float(first[0]))
    except (IndexError, ValueError):
        return


def _kills(host: Host) -> Iterator[Seen]:
    """The kernel's count, and what was added to it: its log says whom, if it is read."""
    count = killed("\n" + _optional(host, "/proc/vmstat"))
    if count is None:
        return
    yield Sample("", "", "node_oom_kills_total", float(count))
    before = host.held("pressure", _Before)
    more = 0 if before.kills is None else count - before.kills
    before.kills = count
    if more > 0:
        text = f"{more} process{'es' if more > 1 else ''} killed for memory"
        # whether the host or one control group ran out, the kernel log tells
        yield Event("", "kernel.oom_invoked", text, source="/proc/vmstat", count=more)


def _optional(host: Host, path: str) -> str:
    try:
        return host.read(path)
    except (NoData, Permanent):  # pressure is switched off: EOPNOTSUPP
        return ""


def _whole(words: list[str]) -> int | None:
    text = words[0] if words else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
