"""`harness hub card`: what a checkpoint's card says, and of what it is silent."""

import json
import sys
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.hub.local_paths import without_paths
from harness.hub.model_card import CARD, CURVES, WRITTEN_MARK, write_card
from harness.record import Run
from harness.run.checkpoint_provenance import write_origins
from harness.run.training_record import MANIFEST, Training

sys.path.insert(0, str(Path(__file__).parents[2] / "serving"))

from hub_folders import change
from hub_server import COMMIT

library = pytest.importorskip("huggingface_hub")


def test_a_card_is_read_by_the_hubs_own_library(training, evaluated, capsys):
    run = evaluated("eval/a")
    assert main(["hub", "card", str(training), "--runs", str(run)]) == 0
    card = library.ModelCard.load(training / "checkpoint" / CARD)
    assert card.data.base_model == "Qwen/Some-7B" and card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "image-text-to-text" and "dr2seg" in card.data.tags
    assert card.data.datasets is None, "nothing says that the data came from the hub"
    results = Run.open(run).results
    shown = [f"{results['metrics']['giou']:.3f}", "f1" * 16, "1d" * 16, "c0ffee", "DR2Seg (2026)"]
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
    path.write_bytes(first.replace(WRITTEN_MARK.encode(), b"by hand"))
    code, text = command("card", training)
    assert code == 2 and CARD in text and b"by hand" in path.read_bytes()


def test_an_unfinished_training_has_no_card(training, command):
    plain = json.loads((training / MANIFEST).read_text())
    del plain["result"]
    (training / MANIFEST).write_text(json.dumps(plain))
    assert command("card", training)[0] == 2
    assert not (training / "checkpoint" / CARD).exists()
