"""The backend that changes images or reasoning: what reaches the network, and what comes back."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.media import pixels
from harness.models.backends.ablation import AblationChat, ablation
from harness.spec import parse


@dataclass
class Recorder(Chat):
    """A backend that says what it was asked, and writes whole responses or goes on from a
    prefix.
    """

    batch_size: int = 4
    coordinates: str = "pixels"
    asked: list = field(default_factory=list)

    def describe(self):
        return {"backend": "recorder"}

    def generate(self, requests):
        self.asked.append(list(requests))
        return [self._response(request) for request in requests]

    def _response(self, request):
        if request.prefix:
            return ChatResponse(text=f"{request.prefix}<answer>on {request.prefix}</answer>")
        return ChatResponse(text=f"<think>{request.text}</think><answer>{request.text}</answer>")

    def canvas(self, request):
        return (8, 8)

    def count_tokens(self, text):
        return len(text)


def image(level, size=(6, 4)):
    frame = np.full((size[1], size[0], 3), level, np.uint8)
    return pixels([frame], times=(0.0,), is_video=False, id=f"level {level}")


def request(text, level):
    return ChatRequest(key=text, text=text, media=(image(level),))


@pytest.fixture
def recorder():
    return Recorder()


def test_the_backend_within_is_told_to_give_up():
    info = []

    class Halted(Recorder):
        def halt(self):
            info.append("halt")

    for inner in (Halted(), Recorder()):
        AblationChat(chat=inner, images="own", reasoning="own").halt()
    assert info == ["halt"]


def test_a_backend_within_is_asked_as_many_batches_at_once_as_it_takes():
    class Server(Recorder):
        turns = 4

    turns = [
        AblationChat(chat=one, images="grey", reasoning="own").turns
        for one in (Server(), Recorder())
    ]
    assert turns == [4, 1]


def test_grey_images_keep_size_and_nothing_else(recorder):
    ablation(chat=recorder, images="grey").generate([request("a", 3), request("b", 200)])
    for requested in recorder.asked[0]:
        frame = requested.media[0].frame(0)
        assert frame.shape == (4, 6, 3)
        assert np.unique(frame).tolist() == [128]


def test_swapped_images_are_those_of_another_question(recorder):
    given = [request("a", 1), request("same image", 1), request("b", 2), request("c", 3)]
    ablation(chat=recorder, images="swapped").generate(given)
    shown = [int(one.media[0].frame(0)[0, 0, 0]) for one in recorder.asked[0]]
    assert shown == [2, 2, 3, 1]
    assert [one.text for one in recorder.asked[0]] == ["a", "same image", "b", "c"]


def test_where_all_show_the_same_image_it_is_grey(recorder):
    ablation(chat=recorder, images="swapped").generate([request("a", 1), request("b", 1)])
    assert [int(one.media[0].frame(0)[0, 0, 0]) for one in recorder.asked[0]] == [128, 128]


def test_swapped_reasoning_is_gone_on_from(recorder):
    responses = ablation(chat=recorder, reasoning="swapped").generate(
        [request("a", 1), request("b", 2)]
    )
    assert [response.text for response in responses] == [
        "<think>b</think><answer>on <think>b</think></answer>",
        "<think>a</think><answer>on <think>a</think></answer>",
    ]


def test_responses_that_do_not_reason_stay_as_they_are():
    class Plain(Recorder):
        def _response(self, request):
            return ChatResponse(text=f"<answer>{request.text}</answer>")

    responses = ablation(chat=Plain(), reasoning="swapped").generate(
        [request("a", 1), request("b", 2)]
    )
    assert [response.text for response in responses] == ["<answer>a</answer>", "<answer>b</answer>"]


def test_the_record_says_what_was_changed(recorder):
    model = ablation(chat=recorder, images="grey", reasoning="swapped")
    assert model.describe() == {
        "backend": "ablation",
        "images": "grey",
        "reasoning": "swapped",
        "chat": {"backend": "recorder"},
    }
    assert replace(model, images="own").describe()["images"] == "own"


@pytest.mark.parametrize("settings", [{"images": "grey"}, {"reasoning": "swapped"}])
def test_responses_hold_the_calls_that_were_made_in_their_place(recorder, settings):
    requested = [request("a", 3), request("b", 200)]
    responses = ablation(chat=recorder, **settings).generate(requested)
    sent = [[one for one, _ in response.calls] for response in responses]
    assert [list(turn) for turn in zip(*sent, strict=True)] == recorder.asked
    assert [response.calls[-1][1].text for response in responses] == [
        response.text for response in responses
    ]


def test_calls_of_altered_backends_within_each_other_are_the_networks(recorder):
    inner = ablation(chat=recorder, images="grey")
    requested = [request("a", 1), request("b", 2)]
    for response in ablation(chat=inner, images="swapped").generate(requested):
        ((sent, _),) = response.calls
        assert np.unique(sent.media[0].frame(0)).tolist() == [128]


def test_a_temperature_reaches_a_backend_that_takes_one():
    built = ablation(chat=parse("transformers(checkpoint=pocket)"), temperature=0.6)
    assert built.chat.temperature == 0.6
    own = ablation(chat=parse("transformers(checkpoint=pocket,temperature=0.2)"), temperature=0.6)
    assert own.chat.temperature == 0.2
    assert ablation(chat=parse("stored"), temperature=0.6).chat.describe()["backend"] == "stored"


def test_stop_strings_reach_the_network_with_whatever_is_changed():
    recorder = Recorder()
    requested = [replace(request(name, level), stop=("x",)) for level, name in enumerate("ab")]
    ablation(chat=recorder, images="swapped", reasoning="swapped").generate(requested)
    assert len(recorder.asked) == 2
    assert {one.stop for several in recorder.asked for one in several} == {("x",)}
