"""Every adapter that is registered, end to end: `eval` on generated data with pocket's network."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")

from harness import plugins
from harness.cli.main import main
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.run.plan import samples_of
from harness.spec import Spec, parse
from harness.tasks.mevis import writer as mevis
from harness.tasks.reason_seg import writer as reason_seg
from harness.tasks.shapes_qa import writer as shapes_qa
from harness.types import AnswerForm, FailureKind
from harness.world.shapes import make

ADAPTERS = [name for name in plugins.installed("models")
            if plugins.accepts("models", name, "backend")]  # fmt: skip
TASKS = ("reason_seg", "mevis", "shapes_qa")
SMALL = {
    "checkpoint": "pocket", "canvas": 168, "context": 56, "pixels": 28224, "frames": 4,
    "max_new_tokens": 96, "votes": 2, "percentages": 2, "sampler_frames": 4,
    "reference_frames": 2, "key_frames": 2, "propagator": parse("flow"),
}  # fmt: skip
"""Settings that spare time; each adapter gets those that it has."""


def asked_for(name):
    return Spec(name, {key: value for key, value in SMALL.items()
                       if plugins.accepts("models", name, key)})  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A data root, and for each task two samples of different forms where it has several."""
    root = tmp_path_factory.mktemp("shapes") / "data"
    writers = {"mevis": mevis.write, "reason_seg": reason_seg.write, "shapes_qa": shapes_qa.write}
    make(root, seed=0, size=4, writers=writers)
    return root, {name: two_of(plugins.build("tasks", name, root)) for name in TASKS}


def two_of(task):
    samples = list(samples_of(task))
    first = samples[0]
    unlike = [one for one in samples[1:] if one.query.forms != first.query.forms]
    return [first, (unlike or samples[1:])[0]]


def test_there_are_adapters_and_both_kinds_of_questions_in_words(world):
    assert {"pocket", "visionreasoner", "videoseg_r1", "video_str"} <= set(ADAPTERS)
    assert {one.query.forms for one in world[1]["shapes_qa"]} == {
        (AnswerForm.CHOICE,), (AnswerForm.NUMBER,)
    }  # fmt: skip


def test_the_network_itself_answers_in_the_grammar_that_it_was_taught(world, tmp_path):
    root, _ = world
    for task in ("reason_seg", "mevis"):
        run = evaluate(plugins.build("tasks", task, root), parse("pocket(propagator=still)"),
                       tmp_path / task, Options(subset="first2"), task_spec=task)  # fmt: skip
        assert run.results["n_failed"] == 0 < run.results["n_total"]


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_answers_pictures_videos_and_words_and_explains_itself(
    name, world, tmp_path, capsys
):
    root, chosen = world
    spec = asked_for(name)
    model = plugins.build("models", spec)
    for task, samples in chosen.items():
        ids = tmp_path / f"{task}.txt"
        ids.write_text("".join(f"{sample.id}\n" for sample in samples))
        built = plugins.build("tasks", task, root)
        run = evaluate(built, model, tmp_path / task, Options(subset=str(ids)), task_spec=task,
                       model_spec=str(spec))  # fmt: skip
        of = {sample.id: sample for sample in run_samples(built, run)}
        assert {sample.id for sample in samples} <= set(of)
        counts = run.results
        assert counts["n_scored"] + counts["n_failed"] == counts["n_total"] == len(of)
        assert counts["n_failed"] == counts["failures"]["parse"]
        for sample in of.values():
            check(sample, run.prediction(sample.id))
            said = model.read(sample.query, model.write(sample.query, sample.target.answer))
            assert said.failure is None
            check_right(sample, said.answer)
        explained(run, samples[0], root, tmp_path / f"{task}.png", capsys)


def run_samples(task, run):
    units = {json.loads(line)["unit"] for line in (run.folder / "scores.jsonl").open()}
    return [sample for sample in samples_of(task) if sample.unit in units]


def check(sample, prediction):
    assert prediction.replies and prediction.usage.completion_tokens > 0
    if prediction.failure is not None:
        assert prediction.failure.kind is FailureKind.PARSE
    elif prediction.answer.masks is not None:
        check_sizes(sample, prediction.answer.masks)


def check_sizes(sample, masks):
    media = sample.query.media[0]
    assert len(masks) == len(media)
    assert {mask.to_array().shape for mask in masks} == {media.size[::-1]}


def check_right(sample, answer):
    """What is read of a perfect reply, with this adapter's own perception."""
    truth = sample.target.answer
    if truth.masks is None:
        assert (answer.choice, answer.number) == (truth.choice, pytest.approx(truth.number))
        return
    check_sizes(sample, answer.masks)
    both = [np.logical_and(one.to_array(), other.to_array()).any()
            for one, other in zip(answer.masks, truth.masks, strict=True)]  # fmt: skip
    assert any(both) or not any(mask.area for mask in truth.masks)


def explained(run, sample, root, picture, capsys):
    capsys.readouterr()
    code = main(["explain", str(run.folder), sample.id, "--data", str(root), "--image",
                 str(picture), "--json"])  # fmt: skip
    shown = json.loads(capsys.readouterr().out)
    assert code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    last = [key for key in shown if key.startswith("prompt ")][-1]
    # A request for every reply, and none that had no reply.
    assert int(last.split()[-1]) == len(run.prediction(sample.id).replies)
