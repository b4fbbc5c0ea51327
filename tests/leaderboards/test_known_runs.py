"""Boards and sites from the index of runs have the bytes of those from the runs' files."""

import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("sqlalchemy", reason="the extra `db` is not installed")
pytest.importorskip("alembic", reason="the extra `db` is not installed")

from harness import files
from harness.cli.main import main
from harness.leaderboards import known_statistics, ranked_table
from harness.leaderboards.board import build
from harness.leaderboards.history import known
from harness.leaderboards.render import json as board_json
from harness.leaderboards.site import write as site_write
from harness.record import Run


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No index but the test's, and runs whose files are taken for old enough."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HARNESS_DB", raising=False)
    monkeypatch.setattr(files, "FRESH", 0)


@pytest.fixture
def runs(world, tmp_path):
    return shutil.copytree(world.runs, tmp_path / "runs")


@pytest.fixture
def outputs(runs, tmp_path, capsys):
    """Build board and site; return all their files by name."""

    def make(*options):
        for action in ("build", "site"):
            out = tmp_path / "out" / action
            shutil.rmtree(out, ignore_errors=True)
            main(["board", action, "--runs", str(runs), "--out", str(out), *options])
        paths = sorted((tmp_path / "out").rglob("*"))
        return {str(path): path.read_bytes() for path in paths if path.is_file()}

    return make


def forbid(monkeypatch, owner, name):
    def refuse(*_, **__):
        raise AssertionError(f"{name} was called for a run that the index knows")

    monkeypatch.setattr(owner, name, refuse)


def test_the_bytes_are_those_of_the_files_after_every_change(url, runs, outputs, make_run, rescore):
    known_bytes = []

    def check():
        known_bytes.append(outputs())
        assert outputs("--db", url) == known_bytes[-1]

    check()  # nothing is in the index
    check()  # all is
    make_run("runs/another", model="another", shift=0.1, seed=5)  # the best: all are compared
    rescore(runs / "disc_seg-0", lambda _, value: value / 2)
    check()
    shutil.rmtree(runs / "disc_seg-2")
    manifest = runs / "disc_seg-1" / "manifest.json"  # without a new checksum: it is refused
    manifest.write_bytes(manifest.read_bytes().replace(b"evil", b"good"))
    check()
    first, second, third, fourth = known_bytes
    assert first == second and third not in (first, fourth)


def test_unchanged_runs_are_not_read_again(url, runs, outputs, monkeypatch):
    shutil.rmtree(runs / "disc_video-0"), shutil.rmtree(runs / "disc_video-1")
    shutil.rmtree(runs / "disc_video-2")  # whose metrics only the data's task knows
    expected = outputs("--db", url)
    forbid(monkeypatch, Run, "check_files")
    forbid(monkeypatch, Run, "units")
    forbid(monkeypatch, ranked_table, "intervals")
    forbid(monkeypatch, site_write, "Journal")
    assert outputs("--db", url) == expected


def test_statistics_of_metrics_that_only_the_data_has_are_computed_again(url, runs, monkeypatch):
    index = known.find_index(url, pytest.fail)
    build(runs, index=index)
    computed = []
    original = ranked_table.intervals
    monkeypatch.setattr(
        ranked_table,
        "intervals",
        lambda *a, **k: computed.append(a[0][-1].name) or original(*a, **k),
    )
    build(runs, index=known.find_index(url, pytest.fail))
    assert computed == ["J&F"] * 3


def test_other_code_and_other_metrics_know_nothing(url, runs, monkeypatch):
    def computed():
        names = []
        monkeypatch.setattr(
            known_statistics.KnownStatistics, "_note_computed", lambda self, run: names.append(run)
        )
        build(runs, index=known.find_index(url, pytest.fail))
        monkeypatch.undo()
        monkeypatch.setattr(files, "FRESH", 0)
        return len(names)

    build(runs, index=known.find_index(url, pytest.fail))
    before = computed()
    monkeypatch.setattr(known, "code_marks", lambda package: "of another version")
    assert computed() > before


KILLED = """
import os, signal, sys
import sqlalchemy as sa
from harness import files
from harness.leaderboards.history import database

files.FRESH = 0
left = int(sys.argv.pop(1))
original = database.Database.keep_values

def keep_values(self, *values):
    global left
    left -= 1
    if left == 0:
        sa.event.listen(self._engine, "commit", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    original(self, *values)

database.Database.keep_values = keep_values
from harness.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("writing", [1, 2])
def test_a_board_that_is_killed_while_it_writes_the_index_harms_nothing(
    writing, runs, outputs, tmp_path
):
    expected = outputs()
    url = f"sqlite:///{tmp_path / 'index.sqlite'}"
    line = ["board", "build", "--runs", runs, "--out", tmp_path / "killed", "--db", url]
    code = [sys.executable, "-c", KILLED, str(writing), *map(str, line)]
    process = subprocess.run(code, capture_output=True, timeout=300)
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    for _ in range(2):
        assert outputs("--db", url) == expected


def whole(path):
    """The bytes of an SQLite file to which nobody writes."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


@settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_index_gives_the_same_board(world, tmp_path_factory, seed):
    draw = random.Random(seed)
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / "index.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "FRESH", 0)
        runs = sorted(world.runs.glob("disc_seg-*"))
        expected = board_json.render(build(runs))
        build(runs, index=known.find_index(f"sqlite:///{path}", pytest.fail))
        content = bytearray(whole(path))
        for _ in range(draw.choice((1, 40))):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        broken = folder / "broken.sqlite"
        broken.write_bytes(content[: draw.choice((len(content), draw.randrange(len(content))))])
        index = known.find_index(f"sqlite:///{broken}", lambda line: None)
        assert board_json.render(build(runs, index=index)) == expected


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE values_of_runs SET content = (SELECT content FROM values_of_runs LIMIT 1)",
        "UPDATE values_of_runs SET content = ''",
        "UPDATE values_of_runs SET content = substr(content, 1, 16)",
        "UPDATE values_of_runs SET content = 17",
        "UPDATE values_of_runs SET folder = folder || 'x'",
        "DROP TABLE values_of_runs",
        "DELETE FROM alembic_version",
    ],
)
def test_an_index_with_other_values_gives_the_same_bytes(change, outputs, tmp_path):
    path = tmp_path / "index.sqlite"
    expected = outputs("--db", f"sqlite:///{path}")
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    assert outputs("--db", f"sqlite:///{path}") == expected


def test_an_index_that_cannot_be_used_is_named_and_the_board_is_the_same(
    runs, outputs, make_run, tmp_path, capsys
):
    path = tmp_path / "index.sqlite"
    outputs("--db", f"sqlite:///{path}")
    whole(path)
    make_run("runs/another", model="another", seed=5)
    expected = outputs()
    capsys.readouterr()
    assert outputs("--db", f"sqlite:///file:{path}?mode=ro&uri=true") == expected
    assert "the index of runs is not used" in capsys.readouterr().err
    path.write_bytes(b"no database at all" * 99)
    assert outputs("--db", f"sqlite:///{path}") == expected
    assert "the index of runs is not used" in capsys.readouterr().err
    line = [
        "board",
        "build",
        "--runs",
        str(runs),
        "--out",
        str(tmp_path / "x"),
        "--db",
        "mysql://x",
    ]
    assert main(line) == 2


def test_this_machines_index_is_used_if_it_is_there(outputs, runs, tmp_path, monkeypatch):
    outputs()
    assert not (tmp_path / "cache" / "runs.sqlite").exists()
    assert main(["runs", "index", str(runs)]) == 0
    expected = outputs()
    forbid(monkeypatch, Run, "check_files")
    assert outputs() == expected


def test_values_of_lost_folders_are_cleared(runs, outputs, tmp_path):
    path = tmp_path / "index.sqlite"
    outputs("--db", f"sqlite:///{path}")

    def folders():
        with sqlite3.connect(path) as connection:
            return {
                Path(row[0]).name for row in connection.execute("SELECT folder FROM values_of_runs")
            }

    assert "disc_seg-0" in folders()
    shutil.rmtree(runs / "disc_seg-0")
    assert main(["runs", "gc", str(tmp_path), "--db", f"sqlite:///{path}", "--delete"]) == 0
    assert folders() == {path.name for path in runs.iterdir()}


def test_large_values_are_not_kept(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(known, "MAX_BYTES", 10)
    path = tmp_path / "index.sqlite"
    build(runs, index=known.find_index(f"sqlite:///{path}", pytest.fail))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM values_of_runs").fetchone() == (0,)


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(plain_values, st.integers(0, 5))
def test_indented_json_is_that_of_the_standard_library(value, levels):
    text = board_json.indented(value, levels)
    assert json.loads(text) == json.loads(json.dumps(value))
    assert board_json.indented(value, 100) == json.dumps(value, indent=1)
