"""People's requests to close a finding."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table that the hub takes the requests from."""
    op.create_table(
        "closings",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finding", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("because", sa.Text(), nullable=False),
        sa.Column("applied", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index(
        "closings_asked",
        "closings",
        ["number"],
        unique=False,
        sqlite_where=sa.text("applied IS NULL"),
        postgresql_where=sa.text("applied IS NULL"),
    )
