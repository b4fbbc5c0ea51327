"""Writing, reading and clearing the index of runs, in SQLite or PostgreSQL.

The run folders stay the truth: the index can be dropped and made again at any time.
"""

import hashlib
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from harness.errors import HarnessError, MissingDependency, StoreError, UsageError
from harness.files import cache_folder, folder_marks
from harness.leaderboards.history.tables import NUMBERS, RUNS
from harness.leaderboards.row import row
from harness.record import RESULTS, Run
from harness.store.checksums import CHECKSUMS
from harness.version import __version__

AT_ONCE = 100
"""Runs that are written in one transaction."""
WAIT = 30
"""Seconds that a writer waits for another one's lock, or for a server's connection."""
MIGRATIONS = Path(__file__).parent / "migrations"
INSERTS: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def default_url() -> str:
    """Return the URL of this machine's index, a file in the cache."""
    return f"sqlite:///{cache_folder() / 'runs.sqlite'}"


class Database:
    """An index of runs.

    Raises:
        UsageError: the URL is of no database that is supported.
        StoreError: the database cannot be reached, or is of another migration.
    """

    def __init__(self, url: str, *, write: bool = False) -> None:
        """Connect; with `write`, create the tables or migrate those of an earlier version."""
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
            if write and self._url.database:
                Path(self._url.database).parent.mkdir(parents=True, exist_ok=True)
        with self._connection() as connection:
            self._migrate(connection, write=write)

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        """A transaction; an error of the database becomes a StoreError, without the password."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            cause = str(getattr(error, "orig", None) or error).strip().splitlines()
            raise StoreError(
                f"database {self._url.render_as_string()}",
                expected="a database that answers",
                found=cause[0] if cause else type(error).__name__,
                fix="Earlier entries are kept. Run the same command again to resume.",
            ) from error

    def _migrate(self, connection: sa.Connection, *, write: bool) -> None:
        if connection.dialect.name == "postgresql" and write:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(7267491)"))
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = connection
        script = ScriptDirectory.from_config(config)
        known = {migration.revision for migration in script.walk_revisions()}
        current = MigrationContext.configure(connection).get_current_revision()
        there = bool(sa.inspect(connection).get_table_names())
        if current == script.get_current_head():
            return
        if write and (current in known or not there):
            command.upgrade(config, "head")
            return
        state = f"migration {current}" if current else "other tables" if there else "an empty one"
        raise StoreError(
            f"database {self._url.render_as_string()}",
            expected=f"an index of runs, migration {script.get_current_head()}",
            found=state,
            fix="`harness runs index` brings it up to date."
            if current in known
            else "`harness runs index` makes a new one in an empty database, or another --db.",
        )

    def index(self, folders: Iterable[Path]) -> tuple[int, dict[Path, HarnessError]]:
        """Write runs, each once whatever wrote it before; unchanged ones are not read again.

        A run is unchanged if the names, sizes and times of its files are those of the index.

        Returns:
            The number of runs that the index has now, and the runs that cannot be read.
        """
        refused: dict[Path, HarnessError] = {}
        records: list[dict[str, Any]] = []
        indexed = 0
        here = RUNS.c.host == socket.gethostname()
        with self._connection() as connection:
            chosen = sa.select(RUNS.c.folder, RUNS.c.files).where(here)
            known = {row.folder: row.files for row in connection.execute(chosen)}
        for folder in folders:
            try:
                files = _marks(folder)
                if files is not None and known.get(str(folder.resolve())) == files:
                    indexed += 1
                    continue
                records.append(record_of(Run.open(folder), files))
            except HarnessError as error:
                refused[folder] = error
            if len(records) == AT_ONCE:
                indexed += self._write(records)
                records = []
        return indexed + self._write(records), refused

    def _write(self, records: list[dict[str, Any]]) -> int:
        # In the order of their keys, so that two writers never wait for each other in a circle.
        unique = sorted({record["run"]["key"]: record for record in records}.items())
        runs = [record["run"] for _, record in unique]
        numbers = [number for _, record in unique for number in record["numbers"]]
        if not unique:
            return 0
        with self._connection() as connection:
            moved = (
                (RUNS.c.host == sa.bindparam("its_host"))
                & (RUNS.c.folder == sa.bindparam("its_folder"))
                & (RUNS.c.key != sa.bindparam("its_key"))
            )
            its = [{f"its_{name}": run[name] for name in ("host", "folder", "key")} for run in runs]
            connection.execute(RUNS.delete().where(moved), its)
            insert = INSERTS[connection.dialect.name](RUNS)
            changes = {name: insert.excluded[name] for name in runs[0] if name != "key"}
            connection.execute(
                insert.on_conflict_do_update(index_elements=["key"], set_=changes), runs
            )
            outdated = NUMBERS.c.run == sa.bindparam("its_key")
            connection.execute(NUMBERS.delete().where(outdated), its)
            connection.execute(NUMBERS.insert(), numbers)
        return len(unique)

    def query(
        self,
        *,
        task: str | None = None,
        model: str | None = None,
        commit: str | None = None,
        since: datetime | None = None,
        metric: str | None = None,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return runs with one number each, the newest first.

        `model` is part of a name or SPEC, `commit` the beginning of one; no `metric`: the headline.
        """
        name = RUNS.c.headline if metric is None else sa.literal(metric)
        shown = [column for column in RUNS.columns if column is not RUNS.c.files]
        chosen = (
            sa.select(*shown, NUMBERS.c.metric, NUMBERS.c.value, NUMBERS.c.low, NUMBERS.c.high)
            .join(NUMBERS, (NUMBERS.c.run == RUNS.c.key) & (NUMBERS.c.metric == name))
            .order_by(RUNS.c.finished_at.desc(), RUNS.c.key)
            .limit(limit)
        )
        if task is not None:
            chosen = chosen.where(RUNS.c.task == task)
        if model is not None:
            is_part = [
                column.contains(model, autoescape=True)
                for column in (RUNS.c.model, RUNS.c.model_spec)
            ]
            chosen = chosen.where(sa.or_(*is_part))
        if commit is not None:
            chosen = chosen.where(RUNS.c.commit.startswith(commit, autoescape=True))
        if since is not None:
            chosen = chosen.where(RUNS.c.finished_at >= since)
        with self._connection() as connection:
            return [dict(record) for record in connection.execute(chosen).mappings()]

    def lost(self, *, delete: bool) -> list[str]:
        """Return the folders of this machine's runs that are no longer there; delete their rows."""
        here = RUNS.c.host == socket.gethostname()
        with self._connection() as connection:
            rows = connection.execute(sa.select(RUNS.c.key, RUNS.c.folder).where(here)).all()
            gone = {key: folder for key, folder in rows if not (Path(folder) / RESULTS).exists()}
            if delete and gone:
                connection.execute(RUNS.delete().where(RUNS.c.key.in_(gone)))
        return sorted(gone.values())


def _arguments(url: sa.URL) -> dict[str, object]:
    return {"timeout": WAIT} if url.get_backend_name() == "sqlite" else {"connect_timeout": WAIT}


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions are begun by `_begin_sqlite`
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_mode = WAL")


def _begin_sqlite(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _marks(folder: Path) -> str | None:
    """Return a hash of the sizes and times of a run's files, and of the version that reads them."""
    files = folder_marks(folder)
    return files and f"{__version__} {files}"


def record_of(run: Run, files: str | None = None) -> dict[str, Any]:
    """Return a run's row of each table.

    Args:
        run: A finished run.
        files: Hash of its files' sizes and times, before it was read.

    Raises:
        StoreError: the run is not finished, or files of it were changed since.
    """
    run.check_files()
    run_row = row(run)
    path = run.folder / RESULTS
    key = hashlib.blake2b((run.folder / CHECKSUMS).read_bytes(), digest_size=16).hexdigest()
    copied = {
        column.name: getattr(run_row, column.name)
        for column in RUNS.columns
        if column.name not in ("key", "host", "folder", "files", "finished_at")
    }
    numbers = [
        {"run": key, "metric": name, "value": value, "low": low, "high": high}
        for name, value in run_row.metrics.items()
        for low, high in [run_row.intervals.get(name) or (None, None)]
    ]
    return {
        "run": {
            "key": key,
            "host": socket.gethostname(),
            "folder": str(run.folder.resolve()),
            "files": files,
            "finished_at": datetime.fromtimestamp(path.stat().st_mtime, UTC),
            **copied,
        },
        "numbers": numbers,
    }
