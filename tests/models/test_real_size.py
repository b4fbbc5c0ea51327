"""Networks of the published sizes with random weights: shapes, memory, and one of each step.

The 3B network is run in the slow tier where 20 GB of memory are free; a tiny one with the same
vocabulary goes the same way everywhere.
"""

import sys
from argparse import Namespace
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness import plugins
from harness.backend import Chat
from harness.chat import ChatResponse
from harness.leaderboards import estimate
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.run.train import TrainingOptions, train
from harness.spec import parse

REPOSITORY = Path(__file__).parents[2]
pytest.importorskip("torch")
pytest.importorskip("transformers")
sys.path[:0] = [str(REPOSITORY / "benchmarks"), str(Path(__file__).parent)]

import real_network  # noqa: E402
import real_size  # noqa: E402

from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402

ensure_torchvision()  # peft cannot be imported before

FREE = 20  # GB
needs_vocabulary = pytest.mark.skipif(
    real_network.vocabulary() is None, reason="pip install --no-deps dashscope"
)


def free_memory() -> float:
    """GB that can be had without swapping."""
    found = Path("/proc/meminfo")
    lines = found.read_text().splitlines() if found.exists() else []
    kilobytes = (line.split()[1] for line in lines if line.startswith("MemAvailable"))
    return int(next(kilobytes, "0")) / 1e6


@pytest.fixture
def scratch():
    """A folder on a disk: 15 GB of checkpoints in a temporary folder may be of memory."""
    with TemporaryDirectory(dir="/var/tmp" if Path("/var/tmp").is_dir() else None) as folder:
        yield Path(folder)


@pytest.mark.parametrize("size", ["3B", "7B"])
def test_a_network_without_memory_has_the_published_shapes_and_the_memory_that_is_estimated(size):
    network, plain = real_network.meta(size), real_network.SIZES[size]
    text, vision = plain["text_config"], plain["vision_config"]
    parameters = sum(one.numel() for one in network.parameters())
    assert parameters == plain["parameters"]
    shapes = {name: tuple(one.shape) for name, one in network.named_parameters()}
    embedding = "model.language_model.embed_tokens.weight"
    assert shapes[embedding] == (text["vocab_size"], text["hidden_size"])
    assert ("lm_head.weight" in shapes) is not plain["tie_word_embeddings"]
    assert shapes["model.visual.merger.mlp.2.weight"] == (text["hidden_size"], 5120)
    assert vision["out_hidden_size"] == text["hidden_size"]
    size_assumed = estimate.parameters(f"Qwen/Qwen2.5-VL-{size}-Instruct")
    assert size_assumed == pytest.approx(parameters / 1e9, rel=0.01)
    device = estimate.DEVICES[0]
    memory = estimate.evaluation(size=size_assumed, samples=1, device=device, is_video=False).memory
    assert 2 * parameters / 1e9 < memory < 2 * parameters / 1e9 + 15
    full = {"num_generations": 8, "finetune": "full", "max_steps": 1}
    trained = estimate.training(full, size=size_assumed, samples=1, device=device, processes=1)
    assert trained.memory > 16 * parameters / 1e9 * 0.99  # weights, gradients, Adam in float32


@dataclass
class Notes(Chat):
    """Notes what it is asked, in one call and by an evaluation."""

    alone: list = field(default_factory=list)
    asked: list = field(default_factory=list)
    coordinates: str = "pixels"
    batch_size: int = 4

    def describe(self):
        return {"backend": "notes"}

    def canvas(self, request):
        return request.media[0].size

    def count_tokens(self, text):
        return len(text)

    def _prompts(self, requests):
        return [one.text for one in requests]

    def _generate(self, requests, prompts):
        self.alone += [one.key for one in requests]

    def generate(self, requests):
        self.asked.append([one.key for one in requests])
        return [ChatResponse(text="[]") for _ in requests]


def test_vllm_is_measured_on_as_many_samples_as_asked_and_on_none_that_are_in_its_caches(
    monkeypatch,
):
    chat, build = Notes(), plugins.build

    def with_notes(kind, spec, *given):
        if kind != "models":
            return build(kind, spec, *given)
        return replace(
            build(kind, parse("qwen_vl(prompt=locate,backend=stored,segmenter=box)")), chat=chat
        )

    monkeypatch.setattr(plugins, "build", with_notes)
    told = real_size.vllm_side("some", 20)
    warm, *batches = chat.asked
    evaluated = [key for keys in batches for key in keys]
    assert len(set(chat.alone)) == len(set(evaluated)) == 20 and set(warm) <= set(chat.alone)
    assert not {*chat.alone} & {*evaluated}
    assert set(told) == {"harness", "vLLM alone"} and all(one > 0 for one in told.values())


@pytest.mark.parametrize(("code", "shown"), [("raise OSError", "OSError"), ("exit(1)", "half")])
def test_a_part_that_fails_after_its_first_words_is_said_to(monkeypatch, code, shown):
    command = [sys.executable, "-c", f"print('half a table')\n{code}"]
    monkeypatch.setattr(real_size.real_network, "save", lambda *_, **__: Path("none"))
    monkeypatch.setattr(real_size, "lines_of", lambda *_: {"trl": command})
    text = real_size.measure(Namespace(size="tiny", parts=["trl"]), on_gpu=False)
    assert shown in text and "half a table" in text
    assert ("exit code 1" in text) is (code != "exit(1)")


@pytest.mark.slow
@needs_vocabulary
def test_the_vocabulary_is_qwens():
    words = real_network.tokenizer()
    assert words("Hello world")["input_ids"] == [9707, 1879]
    for text in ("It's 2026: <box>", "你好，世界 ünï\n\n  x", '{"bbox_2d": [1, 22, 333, 4]}'):
        assert words.decode(words(text)["input_ids"]) == text
    assert words.convert_tokens_to_ids(["<|im_end|>", "<|image_pad|>"]) == [151645, 151655]


@pytest.mark.slow
@needs_vocabulary
@pytest.mark.parametrize("size", ["tiny", "3B"])
def test_it_answers_a_sample_learns_by_a_step_and_adapts_to_a_sample(size, scratch):
    if size == "3B" and free_memory() < FREE:
        pytest.skip(f"{FREE} GB of memory are needed, {free_memory():.0f} are free")
    pytest.importorskip("trl")
    pytest.importorskip("peft")
    from harness.trainers.grpo.settings import Settings
    from harness.trainers.grpo.trainer import GrpoTrainer

    checkpoint = real_network.save(size, scratch / "checkpoint", max_pixels=100 * 28**2)
    model = (
        f"qwen_vl(checkpoint={checkpoint},prompt=locate,segmenter=box,propagator=still,"
        "max_new_tokens=4)"
    )
    whole = plugins.build(
        "tasks", parse("reason_seg"), REPOSITORY / "tasks" / "reason_seg" / "example"
    )
    first = next(iter(whole.samples()))
    task = replace(whole, samples=lambda: iter([first]))

    answered = evaluate(task, plugins.build("models", parse(model)), scratch / "run", Options())
    assert answered.manifest["model"]["description"]["chat"]["dtype"] == "bfloat16"

    few = {"num_generations": 2, "generation_batch_size": 2, "per_device_train_batch_size": 2}
    trainer = GrpoTrainer(
        name="halves",
        settings=Settings(
            **few, max_steps=1, max_completion_length=4, finetune="lora", report_to=None
        ),
        reward=lambda group: [{"total": float(place)} for place, _ in enumerate(group.rollouts)],
    )
    trained = train(trainer, [task], parse(model), scratch / "trained", TrainingOptions(seed=0))
    assert list(trained.checkpoint.glob("*.safetensors"))

    base = model.replace("qwen_vl(", "visionreasoner(canvas=168,").replace("prompt=locate,", "")
    adapted = plugins.build(
        "models", parse(f"sft_greedy(base={base},finetune=lora,steps=1,learning_rate=0.001)")
    )
    (prediction,) = adapted.predict([first.query])
    assert prediction.responses and prediction.adaptation is not None
    (step,) = prediction.adaptation.steps
    assert step.grad_norm > 0 and not step.rolled_back
