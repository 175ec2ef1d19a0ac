"""One look at this machine: every collector once, and what each of them saw."""

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from functools import partial
from time import monotonic

import msgspec

from bigiron.agent.apart import run_apart
from bigiron.collect import Seen, collector
from bigiron.errors import BigironError, NoData
from bigiron.host import Host
from bigiron.ingest import gather
from bigiron.model import Batch
from bigiron.registry import Plugin

KERNEL = "kernel_log"
"""The kernel's messages are followed, not collected; one look reads all that is kept of them."""
KERNEL_TIMEOUT_S = 20.0

Collector = Plugin[[Host], Iterable[Seen]]


class Seeing(msgspec.Struct, frozen=True):
    """What a collector saw, and how it went: ``problem`` in words, or ``absent``.

    What it had seen before it failed is kept.
    """

    name: str
    batch: Batch
    took_s: float = 0.0
    problem: str = ""
    absent: bool = False


def every_name() -> list[str]:
    """The collectors' names, the kernel's messages among them."""
    return sorted([KERNEL, *(plugin.name for plugin in collector)])


def look(host: Host, now: datetime, only: Collection[str] = ()) -> list[Seeing]:
    """What each collector (or each of ``only``) sees, by name. None can keep the others.

    Those that read files are run here, first: what exporters tell is not asked of drivers again.
    Those that may hang are run in processes of their own, all at once.
    """
    plugins = [plugin for plugin in collector if not only or plugin.name in only]
    seeings = [
        _run(host, now, plugin.name, partial(plugin.run, host))
        for plugin in plugins
        if not plugin.apart
    ]
    work: dict[str, tuple[Callable[[], bytes], float]] = {
        plugin.name: (partial(_packed, host, now, plugin), plugin.timeout_s or KERNEL_TIMEOUT_S)
        for plugin in plugins
        if plugin.apart
    }
    if not only or KERNEL in only:
        work[KERNEL] = partial(_packed_kernel, host, now), KERNEL_TIMEOUT_S
    for name, said in run_apart(work).items():
        seeings.append(_unpacked(name, said, work[name][1], now))
    return sorted(seeings, key=lambda seeing: seeing.name)


def _run(host: Host, now: datetime, name: str, run: Callable[[], Iterable[Seen]]) -> Seeing:
    """Run one here; a bug in it is told, and stops nobody else."""
    began, seen, problem, absent = monotonic(), list[Seen](), "", False
    try:
        for one in run():
            seen.append(one)
    except NoData:
        absent = not seen
    except BigironError as error:
        problem = str(error) or type(error).__name__
    except Exception as error:  # noqa: BLE001  (it is told, and the others go on)
        problem = f"{type(error).__name__}: {error}"
    batch = gather(now, f"{host.name}:{name}", seen)
    return Seeing(name, batch, round(monotonic() - began, 4), problem, absent)


def _packed(host: Host, now: datetime, plugin: Collector) -> bytes:
    return msgspec.msgpack.encode(_run(host, now, plugin.name, partial(plugin.run, host)))


def _packed_kernel(host: Host, now: datetime) -> bytes:
    from bigiron.collect.kernel_feed import once

    return msgspec.msgpack.encode(_run(host, now, KERNEL, partial(once, host)))


def _unpacked(name: str, said: bytes | None, timeout_s: float, now: datetime) -> Seeing:
    nothing = Batch(now.astimezone(UTC), name)
    if said is None:
        return Seeing(name, nothing, timeout_s, f"no answer in {timeout_s:g} s; left behind")
    if not said:
        return Seeing(name, nothing, problem="its process was killed")
    return msgspec.msgpack.decode(said, type=Seeing)
