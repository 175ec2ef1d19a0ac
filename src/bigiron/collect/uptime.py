"""Which boot this is, since when it runs, and what has tainted its kernel."""

from collections.abc import Iterator
from dataclasses import dataclass

from bigiron.collect import Seen, collector
from bigiron.collect.standing import standing
from bigiron.errors import NoData
from bigiron.host import Host
from bigiron.model import Event, Fact, Sample

# Documentation/admin-guide/tainted-kernels.rst: bit -> letter.
_LETTERS = "PFSRMBUDAWCIOELKXTN"
_TELLING = {
    4: ("mce.logged", "a machine check has been logged since boot"),
    5: ("kernel.bug", "a page of memory was found damaged since boot"),
    7: ("kernel.oops", "the kernel has crashed in part (oops) since boot"),
    14: ("kernel.soft_lockup", "a processor was stuck in the kernel since boot"),
}


@dataclass(slots=True)
class _Boot:
    """The boot time is worked out once: the kernel's own moves when the clock is set."""

    id: str = ""
    time_s: int = 0
    taint: int = 0


@collector(every_s=60.0, timeout_s=10.0)
def uptime(host: Host) -> Iterator[Seen]:
    """Boot time and id; what has tainted the kernel."""
    yield from standing(host, "uptime").fresh(_look(host))


def _look(host: Host) -> Iterator[Seen]:
    boot_id = host.read("/proc/sys/kernel/random/boot_id")
    boot = host.held("uptime", _Boot)
    if boot.id != boot_id:
        time_s = boot_time(host.read("/proc/stat"))
        boot.id, boot.time_s, boot.taint = boot_id, time_s or 0, 0
    if boot.time_s:
        yield Sample("", "", "node_boot_time_seconds", float(boot.time_s))
    yield Fact("", "boot_id", boot_id)
    yield from _taint(host, boot)


def boot_time(text: str) -> int | None:
    """``btime`` of ``/proc/stat``: seconds since 1970."""
    for line in text.splitlines():
        if line.startswith("btime "):
            value = line[6:].strip()
            return int(value) if value.isascii() and value.isdecimal() and len(value) < 12 else None
    return None


def taint_words(mask: int) -> str:
    """``P O E``; ``none`` for a kernel that nothing has tainted."""
    letters = [
        _LETTERS[bit] if bit < len(_LETTERS) else f"bit{bit}"
        for bit in range(mask.bit_length())
        if mask >> bit & 1
    ]
    return " ".join(letters) or "none"


def _taint(host: Host, boot: _Boot) -> Iterator[Seen]:
    """The taint as a fact; once for each boot and bit what tells of a fault."""
    try:
        text = host.read("/proc/sys/kernel/tainted")
    except NoData:
        return
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        return
    mask = int(text)
    yield Fact("", "kernel_taint", taint_words(mask))
    new = mask & ~boot.taint
    boot.taint |= mask
    for bit, (code, words) in _TELLING.items():
        if new >> bit & 1:
            said = f"{words} (kernel taint {taint_words(1 << bit)})"
            yield Event("", code, said, source="/proc/sys/kernel/tainted")
