"""The kernel's ring of messages: reading it record by record, as far as it goes.

Each read(2) of /dev/kmsg gives one record: ``6,3964,206764307,-;MESSAGE`` (facility and level,
sequence, microseconds since boot, flags), then lines of `` KEY=value``. It fails with EAGAIN where
none is waiting and with EPIPE where the next one was overwritten; the one after that then is the
oldest that is still there (Documentation/ABI/testing/dev-kmsg).
"""

import os
import re
import select
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from bigiron.errors import Temporary
from bigiron.host import READ_LIMIT, Host

DEVICE = "/dev/kmsg"
RECORD_BYTES = 16_384
"""Of a read: the kernel's longest record with all of it escaped is 8 KiB."""
KEEP_RECORDS, KEEP_BYTES = 32_768, 8_000_000
"""Read ahead at most so much while lines are judged: as many as a ring of 1 MiB can hold."""
FILL_RECORDS = 4096
"""Read at most so many before those that were read are judged."""
_TURN = 1024
_PIPES = 100
_NEXT_RECORD = re.compile(rb"\n(?! )")


class Records(Protocol):
    """An open ring."""

    @property
    def read(self) -> Callable[[], bytes]:
        """The next record. Raises BlockingIOError (none waits), BrokenPipeError (overwritten)."""

    def wait(self, timeout_s: float) -> bool:
        """Whether a record waits, at the latest after so many seconds."""

    def close(self) -> None:
        """Let go of it."""


class Device:
    """The ring behind an open file, which it closes."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.read = partial(os.read, file, RECORD_BYTES)
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)

    def wait(self, timeout_s: float) -> bool:
        """Whether a record waits, at the latest after so many seconds."""
        return bool(self._poll.poll(max(0.0, timeout_s) * 1000))

    def close(self) -> None:
        """Let go of it."""
        os.close(self._file)


class Captured:
    """The ring as a captured machine has it: what ``cat /dev/kmsg`` wrote."""

    def __init__(self, text: bytes) -> None:
        self._left = deque(record + b"\n" for record in _NEXT_RECORD.split(text) if record)

    def read(self) -> bytes:
        """The next record. Raises BlockingIOError."""
        if not self._left:
            raise BlockingIOError
        return self._left.popleft()

    def wait(self, timeout_s: float) -> bool:
        """Whether there is another one; there will be none later."""
        del timeout_s
        return bool(self._left)

    def close(self) -> None:
        """Let go of it."""
        self._left.clear()


def opened(host: Host) -> Records:
    """A host's ring, from its oldest record. Raises NoData, Permanent (not for this user)."""
    if host.captured:
        return Captured(host.part(DEVICE, None, READ_LIMIT))
    return Device(host.open(DEVICE))


class Ring:
    """What was read of an open ring and not been judged yet, the oldest first."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._kept: deque[bytes] = deque()
        self._bytes = 0
        self.drained = False
        """Whether the last reading came to the end of what was there."""

    def __len__(self) -> int:
        return len(self._kept)

    def fill(self) -> None:
        """Read what waits, not too much and if there is room. Raises Temporary: it cannot be."""
        self.drained = False
        for _ in range(_PIPES):
            try:
                self._read()
            except BrokenPipeError:  # told by the gap in the sequence
                continue
            except BlockingIOError:
                self.drained = True
            except OSError as error:
                raise Temporary(f"{DEVICE}: {error.strerror}", retry_after_s=1.0) from error
            return
        if not self._kept:
            raise Temporary(f"{DEVICE}: overwritten faster than it can be read", retry_after_s=1.0)

    def take(self, most: int) -> list[bytes]:
        """The oldest, so many at most."""
        kept = self._kept
        taken = [kept.popleft() for _ in range(min(most, len(kept)))]
        self._bytes -= sum(map(len, taken))
        return taken

    def put_back(self, records: list[bytes]) -> None:
        """What was taken last and is not to be judged yet."""
        self._kept.extendleft(reversed(records))
        self._bytes += sum(map(len, records))

    def wait(self, timeout_s: float) -> bool:
        """Whether a record waits, at the latest after so many seconds."""
        return self._records.wait(timeout_s)

    def close(self) -> None:
        """Let go of it."""
        self._records.close()

    def _read(self) -> None:
        read = self._records.read
        for _ in range(FILL_RECORDS // _TURN):
            if len(self._kept) >= KEEP_RECORDS or self._bytes >= KEEP_BYTES:
                return
            got: list[bytes] = []
            try:
                for _ in range(_TURN):
                    got.append(read())
                    if not got[-1]:  # a ring never ends, but what stands for one in a test may
                        got.pop()
                        raise BlockingIOError
            finally:
                self._kept.extend(got)
                self._bytes += sum(map(len, got))


class Record(NamedTuple):
    """A record taken apart. ``message`` still has what the kernel escapes: ``\\x0a``."""

    priority: int
    sequence: int
    time_us: int
    message: bytes
    caller: bytes = b""
    dictionary: bytes = b""

    @property
    def facility(self) -> int:
        """0 is the kernel; others are programs that wrote to /dev/kmsg."""
        return self.priority >> 3

    def told(self, key: bytes) -> str:
        """A value of its dictionary (``SUBSYSTEM``, ``DEVICE``), "" if it has none."""
        for line in self.dictionary.split(b"\n"):
            if line.startswith(b" " + key + b"="):
                return line[len(key) + 2 :].decode("utf-8", "replace")
        return ""


def record(raw: bytes) -> Record | None:
    """A record's parts; None if it is none."""
    head, semicolon, rest = raw.partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 4 or not all(map(_is_number, fields[:3])):
        return None
    message, _, dictionary = rest.partition(b"\n")
    caller = next((field for field in fields[4:] if field.startswith(b"caller=")), b"")
    priority, sequence, time_us = map(int, fields[:3])
    return Record(priority, sequence, time_us, message, caller, dictionary)


def place(raw: bytes) -> tuple[int, bytes] | None:
    """A record's sequence and flag, without looking at the rest of it; None if it is none."""
    fields = raw.split(b",", 3)
    if len(fields) < 4 or not _is_number(fields[1]):
        return None
    return int(fields[1]), fields[3][:1]


def _is_number(text: bytes) -> bool:
    return text.isdigit() and len(text) <= 20
