"""Opening the ledger's database, and its errors in an operator's words."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, inspect, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from bigiron.errors import BigironError, NoData, Permanent, StoreError, Temporary
from bigiron.store.schema import VERSION

FILE = "ledger.sqlite"
BUSY_S = 2.0
CHECKED_BYTES = 64 * 1024 * 1024
"""A ledger up to this size is checked for damage when it is opened; a larger one as it is read."""


def engine(path: Path, *, read_only: bool = False) -> Engine:
    """An engine on the SQLite file ``path``.

    WAL lets readers go on while the hub writes. ``synchronous=FULL`` syncs each commit, so what
    was committed survives a kill and also a power cut (https://sqlite.org/pragma.html).
    """
    mode = "ro" if read_only else "rwc"

    def connect() -> sqlite3.Connection:
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)

    made = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @event.listens_for(made, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        if read_only:
            connection.execute("PRAGMA query_only = ON")
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_size_limit = 67108864")

    @event.listens_for(made, "begin")
    def begin(connection: Connection) -> None:
        # The driver's own transactions start late and by guess; this one starts here.
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return made


def open_to_write(path: Path) -> Connection:
    """A connection to the ledger, made or migrated to the newest schema first.

    Raises Permanent (damaged, from a newer bigiron, no permission) or Temporary (locked).
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = engine(path).connect()
        try:
            _check(connection, path)
            _migrate(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def open_to_read(path: Path) -> Connection:
    """A read-only connection. Raises NoData where there is no ledger, Permanent if damaged."""
    if not path.is_file():
        raise NoData(f"{path}: no ledger here; start `bigiron hub`, or name its --folder")
    with explained(path):
        connection = engine(path, read_only=True).connect()
        try:
            found = version(connection)
        except BaseException:
            connection.close()
            raise
        if found != VERSION:
            connection.close()
            if not found:
                raise NoData(f"{path}: no ledger here yet: a hub is just making it, or none did")
            raise Permanent(_other_version(path, found))
        return connection


def version(connection: Connection) -> str:
    """The newest migration the database has had; "" if none."""
    with connection.begin():
        if not inspect(connection).has_table("alembic_version"):
            return ""
        return str(connection.scalar(text("SELECT version_num FROM alembic_version")) or "")


def _check(connection: Connection, path: Path) -> None:
    if path.stat().st_size > CHECKED_BYTES:
        return
    with connection.begin():
        said = str(connection.scalar(text("PRAGMA quick_check(1)")))
    if said != "ok":
        raise Permanent(_damaged(path, said.replace("\n", " ")))


def _migrate(connection: Connection, path: Path) -> None:
    found = version(connection)
    if found == VERSION:
        return
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    settings = Config()
    settings.set_main_option("script_location", "bigiron.store:migrations")
    settings.attributes["connection"] = connection
    if not found and _foreign(connection):
        raise Permanent(f"{path}: another program's database, no ledger; name another --folder")
    if found and found not in {
        s.revision for s in ScriptDirectory.from_config(settings).walk_revisions()
    }:
        raise Permanent(_other_version(path, found))
    with connection.begin():
        command.upgrade(settings, "head")


def _foreign(connection: Connection) -> bool:
    with connection.begin():
        return bool(inspect(connection).get_table_names())


def _other_version(path: Path, found: str) -> str:
    return (
        f"{path}: its schema is {found}, this bigiron knows {VERSION}; "
        "use the bigiron that wrote it, or start `bigiron hub` to bring an older one up to date"
    )


def _damaged(path: Path, said: str) -> str:
    return f"{path}: damaged ({said}); restore a copy, or move it away to start a new ledger"


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns the database's errors into ours, each naming the file."""
    try:
        yield
    except StoreError as error:
        raise StoreError(error.table, error.row, error.problem, str(path)) from error
    except DBAPIError as error:
        raise _explain(path, str(error.orig)) from error
    except SQLAlchemyError as error:
        raise Permanent(f"{path}: {error}") from error
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror or error}") from error


def _explain(path: Path, said: str) -> BigironError:
    low = said.lower()
    if "locked" in low or "busy" in low:
        return Temporary(f"{path}: locked by another process", retry_after_s=1.0)
    if "full" in low:
        return Temporary(f"{path}: disk full; nothing is lost, tried again", retry_after_s=5.0)
    if "disk i/o" in low:
        return Temporary(
            f"{path}: cannot be written (disk full, over quota or failing); tried again",
            retry_after_s=5.0,
        )
    if "malformed" in low or "not a database" in low:
        return Permanent(_damaged(path, said))
    return Permanent(f"{path}: {said}")


def upsert(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], keys: Iterable[str]
) -> None:
    """Insert ``rows``, replacing those with the same ``keys``; no key twice in one call."""
    if not rows:
        return
    statement = _insert(connection, table)
    names = list(keys)
    rest = {name: statement.excluded[name] for name in rows[0] if name not in names}
    connection.execute(
        statement.on_conflict_do_update(index_elements=names, set_=rest)
        if rest
        else statement.on_conflict_do_nothing(index_elements=names),
        list(rows),
    )


def insert_new(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], keys: Iterable[str]
) -> None:
    """Insert those ``rows`` whose ``keys`` are not there yet."""
    if rows:
        statement = _insert(connection, table)
        connection.execute(statement.on_conflict_do_nothing(index_elements=list(keys)), list(rows))


def _insert(connection: Connection, table: Table) -> "sqlite.Insert | postgresql.Insert":
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)
