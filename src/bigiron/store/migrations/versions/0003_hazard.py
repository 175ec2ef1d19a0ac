"""What a verdict says of the next week, of its reasons, and until when it holds."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns; what was judged before has none of it."""
    for table in ("verdicts", "verdict_history"):
        op.add_column(table, sa.Column("p_fail_7d", sa.Float(), nullable=True))
        op.add_column(table, sa.Column("held_until", sa.DateTime(timezone=True), nullable=True))
        op.add_column(table, sa.Column("contributions", sa.Text(), nullable=True))
