"""The processes of a host, scanned rarely: a look at thousands of them is the dearest there is.

``/proc/PID/stat`` (proc_pid_stat(5)) is world-readable. Where the agent sees only its own
processes (a container without the host's PID namespace, ``hidepid``), there is nothing to say.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from bigiron.errors import NoData
from bigiron.host import Host

PROCESS_LIMIT = 200_000
STAT_BYTES = 1024
KTHREADD = 2
"""The parent of all kernel threads: seen only where the whole host is."""


class Process(NamedTuple):
    """One process; ``name`` is cut by the kernel at 15 characters.

    ``ticks`` is the processor time it has used, ``start`` when it started, both in clock ticks.
    """

    pid: int
    name: str
    state: str
    ticks: int
    start: int


@dataclass(slots=True)
class Scan:
    """All processes as they were at ``at_s`` of the monotonic clock."""

    at_s: float
    of: dict[int, Process]


class Processes:
    """Scans shared by those who ask: nobody pays for one that another has just made."""

    def __init__(self, host: Host, clock: Callable[[], float]) -> None:
        self._folder = str(host.root / "proc")
        self._clock = clock
        self._scan: Scan | None = None

    def look(self, pid: int) -> Process | None:
        """One process as it is now; None if it is gone."""
        try:
            file = os.open(f"{self._folder}/{pid}/stat", os.O_RDONLY)
        except OSError:
            return None
        try:
            return parse(os.read(file, STAT_BYTES).decode("utf-8", "replace"))
        except OSError:  # it ended in between
            return None
        finally:
            os.close(file)

    def scan(self, no_older_s: float) -> Scan:
        """All processes, as they were less than so long ago. Raises NoData: not this host's."""
        now = self._clock()
        if self._scan is None or now - self._scan.at_s >= no_older_s:
            if not self.whole_host():
                raise NoData("the processes of the host are not visible from here")
            self._scan = Scan(now, self._all())
        return self._scan

    def whole_host(self) -> bool:
        """Whether the agent sees the host's processes and not just its own."""
        parent = self.look(KTHREADD)
        return parent is not None and parent.name == "kthreadd"

    def _all(self) -> dict[int, Process]:
        found: dict[int, Process] = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                name = entry.name
                if name.isascii() and name.isdecimal() and len(found) < PROCESS_LIMIT:
                    process = self.look(int(name))
                    if process is not None:
                        found[process.pid] = process
        return found


def processes(host: Host) -> Processes:
    """The host's processes, kept between calls."""
    return host.held("processes", lambda: Processes(host, monotonic))


def parse(text: str) -> Process | None:
    """``1234 (comm with ) and spaces) S 1 ...``; None where it is no such line."""
    head, bracket, rest = text.rpartition(")")
    pid, opening, name = head.partition(" (")
    fields = rest.split()
    if not bracket or not opening or len(fields) < 20:
        return None
    try:
        ticks = int(fields[11]) + int(fields[12])
        return Process(int(pid), name, fields[0], ticks, int(fields[19]))
    except ValueError:
        return None
