"""Connections to SQLite or PostgreSQL, for the index of runs and for the test server's store."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from harness.errors import MissingDependency, StoreError, UsageError

WAIT = 30
"""Seconds that a writer waits for another one's lock, or for a server's connection."""
INSERTS: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
"""`INSERT` of each supported database, by the name of its backend."""


class Connections:
    """Base class of stores in SQLite or PostgreSQL, whose transactions run in `_connection`.

    Raises:
        UsageError: the URL does not name a supported database.
        MissingDependency: its driver is not installed.
    """

    def __init__(self, url: str, *, write: bool = False) -> None:
        """Prepare connections, which open at first use; `write`: make the folder of SQLite's file.

        Args:
            url: `sqlite:///FILE` or `postgresql+psycopg://USER@HOST/NAME`.
            write: True if tables will be written.
        """
        try:
            self._url = sa.make_url(url)
            if self._url.get_backend_name() not in INSERTS:
                raise ArgumentError(self._url.get_backend_name())
            self._engine = sa.create_engine(self._url, connect_args=_arguments(self._url))
        except ModuleNotFoundError as error:  # the database's driver
            raise MissingDependency.package(error.name, extra="db") from error
        except (ArgumentError, NoSuchModuleError) as error:
            raise UsageError(
                "--db",
                expected="sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME",
                found=str(error),
            ) from error
        if self._url.get_backend_name() == "sqlite":
            sa.event.listen(self._engine, "connect", _prepare_sqlite)
            sa.event.listen(self._engine, "begin", _begin_sqlite)
            path = self._url.database or ""
            if write and path and not path.startswith("file:"):  # a URI names a file that exists
                Path(path).parent.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        """Open a transaction; errors of the database are raised as StoreError, without password."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except (SQLAlchemyError, UnicodeDecodeError) as error:  # a damaged file cannot be decoded
            cause = str(getattr(error, "orig", None) or error).strip().splitlines()
            raise StoreError(
                f"database {self._url.render_as_string()}",
                expected="a database that answers",
                found=cause[0] if cause else type(error).__name__,
                fix="Earlier entries are kept. Run the same command again to resume.",
            ) from error


def _arguments(url: sa.URL) -> dict[str, object]:
    if url.get_backend_name() == "sqlite":
        return {"timeout": WAIT}
    # A prepared statement does not know the 100 folders that it looks for, and compares each row
    # with each of them by the rules of a language: 8 s, in place of 1, for 10,000 runs.
    return {"connect_timeout": WAIT, "prepare_threshold": None}


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions are begun by `_begin_sqlite`
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_mode = WAL")


def _begin_sqlite(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
