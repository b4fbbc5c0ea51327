"""Qwen3.5: a real architecture with linear attention, whose template switches reasoning."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

from harness import plugins
from harness.chat import ChatRequest
from harness.errors import ResumeMismatch, UsageError
from harness.models.backends.inputs import chat_text
from harness.models.backends.openai import openai
from harness.models.backends.transformers import transformers
from harness.models.backends.vllm import vllm
from harness.models.learning.weights import is_language
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.run.train import TrainingOptions, train
from harness.spec import Spec, parse
from harness.tasks.reason_seg import writer as reason_seg
from harness.world.shapes import make

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from chat_server import Scripted, serving

ASKED = ChatRequest(key="a", text="?", max_new_tokens=4)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    make(root, seed=0, size=2, writers={"reason_seg": reason_seg.write})
    return plugins.build("tasks", parse("reason_seg"), root)


def test_numbers_are_thousandths_and_rows_with_a_state_are_not_parted(tiny_qwen35):
    chat = transformers(checkpoint=str(tiny_qwen35))
    assert chat.coordinates == "normalized_1000"
    assert [one.cut for one in chat.generate([ASKED] * 3)] == [True] * 3


@pytest.mark.parametrize("backend", [transformers, vllm])
def test_reasoning_is_switched_by_the_template_and_is_in_the_record(backend, tiny_qwen35):
    ends, records = {}, {}
    for thinking in (None, True, False):
        chat = backend(checkpoint=str(tiny_qwen35), enable_thinking=thinking)
        processor = (chat if backend is transformers else chat.network).processor
        ends[thinking] = chat_text(processor, ASKED).partition("assistant\n")[2]
        records[thinking] = chat.describe().get("enable_thinking")
    closed = "<think>\n\n</think>\n\n"
    assert ends == {None: "<think>\n", True: "<think>\n", False: closed}
    assert records == {None: None, True: True, False: False}


def test_the_response_has_the_reasoning_that_the_template_opened(tiny_qwen35):
    for thinking, opening in ((True, "<think>\n"), (False, "")):
        (said,) = transformers(checkpoint=str(tiny_qwen35), enable_thinking=thinking).generate(
            [ASKED]
        )
        assert said.text.startswith("<think>") == bool(opening)


@pytest.mark.parametrize("given", [{"enable_thinking": True}, {"reasoning_effort": "low"}])
def test_a_variable_that_the_template_does_not_know_is_refused(given, tiny_qwen):
    with pytest.raises(UsageError, match=f"{next(iter(given))}=.*{tiny_qwen.name}"):
        _ = transformers(checkpoint=str(tiny_qwen), **given).processor


@pytest.mark.parametrize(
    ("server", "sent"),
    [
        ("vllm", {"chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "low"}}),
        ("sglang", {"chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "low"}}),
        ("openai", {"reasoning_effort": "low"}),
    ],
)
def test_servers_are_sent_the_switches(server, sent):
    with serving(Scripted()) as served:
        chat = openai(
            model=served.model,
            base_url=served.url,
            coordinates="pixels",
            server=server,
            enable_thinking=None if server == "openai" else False,
            reasoning_effort="low",
        )
        chat.generate([ASKED])
    names = ("chat_template_kwargs", "reasoning_effort", "enable_thinking")
    assert {name: served.asked[0][name] for name in names if name in served.asked[0]} == sent
    assert chat.describe()["reasoning_effort"] == "low"


def test_a_server_without_template_variables_refuses_the_switch():
    with serving(Scripted()) as served:
        chat = openai(
            model=served.model,
            base_url=served.url,
            coordinates="pixels",
            server="plain",
            enable_thinking=True,
        )
        with pytest.raises(UsageError, match="enable_thinking"):
            chat.generate([ASKED])


def test_it_is_evaluated_and_the_switch_is_part_of_the_run(tiny_qwen35, task, tmp_path):
    def run(thinking):
        backend = f"transformers(enable_thinking={thinking})"
        spec = f"qwen_vl(checkpoint={tiny_qwen35},backend={backend},max_new_tokens=8,segmenter=box)"
        model = plugins.build("models", parse(spec))
        return evaluate(task, model, tmp_path, Options(subset="first2"))

    assert '"enable_thinking": true' in (run("true").folder / "manifest.json").read_text("utf-8")
    with pytest.raises(ResumeMismatch, match="enable_thinking: True → False"):
        run("false")


def test_an_adapter_is_on_the_layers_with_a_state_too(tiny_qwen35):
    names = list(transformers(checkpoint=str(tiny_qwen35)).network.state_dict())
    chosen = {name for name in names if is_language(name)}
    assert len([one for one in chosen if "linear_attn" in one]) == 3 * 5
    assert len([one for one in chosen if "self_attn" in one]) == 4
    assert not [one for one in chosen if "visual" in one]


def test_one_step_of_grpo_has_a_gradient(tiny_qwen35, task, tmp_path):
    settings = {
        "num_generations": 2,
        "generation_batch_size": 2,
        "per_device_train_batch_size": 2,
        "max_steps": 1,
        "max_completion_length": 8,
        "entropy_coef": 0.1,  # all rewards of a random network are alike
    }
    method = plugins.build("trainers", Spec("visionreasoner", settings))
    model = parse(f"visionreasoner(checkpoint={tiny_qwen35})")
    train(method, [task], model, tmp_path / "out", TrainingOptions(seed=1))
    (line,) = (tmp_path / "out" / "curve.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line)["grad_norm"] > 0
