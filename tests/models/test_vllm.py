"""The backend `vllm` against a stand-in with the names and forms of vLLM's own interface."""

import json
import sys
import threading
import tomllib
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from harness.errors import MissingDependency, ModelError, UsageError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness.models.backends.inputs import chat_text  # noqa: E402
from harness.models.backends.transformers import transformers  # noqa: E402
from harness.models.backends.vllm import BATCHES_PER_CALL, VllmChat, vllm  # noqa: E402
from harness.models.qwen_vl.model import qwen_vl  # noqa: E402
from harness.run.workers import worker_info  # noqa: E402
from harness.spec import Spec  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

import contract  # noqa: E402

KEYWORDS = {
    name: frozenset(names.split())
    for name, names in tomllib.loads(
        Path(__file__).with_name("vllm_keywords.toml").read_text("utf-8")
    ).items()
}


def taken(name, given):
    """Keywords as vLLM takes them: another one is what it is in Python."""
    if wrong := sorted(set(given) - KEYWORDS[name]):
        raise TypeError(f"{name}() got an unexpected keyword argument {wrong[0]!r}")
    return given


class SamplingParams(SimpleNamespace):
    def __init__(self, **given):
        unset = {"stop": None, "include_stop_str_in_output": False}
        super().__init__(**(unset | taken("SamplingParams", given)))


class LLM:
    """Says a digest of all that it is given."""

    made: ClassVar[dict[str, Any]] = {}

    def __init__(self, **given):
        LLM.made = taken("LLM", given)
        self.seen = []

    def generate(self, prompts, settings, *, use_tqdm):
        assert use_tqdm is False
        self.seen.append((prompts, settings))
        return [self.one(*pair) for pair in zip(prompts, settings, strict=True)]

    def one(self, prompt, setting):
        media = prompt.get("multi_modal_data", {})
        shown = [np.asarray(one).tobytes() for one in media.get("image", [])]
        shown += [(frames.tobytes(), repr(times)) for frames, times in media.get("video", [])]
        text = f"{hash((prompt['prompt'], tuple(shown), setting.max_tokens)):x}"
        output = SimpleNamespace(
            text=text, token_ids=[1] * setting.max_tokens, finish_reason="length"
        )
        for stop in setting.stop or ():
            if stop in text:
                end = text.index(stop) + len(stop) * setting.include_stop_str_in_output
                output = SimpleNamespace(text=text[:end], token_ids=[1] * end, finish_reason="stop")
        return SimpleNamespace(outputs=[output], prompt_token_ids=[1, 2, 3])


@pytest.fixture
def installed(monkeypatch):
    package = ModuleType("vllm")
    package.LLM, package.SamplingParams = LLM, SamplingParams
    monkeypatch.setitem(sys.modules, "vllm", package)


@pytest.fixture
def chat(installed, tiny_qwen):
    return vllm(checkpoint=str(tiny_qwen), dtype="float32", max_pixels=9_000)


@pytest.mark.parametrize(
    ("call", "wrong"), [(LLM, "max_length"), (SamplingParams, "max_new_tokens")]
)
def test_a_keyword_that_vllm_lacks_is_refused(call, wrong):
    with pytest.raises(TypeError, match=wrong):
        call(seed=0, **{wrong: 1})


def test_all_requests_reach_it_at_once_with_their_images_clips_and_seeds(chat):
    requested = contract.requests(clips=True)
    responses = chat.generate(list(requested.values()))
    assert len({response.text for response in responses}) == len(requested)
    ((prompts, settings),) = chat.engine.seen
    given = dict(zip(requested, prompts, strict=True))
    assert "multi_modal_data" not in chat._prompt(contract.replace(requested["first"], media=()))
    assert len(given["two images"]["multi_modal_data"]["image"]) == 2
    ((frames, times),) = given["clip"]["multi_modal_data"]["video"]
    assert frames.shape == (2, 60, 70, 3)
    assert times == {
        "total_num_frames": 4,
        "fps": 4.0,
        "frames_indices": [0, 2],
        "do_sample_frames": False,
    }
    assert given["squashed"]["multi_modal_data"]["image"][0].size == (112, 84)
    for request, prompt, setting in zip(requested.values(), prompts, settings, strict=True):
        assert prompt["prompt"] == chat_text(chat.network.processor, request)
        assert setting.max_tokens == request.max_new_tokens
        assert setting.temperature == 0.0
    assert len({setting.seed for setting in settings}) == 1  # of one key


def test_a_request_may_have_a_temperature_and_a_nucleus_of_its_own(chat):
    request = contract.requests()["first"]
    chat.generate([request, contract.replace(request, temperature=0.7, top_p=0.9)])
    ((_, settings),) = chat.engine.seen
    assert [(one.temperature, one.top_p) for one in settings] == [(0.0, 1.0), (0.7, 0.9)]


def test_the_engine_hands_it_several_batches_at_once(tiny_qwen):
    spec = Spec("vllm", arguments={"checkpoint": str(tiny_qwen)})
    output = worker_info(qwen_vl(backend=spec, segmenter=Spec("box"), batch_size=4))
    assert output.batch_size == 4 * BATCHES_PER_CALL and BATCHES_PER_CALL > 1


def test_images_of_the_next_call_are_made_while_it_answers(chat, monkeypatch):
    now, then = list(contract.requests().values())[:2], list(contract.requests().values())[2:5]
    alone = [chat.generate(requested) for requested in (now, then)]
    made, prompt, generate = [], VllmChat._prompt, LLM.generate
    ready = threading.Event()

    def noted(self, request):
        made.append(request.key)
        if request is then[-1]:
            ready.set()
        return prompt(self, request)

    def waits(self, *given, **settings):
        assert ready.wait(30), "the next ones are not made meanwhile"
        return generate(self, *given, **settings)

    monkeypatch.setattr(VllmChat, "_prompt", noted)
    monkeypatch.setattr(LLM, "generate", waits)
    chat.prepare_next(then)
    assert [chat.generate(requested) for requested in (now, then)] == alone
    assert sorted(made) == sorted(one.key for one in (*now, *then)), "each is made once"


def test_of_a_call_with_a_broken_response_nothing_is_asked_for_again(chat, monkeypatch):
    requested = [contract.replace(contract.requests()["first"], key=str(k)) for k in range(4)]
    alone, answers, one = chat.generate(requested), [], LLM.one

    def third(self, prompt, setting):
        answers.append(one(self, prompt, setting))
        output = answers[-1].outputs[0]
        output.text = "!" * setting.max_tokens if len(answers) == 3 else output.text
        return answers[-1]

    monkeypatch.setattr(LLM, "one", third)
    for part in (requested, requested[2:], requested[2:3]):
        with pytest.raises(ModelError, match="request 2"):
            chat.generate(part)
    assert [*chat.generate(requested[:2]), *chat.generate(requested[3:])] == [*alone[:2], alone[3]]
    assert len(answers) == 4
    assert chat.generate([requested[0], contract.replace(requested[1], key="new")])[0] == alone[0]
    assert len(answers) == 6


def test_a_response_begins_with_what_it_was_made_to(chat):
    assert chat.goes_on
    (response,) = chat.generate([contract.requests()["prefix"]])
    assert response.text.startswith("<think>it is")
    assert (response.prompt_tokens, response.completion_tokens, response.cut) == (3, 12, True)


def test_a_response_ends_before_its_stop_string(chat):
    requested, kept = contract.stopped(chat, contract.requests()["prefix"])
    (response,) = chat.generate([requested])
    assert (response.text, response.cut) == (kept, False)
    ((_, (setting,)),) = chat.engine.seen[1:]
    assert setting.stop == list(requested.stop)
    assert setting.include_stop_str_in_output  # what is cut is decided in one place
    assert response.completion_tokens == len(kept.removeprefix(requested.prefix)) + len(
        requested.stop[1]
    )


def test_only_safe_loading_is_asked_for(chat, tiny_qwen):
    chat.prepare()
    made = LLM.made
    assert made["trust_remote_code"] is False
    assert made["load_format"] == "safetensors"
    assert made["model"] == str(tiny_qwen)
    assert made["mm_processor_kwargs"] == {"max_pixels": 9_000}


def test_the_canvas_and_the_record_are_those_of_the_checkpoint(chat, tiny_qwen):
    same = transformers(checkpoint=str(tiny_qwen), max_pixels=9_000)
    request = contract.requests()["first"]
    assert chat.canvas(request) == same.canvas(request)
    assert chat.count_tokens("abc") == 3
    assert chat.coordinates == "pixels"
    assert chat.describe()["weights"] == same.describe()["weights"]
    json.dumps(dict(chat.describe()), allow_nan=False)


def test_limits_are_of_each_frame_of_a_clip_or_it_is_refused(chat, installed, tiny_qwen3):
    clip = contract.requests(clips=True)["clip"]
    (response,) = chat.generate([contract.replace(clip, resize=(280, 140))])
    assert response.canvases == ((112, 56),)
    together = vllm(checkpoint=str(tiny_qwen3), dtype="float32", max_pixels=9_000)
    with pytest.raises(UsageError, match=r"min_pixels=…,max_pixels=….*found Qwen3VLVideoProcessor"):
        together.generate([clip])
    assert together.generate([contract.requests()["first"]])


def test_what_is_written_for_logits_that_are_no_numbers_is_no_response(chat, monkeypatch):
    def one(self, prompt, setting):
        output = SimpleNamespace(
            text=f"<think>It{'!' * 60}", token_ids=[0] * 60, finish_reason=ended
        )
        return SimpleNamespace(outputs=[output], prompt_token_ids=[1])

    monkeypatch.setattr(LLM, "one", one)
    ended = "stop"
    assert chat.generate([contract.requests()["first"]])
    ended = "length"
    with pytest.raises(ModelError, match="bfloat16"):
        chat.generate([contract.requests()["first"]])


def test_another_number_of_outputs_is_a_failure(chat, monkeypatch):
    monkeypatch.setattr(LLM, "generate", lambda self, *_, **__: [])
    with pytest.raises(ModelError, match="1 outputs"):
        chat.generate([contract.requests()["first"]])


def test_what_vllm_raises_while_loading_is_a_model_error(installed, tiny_qwen, monkeypatch):
    def fails(self, **given):
        raise ValueError("no such architecture")

    monkeypatch.setattr(LLM, "__init__", fails)
    with pytest.raises(ModelError, match=r"in vLLM: .*architecture"):
        vllm(checkpoint=str(tiny_qwen)).prepare()


def test_without_vllm_it_is_said_how_to_reach_one(tiny_qwen, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingDependency, match="vllm serve"):
        replace(vllm(checkpoint=str(tiny_qwen))).prepare()
