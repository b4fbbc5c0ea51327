"""Contracts with TRL and the transformers Trainer: what is mended, and that it still needs it."""

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl")

from harness.errors import ModelError, StoreError  # noqa: E402
from harness.trainer import Curve, TrainingRun  # noqa: E402
from harness.trainers.session import Session  # noqa: E402
from harness.trainers.sft import engine  # noqa: E402
from harness.trainers.sft.network import whole_weights  # noqa: E402
from harness.trainers.state import (  # noqa: E402
    load_tensors,
    newest_state,
    save_tensors,
    saved_state,
    trained_tensors,
)

TEXTS = ["the red disc", "the blue box", "two discs", "a line"]


class Words:
    """A batch of texts for a language model: every token is learned."""

    def __init__(self, tokenizer) -> None:
        self.tokenizer = tokenizer

    def __call__(self, rows):
        batch = dict(
            self.tokenizer([TEXTS[row["row"]] for row in rows], padding=True, return_tensors="pt")
        )
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        return {**batch, "labels": labels}


@pytest.fixture
def build(tiny_qwen, tmp_path):
    """Builds TRL's trainer, patched or as it is, on texts alone."""
    from transformers import AutoModelForImageTextToText, AutoProcessor

    def built(*, patched=True, folder="state", callbacks=(), **given):
        network = AutoModelForImageTextToText.from_pretrained(tiny_qwen, dtype=torch.float32)
        processor = AutoProcessor.from_pretrained(tiny_qwen)
        arguments = engine.configuration(
            output_dir=str(tmp_path / folder),
            use_cpu=True,
            bf16=False,
            seed=5,
            gradient_checkpointing=False,
            per_device_train_batch_size=2,
            learning_rate=0.01,
            max_length=None,
            dataset_kwargs={"skip_prepare_dataset": True},
            **{"max_steps": 4, "save_steps": 2, **given},
        )
        kind = engine.ResumableTrainer if patched else engine.SFTTrainer
        return kind(
            model=network,
            args=arguments,
            train_dataset=engine.rows(len(TEXTS)),
            data_collator=Words(processor.tokenizer),
            processing_class=processor,
            callbacks=list(callbacks),
        )

    return built


def followed(run):
    return Session(run, lambda folder: None, report_to=None, settings={})


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("CI", "1")  # TRL's own trainers report to a server otherwise


def weights(trainer):
    return {name: one.detach().clone() for name, one in trainer.model.named_parameters()}


def equal(one, other):
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


def test_trl_by_itself_goes_on_from_the_first_weights(build):
    """The reason for `_load_from_checkpoint`. If this fails, TRL was mended."""
    first = build(patched=False, folder="own")
    before = weights(first)
    first.train()
    trained = weights(first)
    again = build(patched=False, folder="own")
    again._load_from_checkpoint(str(Path(again.args.output_dir) / "checkpoint-4"))
    loaded = weights(again)
    lost = [name for name in trained if not torch.equal(loaded[name], trained[name])]
    assert lost and all(torch.equal(loaded[name], before[name]) for name in lost)
    assert (Path(again.args.output_dir) / "checkpoint-4" / "training_args.bin").exists()


def test_the_mended_one_loads_every_tensor(build, tmp_path):
    first = build()
    engine.train_to_end(first, followed(TrainingRun(out=tmp_path)))
    state = newest_state(tmp_path / "state")
    assert state.name == "step-4" and list((tmp_path / "state").iterdir()) == [state]
    again = build()
    before = weights(again)
    again._load_from_checkpoint(str(state))
    assert equal(weights(again), weights(first)) and not equal(before, weights(first))
    names = {path.name for path in state.iterdir()}
    assert names == {
        "trained.safetensors",
        "optimizer.pt",
        "scheduler.pt",
        "rng_state.pth",
        "trainer_state.json",
    }
    assert json.loads((state / "trainer_state.json").read_text())["log_history"] == []


def test_from_the_last_state_no_further_step_is_taken(build, tmp_path):
    first = build(max_steps=3, save_steps=3)
    engine.train_to_end(first, followed(TrainingRun(out=tmp_path)))
    again = build(max_steps=3, save_steps=3)
    run = TrainingRun(out=tmp_path, resume=True)
    engine.train_to_end(again, followed(run))
    assert again.state.global_step == 3 and equal(weights(again), weights(first))
    assert [row["step"] for row in run.curve.read()] == [1, 2, 3]


class Spread:
    """A trainer under DeepSpeed, as far as it goes on from a state."""

    is_deepspeed_enabled = loss_is_scaled_for_ga = True
    deepspeed = None
    add_callback = remove_callback = print

    def __init__(self):
        self.resumed = []
        self.state = SimpleNamespace(global_step=4, max_steps=4)
        self.accelerator = SimpleNamespace(get_state_dict=lambda engine: {"weight": engine})

    def train(self, *, resume_from_checkpoint):
        self.resumed.append(Path(resume_from_checkpoint).name)
        self.deepspeed = "engine"
        raise engine.Complete


def test_a_deepspeed_training_that_died_before_its_export_goes_on_from_its_state(tmp_path):
    state = tmp_path / "state" / "step-4"
    state.mkdir(parents=True)
    (state / "trainer_state.json").write_text('{"global_step": 4, "max_steps": 4}')
    trainer = Spread()
    with pytest.raises(ModelError, match=r"DeepSpeed: .*none"):
        whole_weights(trainer)
    engine.train_to_end(trainer, followed(TrainingRun(out=tmp_path, resume=True)))
    assert trainer.resumed == ["step-4"]
    assert whole_weights(trainer) == {"weight": "engine"}
    trainer.is_deepspeed_enabled = False
    assert whole_weights(trainer) is None


def test_the_hooks_that_are_overridden_are_there():
    ensure = engine.SFTTrainer
    signature = inspect.signature
    assert list(signature(ensure._save_checkpoint).parameters) == ["self", "model", "trial"]
    assert list(signature(ensure._load_from_checkpoint).parameters) == [
        "self",
        "resume_from_checkpoint",
        "model",
    ]
    assert callable(ensure._save_optimizer_and_scheduler) and callable(ensure._save_rng_state)
    assert "weights_only=True" in inspect.getsource(ensure._load_rng_state)


ROOT = Path(__file__).parents[2]
SOURCES = ("harness", "trainers", "models", "tasks", "benchmarks", "examples")
KNOWING = ("trainers/sft/engine.py",)
OTHERS = {
    ("models/neural_metrics/bertscore.py", "_tokenizer"),
    ("benchmarks/real_size.py", "_generate"),  # of our backend with vLLM
}
"""Private names of others that TRL's trainers have too."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


TRAINERS = {name for name in dir(trl) if name.endswith("Trainer")}


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def on_self(node: ast.AST) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def attributes(tree: ast.AST) -> Iterator[ast.Attribute]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def private_names_of_trl() -> set[str]:
    """Private names of TRL's trainers and of what they derive from: of classes and instances."""
    names = set()
    for kind in (trl.GRPOTrainer, trl.SFTTrainer):
        names |= set(dir(kind))
        for module in {one.__module__ for one in kind.__mro__ if one is not object}:
            tree = ast.parse(inspect.getsource(sys.modules[module]))
            names |= {node.attr for node in attributes(tree) if on_self(node)}
    return {name for name in names if private(name)}


def used_of_trl(tree: ast.AST, names: set[str], *, trainer: bool) -> set[str]:
    """The names that a module reads or sets on other objects, `super()` among them, or as text.

    With `trainer`, where a class may be mixed into TRL's, those too that it defines, or reads of
    itself; but a name of one word, such as `_save`, may be a class's own.
    """
    found = {node.attr for node in attributes(tree) if not on_self(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "hasattr" | "delattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ):
                found.add(name)
    if trainer:
        own = {node.attr for node in attributes(tree) if on_self(node)}
        for made in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            own |= {node.name for node in made.body if isinstance(node, FUNCTIONS)}
        found |= {name for name in own if "_" in name[1:]}
    return found & names


def test_no_other_module_knows_private_names_of_trl():
    """What is needed of TRL's inner parts goes into one module, with a contract test."""
    names = private_names_of_trl()
    found = {
        (path, name)
        for root in SOURCES
        for file in sorted((ROOT / root).rglob("*.py"))
        for path in [file.relative_to(ROOT).as_posix()]
        for name in used_of_trl(ast.parse(file.read_text()), names, trainer=root == "trainers")
    }
    assert {path for path, _ in found} >= set(KNOWING)
    assert {one for one in found if one[0] not in KNOWING} - OTHERS == set()


@pytest.mark.parametrize(
    ("source", "trainer", "used"),
    [
        ("trainer._generate_single_turn()", False, "_generate_single_turn"),
        ("self.engine._metrics['train'] = {}", False, "_metrics"),
        ("getattr(trainer, '_step', 0)", False, "_step"),
        (
            "class A:\n def _compute_loss(self): return super()._compute_loss()",
            True,
            "_compute_loss",
        ),
        ("class A:\n def _compute_loss(self): ...", True, "_compute_loss"),
        ("class A:\n def a(self): self._total_train_tokens = 0", True, "_total_train_tokens"),
        ("class A:\n def _save(self): self._step", True, None),
        ("class A:\n def _compute_loss(self): ...", False, None),
        ("trainer._nothing_of_trl", True, None),
    ],
)
def test_uses_of_private_names_are_found(source, trainer, used):
    found = used_of_trl(ast.parse(source), private_names_of_trl(), trainer=trainer)
    assert found == ({used} - {None})


def test_two_private_methods_of_trl_are_overridden():
    own = vars(engine.ResumableTrainer)
    overridden = {name for name in own if hasattr(engine.SFTTrainer, name) and private(name)}
    assert overridden == {"_save_checkpoint", "_load_from_checkpoint"}
    derived = [
        (path.name, one.name)
        for path in sorted((ROOT / "trainers").rglob("*.py"))
        for one in ast.walk(ast.parse(path.read_text()))
        if isinstance(one, ast.ClassDef)
        and {ast.unparse(base).removeprefix("trl.") for base in one.bases} & TRAINERS
    ]
    assert derived == [("engine.py", "ResumableTrainer")]


def test_no_trainer_reports_to_a_server(build, monkeypatch):
    from huggingface_hub.utils import _telemetry

    def reported(*arguments, **given):
        raise AssertionError("it reports")

    monkeypatch.delenv("CI")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(_telemetry.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(_telemetry, "_start_telemetry_thread", reported)
    build()
    monkeypatch.setattr(_telemetry.constants, "HF_HUB_DISABLE_TELEMETRY", False)
    with pytest.raises(AssertionError, match="reports"):
        _telemetry.send_telemetry("x")


def test_a_stopped_training_saves_and_says_so(build, tmp_path):
    requested = []

    def stopping():
        requested.append(1)
        return len(requested) == 3

    trainer = build()
    with pytest.raises(KeyboardInterrupt):
        engine.train_to_end(trainer, followed(TrainingRun(out=tmp_path, stopping=stopping)))
    assert newest_state(tmp_path / "state").name == "step-3"
    whole = build(folder="whole")
    engine.train_to_end(whole, followed(TrainingRun(out=tmp_path / "whole")))
    again = build()
    engine.train_to_end(again, followed(TrainingRun(out=tmp_path, resume=True)))
    assert equal(weights(again), weights(whole))
    curves = [Curve(folder / "curve.jsonl").read() for folder in (tmp_path, tmp_path / "whole")]
    assert curves[0] == curves[1] and len(curves[0]) == 4


def tied():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = torch.nn.Embedding(3, 2), torch.nn.Linear(2, 3, bias=False)
            self.head.weight = self.embed.weight
            self.frozen = torch.nn.Linear(2, 2).requires_grad_(False)
            self.register_buffer("mean", torch.zeros(2))

    return Tied()


def test_tied_weights_are_saved_once_and_frozen_ones_not_at_all(tmp_path):
    network, other = tied(), tied()
    network.mean += 2
    assert set(trained_tensors(network)) == {"embed.weight", "mean"}
    save_tensors(tmp_path / "x.safetensors", trained_tensors(network))
    kept = other.frozen.weight.clone()
    load_tensors(tmp_path / "x.safetensors", other)
    assert torch.equal(other.head.weight, network.embed.weight) and other.mean.tolist() == [2, 2]
    assert torch.equal(other.frozen.weight, kept)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tensors: tensors.pop("mean"), "mean"),
        (lambda tensors: tensors.update(more=torch.zeros(1)), "more"),
        (lambda tensors: tensors.update(mean=torch.zeros(3)), "mean"),
        (lambda tensors: tensors.update(mean=torch.zeros(2, dtype=torch.float64)), "mean"),
    ],
)
def test_a_state_of_another_network_is_refused(tmp_path, change, said):
    network = tied()
    tensors = dict(trained_tensors(network))
    change(tensors)
    save_tensors(tmp_path / "x.safetensors", tensors)
    before = network.embed.weight.clone()
    with pytest.raises(StoreError, match=said):
        load_tensors(tmp_path / "x.safetensors", network)
    assert torch.equal(network.embed.weight, before)


def test_a_damaged_state_is_a_store_error(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"no")
    with pytest.raises(StoreError, match="tensors"):
        load_tensors(tmp_path / "x.safetensors", tied())


def test_an_evaluation_draws_nothing_of_the_training(tmp_path):
    def drawing(folder, step):
        return {"eval/x": float(torch.rand(1))}

    session = followed(TrainingRun(out=tmp_path, every=1, evaluate=drawing))
    torch.manual_seed(3)
    first = torch.rand(2)
    torch.manual_seed(3)
    before = torch.rand(1)
    assert set(session.evaluate(1)) == {"eval/x"}
    assert torch.equal(torch.cat([before, torch.rand(1)]), first)


def test_a_state_counts_only_when_it_is_whole(tmp_path):
    with saved_state(tmp_path, 9) as folder:
        (folder / "a").write_text("9")
        assert newest_state(tmp_path) is None
    with pytest.raises(ValueError, match="kill"), saved_state(tmp_path, 10) as folder:
        (folder / "a").write_text("10")
        raise ValueError("kill")
    assert newest_state(tmp_path).name == "step-9"
    with saved_state(tmp_path, 100) as folder:
        (folder / "a").write_text("100")
    assert [path.name for path in tmp_path.iterdir()] == ["step-100"]


def test_processes_wait_for_each_other_as_long_as_an_evaluation_takes(tmp_path):
    arguments = engine.configuration(output_dir=str(tmp_path), use_cpu=True, bf16=False)
    assert arguments.ddp_timeout_delta.days == 7
