"""The device in a record follows from the model's settings, whatever is loaded when."""

import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from harness import plugins, provenance
from harness.errors import ResumeMismatch
from harness.model import Model
from harness.provenance import device_of
from harness.record import Run
from harness.run.evaluate import evaluate
from harness.run.external_predictions import Submission
from harness.run.options import Options
from harness.run.score import score_file
from harness.run.train import TrainingOptions, train
from harness.run.workers import worker_info
from harness.spec import parse
from harness.trainer import Trainer

CARDS = ("Card A", "Card B")
TORCH = f"""
class cuda:
    is_available = staticmethod(lambda: True)
    is_initialized = staticmethod(lambda: False)
    device_count = staticmethod(lambda: {len(CARDS)})
    get_device_name = staticmethod(lambda index=0: {CARDS}[index])
"""


@pytest.fixture
def unloaded(monkeypatch, tmp_path):
    """A torch that sees two GPUs, and is not loaded yet."""
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "torch.py").write_text(TORCH)
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    monkeypatch.setitem(sys.modules, "torch", None)  # so that it is as before, afterwards
    monkeypatch.delitem(sys.modules, "torch")


@dataclass(frozen=True)
class Composed(Model):
    """Answers as the toy model does, and loads torch before its first answer."""

    finder: Any
    devices: tuple[str, ...] = ()
    name: str = "composed"
    batch_size: int = 4

    def describe(self):
        return {}

    def prepare(self):
        import torch  # noqa: F401

    def predict(self, queries):
        return self.finder.predict(queries)


def composed(*devices):
    return Composed(plugins.build("models", parse("dot_finder")), devices)


def device_in(folder):
    return Run.open(folder).manifest["provenance"]["device"]


@pytest.mark.parametrize("devices", [("cuda:0", "auto"), ("auto",)])
def test_two_tasks_and_a_resumption_record_the_device_of_the_first(
    devices, dots, tmp_path, unloaded
):
    task, model = plugins.build("tasks", parse("dots"), dots), composed(*devices)
    evaluate(task, model, tmp_path / "first", Options())
    assert "torch" in sys.modules, "from now on it is loaded"
    evaluate(task, model, tmp_path / "second", Options())
    evaluate(task, model, tmp_path / "first", Options())
    assert device_in(tmp_path / "first") == device_in(tmp_path / "second") == CARDS[0]
    with pytest.raises(ResumeMismatch, match=r"Card A.*cpu"):
        evaluate(task, composed("cpu", "cpu"), tmp_path / "first", Options())


@pytest.mark.parametrize("devices", [(), ("cpu", "cpu:0")])
def test_a_model_on_the_cpu_of_a_machine_with_gpus_is_on_the_cpu(devices, dots, tmp_path, unloaded):
    task, model = plugins.build("tasks", parse("dots"), dots), composed(*devices)
    assert worker_info(model).device == "cpu" and "torch" not in sys.modules, "it is not asked for"
    evaluate(task, model, tmp_path / "first", Options())
    evaluate(task, model, tmp_path / "second", Options())
    assert device_in(tmp_path / "first") == device_in(tmp_path / "second") == "cpu"


@pytest.mark.parametrize(
    ("devices", "named"),
    [
        (["cuda:1"], "Card B"),
        (["cuda", "cpu"], "Card A"),
        (["cuda:1", "cuda:0"], "Card B, Card A"),
        (["cuda:1", "cuda:1"], "Card B"),
        (["auto"], "Card A"),
        (["mps"], "mps"),
        (["cuda:2"], "cuda:2"),
    ],
)
def test_each_gpu_has_its_own_name(devices, named, unloaded):
    assert worker_info(composed(*devices)).device == named


def test_without_a_gpu_or_without_torch_it_is_the_cpu(monkeypatch):
    blind = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    for torch in (blind, None):  # None: it cannot be imported
        monkeypatch.setitem(sys.modules, "torch", torch)
        assert device_of(["cuda:0", "auto"]) == "cpu"
        assert provenance.device() == provenance.collect()["device"] == "cpu"


POCKET = (
    "pocket(backend=transformers(device=cuda:1),segmenter=pocket_sam(device=cpu),"
    "propagator=pocket_sam_video(device=auto))"
)
ASKED = "backend=openai(model=m,coordinates=pixels,base_url=http://localhost:1/v1)"


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (POCKET, "Card B, Card A"),
        (POCKET.replace("cuda:1", "cpu").replace("auto", "cpu"), "cpu"),
        ("qwen_vl(backend=ablation(chat=transformers(checkpoint=pocket,device=cuda:1)))", "Card B"),
        (f"qwen_vl({ASKED},segmenter=pocket_sam)", "Card A"),
        (f"qwen_vl({ASKED})", "cpu"),
    ],
)
def test_the_parts_of_our_models_say_where_they_are(model, named, unloaded):
    assert device_of(plugins.build("models", parse(model)).devices) == named


def test_predictions_from_elsewhere_are_on_no_gpu_unless_their_reader_is(dots, tmp_path, unloaded):
    task, file = plugins.build("tasks", parse("dots"), dots), tmp_path / "said.jsonl"
    file.write_text('{"id": "dot/0", "no_target": true}\n')
    read: Any = composed("cuda:1")
    for number, reader in enumerate((None, read)):
        folder = tmp_path / str(number)
        score_file(task, Submission(path=file, name="said", reader=reader), folder=folder)
    assert device_in(tmp_path / "0") == "cpu"
    assert device_in(tmp_path / "1") == "Card B"


@dataclass
class Toy(Trainer):
    """Makes an empty checkpoint, on a GPU or beside it."""

    cuda: Any
    takes: int
    name: str = "toy"

    def describe(self):
        return {}

    def train(self, run):
        self.cuda.taken += self.takes
        run.checkpoint.mkdir()
        return {}


@pytest.mark.parametrize(("takes", "named"), [(0, "cpu"), (7, "Card B")])
def test_a_training_records_the_gpu_if_it_took_it(takes, named, tmp_path, monkeypatch):
    cuda = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 1,
        taken=0,
        max_memory_allocated=lambda device: cuda.taken,
        get_device_name=lambda: "Card B",
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    done = train(Toy(cuda, takes), [], None, tmp_path / "out", TrainingOptions())
    assert done.manifest["devices"] == [named]
    assert done.manifest["provenance"]["device"] == "cpu", "of no model"
