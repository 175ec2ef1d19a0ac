"""A ring of kernel messages as the kernel keeps one: bounded, overwritten, read by record."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bigiron.collect.kmsg import Kmsg
from bigiron.collect.kmsg_clock import KernelClock
from bigiron.host import Host

BOOT = "7c0ae7be-bb15-4cb2-bccf-85cccb813ad1"
OTHER_BOOT = "11111111-2222-4333-8444-555555555555"


@dataclass
class FakeRing:
    """Holds the newest ``size`` records; ``open`` gives a handle as /dev/kmsg does."""

    size: int = 1_000_000
    records: dict[int, bytes] = field(default_factory=dict)
    end: int = 0
    opened: int = 0
    on_read: Callable[[], None] = lambda: None

    @property
    def first(self) -> int:
        """The oldest sequence that is still there."""
        return max(0, self.end - self.size)

    def write(self, text: str, priority: int = 6, flags: str = "-", us: int | None = None) -> int:
        """A record, with its dictionary after a newline; its sequence."""
        at = self.end
        stamp = at * 1000 if us is None else us
        self.records[at] = f"{priority},{at},{stamp},{flags};{text}\n".encode()
        self.records.pop(at - self.size, None)
        self.end += 1
        return at

    def reboot(self) -> None:
        """All gone, and the sequence begins anew."""
        self.records.clear()
        self.end = 0

    def open(self, host: Host) -> "Handle":
        """From the oldest record on."""
        del host
        self.opened += 1
        return Handle(self)


class Handle:
    """An open ring."""

    def __init__(self, ring: FakeRing) -> None:
        self._ring, self._at = ring, ring.first

    def read(self) -> bytes:
        ring = self._ring
        ring.on_read()
        if self._at < ring.first:
            self._at = ring.first
            raise BrokenPipeError
        if self._at >= ring.end:
            raise BlockingIOError
        self._at += 1
        return ring.records[self._at - 1]

    def wait(self, timeout_s: float) -> bool:
        del timeout_s
        return self._at < self._ring.end

    def close(self) -> None:
        self._at = self._ring.end


def machine(root: Path, boot: str = BOOT) -> Host:
    """A host of this boot."""
    file = root / "proc/sys/kernel/random/boot_id"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{boot}\n")
    return Host(root=root)


def follower(root: Path, ring: FakeRing, clock: KernelClock | None = None) -> Kmsg:
    """A follower of the ring on that host."""
    return Kmsg(machine(root), open_ring=ring.open, kernel_clock=clock)
