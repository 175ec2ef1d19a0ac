"""What was measured, on its way to disk: a bounded buffer, spooled every ``flush_s``.

A hub that is killed loses what was buffered, at most ``flush_s`` seconds of samples: findings
never rest on this store but on what was in memory when they were made, so no finding is lost.

Parquet is written by a process of its own (``archive``): it would double the hub's memory.
"""

import sys
import time as clock
from datetime import datetime
from pathlib import Path

import msgspec

from bigiron.errors import BigironError, Temporary
from bigiron.host import Host
from bigiron.model import Batch, Note
from bigiron.store import segments, spool
from bigiron.store.segments import Keep

ROWS_MAX = 500_000
"""Samples buffered at most; past it the oldest half is dropped and counted."""
FLUSH_ROWS = 250_000
ARCHIVE_S = 300.0
ARCHIVE_TIMEOUT_S = 1800.0
SOURCE = "samples"


class Samples:
    """The samples in ``folder``, for writing. One process writes them."""

    def __init__(self, folder: Path, keep: Keep | None = None) -> None:
        self.folder = folder
        self.keep = keep or Keep()
        self._columns = spool.Columns()
        self._flushed = self._archived = clock.monotonic()
        self._notes: list[Note] = []
        self._last = max(
            (
                *(s.last for s in segments.every(folder)),
                *(stamp for stamp, _ in spool.every(folder)),
            ),
            default=0,
        )

    @property
    def buffered(self) -> int:
        """How many samples wait to be written."""
        return len(self._columns.times)

    def add(self, batch: Batch) -> None:
        """Buffer a batch's samples."""
        self._columns.add(batch)
        if self.buffered > ROWS_MAX:
            dropped = self._columns.drop_half()
            self._notes.append(Note(SOURCE, "samples dropped: they could not be written", dropped))

    def due(self) -> bool:
        """Whether it is time to flush."""
        late = clock.monotonic() - self._flushed >= self.keep.flush_s
        return self.buffered >= FLUSH_ROWS or (late and self.buffered > 0)

    def flush(self) -> int:
        """Write what is buffered; how many samples. Raises Temporary, and keeps them then."""
        rows = self.buffered
        self._flushed = clock.monotonic()
        if not rows:
            return 0
        # Stamps rise even where the clock does not: a segment stands for a span of them.
        stamp = max(clock.time_ns() // 1000, self._last + 1)
        path = spool.path_of(self.folder, stamp)
        try:
            spool.write(self._columns, path)
        except OSError as error:
            said = error.strerror or str(error)
            raise Temporary(f"{path}: cannot be written: {said}") from error
        self._last = stamp
        self._columns = spool.Columns()
        return rows

    def archive_due(self) -> bool:
        """Whether it is time to ``archive``."""
        return clock.monotonic() - self._archived >= ARCHIVE_S

    def archive(self, now: datetime) -> None:
        """Have spools made into Parquet and old samples removed; may run beside ``flush``.

        What goes wrong is a note: the spools stay, and are tried again.
        """
        self._archived = clock.monotonic()
        keep = msgspec.json.encode(self.keep).decode()
        argv = [sys.executable, "-m", "bigiron.store.archive", str(self.folder), keep]
        host = Host(env={"POLARS_MAX_THREADS": "1"})
        try:
            said = host.run([*argv, now.isoformat()], timeout_s=ARCHIVE_TIMEOUT_S)
            self._notes += msgspec.json.decode(said, type=list[Note])
        except (BigironError, msgspec.DecodeError) as error:
            self._notes.append(Note(SOURCE, f"not archived: {str(error)[:500]}"))

    def notes(self) -> list[Note]:
        """What has been dropped or removed since this was last asked."""
        notes, self._notes = self._notes, []
        return notes
