"""Write, read and clear the index of runs, in SQLite or PostgreSQL (`harness runs`).

It has a row for each run and one for each of its numbers, and cached values of boards. The run
folders stay the source: the index can be dropped and made again at any time.
"""

import hashlib
import socket
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from harness.errors import HarnessError, StoreError
from harness.files import cache_folder, folder_marks
from harness.leaderboards.history import FILE
from harness.leaderboards.history.connections import INSERTS, Connections
from harness.leaderboards.history.tables import NUMBERS, RUNS, VALUES
from harness.leaderboards.row import row
from harness.record import RESULTS, Run
from harness.store.checksums import CHECKSUMS
from harness.version import __version__

RUNS_AT_ONCE = 100
"""Runs that are written in one transaction."""
MIGRATION_LOCK = 7267491  # any number that is the same in all processes
VERSIONS, HEAD = "alembic_version", "0003"
"""Table with a database's migration, and the newest migration."""
MIGRATIONS = Path(__file__).parent / "migrations"


def default_url() -> str:
    """Return the URL of this machine's index, a file in the cache."""
    return f"sqlite:///{cache_folder() / FILE}"


class Database(Connections):
    """An index of runs.

    Raises:
        UsageError: the URL is not of a supported database.
        StoreError: the database cannot be reached, or has another migration.
    """

    def __init__(self, url: str, *, write: bool = False) -> None:
        """Connect; with `write`, create the tables or migrate those of an earlier version."""
        super().__init__(url, write=write)
        with self._connection() as connection:
            self._migrate(connection, write=write)

    def _migrate(self, connection: sa.Connection, *, write: bool) -> None:
        """Create or update the tables; raise StoreError for another version or program."""
        if connection.dialect.name == "postgresql" and write:
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
        tables = sa.inspect(connection).get_table_names()
        if VERSIONS in tables and connection.scalar(sa.text(f"SELECT * FROM {VERSIONS}")) == HEAD:
            return
        # Imported here, because it takes a third of the time of a connection.
        from alembic import command
        from alembic.config import Config
        from alembic.migration import MigrationContext
        from alembic.script import ScriptDirectory

        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = connection
        script = ScriptDirectory.from_config(config)
        revisions = {migration.revision for migration in script.walk_revisions()}
        current = MigrationContext.configure(connection).get_current_revision()
        if write and (current in revisions or not tables):
            command.upgrade(config, "head")
            return
        state = f"migration {current}" if current else "other tables" if tables else "an empty one"
        raise StoreError(
            f"database {self._url.render_as_string()}",
            expected=f"an index of runs, migration {HEAD}",
            found=state,
            fix="`harness runs index` brings it up to date."
            if current in revisions
            else "`harness runs index` makes a new one in an empty database, or another --db.",
        )

    def index(self, folders: Iterable[Path]) -> tuple[int, dict[Path, HarnessError]]:
        """Write runs into the index, in place of their earlier rows; skip unchanged runs.

        A run is unchanged if the names, sizes and times of its files equal those in the index.

        Returns:
            The number of these runs that are in the index now, and the errors of the others.
        """
        refused: dict[Path, HarnessError] = {}
        records: list[dict[str, Any]] = []
        indexed = 0
        local = RUNS.c.host == socket.gethostname()
        with self._connection() as connection:
            chosen = sa.select(RUNS.c.folder, RUNS.c.files).where(local)
            rows = connection.execute(chosen)
            indexed_files = {indexed.folder: indexed.files for indexed in rows}
        for folder in folders:
            try:
                files = _marks(folder)
                if files is not None and indexed_files.get(str(folder.resolve())) == files:
                    indexed += 1
                    continue
                records.append(record_of(Run.open(folder), files))
            except HarnessError as error:
                refused[folder] = error
            if len(records) == RUNS_AT_ONCE:
                indexed += self._write(records)
                records = []
        return indexed + self._write(records), refused

    def _write(self, records: list[dict[str, Any]]) -> int:
        """Write runs in place of their earlier rows; return their number."""
        # In the order of their keys, so that two writers never wait for each other in a circle.
        unique = sorted({record["run"]["key"]: record for record in records}.items())
        runs = [record["run"] for _, record in unique]
        numbers = [number for _, record in unique for number in record["numbers"]]
        if not unique:
            return 0
        with self._connection() as connection:
            # Rows of other runs that were in the same folders.
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

        `model` is part of a name or SPEC, `commit` the beginning of a commit's hash. If `metric` is
        None, the number is the headline.
        """
        name = RUNS.c.headline if metric is None else sa.literal(metric)
        columns = [column for column in RUNS.columns if column is not RUNS.c.files]
        chosen = (
            sa.select(*columns, NUMBERS.c.metric, NUMBERS.c.value, NUMBERS.c.low, NUMBERS.c.high)
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
        local = RUNS.c.host == socket.gethostname()
        with self._connection() as connection:
            rows = connection.execute(sa.select(RUNS.c.key, RUNS.c.folder).where(local)).all()
            gone = {key: folder for key, folder in rows if not (Path(folder) / RESULTS).exists()}
            if delete and gone:
                connection.execute(RUNS.delete().where(RUNS.c.key.in_(gone)))
            if delete:
                local = VALUES.c.host == socket.gethostname()
                folders = connection.scalars(sa.select(VALUES.c.folder).where(local).distinct())
                lost = [folder for folder in folders if not (Path(folder) / RESULTS).exists()]
                connection.execute(VALUES.delete().where(local, VALUES.c.folder.in_(lost)))
        return sorted(gone.values())

    def values(self, name: str, folders: Sequence[str]) -> dict[str, bytes]:
        """Return the stored values of a name, by run folder of this machine."""
        chosen = sa.select(VALUES.c.folder, VALUES.c.content).where(
            VALUES.c.host == socket.gethostname(),
            VALUES.c.name == name,
            VALUES.c.folder.in_(sa.bindparam("folders", expanding=True)),
        )
        values: dict[str, bytes] = {}
        with self._connection() as connection:
            for start in range(0, len(folders), RUNS_AT_ONCE):
                batch = {"folders": folders[start : start + RUNS_AT_ONCE]}
                rows = connection.execute(chosen, batch)
                # A damaged file of SQLite may hold values of any type.
                values |= {folder: value for folder, value in rows if isinstance(value, bytes)}
        return values

    def keep_values(self, name: str, contents: Mapping[str, bytes]) -> None:
        """Store a value of a name for each run folder of this machine, in place of its last."""
        host = socket.gethostname()
        rows = [
            {"host": host, "folder": folder, "name": name, "content": content}
            for folder, content in sorted(contents.items())
        ]
        for start in range(0, len(rows), RUNS_AT_ONCE):
            with self._connection() as connection:
                insert = INSERTS[connection.dialect.name](VALUES)
                connection.execute(
                    insert.on_conflict_do_update(
                        index_elements=[column.name for column in VALUES.primary_key],
                        set_={"content": insert.excluded.content},
                    ),
                    rows[start : start + RUNS_AT_ONCE],
                )


def _marks(folder: Path) -> str | None:
    """Return a hash of the sizes and times of a run's files, and of the version that reads them."""
    files = folder_marks(folder)
    return None if files is None else f"{__version__} {files}"


def record_of(run: Run, files: str | None = None) -> dict[str, Any]:
    """Return a run's row of `RUNS` under `run`, and its rows of `NUMBERS` under `numbers`.

    Args:
        run: A finished run.
        files: Hash of its files' sizes and times before it was read (`_marks`).

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
    numbers = []
    for name, value in run_row.metrics.items():
        low, high = run_row.intervals.get(name) or (None, None)
        numbers.append({"run": key, "metric": name, "value": value, "low": low, "high": high})
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
