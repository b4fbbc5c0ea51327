"""Alembic's entry: migrate over the connection that `history.database` opened."""

from alembic import context

from harness.leaderboards.history.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
