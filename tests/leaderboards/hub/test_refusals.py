"""`harness hub`: what is refused before anything is asked or sent."""

import json
import sys
from pathlib import Path

import pytest

from harness.hub import repository
from harness.run.training_record import MANIFEST

sys.path.insert(0, str(Path(__file__).parents[2] / "serving"))

from hub_folders import MODEL, NAME, change, contents, left, unfinished, weights
from hub_server import listed

library = pytest.importorskip("huggingface_hub")
constants = pytest.importorskip("huggingface_hub.constants")


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("other", ["", "a/b/run", "annotations.json"])
def test_runs_are_pushed_whole_or_not(make_run, command, hub, token, tmp_path, finished, other):
    run = make_run("pushed/sub/a")
    if not finished:
        unfinished(run)
    if other.endswith(".json"):
        (tmp_path / "pushed" / other).write_text("{}")
    elif other:
        unfinished(make_run(f"pushed/{other}"))
    code, text = command("push", tmp_path / "pushed", NAME)
    if finished and not other:
        assert code == 0
    else:
        named = other if finished or "/" in other else "sub/a/manifest.json"
        assert code == 2 and named in text and hub.asked == []


@pytest.mark.parametrize("part", ["", "checkpoint"])
def test_an_unfinished_training_is_not_pushed(training, command, hub, token, part):
    change(training / MANIFEST, result=None)
    code, text = command("push", training / part, "org/new")
    assert code == 2 and MANIFEST in text and hub.asked == []
    (training / MANIFEST).write_text((training / "checkpoint" / "harness.json").read_text())
    change(training / "checkpoint" / "harness.json", result=None)
    code, text = command("push", training / part, "org/new")
    assert code == 2 and "harness.json" in text and hub.asked == []


def test_a_folder_of_trainings_is_no_data_set(training, command, hub, token):
    code, text = command("push", training.parent, NAME)
    assert code == 2 and training.name in text and hub.asked == []


def test_weights_that_are_cut_off_or_missing_are_not_pushed(
    training, command, hub, token, tmp_path
):
    (tmp_path / "data").mkdir()
    for folder in (training / "checkpoint", tmp_path / "data"):
        (folder / "model.safetensors").write_bytes(weights()[:-2])
        code, text = command("push", folder, NAME)
        assert code == 4 and "model.safetensors" in text and hub.asked == []
    folder = training / "checkpoint"
    (folder / "model.safetensors").rename(folder / "model-1.safetensors").write_bytes(weights())
    index = {"weight_map": {"w": "model-1.safetensors", "x": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    code, text = command("push", training, "org/new")
    assert code == 4 and "model-2.safetensors" in text and hub.asked == []


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_nothing_is_asked(command, hub, token, tmp_path, monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    for line in (("push", "no such folder", "org/net"), ("pull", "org/net", tmp_path / "net")):
        code, text = command(*line)
        assert code == 2 and variable in text
    assert hub.asked == [] and left(tmp_path) == []


def test_without_a_token_nothing_is_pushed(training, command, hub, monkeypatch, tmp_path):
    (tmp_path / "token").write_text("hf_from_the_disk")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(library.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    code, text = command("push", training, "org/net")
    assert code == 2 and "HF_TOKEN" in text and hub.asked == []
    assert command("pull", "org/net", tmp_path / "net")[0] == 0
    assert {token for _, _, token in hub.asked} == {None}


def test_a_wrong_token_is_refused(training, command, hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    code, text = command("push", training, "org/new")
    assert code == 3 and "401" in text and "hf_wrong" not in text
    assert set(hub.state["repositories"]) == {MODEL}


def test_what_is_no_token_is_not_shown(training, command, hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_one\nhf_another")
    code, text = command("push", training, "org/new")
    assert code == 2 and "hf_one" not in text and hub.asked == []


def test_private_things_do_not_become_public(training, command, hub, token):
    hub.state["repositories"][MODEL] = {}
    hub.state["public"].add(MODEL)
    code, text = command("push", training, "org/net")
    assert code == 2 and "--public" in text and hub.state["repositories"][MODEL] == {}
    assert command("push", training, "org/net", "--public")[0] == 0
    assert command("push", training, "org/other", "--public")[0] == 0
    assert "models/org/other" in hub.state["public"]


def test_what_a_repository_holds_is_replaced_only_if_that_is_said(training, command, hub, token):
    before = dict(hub.state["repositories"][MODEL])
    code, text = command("push", training, "org/net")
    assert code == 2 and "--replace" in text and hub.state["repositories"][MODEL] == before
    assert command("push", training, "org/net", "--replace")[0] == 0
    assert set(hub.state["repositories"][MODEL]) == set(contents(training / "checkpoint"))


@pytest.mark.parametrize("name", ["weights.bin", "a/State.PT", "x.pth.tar", "y.PKL.gz"])
def test_pickles_are_neither_pushed_nor_pulled(training, command, hub, token, tmp_path, name):
    path = training / "checkpoint" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\x80\x04.")
    code, text = command("push", training, "org/new")
    assert code == 2 and name in text and hub.asked == []
    hub.state["repositories"][MODEL][name] = b"\x80\x04."
    code, text = command("pull", "org/net", tmp_path / "net")
    assert code == 2 and name in text and left(tmp_path) == ["home"]
    assert not any("/resolve/" in path for _, path, _ in hub.asked)


def test_links_are_not_followed(training, command, hub, token, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (training / "checkpoint" / "notes.txt").symlink_to(tmp_path / "secret")
    code, text = command("push", training, "org/new")
    assert code == 2 and "notes.txt" in text and hub.asked == []


@pytest.mark.parametrize(
    "name",
    [
        *("../escaped", "sub/../../escaped", "/escaped", "sub//x", "./x", "a\\..\\x"),
        *(".git/hooks/post-checkout", "x/.GIT/config", ".cache/huggingface/x", "lease.json"),
        *("a\nb", "a\x1b[2J", "config.json/x", "x" * 300, "", "model.safetensors"),
    ],
)
def test_names_that_lead_elsewhere_are_refused(command, hub, tmp_path, name):
    hub.state["also_listed"] = [listed(name, b"x")]
    code, _ = command("pull", "org/net", tmp_path / "inner" / "net")
    assert code == 2 and left(tmp_path) == []
    assert not any("/resolve/" in path for _, path, _ in hub.asked)


def test_names_with_what_cannot_be_seen_are_told(command, hub, token, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a\u202f1.png").write_bytes(b"x")
    code, text = command("push", tmp_path / "data", NAME)
    assert code == 2 and "printable" in text and "'\\u202f'" in text and hub.asked == []


@pytest.mark.parametrize("name", ["net", "a/b/c", "../..", "datasets/x", "org/..", "org/n?t", ""])
def test_names_of_no_repository_are_refused(command, hub, tmp_path, name):
    assert command("pull", name, tmp_path / "net")[0] == 2
    assert hub.asked == []


def test_too_many_files_and_too_large_ones_are_refused(command, hub, tmp_path, monkeypatch):
    hub.state["also_listed"] = [{**listed("big", b""), "size": 3 * 10**9}]
    code, text = command("pull", "org/net", tmp_path / "net", "--max-gb", "2")
    assert code == 2 and "3.0 GB" in text
    monkeypatch.setattr(repository, "MAX_FILES", 3)
    code, text = command("pull", "org/net", tmp_path / "net")
    assert code == 2 and "3 files" in text and left(tmp_path) == []


def test_a_folder_that_holds_something_is_left_alone(command, hub, tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "mine").write_text("mine")
    assert command("pull", "org/net", tmp_path / "net")[0] == 2
    assert left(tmp_path / "net") == ["mine"] and hub.asked == []
    (tmp_path / "net" / "mine").unlink()
    assert command("pull", "org/net", tmp_path / "net")[0] == 0
