"""`harness hub push` and `pull`: what goes to a hub on this machine comes back the same."""

import json
import sys
from pathlib import Path

import pytest

from harness.record import Run

sys.path.insert(0, str(Path(__file__).parents[2] / "serving"))

from hub_folders import MODEL, NAME, TOKEN, contents, left

pytest.importorskip("huggingface_hub")


def test_a_checkpoint_goes_there_and_comes_back(training, command, hub, token, tmp_path):
    hub.state["repositories"].clear()
    assert command("card", training)[0] == 0
    code, text = command("push", training, "org/net")
    assert code == 0, text
    commit = hub.state["commit"]
    assert commit in text and MODEL not in hub.state["public"]
    code, text = command("pull", "org/net", tmp_path / "net", "--revision", commit)
    assert code == 0, text
    there, here = contents(tmp_path / "net"), contents(training / "checkpoint")
    assert there.keys() == here.keys()
    changed = {name for name in here if there[name] != here[name]}
    assert changed == {"harness.json"}, "which named paths of this machine"
    assert str(tmp_path).encode() not in there["harness.json"]
    assert json.loads(there["harness.json"])["config_hash"] == "c0ffee"
    assert left(tmp_path) == ["home", "net"]
    assert not any(TOKEN.encode() in data for data in there.values())


def test_runs_go_there_as_publications_and_come_back(make_run, command, hub, token, tmp_path):
    runs = [make_run("pushed/a"), make_run("pushed/b/v", task="disc_video")]
    folder = runs[0].parent
    code, text = command("push", folder, NAME, "--json")
    assert code == 0, text
    assert json.loads(text)["repository"] == f"datasets/{NAME}"
    code, text = command("pull", f"datasets/{NAME}", tmp_path / "theirs")
    assert code == 0, text
    for run in runs:
        copy = Run.open(tmp_path / "theirs" / run.relative_to(folder))
        assert copy.results == Run.open(run).results and copy.manifest["data"]["root"] == ""
    # A copy is pushed as it is, with the same chain.
    again = "org/again"
    assert command("push", tmp_path / "theirs", again)[0] == 0
    assert {**hub.state["repositories"][again]} == {**hub.state["repositories"][NAME]}


def test_a_data_set_goes_there_without_hidden_files(command, hub, token, tmp_path):
    data = tmp_path / "data" / "sub"
    data.mkdir(parents=True)
    (data / "a.json").write_text("{}")
    (data / ".env").write_text("SECRET=1")
    assert command("push", tmp_path / "data", f"datasets/{NAME}")[0] == 0
    assert set(hub.state["repositories"][NAME]) == {".gitattributes", "sub/a.json"}
    assert command("pull", f"datasets/{NAME}", tmp_path / "back")[0] == 0
    assert contents(tmp_path / "back") == {"sub/a.json": (data / "a.json").read_bytes()}


def test_paths_of_this_machine_stay_here_and_tokens_are_kept(
    training, command, hub, token, tmp_path
):
    folder = training / "checkpoint"
    place = str(tmp_path / "sam2")
    tokens = {"added_tokens": [{"content": "/usr/bin"}], "chat_template": "say /no_think"}
    for name, plain in {
        "harness_inference.json": {"version": 1, "model": f"m(segmenter=sam2(checkpoint={place}))"},
        "config.json": {"_name_or_path": place, "text_config": {"_name_or_path": "org/net"}},
        "tokenizer.json": tokens,
    }.items():
        (folder / name).write_text(json.dumps(plain))
    assert command("push", training, "org/new")[0] == 0
    files = hub.state["repositories"]["models/org/new"]
    assert not [name for name, data in files.items() if str(tmp_path).encode() in data]
    asked = json.loads(files["harness_inference.json"])["model"]
    assert asked == "m(segmenter=sam2(checkpoint=sam2))"
    inner = {"_name_or_path": "sam2", "text_config": {"_name_or_path": "org/net"}}
    assert (
        json.loads(files["config.json"]) == inner and json.loads(files["tokenizer.json"]) == tokens
    )
