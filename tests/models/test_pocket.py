"""The weights of pocket that come with the package: whole, small, and seeing."""

import json

import pytest

pytest.importorskip("torch")

from harness import plugins
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.pocket import BASE, FOLDER
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.spec import parse
from harness.tasks.shapes_qa import writer as qa
from harness.tasks.shapes_referring import writer as referring
from harness.world.shapes import make

SIZE = 24


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("shapes") / "data"
    writers = {"shapes_referring": referring.write, "shapes_qa": qa.write}
    with pytest.MonkeyPatch.context() as patched:
        for writer in (referring, qa):
            patched.setattr(writer, "SPLITS", ("val",))  # no other one is read
        make(root, seed=77, size=SIZE, writers=writers)
    return root


def scored(data, out, task, model="pocket(segmenter=box,propagator=still)", subset=None):
    built = plugins.build("tasks", parse(task), data)
    options = Options(subset=subset)
    run = evaluate(built, plugins.build("models", parse(model)), out, options, model_spec=model)
    return json.loads((run.folder / "results.json").read_text())


@pytest.mark.parametrize("folder", [FOLDER, BASE])
def test_the_weights_load_like_any_qwen(folder):
    ensure_torchvision()
    from transformers import AutoModelForImageTextToText, AutoProcessor

    network = AutoModelForImageTextToText.from_pretrained(folder)
    processor = AutoProcessor.from_pretrained(folder)
    assert type(network).__name__ == "Qwen2_5_VLForConditionalGeneration"
    assert sum(one.numel() for one in network.parameters()) <= 3_000_000
    assert {str(one.dtype) for one in network.parameters()} <= {"torch.float32", "torch.bfloat16"}
    assert (folder / "model.safetensors").stat().st_size < 12e6
    assert processor.tokenizer.chat_template or processor.chat_template
    assert len(processor.tokenizer) <= network.config.get_text_config().vocab_size


def test_the_weights_say_how_they_were_made():
    record = json.loads((FOLDER / "training.json").read_text())
    before = record["before"]
    assert record["seconds"] + before["seconds"] <= 90 * 60
    assert len(record["first_losses"]) == len(before["first_losses"]) == 50
    assert before["curve"][-1]["loss"] < before["first_losses"][0] / 2
    assert record["curve"][-1]["loss"] < record["first_losses"][0]
    assert json.loads((BASE / "training.json").read_text())["settings"] == before["settings"]


def test_it_finds_things_and_only_where_it_can_see_them(data, tmp_path):
    metric, task = "box_accuracy@0.5", "shapes_referring(asks=single)"
    seen = scored(data, tmp_path / "seen", task, subset="first12")
    model = "pocket(segmenter=box,propagator=still,backend=ablation(images=grey))"
    unseen = scored(data, tmp_path / "unseen", task, model, subset="first12")
    assert seen["metrics"][metric] >= 0.7
    assert unseen["metrics"][metric] <= 0.2
    assert seen["n_failed"] == 0


def test_it_answers_in_letters_and_numbers(data, tmp_path):
    found = scored(data, tmp_path, "shapes_qa(part=still)")
    assert found["metrics"]["number_within_10"] >= 0.4
    assert found["n_failed"] <= SIZE * 0.05
