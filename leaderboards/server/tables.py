"""Tables of the test server's database (`store`)."""

from sqlalchemy import Column, Float, ForeignKey, Integer, MetaData, Table, Text, UniqueConstraint

METADATA = MetaData()

ACCOUNTS = Table(
    "accounts",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("token_hash", Text, nullable=False),  # empty: no token is valid
)

TASKS = Table(
    "tasks",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("identity", Text, nullable=False),  # JSON of `Hosted.identity`
)

UPLOADS = Table(
    "uploads",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("account", Text, ForeignKey("accounts.name"), nullable=False),
    Column("task", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("settings", Text, nullable=False),  # JSON of `hosted.Settings`
    Column("file", Text, nullable=False),  # name of the file in the folder of uploads
    Column("sha256", Text, nullable=False),  # of the file as uploaded
    Column("content", Text, nullable=False),  # hash of its predictions, as records have it
    Column("size", Integer, nullable=False),  # bytes
    Column("received_at", Float, nullable=False),  # seconds since 1970
    Column("state", Text, nullable=False, index=True),  # queued, scored or failed
    Column("score", Float),  # exact; never shown under the Ladder
    Column("shown", Float),  # the account's score on the task after this upload
    Column("moved", Integer),  # 1 if this upload moved it
    UniqueConstraint("account", "task", "sha256", "method", "settings", name="once"),
)
