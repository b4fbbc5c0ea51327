"""The index of runs: SQLite, a real PostgreSQL server, concurrent writers, faults."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the extra `db` is not installed")
pytest.importorskip("alembic", reason="the extra `db` is not installed")

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from harness import files
from harness.cli.main import main
from harness.errors import StoreError, UsageError
from harness.leaderboards.history import database
from harness.leaderboards.history.database import Database
from harness.leaderboards.history.tables import METADATA
from harness.record import runs_below


def test_an_index_is_made_asked_and_made_again(url, world, tmp_path):
    folders = runs_below(world.runs)
    made = Database(url, write=True)
    for _ in range(2):  # again changes nothing
        assert made.index(folders) == (6, {})
    found = Database(url).query()
    assert len(found) == 6 and {one["task"] for one in found} == {"disc_seg", "disc_video"}
    (steady,) = Database(url).query(task="disc_seg", model="steady")
    results = database.Run.open(Path(steady["folder"])).results
    assert steady["value"] == results["metrics"]["giou"]
    assert [steady["low"], steady["high"]] == results["intervals"]["giou"]
    assert steady["commit"] == "0123456789abcdef" and steady["finished_at"]
    (other,) = Database(url).query(task="disc_seg", model="steady", metric="ciou")
    assert other["value"] == results["metrics"]["ciou"]
    assert len(Database(url).query(commit="0123", limit=2)) == 2
    for nothing in ({"commit": "%"}, {"model": "%"}, {"task": "disc"}):
        assert Database(url).query(**nothing) == []


def test_a_run_that_was_scored_again_replaces_its_row(url, make_run, rescore):
    folder = make_run("a")
    made = Database(url, write=True)
    made.index([folder])
    rescore(folder, lambda _, value: value / 2)
    made.index([folder])
    (found,) = made.query()
    assert found["value"] == database.Run.open(folder).results["metrics"]["giou"]


def test_unchanged_runs_are_not_read_again_and_changed_ones_are(url, make_run, monkeypatch):
    monkeypatch.setattr(files, "FRESH", 0)
    runs = [make_run("a"), make_run("b", seed=1)]
    index = Database(url, write=True)
    index.index(runs)
    read = []
    original = database.record_of
    monkeypatch.setattr(
        database, "record_of", lambda run, *more: read.append(run.folder) or original(run, *more)
    )
    assert index.index(runs) == (2, {}) and read == []
    scores = runs[0] / "scores.jsonl"
    times = scores.stat()
    scores.write_bytes(scores.read_bytes().replace(b"1", b"2", 1))  # of the same size
    os.utime(scores, ns=(times.st_atime_ns, times.st_mtime_ns))
    indexed, refused = index.index(runs)
    assert indexed == 1 and list(refused) == read == runs[:1]


def test_runs_that_may_still_change_unseen_are_read_again(url, make_run, monkeypatch):
    monkeypatch.setattr(files, "FRESH", 10**15)
    index = Database(url, write=True)
    run = make_run("a")
    index.index([run])
    read = []
    original = database.record_of
    monkeypatch.setattr(
        database, "record_of", lambda run, *more: read.append(run.folder) or original(run, *more)
    )
    index.index([run])
    assert read == [run]


def test_what_cannot_be_read_is_named_and_the_others_are_written(url, make_run):
    runs = [make_run(f"run{place}", seed=place) for place in range(5)]
    edited, half, older = runs[0], runs[2], runs[4]
    (edited / "results.json").write_text((edited / "results.json").read_text() + " ")
    (half / "results.json").unlink()
    text = (older / "manifest.json").read_text()
    (older / "manifest.json").write_text(text.replace('"version": 2', '"version": 1', 1))
    written, refused = Database(url, write=True).index(runs)
    assert written == 2 and list(refused) == [edited, half, older]
    assert all("results.json" in str(refused[one]) for one in (edited, half))
    assert "version" in str(refused[older])


def test_rows_of_lost_folders_are_cleared_only_when_asked(url, make_run):
    folders = [make_run("a"), make_run("b", seed=1)]
    made = Database(url, write=True)
    made.index(folders)
    shutil.rmtree(folders[0])
    assert made.lost(delete=False) == [str(folders[0])] and len(made.query()) == 2
    assert made.lost(delete=True) == [str(folders[0])]
    assert [one["folder"] for one in made.query()] == [str(folders[1])]
    with made._connection() as connection:  # numbers go with their run
        assert len(connection.execute(sa.text("SELECT DISTINCT run FROM numbers")).all()) == 1


def test_writers_at_once_lose_nothing_in_a_database_that_none_has_made(url, world, make_run):
    folders = [*runs_below(world.runs), *(make_run(f"more{i}", seed=i) for i in range(4))]
    line = [sys.executable, "-m", "harness", "runs", "index", "--db", url]
    orders = (folders, folders[::-1], folders[5:] + folders[:5])
    with ThreadPoolExecutor(3) as pool:
        done = list(
            pool.map(
                lambda order: subprocess.run(
                    [*line, *map(str, order)], capture_output=True, text=True, timeout=300
                ),
                orders,
            )
        )
    assert [one.returncode for one in done] == [0, 0, 0], [one.stderr for one in done]
    assert len(Database(url).query()) == len(folders)


def test_the_migrations_lead_to_the_tables(url):
    made = Database(url, write=True)
    with made._connection() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, METADATA) == []
        assert context.get_current_revision() == database.HEAD


def test_a_database_of_another_migration_is_refused(url, make_run):
    made = Database(url, write=True)
    made.index([make_run("a")])
    with made._connection() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    for write in (False, True):
        with pytest.raises(StoreError, match=r"0003.*9999"):
            Database(url, write=write)
    with made._connection() as connection:  # nothing was changed
        assert connection.execute(sa.text("SELECT count(*) FROM runs")).scalar() == 1


LATER = """
import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade():
    op.add_column("runs", sa.Column("later", sa.Text))
"""


def test_an_index_of_an_earlier_version_is_migrated_and_keeps_its_runs(
    url, make_run, monkeypatch, tmp_path
):
    made = Database(url, write=True)
    made.index([make_run("a")])
    shutil.copytree(database.MIGRATIONS, tmp_path / "migrations")
    (tmp_path / "migrations" / "versions" / "0004_later.py").write_text(LATER)
    monkeypatch.setattr(database, "MIGRATIONS", tmp_path / "migrations")
    monkeypatch.setattr(database, "HEAD", "0004")
    with pytest.raises(StoreError, match=r"0004.*0003"):
        Database(url)
    later = Database(url, write=True)
    with later._connection() as connection:
        assert connection.execute(sa.text("SELECT later FROM runs")).all() == [(None,)]


def test_other_peoples_tables_and_an_empty_database_are_refused(url, tmp_path):
    with pytest.raises(StoreError):
        Database(url)
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE theirs (x INTEGER)"))
    with pytest.raises(StoreError, match="other tables"):
        Database(url, write=True)


def test_a_server_that_goes_away_mid_write_loses_no_run_that_was_written(
    server, make_run, monkeypatch
):
    url = server.new("goes_away")
    monkeypatch.setattr(database, "RUNS_AT_ONCE", 2)
    folders = [make_run(f"run{i}", seed=i) for i in range(6)]

    def until_the_server_stops():
        for place, folder in enumerate(folders):
            if place == 3:
                server.stop()
            yield folder

    made = Database(url, write=True)
    try:
        with pytest.raises(StoreError, match="goes_away") as stopped:
            made.index(until_the_server_stops())
        assert "password" not in str(stopped.value)
    finally:
        server.start()
    assert len(Database(url).query()) == 2
    Database(url, write=True).index(folders)
    assert len(Database(url).query()) == 6


def test_a_password_is_not_told(capsys):
    address = "postgresql+psycopg://me:topsecret@127.0.0.1:1/nowhere"
    pytest.importorskip("psycopg", reason="the extra `db` is not installed")
    assert main(["runs", "query", "--db", address]) == 5
    assert "topsecret" not in capsys.readouterr().err
    for wrong in ("mysql://x/y", "nonsense", "oracle://x"):
        with pytest.raises(UsageError):
            Database(wrong)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "index.sqlite").write_text("this is no database, and long enough to say so" * 9)
    with pytest.raises(StoreError, match="not a database"):
        Database(f"sqlite:///{tmp_path / 'index.sqlite'}", write=True)


def test_the_commands_index_query_and_clear(world, make_run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    assert main(["runs", "query"]) == 5  # there is none yet
    assert main(["runs", "index", str(world.runs)]) == 0
    capsys.readouterr()
    assert main(["runs", "query", "--task", "disc_video", "--csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and "finished_at,model," in lines[0]
    assert main(["runs", "query", "--since", "2999-01-01"]) == 0
    assert main(["runs", "query", "--since", "yesterday"]) == 2
    aside = make_run("a").rename(tmp_path / "a.old1")
    capsys.readouterr()
    assert main(["runs", "gc", str(tmp_path)]) == 0
    assert str(aside) in capsys.readouterr().out and aside.exists()
    assert main(["runs", "gc", str(tmp_path), "--delete"]) == 0
    assert not aside.exists()
    with sqlite3.connect(tmp_path / "cache" / "runs.sqlite") as plain:
        assert plain.execute("SELECT count(*) FROM runs").fetchone() == (6,)


def test_a_query_shows_the_split_and_the_subset(make_run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")  # a folder's name may be long
    make_run("runs/a")
    make_run("runs/b", subset="first9")
    database_of = ("--db", f"sqlite:///{tmp_path / 'index.sqlite'}")
    assert main(["runs", "index", str(tmp_path / "runs"), *database_of]) == 0
    capsys.readouterr()
    assert main(["runs", "query", *database_of]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert "split" in head.split()
    at = head.index("split")
    assert sorted(row[at:].split("  ")[0] for row in rows) == ["val", "val first9"]


def test_samples_of_a_derived_metric_are_scored_where_the_data_lies_now(make_run, world, capsys):
    folder = make_run("a", task="disc_video", changes={"data": {"root": "/gone"}})
    assert main(["runs", "samples", str(folder), "--json"]) != 0
    capsys.readouterr()
    assert main(["runs", "samples", str(folder), "--json", "--data", str(world.data)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 8 and found[0]["score"] == min(one["score"] for one in found)
