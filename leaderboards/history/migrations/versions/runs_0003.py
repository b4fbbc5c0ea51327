"""Values that boards compute of runs, by the runs' folders."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "values_of_runs",
        sa.Column("host", sa.Text, primary_key=True),
        sa.Column("folder", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
