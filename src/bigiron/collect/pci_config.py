"""PCI configuration space: whether a device answers, and what its port does with peer traffic.

Only the few bytes that are asked for are read: some devices do not bear to have all of their
space read (lspci(8), ``-xxxx``). Past its first 64 bytes it is root's alone (Linux, sysfs-pci);
then nothing is said of ACS. Layout: PCI Express Base Specification, extended capabilities.
"""

from collections.abc import Callable

from bigiron.errors import NoData, Permanent
from bigiron.host import Host

ACS_ID = 0x000D
FIRST, LAST = 0x100, 0xFFC
HOPS = (LAST - FIRST) // 8 + 1
"""A capability is at least two double words long: a longer chain runs in a circle."""
REDIRECT = 1 << 2 | 1 << 3 | 1 << 4
"""ACS control: redirect of peer requests and completions, and upstream forwarding."""

Read = Callable[[int, int], bytes]
"""Bytes from an offset, as many as asked for or fewer."""


def answers(host: Host, folder: str) -> bool | None:
    """Whether a device's identity can be read; None where that cannot be told.

    All ones is what the bus gives for a device that is not there (any more).
    """
    try:
        head = host.part(f"{folder}/config", 0, 4)
    except (NoData, Permanent):
        return None
    return None if len(head) < 4 else head != b"\xff\xff\xff\xff"


def redirects(host: Host, folder: str) -> bool | None:
    """Whether a port sends its peers' traffic upstream; None: no ACS, or not ours to read."""

    def read(start: int, count: int) -> bytes:
        try:
            return host.part(f"{folder}/config", start, count)
        except (NoData, Permanent):
            return b""

    control = acs_control(read)
    return None if control is None else bool(control & REDIRECT)


def acs_control(read: Read) -> int | None:
    """The ACS control register, found along the chain of extended capabilities."""
    at = FIRST
    for _ in range(HOPS):
        head = read(at, 4)
        if len(head) < 4:
            return None
        word = int.from_bytes(head, "little")
        if word in (0, 0xFFFFFFFF):
            return None
        if word & 0xFFFF == ACS_ID:
            control = read(at + 6, 2)
            return int.from_bytes(control, "little") if len(control) == 2 else None
        at = word >> 20 & 0xFFC
        if not FIRST <= at <= LAST:
            return None
    return None
