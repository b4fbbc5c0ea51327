"""A network examined: its inputs, its probabilities of a response, and what a server tells."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness.chat import ChatRequest
from harness.models.backends.openai import openai
from harness.models.backends.transformers import transformers
from harness.observation import Variation

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from chat_server import serving

TELLS = frozenset({"logprobs", "return_token_ids"})


def network(folder, **settings):
    return transformers(checkpoint=str(folder), dtype="float32", device="cpu", **settings)


def requests(ask):
    image, clip = ask(size=(150, 90)).media, ask(frames=4).media
    return [
        ChatRequest(key="image", text="where?", media=image, max_new_tokens=8),
        ChatRequest(key="clip", text="when?", media=clip, max_new_tokens=8, system="be kind"),
        ChatRequest(key="text", text="what?", max_new_tokens=8, prefix="it is"),
    ]


@pytest.mark.parametrize("family", ["tiny_qwen", "tiny_qwen3", "tiny_qwen35"])
def test_the_tokens_of_a_greedy_response_are_the_likeliest(request, family, ask):
    chat = network(request.getfixturevalue(family))
    for asked, seen in zip(requests(ask), chat.observe(requests(ask)), strict=True):
        examined = chat.examine(Variation(request=asked), seen.response.tokens)
        np.testing.assert_allclose(examined.logprobs, examined.best, atol=1e-5)
        np.testing.assert_allclose(examined.logprobs, seen.logprobs, atol=1e-5)
        assert examined.prompt == seen.prompt and len(seen.prompt) == seen.response.prompt_tokens


def test_an_observation_has_images_and_times_as_they_are_handed_over(tiny_qwen, ask):
    image, clip, text = network(tiny_qwen).observe(requests(ask))
    assert [one.shape for one in image.images] == [(90, 150, 3)] and image.times == (None,)
    assert len(clip.images) == 4 and clip.times == (0.0, 0.25, 0.5, 0.75)
    assert text.images == () and not text.tensors and image.tensors


def test_a_variation_changes_the_prompt(tiny_qwen35, ask):
    chat, (asked, *_) = network(tiny_qwen35), requests(ask)
    own = chat.examine(Variation(request=asked), ())
    doubled = chat.examine(Variation(request=asked, doubled=True), ())
    assert doubled.prompt == own.prompt[:1] + own.prompt
    switched = chat.examine(Variation(request=asked, template={"enable_thinking": False}), ())
    assert switched.prompt[: len(own.prompt)] == own.prompt != switched.prompt
    unknown = chat.examine(Variation(request=asked, template={"no_such_variable": 1}), ())
    assert unknown.prompt == own.prompt


def test_a_response_is_examined_up_to_a_mark_of_an_image(tiny_qwen, ask):
    chat, (asked, *_) = network(tiny_qwen), requests(ask)
    mark = chat.processor.tokenizer.convert_tokens_to_ids("<|image_pad|>")
    assert len(chat.examine(Variation(request=asked), (5, 6, mark, 7)).logprobs) == 2


@pytest.mark.parametrize("tells", [TELLS, frozenset({"logprobs"}), frozenset()])
def test_a_server_is_observed_as_far_as_it_tells(tiny_qwen, ask, tells):
    chat = network(tiny_qwen)
    asked = [replace(one, prefix="") for one in requests(ask)]
    with serving(chat, tells=tells) as served:
        there = openai(
            model="served", base_url=served.url, tokenizer=str(tiny_qwen), clips="video"
        ).observe(asked)
    for here, seen in zip(chat.observe(asked), there, strict=True):
        assert seen.response.text == here.response.text
        assert seen.times == here.times and seen.tensors is None
        assert all(map(np.array_equal, seen.images, here.images))
        assert (seen.logprobs is None) == ("logprobs" not in tells)
        assert seen.prompt == (here.prompt if "return_token_ids" in tells else None)
        assert seen.prompt_tokens == here.prompt_tokens
        if seen.logprobs is not None:
            np.testing.assert_allclose(seen.logprobs, here.logprobs, atol=1e-5)


def test_times_that_are_written_before_frames_are_read_back(tiny_qwen, ask):
    chat, (_, clip, _) = network(tiny_qwen), requests(ask)
    given = {"tokenizer": str(tiny_qwen), "model": "served"}
    with serving(chat, tells=TELLS) as served:
        (timed,) = openai(base_url=served.url, times=True, **given).observe([clip])
        (bare,) = openai(base_url=served.url, **given).observe([clip])
    assert timed.times == (0.0, 0.2, 0.5, 0.8) and bare.times == (None,) * 4


def test_a_server_that_refuses_log_probabilities_is_asked_without(tiny_qwen, ask):
    with serving(network(tiny_qwen), tells=TELLS, faults=["422"]) as served:
        chat = openai(model="served", base_url=served.url, tokenizer=str(tiny_qwen))
        (seen,) = chat.observe(requests(ask)[:1])
    assert seen.logprobs is None and seen.response.text
