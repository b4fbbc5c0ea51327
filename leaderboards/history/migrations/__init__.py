"""The way to the tables: one revision a change, run by Alembic."""
