"""Tables of the index of runs. `migrations/` creates them; a test checks that both agree."""

from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

METADATA = MetaData()

RUNS = Table(
    "runs",
    METADATA,
    Column("key", Text, primary_key=True),  # hash of the run's checksums: of all its content
    Column("host", Text, nullable=False),
    Column("folder", Text, nullable=False, index=True),
    Column("files", Text),  # hash of its files' sizes and times, by which a change is seen
    Column("finished_at", DateTime(timezone=True), nullable=False),
    Column("model", Text, nullable=False),
    Column("model_spec", Text, nullable=False),
    Column("task", Text, nullable=False, index=True),
    Column("task_version", Integer, nullable=False),
    Column("split", Text, nullable=False),
    Column("protocol", Text, nullable=False),
    Column("subset", Text),
    Column("data", Text, nullable=False),
    Column("headline", Text, nullable=False),
    Column("n_total", Integer, nullable=False),
    Column("n_failed", Integer, nullable=False),
    Column("seconds", Float),
    Column("seed", Integer),
    Column("commit", Text),
    Column("dirty", Boolean),
    Column("device", Text),
    Column("config_hash", Text, nullable=False),
)

NUMBERS = Table(
    "numbers",
    METADATA,
    Column("run", Text, ForeignKey("runs.key", ondelete="CASCADE"), primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("value", Float),
    Column("low", Float),
    Column("high", Float),
)

VALUES = Table(
    "values_of_runs",
    METADATA,
    Column("host", Text, primary_key=True),
    Column("folder", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),  # a hash and JSON; see `known.KnownValues`
)
