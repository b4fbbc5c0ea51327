"""`harness hub`: what breaks off, lies or is refused on the way leaves nothing half-done."""

import errno
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "serving"))

from hub_folders import MODEL, NAME, contents, left, weights
from hub_server import listed

pytest.importorskip("huggingface_hub")
_snapshot_download = pytest.importorskip("huggingface_hub._snapshot_download")


@pytest.mark.parametrize("fault", ["cut", "broken", "elsewhere"])
def test_a_pull_that_breaks_off_leaves_no_folder_and_goes_on(command, hub, tmp_path, fault):
    hub.state[fault].add("model.safetensors")
    code, text = command("pull", "org/net", tmp_path / "net")
    assert code == 3 and "org/net" in text
    assert not (tmp_path / "net").exists() and len(left(tmp_path)) == 1
    hub.state[fault].clear()
    hub.asked.clear()
    assert command("pull", "org/net", tmp_path / "net")[0] == 0
    assert contents(tmp_path / "net") == hub.state["repositories"][MODEL]
    assert left(tmp_path) == ["net"]


def test_a_full_disk_is_told_as_one(command, hub, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_snapshot_download, "hf_hub_download", full)
    code, text = command("pull", "org/net", tmp_path / "net")
    assert code == 5 and f"{tmp_path / 'net'}:" in text and "No space left" in text


@pytest.mark.parametrize("name", ["model.safetensors", "sub/notes.txt"])
def test_content_with_another_hash_is_refused(command, hub, tmp_path, name):
    whole = hub.state["repositories"][MODEL][name]
    hub.state["instead"] = {name: bytes([whole[0] ^ 1]) + whole[1:]}
    code, text = command("pull", "org/net", tmp_path / "net")
    assert code == 3 and name in text and not (tmp_path / "net").exists()
    hub.state["instead"].clear()
    assert command("pull", "org/net", tmp_path / "net")[0] == 0


def test_a_run_that_was_edited_on_the_hub_is_refused(make_run, command, hub, token, tmp_path):
    run = make_run("pushed/a")
    assert command("push", run, NAME)[0] == 0
    files = hub.state["repositories"][NAME]
    assert "a/results.json" in files
    files["a/results.json"] = files["a/results.json"].replace(b"0.", b"1.")
    code, text = command("pull", f"datasets/{NAME}", tmp_path / "theirs")
    assert code == 5 and "results.json" in text and not (tmp_path / "theirs").exists()


def test_weights_that_are_cut_off_on_the_hub_are_refused(command, hub, tmp_path):
    hub.state["repositories"][MODEL]["model.safetensors"] = weights()[:-2]
    code, text = command("pull", "org/net", tmp_path / "net")
    assert code == 4 and "model.safetensors" in text and not (tmp_path / "net").exists()


@pytest.mark.parametrize("moment", ["upload", "refused", "commit"])
def test_a_push_that_breaks_off_commits_nothing(training, command, hub, token, moment):
    hub.state["dies"] = moment
    code, text = command("push", training, "org/new")
    assert code == 3 and "org/new" in text
    assert set(hub.state["repositories"]["models/org/new"]) == {".gitattributes"}
    hub.state["dies"] = ""
    assert command("push", training, "org/new")[0] == 0


def test_files_that_the_hub_leaves_out_are_told(training, command, hub, token):
    hub.state["ignored"].add("harness.json")
    code, text = command("push", training, "org/new")
    assert code == 3 and "harness.json" in text


@pytest.mark.parametrize(
    ("refuse", "words"),
    [((401, ""), "HF_TOKEN"), ((403, "GatedRepo"), "Accept"), ((404, "RevisionNotFound"), "main")],
)
def test_what_the_hub_refuses_is_said(command, hub, token, tmp_path, refuse, words):
    hub.state["refuse"] = refuse
    code, text = command("pull", "org/net", tmp_path / "net")
    assert code == 3 and words in text and left(tmp_path) == []


def test_a_repository_that_is_not_there_is_named(command, hub, tmp_path):
    code, text = command("pull", "org/none", tmp_path / "net")
    assert code == 3 and "org/none" in text and left(tmp_path) == []


def test_an_answer_that_is_none_is_told(command, hub, tmp_path):
    hub.state["also_listed"] = [{"type": "file", "path": "x"}]
    assert command("pull", "org/net", tmp_path / "net")[0] == 3
    hub.state["also_listed"] = [{**listed("x", b""), "size": -(10**12)}]
    assert command("pull", "org/net", tmp_path / "net")[0] == 3
    hub.state["commit"] = "../x"
    assert command("pull", "org/net", tmp_path / "net")[0] == 3
    assert left(tmp_path) == []
