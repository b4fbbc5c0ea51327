"""A model is not asked for answers that it cannot give; one that is named has that name."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness import plugins
from harness.cli.main import main
from harness.errors import UsageError
from harness.media import pixels
from harness.models.saliency.model import saliency
from harness.record import Run
from harness.run.batching import select
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.run.survey import survey
from harness.spec import Spec
from harness.types import AnswerForm, Query

TASKS = Path(__file__).resolve().parents[2] / "tasks"


def example(name):
    return plugins.build("tasks", name, TASKS / name / "example")


def evaluated(out, *more, model="saliency,random", task="shapes_qa"):
    return main(
        [
            "eval",
            "--model",
            model,
            "--tasks",
            task,
            "--out",
            str(out),
            "--data",
            str(TASKS / task / "example"),
            *more,
        ]
    )


def test_a_pair_that_cannot_be_answered_is_refused_and_the_others_are_run(tmp_path, capsys):
    assert evaluated(tmp_path, "--json") == 2
    output = capsys.readouterr()
    models = json.loads(output.out)["models"]
    info = models["saliency"]["tasks"]["shapes_qa"]["refused"]
    assert all(word in info for word in ("saliency", "shapes_qa", "choice"))
    assert "metrics" in models["random"]["tasks"]["shapes_qa"]
    assert "saliency" in output.err
    assert [path.parent for path in tmp_path.rglob("manifest.json")] == [
        tmp_path / "random" / "shapes_qa"
    ]
    assert not (tmp_path / "saliency").exists()


def test_a_model_that_a_worker_builds_is_refused_too_and_leaves_nothing(tmp_path):
    with pytest.raises(UsageError, match="saliency"):
        evaluate(example("shapes_qa"), Spec("saliency"), tmp_path / "run", Options())
    assert not (tmp_path / "run").exists()
    assert evaluated(tmp_path / "runs", "--isolate", "--quiet", model="saliency") == 2
    assert not any((tmp_path / "runs").iterdir())


def test_what_is_answered_in_part_is_run_and_said():
    from harness.run.answerable import check_answerable

    task = example("shapes_qa")
    samples = list(task.samples())
    boxed = replace(samples[0], query=replace(samples[0].query, forms=(AnswerForm.BOXES,)))
    mixed = replace(task, samples=lambda: [boxed, *samples[1:]])
    found = survey(mixed, select(mixed, None))
    output = check_answerable("saliency", saliency().forms, mixed, found)
    assert f"{len(samples) - 1} of {len(samples)}" in output and "choice" in output
    assert check_answerable("anybody", None, mixed, found) == ""


@pytest.mark.parametrize("name", ["saliency", "random", "whole_frame"])
def test_the_forms_that_a_model_names_are_those_that_it_answers(name):
    model = plugins.build("models", name)
    ground = np.zeros((40, 60, 3), np.uint8)
    ground[10:30, 20:40] = 200
    media = pixels([ground], times=[0.0], is_video=False, id="a")
    for form in AnswerForm:
        query = Query(id="0" * 32, text="what?", media=(media,), forms=(form,), options=("a", "b"))
        (output,) = model.predict([query])
        assert (output.failure is None) == (form in model.forms), form


@pytest.mark.parametrize("name", ["qwen_vl", "visionreasoner", "video_str", "videochat_r1"])
def test_the_forms_that_a_composition_names_are_those_that_it_asks_for(name):
    model = plugins.build("models", Spec(name, {"backend": Spec("stored")}))
    media = pixels([np.zeros((40, 60, 3), np.uint8)], times=[0.0], is_video=False, id="a")
    for form in AnswerForm:
        query = Query(id="0" * 32, text="what?", media=(media,), forms=(form,), options=("a", "b"))
        try:
            model.requests(query)
        except UsageError:
            assert form not in model.forms, form
        else:
            assert form in model.forms, form


def test_a_run_has_the_name_that_it_is_given(tmp_path):
    assert evaluated(tmp_path, "--name", "my guess", "--quiet", model="random") == 0
    (manifest,) = tmp_path.rglob("manifest.json")
    run = Run.open(manifest.parent)
    assert (run.results["model"], run.manifest["model"]["name"]) == ("my guess", "my guess")
    assert run.manifest["model"]["spec"] == "random"
    assert manifest.parent.parent.name.startswith("my_guess")
    assert evaluated(tmp_path, "--name", "my guess", "--quiet", model="random") == 0  # resumed
    assert len(list(tmp_path.rglob("manifest.json"))) == 1


def test_several_models_are_not_given_one_name(tmp_path, capsys):
    assert evaluated(tmp_path, "--name", "x") == 2
    assert "--name" in capsys.readouterr().err and not list(tmp_path.iterdir())
