"""What a server of OpenAI's form is sent, and how its responses are read."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.chat import ChatRequest, ChatResponse
from harness.errors import ModelError, UsageError
from harness.media import pixels
from harness.models.backends.request_format import encode_image, seed_of
from harness.models.canvas import smart_resize
from harness.models.retry import RetryRequest, retry_unreadable

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))
import contract
from chat_server import Scripted, serving

from .openai_requests import one, reached


@pytest.mark.parametrize("clips", [False, True])
def test_responses_through_a_server_are_those_of_the_network(clips):
    network = Scripted()
    with serving(network) as served:
        chat = reached(served, clips="video" if clips else "images")
        contract.check(chat, network, contract.requests(clips=clips))


@pytest.mark.parametrize("ignored", ["text", "media", "system", "prefix", "limit", "stop"])
def test_a_server_that_ignores_part_of_a_request_fails_the_contract(ignored):
    with serving(Scripted(ignores=frozenset({ignored}))) as served, pytest.raises(AssertionError):
        contract.check(reached(served, clips="video"), Scripted(), contract.requests(clips=True))


def test_a_server_whose_response_does_not_depend_on_the_request_fails_the_contract():
    class Constant(Scripted):
        def _response(self, request):
            return super()._response(one())

    with serving(Constant()) as served, pytest.raises(AssertionError):
        contract.check(reached(served), Scripted(), contract.requests())
    with pytest.raises(AssertionError, match="little"):
        contract.check(Constant(), Constant(), contract.requests())


def test_frames_are_sent_one_by_one_unless_a_video_is_asked_for():
    several = contract.requests(clips=True)["clip"]
    with serving(Scripted()) as served:
        reached(served).generate([several])
        reached(served, clips="video").generate([several])
    images, video = (requested["messages"][-1]["content"] for requested in served.asked)
    assert [part["type"] for part in images] == ["image_url", "image_url", "text"]
    assert [part["type"] for part in video] == ["video_url", "text"]
    assert served.asked[1]["media_io_kwargs"]["video"] == {
        "num_frames": -1,
        "total_num_frames": 4,
        "fps": 4.0,
        "frames_indices": [0, 2],
    }


def test_each_frame_follows_its_time_where_times_are_asked_for_and_a_lone_image_has_none():
    requested = contract.requests(clips=True)
    with serving(Scripted()) as served:
        chat = reached(served, times=True)
        chat.generate([requested["clip"], requested["first"]])
        assert chat.describe()["times"] is True
        assert "times" not in reached(served).describe()
    clip, lone = sorted((asked["messages"][-1]["content"] for asked in served.asked), key=len)[::-1]
    assert [part.get("text") for part in clip[:-1]] == [
        "<0.0 seconds>",
        None,
        "<0.5 seconds>",
        None,
    ]
    assert [part["type"] for part in lone] == ["image_url", "text"]


def test_a_video_has_its_own_times_and_cannot_be_given_more():
    with serving(Scripted()) as served, pytest.raises(UsageError, match=r"clips=video,times=true"):
        reached(served, clips="video", times=True)


def test_a_vendors_sampling_is_sent_and_recorded_only_where_it_is_given():
    with serving(Scripted()) as served:
        chat = reached(served, temperature=0.7, top_k=20, presence_penalty=1.5)
        chat.generate([one()])
        reached(served, temperature=0.7).generate([one()])
        with pytest.raises(UsageError, match="top_k"):
            reached(served, server="plain", top_k=20).generate([one()])
    sent, usual = served.asked
    assert (sent["top_k"], sent["presence_penalty"]) == (20, 1.5)
    assert usual["top_k"] == -1 and "presence_penalty" not in usual
    assert {"top_k": 20, "presence_penalty": 1.5}.items() <= chat.describe().items()


def test_a_video_of_a_size_of_its_own_is_not_to_be_resized_by_the_server(tiny_qwen3):
    clip = contract.requests(clips=True)["clip"]
    with serving(Scripted()) as served:
        chat = reached(served, clips="video", tokenizer=str(tiny_qwen3))
        chat.generate([replace(clip, resize=(64, 96))])
        chat.generate([clip])
        assert chat.canvas(replace(clip, resize=(64, 96))) == (64, 96)
    sized, usual = served.asked
    assert sized["mm_processor_kwargs"] == {"do_resize": False}
    assert "mm_processor_kwargs" not in usual


def test_two_clips_with_times_of_their_own_are_refused_as_videos():
    twice = contract.requests(clips=True)["clip"]
    twice = replace(twice, media=twice.media * 2, frames=twice.frames * 2)
    with serving(Scripted()) as served:
        with pytest.raises(UsageError, match="clips=images"):
            reached(served, clips="video").generate([twice])
        assert len(reached(served).generate([twice])) == 1


@pytest.mark.parametrize("server", ["openai", "plain"])
def test_the_common_form_has_nothing_that_only_some_servers_take(server):
    with serving(Scripted()) as served:
        reached(served, server=server).generate([one()])
        (requested,) = served.asked
        limit = "max_completion_tokens" if server == "openai" else "max_tokens"
        assert set(requested) == {"model", "messages", "temperature", "top_p", "seed", limit}
        with pytest.raises(UsageError, match="server=vllm"):
            reached(served, server=server).generate([one(prefix="<think>")])


@pytest.mark.parametrize(
    ("server", "sent"),
    [
        ("vllm", {"stop": [*"abcde"], "include_stop_str_in_output": True}),
        ("sglang", {"stop": [*"abcde"], "no_stop_trim": True}),
        ("openai", {"stop": [*"abcd"]}),
        ("plain", {"stop": [*"abcde"]}),
    ],
)
def test_stop_strings_are_sent_as_each_server_takes_them_and_end_responses_alike(server, sent):
    requested = [one(stop=tuple("abcde"), text=f"{number}") for number in range(6)]
    with serving(Scripted()) as served:
        output = reached(served, server=server).generate(requested)
        reached(served, server=server).generate([one()])
    assert {response.text for response in output} == {
        response.text for response in Scripted().generate(requested)
    }
    assert any(response.text for response in output)
    known = {"stop", "include_stop_str_in_output", "no_stop_trim"}
    first, *_, last = served.asked
    assert {name: first[name] for name in known & set(first)} == sent
    assert not known & set(last)  # a request without any is sent as ever


def test_special_tokens_in_a_question_are_broken_up():
    with serving(Scripted()) as served:
        requested = one(text="a<|im_end|>b", system="<|vision_pad|>", prefix="<|im_start|>")
        reached(served).generate([requested])
    sent = json.dumps(served.asked[0]["messages"])
    assert "<|" not in sent
    assert "a< |im_end|>b" in sent


def test_seeds_depend_on_the_runs_seed_and_the_requests_key_alone():
    with serving(Scripted()) as served:
        for seed in (0, 0, 1):
            reached(served, seed=seed, temperature=1.0).generate([one(), one(key="b")])
    seeds = [
        requested["seed"] for requested in sorted(served.asked, key=lambda asked: asked["seed"])
    ]
    assert len(seeds) == 6
    assert len(set(seeds)) == 4
    assert {requested["top_k"] for requested in served.asked} == {-1}
    assert all(0 <= seed_of(f"{number}", 3) < 2**31 for number in range(100))


@pytest.mark.parametrize(("temperature", "times"), [(0.0, 0), (0.7, 1)])
def test_a_greedy_server_is_not_asked_for_what_it_began_by_itself(temperature, times):
    output = ChatResponse(text="<think>red</think><answer>")
    with serving(Scripted()) as served:
        chat = reached(served, server="vllm", temperature=temperature)
        retry_unreadable(chat, [RetryRequest(one(), lambda _: False)], [output])
    assert len(served.asked) == times


def test_a_request_may_have_a_temperature_and_a_nucleus_of_its_own():
    with serving(Scripted()) as served:
        reached(served).generate([one(), one(key="b", temperature=0.7, top_p=0.9)])
        reached(served, temperature=0.7).generate([one(temperature=0.0)])
    keys = ("temperature", "top_k", "top_p")
    sent = {tuple(map(requested.get, keys)) for requested in served.asked}
    assert sent == {(0.0, None, 1.0), (0.7, -1, 0.9)}


def test_tokens_are_those_that_the_server_counts_and_prices_are_in_the_record():
    with serving(Scripted()) as served:
        chat = reached(served, prompt_price=2.0, completion_price=10.0)
        (response,) = chat.generate([one()])
        chat.generate([one(key="b"), one(key="c")])
    assert (response.prompt_tokens, response.completion_tokens) == (len(one().text), 16)
    spent = chat.usage
    assert (spent.requests, spent.retries, spent.completion_tokens) == (3, 0, 48)
    assert chat.describe()["price_of_a_million_tokens"] == [2.0, 10.0]
    assert reached(served).describe()["price_of_a_million_tokens"] is None


def test_without_a_tokenizer_tokens_are_estimated_and_called_so():
    with serving(Scripted()) as served:
        chat = reached(served)
    assert chat.count_tokens("four  bytes here\n") == 4
    assert "estimated" in chat.describe()["tokens"]


def test_without_a_rule_the_canvas_is_an_error_and_with_one_it_is_the_processors():
    image = pixels([np.zeros((60, 150, 3), np.uint8)], times=(0.0,), is_video=False, id="x")
    request = ChatRequest(key="a", text="a", media=(image,))
    with serving(Scripted()) as served:
        with pytest.raises(UsageError, match="tokenizer=FOLDER"):
            reached(served).canvas(request)
        limits = {"factor": 28, "min_pixels": 784, "max_pixels": 28 * 56}
        chat = reached(served, **limits)
        assert chat.canvas(request) == smart_resize((150, 60), **limits)
        (response,) = chat.generate([request])
        assert response.canvases == (chat.canvas(request),)
    assert (
        response.text
        == Scripted()
        ._response(replace(request, media=(resized(image, chat.canvas(request)),)))
        .text
    )


def resized(media, size):
    from PIL import Image

    frame = Image.fromarray(media.frame(0)).resize(size, Image.Resampling.BICUBIC)
    return pixels([np.array(frame)], times=(0.0,), is_video=False, id="y")


def test_some_of_the_limits_without_the_others_are_refused():
    with serving(Scripted()) as served, pytest.raises(UsageError, match=r"^factor=…,min_pixels=…,"):
        reached(served, max_pixels=3136)


def test_png_loses_nothing_and_jpeg_is_smaller():
    noise = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    import io

    from PIL import Image

    kind, png = encode_image(noise, None)
    assert kind == "png" and (np.array(Image.open(io.BytesIO(png))) == noise).all()
    kind, jpeg = encode_image(noise, 50)
    assert kind == "jpeg" and len(jpeg) < len(png)
    with serving(Scripted()) as served:
        reached(served, quality=90).generate([one()])
    assert "data:image/jpeg;base64," in json.dumps(served.asked[0])


def test_reasoning_that_the_server_took_out_is_put_back():
    from harness.models.backends.openai_response import read_answer

    with serving(Scripted()) as served:
        network = reached(served).remote_processor
    message = {"content": "<answer>1</answer>", "reasoning_content": "it is one"}
    answer = {"choices": [{"message": message, "finish_reason": "length"}]}
    response = read_answer(answer, ChatRequest(key="a", text="a"), network)
    assert response.text == "<think>it is one</think><answer>1</answer>"
    assert response.cut
    assert response.completion_tokens == network.count_tokens(response.text)


TEXT = {"type": "text", "text": "[1]"}
MESSAGES = [
    ({"content": [TEXT]}, "[1]"),
    ({"content": [TEXT, {"type": "output_text", "text": "2"}]}, "[1]2"),
    ({"content": ["[1]"]}, "[1]"),
    ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}, TEXT]}, None),
    ({"content": [{"type": "thinking", "thinking": "so"}, TEXT]}, None),
    ({"content": [{"type": "reasoning", "summary": [{"text": "so"}]}, TEXT]}, None),
    ({"content": [TEXT], "reasoning": "so"}, None),
    ({"content": "[1]", "reasoning": "so", "reasoning_content": None}, None),
    ({"content": "[1]", "reasoning_content": {"text": "so"}}, None),
    ({"content": None, "reasoning_content": "so"}, "<think>so</think>"),
    ({"content": None}, ""),
    ({"content": None, "refusal": "I cannot."}, "I cannot."),
    ({"content": [{"type": "refusal", "refusal": "I cannot."}]}, "I cannot."),
    ({"content": "[1]", "tool_calls": [{"id": "1"}]}, "[1]"),
]


@pytest.fixture(scope="module")
def reading():
    from harness.models.backends.openai_response import read_answer

    with serving(Scripted()) as served:
        network = reached(served).remote_processor

    def read(message):
        answer = {"choices": [{"message": message}]}
        return read_answer(answer, ChatRequest(key="a", text="a"), network).text

    return read


@pytest.mark.parametrize(("message", "text"), MESSAGES)
def test_content_in_whatever_parts_is_read(reading, message, text):
    assert reading(message) == ("<think>so</think>[1]" if text is None else text)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"content": None, "tool_calls": [{"function": {"name": "f"}}]}, "a call of a tool"),
        ({"content": "", "function_call": {"name": "f"}}, "a call of a tool"),
        ({"content": [{"type": "image_url", "image_url": {}}]}, "image_url"),
        ({"content": 3}, "3"),
        ({"content": [{"type": "text"}]}, "text"),
        ({"content": "a", "reasoning": 3}, "3"),
    ],
)
def test_what_is_no_text_is_named_and_not_asked_for_again(reading, message, words):
    with pytest.raises(ModelError, match=words):
        reading(message)
