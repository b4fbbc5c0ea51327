"""VideoSeg-R1 trained for two steps with a tiny random network, and its configurations."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

from harness import plugins
from harness.cli.train import COMMAND_KEYS
from harness.errors import MissingDependency, UsageError
from harness.run.batching import samples_of
from harness.run.train import TrainingOptions, train
from harness.spec import Spec, parse
from harness.trainer import Curve, TrainingRun

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.trainers.grpo import vllm  # noqa: E402

ensure_torchvision()
pytest.importorskip("peft")

CONFIGS = Path(__file__).resolve().parents[2] / "trainers" / "videoseg_r1" / "configs"
FEW = {
    "num_generations": 2,
    "generation_batch_size": 4,
    "per_device_train_batch_size": 4,
    "max_completion_length": 8,
    "max_steps": 2,
    "save_steps": 2,
    "learning_rate": 0.003,
    "beta": 0.0,
    "report_to": "none",
    "keep_rollouts": 2,
    "min_references": 1,
    "max_references": 2,
    "scorer": Spec("measured"),
}
SMALL = "canvas=56,context=56,reference_frames=2,key_frames=2,segmenter=box,propagator=still"


@pytest.fixture(scope="module")
def training(tiny_qwen, examples, tmp_path_factory):
    return train(
        plugins.build("trainers", Spec("videoseg_r1", FEW)),
        [plugins.build("tasks", parse("mevis"), examples)],
        parse(f"videoseg_r1(checkpoint={tiny_qwen},{SMALL})"),
        tmp_path_factory.mktemp("training") / "out",
        TrainingOptions(seed=3),
    )


def test_every_term_of_the_reward_is_logged(training):
    rows = training.curve.read()
    assert [row["step"] for row in rows] == [1, 2]
    terms = (
        "thinking_format",
        "answer_format",
        "accuracy",
        "negative_points",
        "non_repeat",
        "used",
        "budget",
        "over_budget",
        "length_factor",
        "original",
        "total",
    )
    assert {f"rewards/{name}" for name in terms} <= set(rows[0])
    kept = Curve(training.folder / "rollouts.jsonl").read()
    assert len(kept) == 2 * 2 * 2
    assert {tuple(row["canvas"]) for row in kept} == {(56, 56)}


def test_difficulties_are_rated_kept_and_counted(training, examples):
    rows = [
        json.loads(line) for line in (training.folder / "difficulty.jsonl").read_text().splitlines()
    ]
    total = len(list(samples_of(plugins.build("tasks", parse("mevis"), examples))))
    assert len(rows) == total == training.manifest["result"]["rated"]
    levels = training.manifest["result"]["difficulty"]
    assert levels["mevis"] == levels["all"]
    assert levels["all"]["total"] == total
    json.dumps(training.manifest)


@pytest.mark.parametrize(
    ("settings", "installed", "error", "said"),
    [
        ({"per_device_train_batch_size": 3}, True, UsageError, "batch_size=3 .*found 4"),
        ({"vllm_mode": "colocate"}, False, MissingDependency, r"vllm_mode=colocate.*'vllm'"),
        (
            {"vllm_mode": "colocate"},
            True,
            UsageError,
            " mevis: .*2 frames",
        ),
        ({"deepspeed": "zero3"}, False, MissingDependency, "'deepspeed'"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_a_sample_is_rated(
    tiny_qwen, examples, tmp_path, monkeypatch, settings, installed, error, said
):
    if installed:
        monkeypatch.setattr(vllm, "import_module", lambda name: name)
    else:
        monkeypatch.setitem(sys.modules, "vllm", None)
    run = TrainingRun(
        out=tmp_path,
        tasks=(plugins.build("tasks", parse("mevis"), examples),),
        model=parse(f"videoseg_r1(checkpoint={tiny_qwen},{SMALL},beside=clips)"),
    )
    with pytest.raises(error, match=said):
        plugins.build("trainers", Spec("videoseg_r1", {**FEW, **settings})).train(run)
    assert not any(tmp_path.iterdir()), "nothing was rated"


def test_its_checkpoint_is_a_model(training, examples):
    model = plugins.build(
        "models",
        parse(
            f"videoseg_r1(checkpoint={training.folder},{SMALL},votes=1,percentages=1,"
            "max_new_tokens=16)"
        ),
    )
    sample = next(samples_of(plugins.build("tasks", parse("mevis"), examples)))
    (output,) = model.predict([sample.query])
    assert output.responses[-1].startswith("<frame>")


def test_a_supervised_training_takes_clips_beside_the_target(tiny_qwen, examples, tmp_path):
    training = train(
        plugins.build(
            "trainers", parse("sft(max_steps=1,per_device_train_batch_size=3,report_to=none)")
        ),
        [plugins.build("tasks", parse("mevis"), examples)],
        parse(f"videoseg_r1(checkpoint={tiny_qwen},{SMALL})"),
        tmp_path / "out",
        TrainingOptions(seed=3),
    )
    result = training.manifest["result"]
    assert (result["steps"], result["dropped"]) == (1, {}) and result["loss"] > 0


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_configuration_is_one_of_this_method(path):
    plain = tomllib.loads(path.read_text("utf-8"))
    given = {key: value for key, value in plain.items() if key not in COMMAND_KEYS}
    made = plugins.build("trainers", Spec("videoseg_r1", {"ratings": "a.jsonl", **given}))
    assert made.name == "videoseg_r1"
    if "model" in plain:
        assert parse(plain["model"]).name in plugins.installed_plugins("models")
    for task in plain.get("train_tasks", []):
        assert parse(task).name in plugins.installed_plugins("tasks") or "15k" in task
