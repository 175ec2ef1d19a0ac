"""A growing log file as a live source.

The cursor says which file was read how far, so that a restart at any point neither loses nor
doubles a line: what a poll reads depends on nothing but the files and the cursor. Rotation by
renaming and by copying (copytruncate) is followed; a last line without its end waits until it
has one or the file is done with.
"""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import msgspec

from bigiron.errors import Permanent, Temporary
from bigiron.ingest import LINE_LIMIT, gather
from bigiron.ingest.kernel_log import KernelLog, shipped
from bigiron.ingest.log_events import LineEvents
from bigiron.ingest.log_generations import (
    PRINT_BYTES,
    Generation,
    Place,
    find,
    fingerprint,
    generations,
)
from bigiron.ingest.log_scan import Block, blocks
from bigiron.ingest.log_storm import Storms
from bigiron.model import Batch, Event, Fact, Note

POLL_BYTES = 64 * 1024 * 1024
"""Read at most this much in one poll; a large backlog takes several."""

Seen = Event | Fact | Note


class Cursor(msgspec.Struct, frozen=True, omit_defaults=True):
    """Place in a file; ``lines`` were read of it. ``skip``: inside a line already cut off.

    ``after`` (epoch seconds) is the look-back of the first start: older events are only counted.
    """

    device: int = 0
    inode: int = 0
    offset: int = 0
    lines: int = 0
    print_bytes: int = 0
    print_digest: str = ""
    skip: bool = False
    after: float = 0.0

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.device, self.inode, self.offset, self.print_bytes, self.print_digest)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class LogFile:
    """Follows the log at ``path``; ``node`` is given to lines that name no host.

    ``since_s`` limits how far back the very first poll tells events, a note counts the older
    ones; None tells all there are.
    """

    def __init__(
        self,
        path: Path,
        *,
        node: str = "",
        since_s: float | None = None,
        every_s: float = 10.0,
        reader: KernelLog | None = None,
        now: Callable[[], datetime] = _utc_now,
        poll_bytes: int = POLL_BYTES,
    ) -> None:
        self.name = f"log:{path}"
        self.every_s = every_s
        self._path, self._node, self._since_s = path, node, since_s
        self._reader = reader or shipped()
        self._now, self._poll_bytes = now, poll_bytes

    def poll(self, cursor: str) -> tuple[Batch, str]:
        """The lines since ``cursor``. Raises Temporary if no file is there, Permanent."""
        now = self._now()
        at = self._start(cursor, now)
        files = generations(self._path)
        seen: list[Seen] = []
        index = find(at.place, files) if at.inode else None
        if index is None:
            if not files or files[-1].path != self._path:
                raise Temporary(f"{self._path}: no such file", retry_after_s=self.every_s)
            if at.offset:
                seen.append(Note(self.name, "log replaced before all of it was read"))
            index, at = len(files) - 1, Cursor(after=at.after)
        lines = LineEvents(self._reader.knowledge, str(self._path), now)
        way = _Way(files, index, at, self._poll_bytes)
        seen += self._reader.observe(way.blocks(), lines, Storms())
        told = [self._owned(one) for one in seen if not _is_older(one, at.after)]
        if older := len(seen) - len(told):
            told.append(Note(self.name, "events from before the first look-back, left out", older))
        return gather(now, self.name, told), msgspec.json.encode(way.at).decode()

    def _start(self, cursor: str, now: datetime) -> Cursor:
        if cursor:
            try:
                return msgspec.json.decode(cursor, type=Cursor)
            except msgspec.DecodeError as error:
                raise Permanent(f"{self.name}: not a cursor of this source: {error}") from error
        if self._since_s is None:
            return Cursor()
        return Cursor(after=(now - timedelta(seconds=self._since_s)).timestamp())

    def _owned(self, seen: Seen) -> Seen:
        if self._node and not isinstance(seen, Note) and not seen.node:
            return msgspec.structs.replace(seen, node=self._node)
        return seen


def _is_older(seen: Seen, after: float) -> bool:
    return isinstance(seen, Event) and seen.time is not None and seen.time.timestamp() < after


class _Way:
    """One poll's way through the files; ``at`` moves along as blocks are taken."""

    def __init__(self, files: list[Generation], index: int, at: Cursor, budget: int) -> None:
        self._files, self._index, self._budget = files, index, budget
        self._limit = min(LINE_LIMIT, budget - 1)
        self.at = at

    def blocks(self) -> Iterator[Block]:
        """What is new, file by file from the oldest unread one."""
        while True:
            here = self._files[self._index]
            done = any(later.size for later in self._files[self._index + 1 :])
            try:
                with here.path.open("rb") as file:
                    if os.fstat(file.fileno()).st_ino != here.inode:
                        return  # rotated this moment: the next poll finds it by its inode
                    yield from self._file(file, here, done)
            except FileNotFoundError:
                return  # the same
            except OSError as error:
                raise Permanent(f"{here.path}: {error.strerror or error}") from error
            if not done or self._budget <= 0 or self.at.offset < here.size:
                return
            self._index += 1
            self.at = Cursor(after=self.at.after)

    def _file(self, file: BinaryIO, here: Generation, done: bool) -> Iterator[Block]:
        self.at = msgspec.structs.replace(self.at, device=here.device, inode=here.inode)
        start = self.at.offset
        length = min(here.size - start, self._budget)
        self._budget -= length
        file.seek(start)
        window = _Window(file, length)
        if self.at.skip:
            self._skip(window)
        ends = done and start + length >= here.size
        for block in blocks(window, first_line=self.at.lines + 1, last=ends):
            self._move(block.size, block.data.count(b"\n") or 1)
            yield block
        left = start + length - self.at.offset
        if left > self._limit:
            file.seek(self.at.offset)
            yield Block(file.read(self._limit), self.at.lines + 1, left, 1)
            self._move(left, 1)
            self.at = msgspec.structs.replace(self.at, skip=True)
        self._sign(file)

    def _skip(self, window: "_Window") -> None:
        """Pass over the rest of a line whose beginning was cut off and told before."""
        while chunk := window.read(1024 * 1024):
            end = chunk.find(b"\n") + 1
            self._move(end or len(chunk), 0)
            if end:
                window.back(len(chunk) - end)
                self.at = msgspec.structs.replace(self.at, skip=False)
                return

    def _move(self, size: int, lines: int) -> None:
        self.at = msgspec.structs.replace(
            self.at, offset=self.at.offset + size, lines=self.at.lines + lines
        )

    def _sign(self, file: BinaryIO) -> None:
        """Remember how the file begins: its inode may be given to another one."""
        length = min(PRINT_BYTES, self.at.offset)
        if length != self.at.print_bytes:
            digest = fingerprint(file, length)
            self.at = msgspec.structs.replace(self.at, print_bytes=length, print_digest=digest)


class _Window:
    """At most ``length`` bytes from where a file stands: what it had when it was looked at."""

    def __init__(self, file: BinaryIO, length: int) -> None:
        self._file, self._left = file, length

    def read(self, size: int, /) -> bytes:
        """The next bytes; none at the window's end."""
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data

    def back(self, size: int) -> None:
        """Unread the last ``size`` bytes."""
        self._file.seek(-size, 1)
        self._left += size
