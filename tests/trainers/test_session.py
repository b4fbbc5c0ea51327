"""States of a training, its session, and that nothing knows TRL's inner parts."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")
trl = pytest.importorskip("trl")

from harness.errors import StoreError  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.trainer import TrainingRun  # noqa: E402
from harness.trainers import learner as training  # noqa: E402
from harness.trainers.policy import accelerator_of  # noqa: E402
from harness.trainers.session import Session  # noqa: E402
from harness.trainers.sft.trainer import SftSettings  # noqa: E402
from harness.trainers.state import (  # noqa: E402
    load_optimizers,
    load_tensors,
    newest_state,
    save_optimizers,
    save_tensors,
    saved_state,
    trained_tensors,
)

ensure_torchvision()


def followed(run):
    return Session(run, lambda folder: None, report_to=None, settings={})


class Spread(training.Learner):
    """A learner under ZeRO-3, as far as it goes on from a state after its last step."""

    prepare = round = loss = None

    def __init__(self, written):
        self.settings = SftSettings(max_steps=4, report_to=None)
        self.accelerator = SimpleNamespace(
            num_processes=1,
            is_main_process=True,
            state=SimpleNamespace(deepspeed_plugin=SimpleNamespace(zero_stage=3)),
            get_state_dict=lambda engine: {"network.weight": engine.loaded[-1]},
            wait_for_everyone=lambda: None,
        )
        self.policy = SimpleNamespace(loaded=[])
        self.policy.load_checkpoint = lambda folder, tag: self.policy.loaded.append(folder)
        self.network, self.chat = "network", SimpleNamespace(folder="base")
        self.written = written


Spread.__abstractmethods__ = frozenset()


def test_a_deepspeed_training_that_died_before_its_export_goes_on_from_its_state(
    tmp_path, monkeypatch
):
    with saved_state(tmp_path / "state", 4):
        state = tmp_path / "state" / "step-4"
    exported = []

    def export(network, base, folder, *, tensors):
        exported.append((network, base, folder, tensors))
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        save_tensors(folder / "model.safetensors", {})

    monkeypatch.setattr(training.networks, "export", export)
    run = TrainingRun(out=tmp_path, resume=True)
    training.train(Spread(exported), ["a", "b"], followed(run))
    assert exported == [("network", "base", run.checkpoint, {"weight": str(state)})]


def test_one_is_made_ahead_and_faults_are_raised_where_it_is_used():
    made = []

    def make(number):
        made.append(number)
        return 1 / number

    several = training.one_ahead(make, iter([1, 2, 0, 4]))
    assert next(several) == 1
    assert next(several) == 0.5
    with pytest.raises(ZeroDivisionError):
        next(several)
    assert made[:3] == [1, 2, 0]
    assert list(training.one_ahead(make, [])) == []


ROOT = Path(__file__).parents[2]
SOURCES = ("harness", "trainers", "models", "tasks", "benchmarks", "examples")
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


@cache
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


def test_no_module_knows_private_names_of_trl():
    names = private_names_of_trl()
    found = {
        (file.relative_to(ROOT).as_posix(), name)
        for root in SOURCES
        for file in sorted((ROOT / root).rglob("*.py"))
        for text in [file.read_text()]
        if not names.isdisjoint(re.findall(r"\w+", text))  # or there is nothing to parse it for
        for name in used_of_trl(ast.parse(text), names, trainer=root == "trainers")
    }
    assert found == OTHERS


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


def test_no_trainer_of_trl_is_derived_from():
    derived = [
        (path.name, one.name)
        for path in sorted((ROOT / "trainers").rglob("*.py"))
        for one in ast.walk(ast.parse(path.read_text()))
        if isinstance(one, ast.ClassDef)
        and {ast.unparse(base).removeprefix("trl.") for base in one.bases} & TRAINERS
    ]
    assert TRAINERS and derived == []


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


def test_damaged_and_other_states_of_optimisers_are_store_errors(tmp_path):
    """None of these ends in an error of torch, of which a user learns no file's name."""
    path = tmp_path / "optimizer.pt"
    adam = [torch.optim.AdamW([torch.ones(2, requires_grad=True)])]
    with pytest.raises(StoreError, match="optimizer"):  # none is there
        load_optimizers(path, adam)
    save_optimizers(path, adam)
    load_optimizers(path, adam)
    whole = path.read_bytes()
    for cut in (b"", whole[:40], whole[: len(whole) // 2], b"no" + whole):
        path.write_bytes(cut)
        with pytest.raises(StoreError, match="optimizer"):
            load_optimizers(path, adam)
    other = torch.optim.AdamW([torch.ones(2, requires_grad=True), torch.ones(3)])
    torch.save(adam[0].state_dict(), path)  # as one optimiser's was written before
    load_optimizers(path, adam)
    groups = adam[0].state_dict()["param_groups"]
    odd = [{"state": [], "param_groups": groups}]
    for kept in ([], [{}], {"state": {}}, [other.state_dict()], [1], odd):
        torch.save(kept, path)
        with pytest.raises(StoreError, match="optimizer"):
            load_optimizers(path, adam)


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


def test_a_network_is_evaluated_every_so_many_steps(tmp_path):
    session = followed(
        TrainingRun(out=tmp_path, every=2, evaluate=lambda _, step: {"eval/x": step})
    )
    found = [session.evaluate(step) for step in range(1, 5)]
    assert found == [{}, {"eval/x": 2}, {}, {"eval/x": 4}]


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


def test_processes_wait_for_each_other_as_long_as_an_evaluation_takes():
    assert (
        accelerator_of(
            SftSettings(dtype="float32"), SimpleNamespace(device="cpu", dtype="auto")
        ).init_handler.timeout.days
        == 7
    )


def test_gradients_are_accumulated_whatever_a_training_before_in_the_process_has_left():
    """TRL's trainer may leave a data loader at its end, after which accelerate ends each batch."""
    left = torch.utils.data.DataLoader([1])
    before = accelerate.Accelerator(cpu=True)
    coming = iter(before.prepare(left))
    next(coming)
    assert before.gradient_state.end_of_dataloader
    settings = SftSettings(gradient_accumulation_steps=3, report_to=None, dtype="float32")
    accelerator = accelerator_of(settings, SimpleNamespace(device="cpu"))
    ends = []
    for _ in range(6):
        with accelerator.accumulate(torch.nn.Linear(1, 1)):
            ends.append(accelerator.sync_gradients)
    assert ends == [False, False, True] * 2
    list(coming)
