"""The kernel's messages from journald, where /dev/kmsg is closed to us.

``journalctl`` is started once and read as it goes on. Its own cursor is ours, so that a restart
goes on where it was, also into the boot before: what was written last before a crash is often
what it was about. Fields as systemd.journal-fields(7) has them.
"""

import os
import select
import subprocess
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from time import monotonic

import msgspec

from bigiron.collect import Seen
from bigiron.errors import NoData, Temporary
from bigiron.host import Host
from bigiron.ingest.kernel_log import KernelLog, shipped
from bigiron.ingest.log_events import HOST_LINES, LineEvents
from bigiron.ingest.log_scan import Block
from bigiron.ingest.log_storm import Storms
from bigiron.model import Event, Fact, Note

SOURCE = "journald"
CAP = 10
"""Events of one fault of one device in a poll; the rest of them are one with a count."""
POLL_BYTES = 4 * 1024 * 1024
LINE_BYTES = 1024 * 1024
"""Longer lines are passed over: a kernel message as JSON is a few kilobytes."""
_FIELDS = (
    "MESSAGE,PRIORITY,SYSLOG_FACILITY,SYSLOG_IDENTIFIER,_HOSTNAME,_TRANSPORT,"
    "_SOURCE_MONOTONIC_TIMESTAMP"
)
_FOLLOW = (
    "journalctl", "--quiet", "--no-pager", "--follow", "--no-tail", "--output=json",
    f"--output-fields={_FIELDS}",
)  # fmt: skip
_KERNEL = "_TRANSPORT=kernel"
_PREFIX = "journal:"
_FOLDERS = ("/var/log/journal", "/run/log/journal")


class _Mark(msgspec.Struct):
    cursor: str = msgspec.field(name="__CURSOR", default="")


_marks = msgspec.json.Decoder(_Mark)


class Journal:
    """One host's journal."""

    def __init__(self, host: Host, *, reader: KernelLog | None = None) -> None:
        self._host, self._reader = host, reader or shipped()
        self._lines = LineEvents(self._reader.knowledge, SOURCE, datetime.now(UTC))
        self._number = HOST_LINES + 1  # whose lines they are need not be guessed: they are ours
        self._process: subprocess.Popen[bytes] | None = None
        self._cursor = ""
        self._rest = b""
        self._skips = False

    def poll(self, cursor: str, wait_s: float) -> tuple[list[Seen], str]:
        """What is new since ``cursor`` ("": of this boot), and where to go on.

        Waits at most ``wait_s`` seconds for anything. Raises NoData, Temporary, Permanent.
        """
        if cursor and not cursor.startswith(_PREFIX):
            seen, after = self.poll("", wait_s)
            return [
                Note(SOURCE, "a cursor of another source: read from this boot on"),
                *seen,
            ], after
        if self._process is None or cursor != self._cursor:
            self.close()
            self._start(cursor)
        data = self._read(wait_s)
        return list(self._judged(data) if data else self._mind_end()), self._cursor

    def close(self) -> None:
        """End what was started; the next poll starts it anew."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
        self._rest, self._skips = b"", False

    def _start(self, cursor: str) -> None:
        since = f"--after-cursor={cursor.removeprefix(_PREFIX)}" if cursor else "--boot"
        self._process = self._host.start([*_FOLLOW, since, _KERNEL])
        self._cursor = cursor
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)

    def _read(self, wait_s: float) -> bytes:
        """Whole lines; none if none came in time."""
        pipe = self._process.stdout if self._process else None
        if pipe is None:
            return b""
        until, got = monotonic() + wait_s, [self._rest]
        size = len(self._rest)
        while size < POLL_BYTES:
            chunk = _chunk(pipe.fileno())
            if chunk:
                got.append(chunk)
                size += len(chunk)
            elif chunk is None and b"\n" not in got[-1] and (left := until - monotonic()) > 0:
                select.select([pipe], [], [], left)
            else:
                break
        whole, newline, self._rest = b"".join(got).rpartition(b"\n")
        if self._skips:
            _, cut, whole = whole.partition(b"\n")
            self._skips = not (cut or newline)
        if len(self._rest) > LINE_BYTES:
            self._lines.note("lines that are too long, passed over")
            self._rest, self._skips = b"", True
        return whole + newline if whole else b""

    def _judged(self, data: bytes) -> Iterator[Seen]:
        block = Block(data, self._number, len(data))
        for one in self._reader.observe([block], self._lines, Storms(CAP)):
            if isinstance(one, Note):
                continue  # told below; how often a fault repeats is in its count
            yield _ours(one)
        for what, count in self._lines.notes.items():
            yield Note(SOURCE, what, count)
        self._lines.notes.clear()
        self._number += data.count(b"\n")
        self._cursor = f"{_PREFIX}{_last(data.splitlines())}"

    def _mind_end(self) -> Iterator[Note]:
        """Raise Temporary if it has ended, with its words. A cursor it does not know is let go."""
        process = self._process
        if process is None or process.poll() is None:
            return
        said = (_chunk(process.stderr.fileno()) if process.stderr else b"") or b""
        words = said.decode("utf-8", "replace").strip()[:300]
        self.close()
        if not self._cursor or "cursor" not in words:
            raise Temporary(f"{SOURCE}: journalctl ended: {words or process.returncode}")
        cursor = self._cursor
        self._start("")
        self._cursor = cursor
        yield Note(SOURCE, f"{words}: read from this boot on")


def _last(lines: Iterable[bytes]) -> str:
    """The cursor of the last line that has one."""
    for line in reversed(list(lines)):
        try:
            if cursor := _marks.decode(line).cursor:
                return cursor
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return ""


def _ours(one: Event | Fact) -> Event | Fact:
    """Whatever name the journal has for this host: the agent knows it better."""
    return msgspec.structs.replace(one, node="")


def _chunk(file: int) -> bytes | None:
    """What can be read now: None if nothing yet, empty at the end."""
    try:
        return os.read(file, 65_536)
    except BlockingIOError:
        return None


def journal(host: Host) -> Journal:
    """The host's journal. Raises NoData where it keeps none."""
    if not any(found for where in _FOLDERS for found in host.glob(f"{where}/*")):
        raise NoData("no journal")
    return Journal(host)
