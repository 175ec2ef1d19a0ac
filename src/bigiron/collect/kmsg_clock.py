"""From the kernel's own clock, in microseconds since boot, to the time of day.

The clock that stamps messages is not steered as the clock since boot is: over a hundred days they
come apart by minutes. What a message says that was read as it was written ties the two together
anew; older ones are dated by when the machine was booted, as ``dmesg -T`` does. Neither counts the
time for which a machine slept.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from bigiron.host import Host

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DRIFT = 500e-6
"""What a clock can be steered by at most (adjtimex(2)); a processor's own is well within it."""
SLACK_S = 0.5
SLEPT_S = 1.0


def _clocks() -> tuple[float, float, float]:
    return (
        time.time(),
        time.clock_gettime(time.CLOCK_MONOTONIC),
        time.clock_gettime(time.CLOCK_BOOTTIME),
    )


class KernelClock:
    """``clocks`` gives the time of day, since boot without sleep, and since boot; in seconds."""

    def __init__(self, clocks: Callable[[], tuple[float, float, float]] = _clocks) -> None:
        self._clocks = clocks
        self._now, self._since_boot, boot = clocks()
        self._apart_s = 0.0
        self.slept_s = max(0.0, boot - self._since_boot)

    def look(self, live_us: int | None) -> None:
        """Read the clocks; ``live_us`` is the stamp of a message that was written just now."""
        self._now, self._since_boot, boot = self._clocks()
        self.slept_s = max(0.0, boot - self._since_boot)
        if live_us is not None:
            apart = self._since_boot - live_us / 1e6
            if abs(apart) <= SLACK_S + DRIFT * self._since_boot:
                self._apart_s = apart

    def wall(self, since_boot_s: float) -> datetime | None:
        """When the kernel's clock showed this; never later than now. None: out of all range."""
        at = self._now - self._since_boot + since_boot_s + self._apart_s
        try:
            return _EPOCH + timedelta(seconds=min(at, self._now))
        except OverflowError:
            return None


def clock(host: Host) -> KernelClock | None:
    """The clocks of this machine; none of a captured one."""
    return None if host.captured else KernelClock()
