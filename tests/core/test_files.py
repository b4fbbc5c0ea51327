"""Files are opened only if they are files, and hashed once."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from harness import files
from harness.files import Contents, NoFile, digest, open_regular
from harness.store.atomic import write_bytes


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A cache of this test's own, and what is hashed."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "CONTENTS", Contents())
    hashed = []
    monkeypatch.setattr(
        files, "open_regular", lambda path: hashed.append(path.name) or open_regular(path)
    )
    return hashed


def written(folder, count):
    folder.mkdir()
    paths = [folder / f"{index}.bin" for index in range(count)]
    for index, path in enumerate(paths):
        path.write_bytes(bytes([index]) * 1000)
        os.utime(path, ns=(1, 1))
    return paths


def again(monkeypatch):
    """As another process finds the cache."""
    files.CONTENTS.save()
    monkeypatch.setattr(files, "CONTENTS", Contents())


def of(hashed):
    return [name for name in hashed if name.endswith(".bin")]


def test_a_file_is_hashed_once_until_it_changes(tmp_path, kept, monkeypatch):
    paths = written(tmp_path / "data", 3)
    first = [digest(path) for path in paths]
    again(monkeypatch)
    assert [digest(path) for path in paths] == first and len(of(kept)) == 3
    paths[1].write_bytes(b"x" * 1000)
    os.utime(paths[1], ns=(1, 1))
    second = [digest(path) for path in paths]
    assert second[1] != first[1] and second[::2] == first[::2]
    assert of(kept)[3:] == ["1.bin"]


def test_what_was_changed_a_moment_ago_is_hashed_again(tmp_path, kept):
    path = tmp_path / "new.bin"
    path.write_bytes(b"a")
    first = digest(path)
    path.write_bytes(b"b")
    assert digest(path) != first and len(of(kept)) == 2


@pytest.mark.parametrize("damage", [b"", b"{", b'{"folder": 1}', b"[" * 10**5, b"\xff"])
def test_a_damaged_cache_is_as_none(tmp_path, kept, monkeypatch, damage):
    (path,) = written(tmp_path / "data", 1)
    first = digest(path)
    again(monkeypatch)
    (cache,) = (tmp_path / "cache" / "contents").iterdir()
    cache.write_bytes(damage)
    assert digest(path) == first and len(of(kept)) == 2


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, kept, monkeypatch):
    (path,) = written(tmp_path / "data", 1)
    (tmp_path / "cache").write_bytes(b"a file in its place")
    first = digest(path)
    again(monkeypatch)
    assert digest(path) == first and len(of(kept)) == 2


def test_processes_that_race_lose_no_hash_and_damage_nothing(tmp_path, kept, monkeypatch):
    paths = written(tmp_path / "data", 8)
    racing = [Contents() for _ in range(4)]

    def race(contents):
        for path in paths:
            contents.store_hash(path, path.stat(), bytes(32))
            contents.save()

    threads = [threading.Thread(target=race, args=(one,)) for one in racing]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Contents()
    assert all(found.get(path, path.stat()) == bytes(32) for path in paths)
    assert len(list((tmp_path / "cache" / "contents").iterdir())) == 1, "nothing is left behind"


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_what_is_no_file_is_not_opened(tmp_path, kind):
    path = tmp_path / "thing"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(NoFile):
        open_regular(path)
    with pytest.raises(NoFile):
        digest(path)


DEAD = 2**22 - 7
"""No process of Linux has this number, which is above what `pid_max` allows by default."""


def leftovers(folder, process):
    """What `write_bytes`, a site and a worker leave behind when they are killed."""
    names = [f".a.json.{files._host()}-{process}-0.tmp", f".site.{files._host()}-{process}-3.old"]
    names.append(f"harness-worker-{files._host()}-{process}-ab_c12")
    (folder / names[0]).write_text("half")
    for name in names[1:]:
        (folder / name / "inner").mkdir(parents=True)
    return {folder / name for name in names}


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes_there(tmp_path):
    left = leftovers(tmp_path, DEAD)
    lives = leftovers(tmp_path, os.getppid())
    others = {tmp_path / ".a.json.tmp", tmp_path / ".b.0123abcd-5-0.tmp", tmp_path / "a-1-2"}
    for path in others:
        path.write_text("somebody else's")
    write_bytes(tmp_path / "other.json", b"{}")
    assert set(tmp_path.iterdir()) == lives | others | {tmp_path / "other.json"}
    assert not any(path.exists() for path in left)


def test_the_folder_for_temporary_files_is_tidied_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = leftovers(tmp_path, DEAD)
    with tempfile.TemporaryDirectory(prefix=files.temporary_prefix("clips")) as folder:
        assert files.TEMPORARY.match(Path(folder).name)[2] == str(os.getpid())
        assert [str(path) for path in tmp_path.iterdir()] == [folder] and left


def test_a_killed_command_leaves_nothing_that_the_next_one_does_not_remove(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path; from harness.store import atomic\n"
        "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "atomic.write_bytes(Path(sys.argv[1]), b'{}')"
    )
    path = tmp_path / "results.json"
    done = subprocess.run([sys.executable, "-c", code, str(path)])
    assert done.returncode < 0 and len(list(tmp_path.iterdir())) == 1
    write_bytes(path, b"{}")
    assert list(tmp_path.iterdir()) == [path]


def test_names_of_temporary_files_are_their_own_and_short_enough(tmp_path):
    path = tmp_path / ("a" * 255)
    names = {files.temporary_beside(path) for _ in range(10)}
    assert len(names) == 10 and all(len(name.name) < 200 for name in names)
    write_bytes(path, b"x")
