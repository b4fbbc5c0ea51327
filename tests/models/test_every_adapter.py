"""Every adapter that is registered, end to end: `eval` on generated data with pocket's network.

Then what an adapter may also be made of: other prompts, perception with weights, another family of
networks, a program in the place of all that.
"""

import json
import math
import sys

import numpy as np
import pytest

pytest.importorskip("torch")

from harness import plugins
from harness.cli.main import main
from harness.run.batching import samples_of
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.spec import Spec, parse
from harness.tasks.mevis import writer as mevis
from harness.tasks.reason_seg import writer as reason_seg
from harness.tasks.shapes_qa import writer as shapes_qa
from harness.types import AnswerForm, FailureKind
from harness.world.shapes import make

from .test_sam3 import tiny_sam3  # noqa: F401 - a fixture

ADAPTERS = [
    name
    for name in plugins.installed_plugins("models")
    if plugins.accepts("models", name, "backend")
]
TASKS = ("reason_seg", "mevis", "shapes_qa")
SMALL = {
    "checkpoint": "pocket",
    "canvas": 168,
    "context": 56,
    "pixels": 28224,
    "frames": 4,
    "max_new_tokens": 96,
    "votes": 2,
    "percentages": 2,
    "sampler_frames": 4,
    "reference_frames": 2,
    "key_frames": 2,
    "propagator": parse("flow"),
}
"""Settings that spare time; each adapter gets those that it has."""


def asked_for(name):
    given = {key: value for key, value in SMALL.items() if plugins.accepts("models", name, key)}
    if plugins.accepts("models", name, "twin_tokens"):
        given["max_new_tokens"] = 8  # pocket writes no plan, however long it may be
    if name not in ("pocket", "sam3_agent") and plugins.accepts("models", name, "segmenter"):
        given["segmenter"] = parse("grabcut")
    if plugins.accepts("models", name, "dialect"):
        given["dialect"] = "molmo2"
    return Spec(name, given)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A data root, and of each task a sample of each form, at most two."""
    root = tmp_path_factory.mktemp("shapes") / "data"
    writers = {"mevis": mevis.write, "reason_seg": reason_seg.write, "shapes_qa": shapes_qa.write}
    with pytest.MonkeyPatch.context() as patched:
        for writer in (reason_seg, shapes_qa):
            patched.setattr(writer, "SPLITS", ("val",))  # no other one is read
        make(root, seed=0, size=4, writers=writers)
    return root, {name: two_of(plugins.build("tasks", name, root)) for name in TASKS}


def two_of(task):
    samples = list(samples_of(task))
    first = samples[0]
    unlike = [one for one in samples[1:] if one.query.forms != first.query.forms]
    return [first, *unlike[:1]]


def test_there_are_adapters_and_both_kinds_of_questions_in_words(world):
    assert {"pocket", "visionreasoner", "videoseg_r1", "video_str"} <= set(ADAPTERS)
    assert {one.query.forms for one in world[1]["shapes_qa"]} == {
        (AnswerForm.CHOICE,),
        (AnswerForm.NUMBER,),
    }


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_answers_images_videos_and_words_and_explains_itself(
    name, world, untrained, tmp_path, capsys
):
    root, chosen = world
    spec = asked_for(name)
    if name == "sam3_agent":
        spec = Spec(name, {**spec.arguments, **untrained["sam3"], "max_new_tokens": 24})
    model = plugins.build("models", spec)
    for task, samples in chosen.items():
        if not any(form in model.forms for sample in samples for form in sample.query.forms):
            continue
        run, of = answered(plugins.build("tasks", task, root), samples, model, spec, tmp_path)
        check_responses(run, of)
        if name == "pocket":
            assert run.results["n_failed"] == 0, "it was taught this grammar"
        if name == "sam3_agent":  # random weights of SAM 3 find nothing that is meant
            continue
        for sample in of:
            check_right(sample, perfect(model, sample))
        explained(run, samples[0], root, tmp_path / f"{task}.png", capsys)


SAM = {"segmenter": parse("pocket_sam"), "propagator": parse("pocket_sam_video")}
VARIANTS = {
    "locate": ("qwen_vl", {"prompt": "locate"}),
    "pocket_sam": ("videoseg_r1", SAM),
    "sam3": ("dr2seg", {"form": "sam3"}),
    "qwen3": ("visionreasoner", {"max_new_tokens": 24}),
}
"""An adapter, and what is not as above. Weights without training are named by `untrained`."""


@pytest.fixture(scope="module")
def untrained(tiny_sam3, tiny_qwen3):  # noqa: F811
    """Random networks of the published architectures, by the variant that has them."""
    sam3 = Spec("sam3", {"checkpoint": str(tiny_sam3), "threshold": 0.0, "instances": "all"})
    return {"sam3": {"segmenter": sam3}, "qwen3": {"checkpoint": str(tiny_qwen3)}}


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_adapter_answers_with_other_parts_too(variant, world, untrained, tmp_path, capsys):
    root, chosen = world
    name, other = VARIANTS[variant]
    spec = Spec(name, {**asked_for(name).arguments, **other, **untrained.get(variant, {})})
    model = plugins.build("models", spec)
    for task in ("reason_seg", "mevis"):
        samples = chosen[task]
        run, of = answered(plugins.build("tasks", task, root), samples, model, spec, tmp_path)
        check_responses(run, of)
        assert_made_of(variant, run.manifest["model"]["description"])
        for sample in of:
            answer = perfect(model, sample)
            if variant != "sam3":
                check_right(sample, answer)
                continue
            check_sizes(sample, answer.masks)  # what it has learnt is nothing
            assert any(mask.area for mask in answer.masks)
        explained(run, samples[0], root, tmp_path / f"{task}.png", capsys)


def assert_made_of(variant, description):
    """The record names what the variant is about."""
    parts = {name: description[name]["name"] for name in ("segmenter", "propagator")}
    info = {
        "locate": description["prompt"] == "locate" and description["resize"] is None,
        "pocket_sam": parts == {"segmenter": "pocket_sam", "propagator": "pocket_sam_video"},
        "sam3": description["name"] == "dr2seg/sam3" and parts["segmenter"] == "sam3",
        "qwen3": description["coordinates"] == "normalized_1000",
    }
    assert info[variant], description


PROGRAM = """
import glob, json, sys
import numpy as np
from PIL import Image
from pycocotools import mask


def things(path):
    image = np.array(Image.open(path)).astype(int)
    found = np.abs(image - image[0, 0]).max(axis=2) > 24  # unlike the corner
    rle = mask.encode(np.asfortranarray(found, dtype=np.uint8))
    return {"size": rle["size"], "counts": rle["counts"].decode()}


with open(sys.argv[1]) as asked, open(sys.argv[2], "w") as out:
    for row in map(json.loads, asked):
        paths = [row["image"]] if "image" in row else sorted(glob.glob(row["frames_dir"] + "/*"))
        said = {"masks": [things(path) for path in paths], "text": "A. the first"}
        out.write(json.dumps({"id": row["id"], **said}) + "\\n")
"""


def test_a_program_answers_images_videos_and_words(world, tmp_path):
    root, chosen = world
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    command = f"'{sys.executable}' '{script}' {{input}} {{output}}"
    spec = Spec("external", {"command": command, "timeout": 120.0})
    model = plugins.build("models", spec)
    for task, samples in chosen.items():
        run, of = answered(plugins.build("tasks", task, root), samples, model, spec, tmp_path)
        for sample in of:
            output = run.prediction(sample.id)
            if sample.query.form is AnswerForm.NUMBER:
                assert output.failure.kind is FailureKind.PARSE and output.responses == (
                    "A. the first",
                )
            else:
                check_right(sample, output.answer, choice="A")
        if task != "shapes_qa":
            assert run.results["n_failed"] == 0 < score(run)


def answered(task, samples, model, spec, folder):
    """The run on these samples, whole, and all samples of their units."""
    ids = folder / f"{task.name}.txt"
    ids.write_text("".join(f"{sample.id}\n" for sample in samples))
    run = evaluate(
        task,
        model,
        folder / task.name,
        Options(subset=str(ids)),
        task_spec=task.name,
        model_spec=str(spec),
    )
    of = run_samples(task, run)
    assert {sample.id for sample in samples} <= {sample.id for sample in of}
    counts = run.results
    assert counts["n_scored"] + counts["n_failed"] == counts["n_total"] == len(of)
    assert counts["n_failed"] == counts["failures"]["parse"]
    assert math.isfinite(score(run))
    for sample in of:
        check(sample, run.prediction(sample.id))
    return run, of


def score(run):
    return run.results["metrics"][run.results["headline"]]


def run_samples(task, run):
    units = {json.loads(line)["unit"] for line in (run.folder / "scores.jsonl").open()}
    return [sample for sample in samples_of(task) if sample.unit in units]


def check(sample, prediction):
    """It is answered as it was asked, or fails by what was said."""
    assert prediction.responses or prediction.answer is not None
    if prediction.failure is not None:
        assert prediction.failure.kind is FailureKind.PARSE and prediction.failure.message
        assert prediction.answer is None
    elif prediction.answer.masks is not None:
        check_sizes(sample, prediction.answer.masks)
    else:
        assert sample.query.form in (AnswerForm.CHOICE, AnswerForm.NUMBER)


def check_responses(run, samples):
    """A network wrote them."""
    for sample in samples:
        prediction = run.prediction(sample.id)
        assert prediction.responses and prediction.usage.completion_tokens > 0


def perfect(model, sample):
    """What is read of a perfect response, with this adapter's own perception."""
    output = model.read(sample.query, model.write(sample.query, sample.target.answer))
    assert output.failure is None
    return output.answer


def check_sizes(sample, masks):
    media = sample.query.media[0]
    assert len(masks) == len(media)
    assert {mask.to_array().shape for mask in masks} == {media.size[::-1]}


def check_right(sample, answer, *, choice=None):
    """The ground truth, where masks need only meet it; or the choice that is given."""
    ground_truth = sample.target.answer
    if ground_truth.masks is None:
        assert answer.choice == (choice or ground_truth.choice)
        assert answer.number == pytest.approx(ground_truth.number)
        return
    check_sizes(sample, answer.masks)
    both = [
        np.logical_and(one.to_array(), other.to_array()).any()
        for one, other in zip(answer.masks, ground_truth.masks, strict=True)
    ]
    assert any(both) or not any(mask.area for mask in ground_truth.masks)


def explained(run, sample, root, image, capsys):
    capsys.readouterr()
    code = main(
        [
            "explain",
            str(run.folder),
            sample.id,
            "--data",
            str(root),
            "--image",
            str(image),
            "--json",
        ]
    )
    shown = json.loads(capsys.readouterr().out)
    assert code == 0
    assert image.read_bytes().startswith(b"\x89PNG")
    last = [key for key in shown if key.startswith("prompt ")][-1]
    # A request for every response, and none that had no response.
    assert int(last.split()[-1]) == len(run.prediction(sample.id).responses)
