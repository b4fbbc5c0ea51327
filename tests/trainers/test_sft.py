"""Supervised fine-tuning: what is learned, and that a killed training loses nothing."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from harness import plugins
from harness.errors import DataError, ParseError, ResumeMismatch, UsageError
from harness.models.grammar import Item
from harness.run.batching import samples_of
from harness.run.contamination import measure_contamination, samples_of_checkpoint
from harness.run.train import TrainingOptions, train
from harness.run.training_record import Training
from harness.spec import parse
from harness.types import AnswerForm, Box, Target

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.learning.weights import freeze_vision  # noqa: E402
from harness.trainers.network import load, trainable  # noqa: E402
from harness.trainers.policy import accelerator_of  # noqa: E402
from harness.trainers.sample_checks import SkippedSample  # noqa: E402
from harness.trainers.sft.examples import Example, examples_of  # noqa: E402
from harness.trainers.sft.learner import SftLearner, response_tokens  # noqa: E402
from harness.trainers.sft.reasoning import about_objects, with_thought  # noqa: E402
from harness.trainers.sft.trainer import SftSettings, sft  # noqa: E402
from harness.trainers.state import newest_state  # noqa: E402

ensure_torchvision()
pytest.importorskip("peft")

FEW = "max_steps=4,per_device_train_batch_size=2,save_steps=2,learning_rate=0.01"
MODEL = "qwen_vl(checkpoint={},prompt=locate,max_new_tokens=400,segmenter=box)"
"""With the prompt that is shorter, a hundred tokens and not five hundred."""


@pytest.fixture
def start(tiny_qwen, examples, tmp_path, told):
    """Trains on three samples of reason_seg."""

    def started(name, settings=FEW, *, tasks=("reason_seg",), model=None, **options):
        built = [plugins.build("tasks", parse(task), examples) for task in tasks]
        given = {"seed": 3, "progress": told, "keep_state": True, **options}
        return train(
            plugins.build("trainers", parse(f"sft({settings})")),
            built,
            parse(model or MODEL.format(tiny_qwen)),
            tmp_path / name,
            TrainingOptions(**given),
        )

    return started


@pytest.fixture
def task(examples):
    return plugins.build("tasks", "reason_seg", examples)


@pytest.fixture
def model(tiny_qwen):
    return trainable("sft", parse(f"qwen_vl(checkpoint={tiny_qwen})"))[0]


def tensors(folder: Path) -> dict[str, "torch.Tensor"]:
    from safetensors.torch import load_file

    return {
        name: one
        for path in sorted(folder.glob("*.safetensors"))
        for name, one in load_file(path).items()
    }


def same_tensors(one: Path, other: Path) -> bool:
    a, b = tensors(one), tensors(other)
    return bool(a) and set(a) == set(b) and all(torch.equal(a[name], b[name]) for name in a)


def optimiser(training: Training) -> dict:
    state = newest_state(training.folder / "state")
    plain = torch.load(state / "optimizer.pt", weights_only=True)
    return {
        f"{index}.{key}": value
        for index, values in plain[0]["state"].items()
        for key, value in values.items()
    }


def assert_same_training(one: Training, other: Training) -> None:
    """Equal weights, optimiser and curve: bit by bit, step by step."""
    assert same_tensors(one.checkpoint, other.checkpoint)
    assert one.curve.path.read_bytes() == other.curve.path.read_bytes()
    first, second = optimiser(one), optimiser(other)
    assert first and set(first) == set(second)
    assert all(torch.equal(first[name], second[name]) for name in first)
    states = [newest_state(training.folder / "state") for training in (one, other)]
    assert states[0].name == states[1].name
    names = [{path.name for path in state.iterdir()} for state in states]
    assert names == [{"trained.safetensors", "optimizer.pt", "numbers.json", "files.json"}] * 2
    weights = [(state / "trained.safetensors").read_bytes() for state in states]
    assert weights[0] == weights[1]


@pytest.fixture(scope="module")
def whole(tiny_qwen, examples, tmp_path_factory):
    """Uninterrupted trainings of four steps, by their settings."""
    made = {}

    def trained(settings):
        if settings not in made:
            made[settings] = train(
                plugins.build("trainers", parse(f"sft({settings})")),
                [plugins.build("tasks", "reason_seg", examples)],
                parse(MODEL.format(tiny_qwen)),
                tmp_path_factory.mktemp("whole") / "training",
                TrainingOptions(seed=3, keep_state=True),
            )
        return made[settings]

    return trained


@pytest.mark.parametrize(
    "extra", ["", ",finetune=lora,lora_dropout=0.1", ",gradient_accumulation_steps=2"]
)
def test_a_training_that_died_and_goes_on_equals_one_that_did_not(
    start, whole, told, died, tmp_path, extra
):
    settings = FEW + extra
    told.dies_at = 3  # step 2 is saved, step 3 is not
    with pytest.raises(died):
        start("cut", settings)
    told.dies_at = None
    half = tmp_path / "cut" / "state" / ".partial-step-4"  # as if it had died while it saved
    half.mkdir()
    (half / "trained.safetensors").write_bytes(b"half")
    resumed = start("cut", settings, resume=True)
    assert told.steps == [1, 2, 3, 3, 4]
    assert_same_training(whole(settings), resumed)
    if "lora" in extra:
        assert same_tensors(whole(settings).folder / "adapter", resumed.folder / "adapter")


KILLED = """
import os, signal, sys
from pathlib import Path
from harness import plugins
from harness.run.train import TrainingOptions, train
from harness.spec import parse
from harness.trainer import NullProgress
import torch

class Killed(NullProgress):
    def step(self, done, numbers):
        if "loss" in numbers and done == 3:
            os.kill(os.getpid(), signal.SIGKILL)

settings, model, data, out = sys.argv[1:]
task = plugins.build("tasks", "reason_seg", Path(data))
train(plugins.build("trainers", parse(settings)), [task], parse(model), Path(out),
      TrainingOptions(seed=3, keep_state=True, progress=Killed()))
"""


def test_a_killed_process_leaves_a_whole_state_and_nothing_is_lost(
    start, whole, tiny_qwen, examples, tmp_path, told
):
    model = MODEL.format(tiny_qwen)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, f"sft({FEW})", model, str(examples), str(tmp_path / "cut")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert newest_state(tmp_path / "cut" / "state").name == "step-2"
    assert len(Training.open(tmp_path / "cut").curve.read()) == 3
    resumed = start("cut", resume=True)
    assert told.steps == [3, 4]
    assert_same_training(whole(FEW), resumed)


def test_a_training_that_died_after_its_last_step_is_only_completed(start, whole, told, tmp_path):
    shutil.copytree(whole(FEW).folder, tmp_path / "done")
    manifest = json.loads((tmp_path / "done" / "manifest.json").read_text())
    del manifest["result"]
    (tmp_path / "done" / "manifest.json").write_text(json.dumps(manifest))
    shutil.rmtree(tmp_path / "done" / "checkpoint")
    again = start("done", resume=True)
    assert told.steps == [] and again.manifest["result"]["steps"] == 4
    assert_same_training(whole(FEW), again)


@pytest.mark.parametrize("method", ["sft", "video_str_sft"])
def test_loggers_are_told_what_the_curve_is_told(method, task, tiny_qwen, tmp_path, monkeypatch):
    logged = []
    wandb = ModuleType("wandb")
    wandb.__spec__ = ModuleSpec("wandb", None)
    wandb.init = lambda **given: SimpleNamespace(
        log=lambda numbers, step: logged.append((step, numbers))
    )
    wandb.login = lambda verify: True
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    trainer = plugins.build("trainers", parse(f"{method}(max_steps=1,report_to=wandb)"))
    training = train(
        trainer, [task], parse(MODEL.format(tiny_qwen)), tmp_path / "out", TrainingOptions()
    )
    (row,) = training.curve.read()
    (told,) = ({"step": step, **numbers} for step, numbers in logged)
    assert row.items() <= told.items()
    assert {"step_time", "timing_s/update"} <= told.keys() - row.keys(), "a curve has no clock"
    assert training.manifest["method"]["settings"]["report_to"] == "wandb"


def test_a_finished_training_is_left_alone(start, told):
    first = start("done", "max_steps=1", keep_state=False).manifest
    assert not (Path(first["data_root"] or ".") / "state").exists()
    told.steps.clear()
    again = start("done", "max_steps=1", resume=True)
    assert again.manifest == first and told.steps == []
    assert not (again.folder / "state").exists()
    assert start("done", "max_steps=1").manifest == first, "the same command says so"


def test_going_on_with_something_else_is_refused(start, told, died):
    told.dies_at = 1
    with pytest.raises(died):
        start("cut")
    told.dies_at = None
    for change, named in (
        (
            {"settings": FEW.replace("0.01", "0.02")},
            r"learning_rate: 0\.01 → 0\.02",
        ),
        ({"tasks": ("counting",)}, "tasks"),
        ({"seed": 4}, "seed: 3 → 4"),
    ):
        with pytest.raises(ResumeMismatch, match=named):
            start("cut", resume=True, **change)


def test_two_batches_of_one_are_one_of_two(start):
    one = start("one", "max_steps=3,per_device_train_batch_size=2,learning_rate=0.001")
    two = start(
        "two",
        "max_steps=3,per_device_train_batch_size=1,gradient_accumulation_steps=2,learning_rate=0.001",
    )
    for first, second in zip(one.curve.read(), two.curve.read(), strict=True):
        assert first["loss"] == pytest.approx(second["loss"], rel=1e-5)


def test_what_is_learned_is_said_and_ends(start, examples, tiny_qwen):
    """Until nothing is left to learn: the response to a sample is then said word for word."""
    training = start(
        "learned",
        "max_steps=20,per_device_train_batch_size=3,learning_rate=0.02,save_steps=100",
        keep_state=False,
    )
    curve = training.curve.read()
    assert curve[-1]["loss"] < 0.05 < 3 < curve[0]["loss"]
    trained = trainable("sft", parse(MODEL.format(training.folder)))[0]
    samples = list(samples_of(plugins.build("tasks", "reason_seg", examples)))
    output = trained.predict([sample.query for sample in samples])
    for sample, one in zip(samples, output, strict=True):
        assert one.responses == trained.write(sample.query, sample.target.answer)
        assert not [note for note in one.notes if "cut" in note]
    info = trained.describe()["chat"]["trained"]
    assert info["method"] == "sft" and info["tasks"][0]["spec"] == "reason_seg"


def test_a_frozen_vision_tower_stays_and_the_rest_moves(start, tiny_qwen):
    training = start("frozen", "max_steps=1,learning_rate=0.01,freeze_vision=true")
    before, after = tensors(tiny_qwen), tensors(training.checkpoint)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert not [name for name in moved if "visual" in name and "merger" not in name]
    assert {"lm_head.weight", "model.embed_tokens.weight"} <= moved
    assert [name for name in moved if "visual.merger" in name]


@pytest.mark.parametrize("network", ["tiny_qwen", "tiny_qwen3", "tiny_qwen35"])
def test_the_layers_that_merge_patches_are_of_the_language_side(network, request):
    folder = request.getfixturevalue(network)
    loaded = load(trainable("sft", parse(f"qwen_vl(checkpoint={folder})"))[1], dtype="float32")
    freeze_vision(loaded)
    frozen = {name for name, one in loaded.named_parameters() if not one.requires_grad}
    learned = {name for name, one in loaded.named_parameters() if one.requires_grad}
    assert {name.split("visual.")[1].split(".")[0] for name in frozen} <= {
        "patch_embed",
        "blocks",
        "pos_embed",
    }
    merging = {name.split("visual.")[1].split(".")[0] for name in learned if "visual." in name}
    assert merging == (
        {"merger", "deepstack_merger_list"} if network == "tiny_qwen3" else {"merger"}
    )
    assert len(learned) > len([name for name in learned if "visual." in name])


def test_an_adapter_is_merged_into_what_is_evaluated(whole, tiny_qwen):
    training = whole(FEW + ",finetune=lora,lora_dropout=0.1")
    before, after = tensors(tiny_qwen), tensors(training.checkpoint)
    assert set(before) == set(after)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    layers = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    assert {name.split(".")[-2] for name in moved} == set(layers)
    assert not [name for name in moved if "visual" in name or name.endswith("bias")]
    adapter = tensors(training.folder / "adapter")
    name = next(one for one in moved if "layers.0.self_attn.q_proj" in one)
    pair = {
        which: tensor
        for key, tensor in adapter.items()
        for which in ("lora_A", "lora_B")
        if which in key and "layers.0.self_attn.q_proj" in key
    }
    merged = before[name] + (32 / 16) * pair["lora_B"] @ pair["lora_A"]
    torch.testing.assert_close(after[name], merged)
    assert training.manifest["finetune"] == "lora"
    result = training.manifest["result"]
    assert 0 < result["parameters_trained"] < result["parameters"]


def test_evaluating_while_training_changes_nothing_but_the_curve(start, whole):
    seen = []

    def watch(folder, step):
        torch.manual_seed(step)
        torch.rand(3)
        spec = parse(f"qwen_vl(checkpoint={folder})")
        seen.append((step, trainable("sft", spec)[1].network.training))
        return {"eval/gIoU": step / 10}

    for extra in ("", ",finetune=lora,lora_dropout=0.1"):
        seen.clear()
        training = start(f"watched{len(extra)}", FEW + extra, every=3, evaluate=watch)
        assert seen == [(3, False)]
        rows = training.curve.read()
        assert [row.pop("eval/gIoU", None) for row in rows] == [None, None, 0.3, None]
        assert rows == whole(FEW + extra).curve.read()
        assert same_tensors(training.checkpoint, whole(FEW + extra).checkpoint)


def test_the_manifest_tells_what_is_needed_to_repeat_it(whole, task, tiny_qwen):
    training = whole(FEW)
    manifest = training.manifest
    assert manifest["method"]["settings"]["learning_rate"] == 0.01
    base = manifest["model"]["base"]
    assert base["checkpoint"] == str(tiny_qwen) and len(base["weights"]) == 32
    (trained,) = manifest["tasks"]
    assert (trained["name"], trained["n_total"], trained["split"]) == ("reason_seg", 3, "val")
    assert manifest["provenance"]["packages"]["trl"]
    assert manifest["result"] | {"loss": 0} == {
        "steps": 4,
        "epochs": pytest.approx(8 / 3),
        "loss": 0,
        "examples": 3,
        "dropped": {},
        "dropped_samples": [],
        "parameters": 183456,
        "parameters_trained": 183456,
        "checkpoint": {
            "dtype": "float32",
            "bytes": (training.checkpoint / "model.safetensors").stat().st_size,
        },
    }
    assert json.loads((training.checkpoint / "harness.json").read_text()) == manifest
    assert [row.id for row in training.samples()] == ["val_00000", "val_00001", "val_00002"]
    assert (
        samples_of_checkpoint(training.checkpoint)
        == samples_of_checkpoint(training.folder)
        == training.samples()
    )
    found = measure_contamination(training.samples(), task)
    assert (found.samples, found.images, found.n_total) == (3, 3, 3)
    assert "3 of 3" in str(found)


def test_a_question_about_the_same_image_is_an_overlap_of_images_alone(whole, task):
    rows = whole(FEW).samples()
    others = [replace(row, id=f"{row.id}b", question="0") for row in rows[:2]]
    found = measure_contamination(others, task)
    assert (found.samples, found.images) == (0, 2)
    elsewhere = [replace(row, task="mevis", question="0") for row in rows]
    assert measure_contamination(elsewhere, task).images == 0


def test_no_pickle_is_left_behind(whole):
    folder = whole(FEW + ",finetune=lora,lora_dropout=0.1").folder
    for path in folder.rglob("*.pt"):
        torch.load(path, weights_only=True)
    assert not [path for path in folder.rglob("*") if path.suffix in (".bin", ".pkl", ".pth")]


def damaged(task):
    """The task with a sample of each kind that cannot be learned from."""
    good = list(samples_of(task))

    def samples():
        yield replace(good[0], id="hidden", unit="", target=None)
        empty = Target(answer=replace(good[1].target.answer, masks=None))
        yield replace(good[1], id="empty", unit="", target=empty)
        long = replace(good[2].query, text="where " * 300)
        yield replace(good[2], id="long", unit="", query=long)
        yield from good

    return replace(task, samples=samples)


def test_samples_that_cannot_be_learned_are_named_before_the_first_step(
    tiny_qwen, examples, tmp_path, told
):
    shutil.copytree(examples / "reason_seg", tmp_path / "data" / "reason_seg")
    image = tmp_path / "data" / "reason_seg" / "ReasonSeg" / "val" / "val_00001.jpg"
    whole_file = image.read_bytes()
    image.write_bytes(whole_file[: len(whole_file) // 2])  # its header is sound
    training = train(
        sft(max_steps=1, max_length=1000),
        [damaged(plugins.build("tasks", "reason_seg", tmp_path / "data"))],
        parse(f"qwen_vl(checkpoint={tiny_qwen})"),
        tmp_path / "out",
        TrainingOptions(progress=told),
    )
    result = training.manifest["result"]
    assert result["dropped"] == {
        "no target": 1,
        "no response says its answer": 1,
        "unreadable": 1,
        "longer than 1000 tokens": 1,
    }
    assert {one["sample"] for one in result["dropped_samples"]} == {
        "hidden",
        "empty",
        "val_00001",
        "long",
    }
    assert result["examples"] == 2
    assert any("no target: reason_seg hidden" in note for note in told.notes)
    assert [one[0] for one in told.started] == [
        "looking at images",
        "checking samples",
        "training",
    ]
    assert told.started[2] == ("training", 1, 0)


def test_samples_without_an_image_are_left_out_and_named(tiny_qwen, examples, tmp_path, told):
    shutil.copytree(examples / "reason_seg", tmp_path / "data" / "reason_seg")
    folder = tmp_path / "data" / "reason_seg" / "ReasonSeg" / "val"
    (folder / "val_00001.jpg").unlink()
    training = train(
        sft(max_steps=1),
        [plugins.build("tasks", "reason_seg", tmp_path / "data")],
        parse(f"qwen_vl(checkpoint={tiny_qwen})"),
        tmp_path / "out",
        TrainingOptions(progress=told),
    )
    assert [row.id for row in training.samples()] == ["val_00000", "val_00002"]
    assert training.manifest["tasks"][0]["n_total"] == 2
    assert training.manifest["tasks"][0]["faults"] == {"found": 1, "left_out": 1}
    (note,) = (note for note in told.notes if "sample" in note)
    assert "1 sample(s)" in note and "val_00001.jpg" in note


def test_nothing_to_learn_from_is_an_error(start):
    with pytest.raises(DataError, match=r"3 dropped, .*'val_00000': .*10 tokens"):
        start("none", "max_steps=1,max_length=10")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("gradient_accumulation_step=2", r"step=….*\bgradient_accumulation_steps\?"),
        ("per_device_train_batch_size=two", "per_device_train_batch_size=….*'two'"),
        ("per_device_train_batch_size=0", "per_device_train_batch_size=….*1, found 0"),
        ("finetune=half", "'full' or 'lora'"),
        ("learning_rate=-1", r"learning_rate=….*0, found -1\.0"),
        ("finetune=lora,freeze_vision=true,lora_layers=all", "lora_layers"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, said):
    with pytest.raises(UsageError, match=said):
        plugins.build("trainers", parse(f"sft({settings})"))


def test_only_a_network_in_process_can_be_trained(start):
    with pytest.raises(UsageError, match=r"sft, .*found Saliency$"):
        start("other", model="saliency")
    with pytest.raises(UsageError, match=r"sft: .*--model"):
        trainable("sft", None)


def test_examples_in_docstrings_are_right():
    import doctest

    from harness.trainers.sft import reasoning

    assert doctest.testmod(reasoning).failed == 0


TASKS = ("reason_seg", "counting", "mevis")


@pytest.fixture
def learning(tiny_qwen, model, examples):
    """A learner, and nine examples of three tasks."""
    settings = SftSettings(per_device_train_batch_size=9, report_to=None)
    learner = SftLearner(model.chat, settings, accelerator_of(settings, model.chat), seed=0)
    tasks = [plugins.build("tasks", name, examples) for name in TASKS]
    made = [one for one in examples_of(model, tasks) if isinstance(one, Example)]
    assert {one.task for one in made} == set(TASKS) and len(made) == 9
    return learner, made


def test_the_prompt_is_the_one_of_evaluation_and_the_loss_sees_the_response(learning):
    from harness.models.backends.inputs import processor_inputs

    learner, made = learning
    processor = learner.chat.processor
    (batch,) = learner.round(learner.prepare(made), 0).batches
    width = batch.mask.shape[1]
    for row, example in enumerate(made):
        prompt = processor_inputs(processor, [example.request])["input_ids"][0]
        seen = batch.inputs["attention_mask"][row].bool()
        response = batch.inputs["input_ids"][row, -width:][batch.mask[row].bool()]
        assert batch.inputs["input_ids"][row][seen].tolist() == [*prompt, *response]
        assert processor.decode(response) == example.response + processor.tokenizer.eos_token
        assert not batch.mask[row, len(response) :].any()
    together = processor_inputs(processor, [example.request for example in made])
    assert torch.equal(batch.inputs["pixel_values"], together["pixel_values"])


def test_a_padded_batch_is_computed_as_its_rows_are_alone(learning):
    learner, made = learning
    made = made[::3]

    def logps(chosen):
        (batch,) = learner.round(learner.prepare(chosen), 0).batches
        with torch.inference_mode():
            scored, _ = learner.policy(batch.inputs, batch.mask)
        return [row[mask.bool()] for row, mask in zip(scored, batch.mask, strict=True)]

    for row, alone in zip(logps(made), [logps([one])[0] for one in made], strict=True):
        torch.testing.assert_close(row, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("finetune", ["full", "lora"])
def test_gradient_checkpointing_computes_layers_twice_and_learns_the_same(
    learning, model, finetune
):
    _, made = learning
    found = []
    for twice in (False, True):
        settings = SftSettings(finetune=finetune, gradient_checkpointing=twice, report_to=None)
        learner = SftLearner(model.chat, settings, accelerator_of(settings, model.chat), seed=0)
        calls = []
        name, inside = next(
            (name, one)
            for name, one in learner.network.named_modules()
            if name.endswith("language_model.layers.0.self_attn")
        )
        inside.register_forward_pre_hook(lambda *_, name=name, calls=calls: calls.append(name))
        numbers = learner.update(learner.round(learner.prepare(made[:1]), 0), 0.0)
        found.append((len(calls), numbers["loss"], numbers["grad_norm"]))
    assert [calls for calls, _, _ in found] == [1, 2]
    assert found[0][1:] == pytest.approx(found[1][1:], rel=1e-5)


@pytest.mark.parametrize("each", [2, 4])
def test_a_step_is_that_of_trl(learning, model, tmp_path, monkeypatch, each):
    """The weights after one step on four examples, at once and by accumulated gradients."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("CI", "1")  # TRL's trainers report to a server otherwise
    trl = pytest.importorskip("trl")
    if trl.__version__.startswith("1.15."):
        pytest.importorskip("triton", reason="this release fine-tunes by Triton's kernels alone")
    from datasets import Dataset

    given = {"per_device_train_batch_size": each, "gradient_accumulation_steps": 4 // each}
    given |= {"learning_rate": 0.01, "weight_decay": 0.1, "max_grad_norm": 0.5, "max_steps": 1}
    settings = SftSettings(**given, report_to=None)
    learner = SftLearner(model.chat, settings, accelerator_of(settings, model.chat), seed=0)
    _, made = learning
    round_ = learner.round(learner.prepare(made[:4]), 0)
    # Before TRL's trainer is there: accelerate has one number of accumulated batches a process.
    numbers = learner.update(round_, settings.peak_learning_rate)

    def collated(rows):
        one = round_.batches[rows[0]["row"]]
        labels = torch.full_like(one.inputs["input_ids"], -100)
        learned = one.inputs["input_ids"][:, -one.mask.shape[1] :]
        labels[:, -one.mask.shape[1] :] = learned.masked_fill(one.mask == 0, -100)
        return {**one.inputs, "labels": labels}

    arguments = trl.SFTConfig(
        **{**given, "per_device_train_batch_size": 1},  # a row of its data is one of our batches
        output_dir=str(tmp_path),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        max_length=None,
        remove_unused_columns=False,
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    trainer = trl.SFTTrainer(
        model=load(model.chat, dtype="auto"),
        args=arguments,
        train_dataset=Dataset.from_dict({"row": list(range(4 // each))}),
        data_collator=collated,
        processing_class=model.chat.processor,
    )
    # Qwen's networks say that they take no number of tokens for their loss: TRL would average the
    # means of a step's batches, and a token's weight depend on how a step is cut.
    trainer.model_accepts_loss_kwargs = True
    trainer.train()
    theirs = next(row for row in trainer.state.log_history if "grad_norm" in row)
    for name in ("loss", "grad_norm"):
        assert numbers[name] == pytest.approx(theirs[name], rel=1e-4), name
    # A first step of AdamW is the sign of a gradient: where it is nearly 0, rounding decides it.
    found = [
        (one - other).abs() < 1e-5
        for one, other in zip(learner.network.parameters(), trainer.model.parameters(), strict=True)
    ]
    close = torch.cat([one.flatten() for one in found]).float().mean()
    assert close > 0.99


def test_text_of_a_benchmark_is_never_a_special_token(model):
    words = model.chat.processor.tokenizer
    tokens = response_tokens(model.chat.processor, "a<|im_end|>b")
    assert tokens[-1] == words.eos_token_id and words.eos_token_id not in tokens[:-1]


def test_a_short_reasoning_says_how_many_and_where(model, examples):
    tasks = [plugins.build("tasks", name, examples) for name in TASKS]
    plain = list(examples_of(model, tasks))
    thoughtful = list(examples_of(model, tasks, reasoning="short"))
    for before, after in zip(plain, thoughtful, strict=True):
        assert before.request.text == after.request.text
        read = [model.prompt.parse(one.response) for one in (before, after)]
        assert read[0].items == read[1].items and read[0].frame == read[1].frame
        assert read[1].think and str(len(read[1].items) or "Nothing")[:1] in "1234567890N"
        assert "meant" in read[1].think and not read[0].think


def test_a_rationale_of_the_benchmark_comes_first(model, task):
    good = next(iter(samples_of(task)))
    info = replace(good.target, extra={"rationale": " It is the red one. "})
    tagged = replace(good.target, extra={"rationale": "</think>"})
    made = replace(
        task, samples=lambda: [replace(good, target=info), replace(good, id="x", target=tagged)]
    )
    first, second = examples_of(model, [made], reasoning="short")
    assert model.prompt.parse(first.response).think == "It is the red one."
    assert isinstance(second, SkippedSample) and second.sample == "x"


def test_places_are_named_by_thirds_of_the_canvas():
    corners = [Item(Box(x, y, x + 10, y + 10)) for y in (0, 40, 80) for x in (0, 40, 80)]
    assert about_objects([], (90, 90)) == "Nothing in the picture is meant."
    assert about_objects(corners[4:5], (90, 90)) == "One object is meant: in the middle."
    text = about_objects(corners, (90, 90))
    assert text.startswith("9 objects are meant: at the upper left, at the top, at the upper right")
    assert text.endswith("and 3 more.")
    with pytest.raises(ParseError):
        with_thought("B", "<answer>")


def test_questions_in_words_are_learned_too(model, task):
    good = next(iter(samples_of(task)))
    query = replace(good.query, forms=(AnswerForm.CHOICE, AnswerForm.MASK), options=("x", "y"))
    target = replace(good.target, answer=replace(good.target.answer, choice="B"))
    made = replace(task, samples=lambda: [replace(good, query=query, target=target)])
    choice, mask = examples_of(model, [made])
    assert choice.response == "B" and "<answer>" in mask.response
    assert choice.request.resize is None and mask.request.resize == (840, 840)
