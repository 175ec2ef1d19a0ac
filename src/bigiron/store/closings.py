"""Requests to close a finding, written into the ledger beside the hub that works on it.

The only writer besides the hub: one short transaction of its own table. Write-ahead logging lets
the hub's readers go on, and the hub waits for it as it waits for any other lock.
"""

from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep

from sqlalchemy import select

from bigiron.errors import Temporary
from bigiron.model import Closing
from bigiron.store import schema
from bigiron.store.database import FILE, engine, explained, open_to_read

LOCKED_S = 20.0
"""For so long it is tried again while another process holds the ledger."""
ASKED_EVERY_S = 0.1


def ask(folder: Path, closings: Sequence[Closing], *, locked_s: float = LOCKED_S) -> list[int]:
    """Write the requests down, all or none; their numbers.

    Raises NoData where there is no ledger, Temporary if it stays locked, Permanent if it cannot
    be written or is damaged.
    """
    path = folder / FILE
    open_to_read(path).close()  # it is there, whole, and of this schema
    until = monotonic() + locked_s
    while True:
        try:
            return _write(path, closings)
        except Temporary as error:
            if monotonic() + error.retry_after_s >= until:
                raise
            sleep(error.retry_after_s)


def _write(path: Path, closings: Sequence[Closing]) -> list[int]:
    table = schema.closings
    with explained(path), engine(path).connect() as connection, connection.begin():
        numbers: list[int] = []
        for closing in closings:
            row = {name: getattr(closing, name) for name in ("time", "finding", "by", "because")}
            numbers += connection.execute(table.insert(), row).inserted_primary_key or ()
        return numbers


def wait_applied(folder: Path, numbers: Sequence[int], wait_s: float) -> bool:
    """Whether a hub has dealt with all of them within ``wait_s`` seconds."""
    path, table = folder / FILE, schema.closings
    waiting = select(table.c.number).where(table.c.number.in_(numbers), table.c.applied.is_(None))
    until = monotonic() + wait_s
    with explained(path), open_to_read(path) as connection:
        while True:
            with connection.begin():
                left = connection.execute(waiting).first()
            if left is None or monotonic() >= until:
                return left is None
            sleep(ASKED_EVERY_S)
