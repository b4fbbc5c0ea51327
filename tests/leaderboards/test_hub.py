"""`harness hub`: runs, checkpoints and data sets to a hub on this machine and back."""

import errno
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.cli.main import main
from harness.hub import repository
from harness.hub.local_paths import without_paths
from harness.hub.model_card import CARD, CURVES, WRITTEN, write_card
from harness.record import RESULTS, SCORES, Run
from harness.run.checkpoint_provenance import write_origins
from harness.run.contamination import MANIFEST, VERSION, Training
from harness.store.checksums import CHECKSUMS

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from hub_server import COMMIT, VARIABLES, listed, served

library = pytest.importorskip("huggingface_hub")
constants = pytest.importorskip("huggingface_hub.constants")
file_download = pytest.importorskip("huggingface_hub.file_download")
_http = pytest.importorskip("huggingface_hub.utils._http")
_snapshot_download = pytest.importorskip("huggingface_hub._snapshot_download")
TOKEN = "hf_a_secret"
NAME, MODEL = "org/runs", "models/org/net"


def weights(numbers=b"\0\0\0\0"):
    """A whole safetensors file of one number."""
    head = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, len(numbers)]}})
    return len(head).to_bytes(8, "little") + head.encode() + numbers


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub that has a model and no other repository."""
    files = {"config.json": b"{}", "sub/notes.txt": b"a note", "model.safetensors": weights()}
    with served({MODEL: files}) as server:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        for module in (_http, file_download):  # what breaks off is tried again at once
            monkeypatch.setattr(module, "time", SimpleNamespace(**vars(time) | {"sleep": int}))
        yield server


@pytest.fixture
def token(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)


@pytest.fixture
def command(capsys):
    """The command: its exit code, and all that it printed, in which no token stands."""

    def run(*arguments):
        code = main(["hub", *map(str, arguments)])
        text = "".join(capsys.readouterr())
        assert TOKEN not in text and "signed=" not in text and "Traceback" not in text
        return code, text

    return run


@pytest.fixture
def training(tmp_path):
    """A finished training with a checkpoint, as the engine leaves it."""
    folder = tmp_path / "home" / "grpo-0"
    (folder / "checkpoint").mkdir(parents=True)
    task = {"spec": "reason_seg(split=train)", "name": "reason_seg", "version": 2, "n_total": 7}
    manifest = {
        "version": VERSION,
        "harness": "0.1.0",
        "method": {"name": "dr2seg", "spec": "dr2seg(n0=45)", "settings": {"n0": 45, "x": "a|b"}},
        "model": {
            "spec": f"qwen_vl(checkpoint={tmp_path}/base)",
            "base": {"checkpoint": "Qwen/Some-7B", "weights": "beef" * 8},
            "description": {"chat": {"folder": f"{tmp_path}/base"}},
        },
        "tasks": [{**task, "fingerprint": "f1" * 16, "images": "12" * 16, "ids": "1d" * 16}],
        "seed": 3,
        "provenance": {"commit": "0123456789abcdef"},
        "config_hash": "c0ffee",
        "data_root": str(tmp_path / "data"),
        "base_is_folder": False,
        "result": {"steps": 4},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest))
    rows = [{"step": n, "rewards/accuracy": n / 4, "lr": 1.0, "reward": n} for n in range(1, 5)]
    (folder / "curve.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, content in {
        "model.safetensors": weights(),
        "config.json": b"{}",
        "harness.json": json.dumps(manifest).encode(),
        "harness_inference.json": b'{"version": 1, "model": "qwen_vl(prompt=locate)"}',
    }.items():
        (folder / "checkpoint" / name).write_bytes(content)
    return folder


@pytest.fixture
def evaluated(training, make_run):
    """Write a run of the training's checkpoint."""

    def make(name, **given):
        run = make_run(name, **given)
        write_origins(run, [training / "checkpoint"])
        return run

    return make


def unfinished(run):
    for name in (RESULTS, SCORES, CHECKSUMS):
        (run / name).unlink()


def change(path, **fields):
    plain = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps({key: one for key, one in plain.items() if one is not None}))


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def left(folder):
    """What a command left in a folder, hidden things too."""
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


# Cards


def test_a_card_is_read_by_the_hubs_own_library(training, evaluated, capsys):
    run = evaluated("eval/a")
    assert main(["hub", "card", str(training), "--runs", str(run)]) == 0
    card = library.ModelCard.load(training / "checkpoint" / CARD)
    assert card.data.base_model == "Qwen/Some-7B" and card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "image-text-to-text" and "dr2seg" in card.data.tags
    assert card.data.datasets is None, "nothing says that the data came from the hub"
    results = Run.open(run).results
    shown = [f"{results['metrics']['giou']:.3f}", "f1" * 16, "1d" * 16, "c0ffee", "DR2Seg (2025)"]
    assert all(text in card.text for text in [*shown, "n0 | 45", "a\\|b", f"({CURVES})"])
    assert str(training.parent) not in card.content
    drawn = (training / "checkpoint" / CURVES).read_text()
    assert "rewards/accuracy" in drawn and ">lr<" not in drawn


@pytest.mark.parametrize("known", [False, True])
def test_a_card_has_no_scores_of_another_model(training, make_run, command, known):
    run = make_run("eval/a")
    if known:
        change(training / "checkpoint" / "harness.json", config_hash="decaf")
        write_origins(run, [training / "checkpoint"])
    code, text = command("card", training, "--runs", run)
    assert code == 2 and str(run) in text and "c0ffee" in text and ("decaf" in text) is known
    assert not (training / "checkpoint" / CARD).exists()


@pytest.mark.parametrize(
    ("base", "is_folder", "named"),
    [
        *(("org/net", False, "org/net"), ("runs/sft", True, None), ("runs/sft", None, None)),
        *(("./sft", False, None), ("/sft/x", False, None), ("a/b c", False, None)),
    ],
)
def test_a_base_of_the_hub_is_named_and_no_folder(training, base, is_folder, named):
    model = {"base": {"checkpoint": base}, "description": {}}
    change(training / MANIFEST, model=model, base_is_folder=is_folder)
    write_card(Training.open(training), [])
    assert library.ModelCard.load(training / "checkpoint" / CARD).data.base_model == named


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        *(("file:///home/me/x", "x"), ("a:/home/me", "a:me"), ("/a:/home/me", "a:me")),
        *(
            ("/home/my name/base/deep", "deep"),
            ("m(checkpoint=/my name/x/,n=1)", "m(checkpoint=x,n=1)"),
        ),
        *(("~/runs/x, /home/me/y and b", "x, y and b"), ("/data/a:b/x", "x")),
        *((same, same) for same in ("https://a/b/c", "http://a/b", "</think>", "org/net", "a / b")),
        ("/home/me/x, see https://a/b", "x, see https://a/b"),
    ],
)
def test_paths_of_this_machine_become_their_last_names(text, clean):
    assert without_paths(text) == clean


def test_a_data_set_is_named_where_the_files_came_from_the_hub(training, evaluated, monkeypatch):
    task = {"name": "long_video_bench", "spec": "long_video_bench", "version": 1, "n_total": 1}
    plain = json.loads((training / MANIFEST).read_text())
    (training / MANIFEST).write_text(json.dumps({**plain, "tasks": [task]}))
    place = Path(plain["data_root"], "long_video_bench")
    place.mkdir(parents=True)
    name = "longvideobench/LongVideoBench"
    record = {"repository": name, "revision": "main", "commit": COMMIT, "folder": ".", "files": 3}
    (place / "hub.json").write_text(json.dumps({"version": 1, "repositories": [record]}))
    changes = {"data": {"root": plain["data_root"]}, "results": {"task": "long_video_bench"}}
    run = Run.open(evaluated("a", changes=changes))
    write_card(Training.open(training), [run])
    card = library.ModelCard.load(training / "checkpoint" / CARD)
    assert card.data.datasets == [name] and f"{name}@{COMMIT}" in card.text
    found = {one.metric_type: one.metric_value for one in card.data.eval_results}
    assert found["giou"] == pytest.approx(run.results["metrics"]["giou"], abs=1e-4)
    # Where the data lay is not known any more; the folder one stands in is no answer.
    monkeypatch.chdir(plain["data_root"])
    unknown = {**plain, "tasks": [task], "data_root": ""}
    (training / MANIFEST).write_text(json.dumps(unknown))
    write_card(Training.open(training), [])
    assert library.ModelCard.load(training / "checkpoint" / CARD).data.datasets is None


def test_equal_trainings_have_equal_cards_and_a_foreign_card_stays(training, command):
    path = training / "checkpoint" / CARD
    assert command("card", training)[0] == 0
    first = path.read_bytes()
    assert command("card", training)[0] == 0 and path.read_bytes() == first
    path.write_bytes(first.replace(WRITTEN.encode(), b"by hand"))
    code, text = command("card", training)
    assert code == 2 and CARD in text and b"by hand" in path.read_bytes()


def test_an_unfinished_training_has_no_card(training, command):
    plain = json.loads((training / MANIFEST).read_text())
    del plain["result"]
    (training / MANIFEST).write_text(json.dumps(plain))
    assert command("card", training)[0] == 2
    assert not (training / "checkpoint" / CARD).exists()


# There and back


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


# What is refused before anything is asked or sent


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


# What goes wrong on the way


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
