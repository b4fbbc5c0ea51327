"""Processes that read uploads: their limits, and their rights."""

import json
import socket
from dataclasses import replace
from functools import partial

import pytest
import reader

from harness.leaderboards.server.children import ChildFault, Children, Limits, Refused
from harness.leaderboards.server.hosted import Settings
from harness.sandbox import kernel


@pytest.fixture
def children(hosted, tmp_path):
    return Children(hosted.values(), tmp_path, Limits(seconds=20))


def test_a_process_reads_labels_and_writes_to_its_folder_alone(
    children, hosted, tmp_path, monkeypatch
):
    if kernel.landlock_version() < 4:
        pytest.skip("the kernel has no Landlock with rules for connections")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.syspath_prepend(tmp_path.parent)  # it lies among Python's packages
    secret = tmp_path / "server.key"
    secret.write_bytes(b"secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tried = partial(reader.attempts, secret=str(secret), port=listener.getsockname()[1])
        done = json.loads(children._run(tried, work, hosted["counting"]))
    allowed = {"read the labels", "write into its folder"}
    assert {name for name, is_done in done.items() if is_done} == allowed and len(done) == 9
    assert secret.read_bytes() == b"secret"


@pytest.mark.parametrize("work", [reader.fill, reader.crash])
def test_an_upload_that_takes_too_much_or_ends_its_reader_is_refused(
    work, children, hosted, tmp_path
):
    with pytest.raises(Refused, match="MiB"):
        children._run(work, tmp_path, hosted["counting"])


def test_an_upload_that_takes_too_long_is_refused(hosted, tmp_path):
    children = Children(hosted.values(), tmp_path, Limits(seconds=2))
    with pytest.raises(Refused, match="read in 2 s"):
        children._run(reader.spin, tmp_path, hosted["counting"])


def test_a_fault_of_the_server_is_not_the_uploads(children, hosted, tmp_path):
    with pytest.raises(ChildFault, match="RuntimeError: a secret of the server"):
        children._run(reader.fault, tmp_path, hosted["counting"])


def test_labels_that_changed_since_the_start_score_nothing(children, hosted, counts, tmp_path):
    task = hosted["counting"]
    for number, data in enumerate((task.data, "0" * 32)):
        work = tmp_path / str(number)
        work.mkdir()
        (work / "upload").write_bytes(counts())
        if data == task.data:
            assert children.score(work, task, Settings(), "mine") == 1.0
        else:
            with pytest.raises(ChildFault, match="with which the server started"):
                children.score(work, replace(task, data=data), Settings(), "mine")
