"""Runs and their numbers."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "runs",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("model_spec", sa.Text, nullable=False),
        sa.Column("task", sa.Text, nullable=False, index=True),
        sa.Column("task_version", sa.Integer, nullable=False),
        sa.Column("split", sa.Text, nullable=False),
        sa.Column("protocol", sa.Text, nullable=False),
        sa.Column("subset", sa.Text),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("headline", sa.Text, nullable=False),
        sa.Column("n_total", sa.Integer, nullable=False),
        sa.Column("n_failed", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float),
        sa.Column("seed", sa.Integer),
        sa.Column("commit", sa.Text),
        sa.Column("dirty", sa.Boolean),
        sa.Column("device", sa.Text),
        sa.Column("config_hash", sa.Text, nullable=False),
    )
    op.create_table(
        "numbers",
        sa.Column("run", sa.Text, sa.ForeignKey("runs.key", ondelete="CASCADE"), primary_key=True),
        sa.Column("metric", sa.Text, primary_key=True),
        sa.Column("value", sa.Float),
        sa.Column("low", sa.Float),
        sa.Column("high", sa.Float),
    )
