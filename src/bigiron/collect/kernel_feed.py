"""Where a host's kernel messages are read: /dev/kmsg, journald, or the file of a syslog daemon.

The first that can be read. Each has a cursor of its own kind; one of another kind is told and
passed over.
"""

from pathlib import Path
from time import monotonic, sleep
from typing import Protocol

import msgspec

from bigiron.collect import Seen
from bigiron.collect.journal import journal
from bigiron.collect.kmsg import Kmsg
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.ingest.log_follow import LogFile
from bigiron.model import Event, Fact, Note

FILES = ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog")
LOOK_BACK_S = 86_400.0
"""Of a file that was never read: older events are only counted."""
_EVERY_S = 0.25
_POLL_BYTES = 4 * 1024 * 1024
_PREFIX = "file:"


class Feed(Protocol):
    """Kernel messages as they come."""

    def poll(self, cursor: str, wait_s: float) -> tuple[list[Seen], str]:
        """What is new since ``cursor``, and where to go on. Waits at most ``wait_s`` seconds.

        Raises NoData, Temporary, Permanent.
        """

    def close(self) -> None:
        """Let go of what is open; the next poll opens it anew."""


class LogFeed:
    """A growing log file. Lines of other hosts, which a log server's file has, are left out."""

    def __init__(self, host: Host, path: str) -> None:
        self._path = path
        self._log = LogFile(
            Path(host.root) / path.lstrip("/"), since_s=LOOK_BACK_S, poll_bytes=_POLL_BYTES
        )
        try:
            self._name = host.read("/proc/sys/kernel/hostname").split(".")[0]
        except (NoData, Permanent):
            self._name = ""

    def poll(self, cursor: str, wait_s: float) -> tuple[list[Seen], str]:
        """What is new since ``cursor`` ("": of the last day), and where to go on."""
        seen: list[Seen] = []
        if cursor and not cursor.startswith(_PREFIX):
            seen.append(Note(self._path, "a cursor of another source: read from its beginning"))
            cursor = ""
        until = monotonic() + wait_s
        while True:
            batch, after = self._log.poll(cursor.removeprefix(_PREFIX))
            seen += batch.notes
            others = 0
            told: list[Fact | Event] = [*batch.facts, *batch.events]
            for one in told:
                if self._is_ours(one.node):
                    seen.append(msgspec.structs.replace(one, node=""))
                else:
                    others += 1
            if others:
                seen.append(Note(self._path, "events and facts of other hosts, left out", others))
            cursor = f"{_PREFIX}{after}"
            if seen or monotonic() + _EVERY_S > until:
                return seen, cursor
            sleep(_EVERY_S)

    def close(self) -> None:
        """A file is open only while it is read."""

    def _is_ours(self, node: str) -> bool:
        return not node or not self._name or node.split(".")[0] == self._name


def kernel_feed(host: Host) -> Feed:
    """The first that this host lets us read. Raises NoData (none is there), Permanent (closed)."""
    closed: Permanent | None = None
    try:
        return Kmsg(host)
    except NoData:
        pass
    except Permanent as error:
        closed = error
    try:
        return journal(host)
    except (NoData, Permanent) as error:
        closed = error if isinstance(error, Permanent) else closed
    for path in FILES:
        try:
            host.part(path, 0, 1)
        except NoData:
            continue
        except Permanent as error:
            closed = closed or error
            continue
        return LogFeed(host, path)
    raise closed or NoData("no kernel log: no /dev/kmsg, no journal, no log file")


def once(host: Host, limit_s: float = 10.0) -> list[Seen]:
    """All that a host's kernel log holds now. Raises NoData, Temporary, Permanent."""
    feed = kernel_feed(host)
    wait_s = 0.0 if isinstance(feed, Kmsg) else 1.0  # journalctl has to start
    told: list[Seen] = []
    cursor, until = "", monotonic() + limit_s
    try:
        while monotonic() < until:
            seen, after = feed.poll(cursor, wait_s)
            told += seen
            if after == cursor:
                break
            cursor = after
    finally:
        feed.close()
    return told
