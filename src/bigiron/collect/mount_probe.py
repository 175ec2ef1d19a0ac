"""How full a file system is, asked so that one that never answers holds up nobody.

``statvfs(2)`` on a mount whose server is away waits in the kernel, and nothing can end that. So
each group of network mounts (one server) has a thread of its own that asks. One that does not
answer in time is left waiting, and is asked nothing more until it has come back.
"""

import errno
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from queue import Empty, SimpleQueue
from time import monotonic
from typing import NamedTuple

from bigiron.errors import NoData, Permanent
from bigiron.host import Host

GROUP_LIMIT = 64


class Room(NamedTuple):
    """Of a file system: bytes and files in all, and left for a user."""

    size: int
    free: int
    files: int
    files_free: int

    @property
    def used(self) -> float:
        """Share of the bytes that are used, 0 to 1."""
        return 1.0 - self.free / self.size if self.size > 0 else 0.0

    @property
    def files_used(self) -> float | None:
        """Share of the files (inodes); None where there is no such limit."""
        return 1.0 - self.files_free / self.files if self.files > 0 else None


class Answer(NamedTuple):
    """``room``, or ``error`` (errno), or neither: none came in time. ``took_s`` to answer."""

    room: Room | None
    error: int
    took_s: float

    @property
    def hung(self) -> bool:
        """No answer in time."""
        return self.room is None and not self.error


Ask = Callable[[str], Room]
"""Room at a mount point. Raises OSError."""


def ask_of(host: Host) -> Ask:
    """How this host is asked; a captured one answers from ``bigiron/statvfs.json``."""
    return host.held("statvfs", lambda: _live if not host.captured else _captured(host))


def _live(point: str) -> Room:
    found = os.statvfs(point)
    unit = found.f_frsize or found.f_bsize
    return Room(found.f_blocks * unit, found.f_bavail * unit, found.f_files, found.f_favail)


def _captured(host: Host) -> Ask:
    try:
        told: Mapping[str, list[int]] = json.loads(host.read("/bigiron/statvfs.json"))
    except (NoData, Permanent):
        told = {}

    def ask(point: str) -> Room:
        if point not in told:
            raise FileNotFoundError(errno.ENOENT, "no such file", point)
        return Room(*told[point])

    return ask


class Prober:
    """One group's thread. It lives as long as the process; a thread cannot be ended."""

    def __init__(self, ask: Ask, name: str) -> None:
        self._ask = ask
        self._in: SimpleQueue[tuple[int, str]] = SimpleQueue()
        self._out: SimpleQueue[tuple[int, str, Answer]] = SimpleQueue()
        self._turn = 0
        self._at = ""
        self._waiting: set[str] = set()
        threading.Thread(target=self._work, name=f"mount {name}"[:60], daemon=True).start()

    def start(self, points: Iterable[str]) -> None:
        """Ask of these; of none while an earlier question is still open."""
        self._drain()
        if not self._waiting:
            self._turn += 1
            for point in points:
                self._waiting.add(point)
                self._in.put((self._turn, point))

    def answers(self, points: Iterable[str], until_s: float) -> dict[str, Answer]:
        """What has been answered by a time of the monotonic clock.

        The one that is being asked hangs; those behind it were not asked (EBUSY).
        """
        found: dict[str, Answer] = {}
        wanted = set(points)
        while wanted - set(found) and self._waiting:
            try:
                turn, point, answer = self._out.get(timeout=max(0.0, until_s - monotonic()))
            except Empty:
                break
            self._waiting.discard(point)
            if turn == self._turn and point in wanted:
                found[point] = answer
        hung, not_asked = Answer(None, 0, 0.0), Answer(None, errno.EBUSY, 0.0)
        at = self._at
        return {point: found.get(point, hung if point == at else not_asked) for point in wanted}

    def _drain(self) -> None:
        while not self._out.empty():
            self._waiting.discard(self._out.get()[1])

    def _work(self) -> None:
        while True:
            turn, point = self._in.get()
            self._at = point
            self._out.put((turn, point, asked(self._ask, point)))


def asked(ask: Ask, point: str) -> Answer:
    """One question, with how long it took."""
    start = monotonic()
    try:
        room = ask(point)
    except OSError as error:
        return Answer(None, error.errno or errno.EIO, monotonic() - start)
    return Answer(room, 0, monotonic() - start)
