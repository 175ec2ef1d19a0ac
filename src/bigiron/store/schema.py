"""The ledger's tables, in SQL that SQLite and PostgreSQL both speak.

What stands now and what led to it are apart: ``facts``, ``node_states``, ``findings`` and
``verdicts`` hold one row for each thing as it stands, their ``_history`` or ``_changes`` tables
only ever grow. Every time is UTC.
"""

from datetime import UTC, datetime

from sqlalchemy import (
    Column,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    text,
)

from bigiron.model import Device, Node

VERSION = "0003"
"""The newest migration; a ledger that says so is opened without asking Alembic."""


class Utc(TypeDecorator[datetime]):
    """An aware UTC time, also where the database keeps no offset."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """To UTC; a naive time is a bug of the caller."""
        if value is not None and value.tzinfo is None:
            raise ValueError(f"a time without an offset: {value}")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """From UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


tables = MetaData()


def _texts(names: tuple[str, ...], *, key: tuple[str, ...]) -> list[Column[str]]:
    return [Column(name, Text, nullable=False, primary_key=name in key) for name in names]


def _number() -> Column[int]:
    return Column("number", Integer, primary_key=True, autoincrement=True)


meta = Table(
    "meta",
    tables,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

nodes = Table("nodes", tables, *_texts(Node.__struct_fields__, key=("name",)))

devices = Table("devices", tables, *_texts(Device.__struct_fields__, key=("node", "name")))

facts = Table(
    "facts",
    tables,
    *_texts(("node", "device", "name"), key=("node", "device", "name")),
    Column("value", Text, nullable=False),  # JSON: a fact may be a text, a number or a yes/no
    Column("time", Utc),
)

fact_history = Table(
    "fact_history",
    tables,
    _number(),
    *_texts(("node", "device", "name", "value"), key=()),
    Column("time", Utc, nullable=False),
)
Index("fact_history_node", fact_history.c.node, fact_history.c.time)

events = Table(
    "events",
    tables,
    _number(),
    Column("key", Text, nullable=False, unique=True),
    Column("seen", Utc, nullable=False),
    Column("time", Utc),
    *_texts(("node", "device", "code", "text", "source"), key=()),
    Column("line", Integer, nullable=False),
    Column("uptime_s", Float),
    Column("attrs", Text, nullable=False),
    Column("count", Integer, nullable=False),
)
Index("events_node", events.c.node, events.c.seen)
Index("events_seen", events.c.seen)

jobs = Table(
    "jobs",
    tables,
    *_texts(("id", "attempt", "state", "user", "nodes"), key=("id", "attempt")),
    Column("start", Utc),
    Column("end", Utc),
    Column("job", Text, nullable=False),
)
Index("jobs_end", jobs.c.end)

node_states = Table(
    "node_states",
    tables,
    *_texts(("node", "state", "reason"), key=("node",)),
    Column("time", Utc, nullable=False),
    Column("node_state", Text, nullable=False),
)

node_state_history = Table(
    "node_state_history",
    tables,
    _number(),
    *_texts(("node", "state", "reason", "node_state"), key=()),
    Column("time", Utc, nullable=False),
)
Index("node_state_history_node", node_state_history.c.node, node_state_history.c.time)

maintenance = Table(
    "maintenance",
    tables,
    Column("key", Text, primary_key=True),
    Column("start", Utc, nullable=False),
    Column("end", Utc, nullable=False),
    *_texts(("kind", "nodes"), key=()),
)

checks = Table(
    "checks",
    tables,
    _number(),
    Column("key", Text, nullable=False, unique=True),
    *_texts(("node", "device", "check_name", "status", "result"), key=()),
    Column("time", Utc, nullable=False),
)
Index("checks_node", checks.c.node, checks.c.time)

findings = Table(
    "findings",
    tables,
    *_texts(("id", "key", "fault", "severity", "node", "device", "finding"), key=("id",)),
    Column("opened", Utc, nullable=False),
    Column("updated", Utc, nullable=False),
    Column("closed", Utc),
    Column("because", Text, nullable=False, server_default=""),
)
# The database itself refuses the same claim twice at one time.
Index(
    "findings_open_once",
    findings.c.key,
    unique=True,
    sqlite_where=text("closed IS NULL"),
    postgresql_where=text("closed IS NULL"),
)
Index("findings_node", findings.c.node)

finding_changes = Table(
    "finding_changes",
    tables,
    _number(),
    Column("time", Utc, nullable=False),
    *_texts(("id", "change", "because", "finding"), key=()),
)
Index("finding_changes_id", finding_changes.c.id)

closings = Table(
    "closings",
    tables,
    _number(),
    Column("time", Utc, nullable=False),
    *_texts(("finding", "by", "because"), key=()),
    Column("applied", Utc),
)
# People's requests, written beside the hub's turns; few of them wait at any time.
Index(
    "closings_asked",
    closings.c.number,
    sqlite_where=text("applied IS NULL"),
    postgresql_where=text("applied IS NULL"),
)

verdicts = Table(
    "verdicts",
    tables,
    *_texts(("node", "health", "findings", "because"), key=("node",)),
    Column("time", Utc, nullable=False),
    Column("p_fail_24h", Float, nullable=False),
    Column("p_fail_7d", Float),
    Column("held_until", Utc),
    Column("contributions", Text),
)

verdict_history = Table(
    "verdict_history",
    tables,
    _number(),
    *_texts(("node", "health", "findings", "because"), key=()),
    Column("time", Utc, nullable=False),
    Column("p_fail_24h", Float, nullable=False),
    Column("p_fail_7d", Float),
    Column("held_until", Utc),
    Column("contributions", Text),
)
Index("verdict_history_node", verdict_history.c.node, verdict_history.c.time)

actions = Table(
    "actions",
    tables,
    _number(),
    # The action's key, apart for one held back and for one asked for: either is kept once.
    Column("once", Text, nullable=False, unique=True),
    Column("time", Utc, nullable=False),
    *_texts(("key", "node", "kind", "mode", "reason", "findings", "when", "held"), key=()),
)
Index("actions_node", actions.c.node, actions.c.time)

cursors = Table(
    "cursors",
    tables,
    *_texts(("source", "cursor"), key=("source",)),
    Column("time", Utc, nullable=False),
)

detector_state = Table(
    "detector_state",
    tables,
    Column("name", Text, primary_key=True),
    Column("state", LargeBinary, nullable=False),
    Column("time", Utc, nullable=False),
)

notes = Table(
    "notes",
    tables,
    *_texts(("source", "what"), key=("source", "what")),
    Column("count", Integer, nullable=False),
    Column("first", Utc, nullable=False),
    Column("last", Utc, nullable=False),
)

meters = Table(
    "meters",
    tables,
    *_texts(("name", "label"), key=("name", "label")),
    Column("value", Float, nullable=False),
    Column("said", Text, nullable=False),
    Column("time", Utc, nullable=False),
)
