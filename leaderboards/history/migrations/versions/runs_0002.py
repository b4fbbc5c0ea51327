"""Sizes and times of a run's files, so that unchanged runs are not read again."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column, empty, so that each run is read once more; find runs by their folder."""
    op.add_column("runs", sa.Column("files", sa.Text))
    op.create_index("ix_runs_folder", "runs", ["folder"])
