"""What cannot be read is asked for once more, begun; nothing else is, and what it costs is told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import media, plugins
from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.errors import ModelError, OutOfMemory, Unavailable
from harness.models.pipeline import PromptedModel
from harness.models.questions import Questions
from harness.models.retry import response_start
from harness.models.visionreasoner import grammar
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.run.predict import predict
from harness.run.timing import Stage
from harness.types import AnswerForm, Query

BOX = '[{"bbox_2d": [1, 2, 30, 40], "point_2d": [10, 20]}]'


@dataclass
class Says(Chat):
    """A chat with a rule for its responses, which are counted as three tokens each."""

    rule: Callable[[ChatRequest], str]
    goes_on: bool = True
    greedy: bool = False
    cut: bool = False
    asked: list[list[ChatRequest]] = field(default_factory=list)
    batch_size: int = 4
    coordinates: str = "pixels"

    def describe(self) -> dict[str, Any]:
        return {"backend": "says"}

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        self.asked.append(list(requests))
        return [
            ChatResponse(
                text=f"{one.prefix}{self.rule(one)}",
                prompt_tokens=7,
                completion_tokens=3,
                cut=self.cut,
            )
            for one in requests
        ]

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        return (64, 64)

    def count_tokens(self, text: str) -> int:
        return len(text.split())


def model(rule, *, goes_on=True, greedy=False, cut=False, **settings):
    chat = Says(rule, goes_on=goes_on, greedy=greedy, cut=cut)
    made = PromptedModel(
        name="test",
        chat=chat,
        prompt=VisionReasoner(resize=None),
        words=Questions(),
        segmenter=plugins.build("segmenters", "box"),
        propagator=plugins.build("propagators", "still"),
        **{"retry": True, "keyframe": "named", **settings},
    )
    return made, chat


def query(form=AnswerForm.BOXES, frames=1, key="one", **more):
    shown = np.zeros((frames, 64, 64, 3), dtype=np.uint8)
    seen = media.pixels(list(shown), times=range(frames), is_video=frames > 1, id=key)
    return Query(id=key, text="the red circle", media=(seen,), forms=(form,), **more)


def test_only_what_cannot_be_read_is_asked_again():
    def rule(request):
        if request.key.startswith("good") or request.prefix:
            return (
                f"<think>it</think><answer>{BOX}</answer>"
                if not request.prefix
                else (f"{BOX}</answer>")
            )
        return "<think>red circle, red circle 41, red"

    made, chat = model(rule)
    good, bad = made.predict([query(key="good"), query(key="bad")])
    assert [len(one) for one in chat.asked] == [2, 1]
    assert chat.asked[1][0].prefix == "<think>red circle</think><answer>"
    assert chat.asked[1][0].key != chat.asked[0][1].key, "sampling is keyed by it"
    assert good.failure is None and good.notes == () and good.usage.completion_tokens == 3
    assert bad.failure is None and bad.answer.boxes == good.answer.boxes
    assert bad.notes == ("asked again, begun with '<think>red circle</think><answer>'",)
    assert bad.usage.completion_tokens == 6 and bad.usage.prompt_tokens == 14
    assert [one.key for one in bad.calls] == ["", ":again"] and len(good.calls) == 1
    assert bad.calls[0].response == "<think>red circle, red circle 41, red"
    assert bad.calls[1].request.prefix and bad.responses == (bad.calls[1].response,)
    again = made.read(query(key="bad"), bad.responses)
    assert again.answer.boxes == bad.answer.boxes, "what is stored is read as it was"


def test_a_frame_that_was_not_named_is_the_middle_one_of_those_shown():
    made, chat = model(
        lambda one: f"{'' if one.prefix else '<think>it</think><answer>'}{BOX}</answer>", frames=4
    )
    (found,) = made.predict([query(AnswerForm.MASK_TRACK, frames=9)])
    shown = chat.asked[0][0].frames[0]
    assert chat.asked[1][0].prefix == f"<frame>{shown[2]}</frame><think>it</think><answer>"
    assert found.failure is None


def test_a_choice_is_asked_again_too():
    made, chat = model(lambda one: "B</answer>" if one.prefix else "<think>red, blue 12")
    (found,) = made.predict([query(AnswerForm.CHOICE, options=("red", "blue"))])
    assert found.answer.choice == "B" and len(chat.asked) == 2


def test_the_first_response_stays_where_the_second_is_no_better():
    made, chat = model(lambda one: "nothing at all")
    (found,) = made.predict([query()])
    assert found.responses == ("nothing at all",) and found.failure is not None
    assert len(chat.asked) == 2 and found.usage.completion_tokens == 6, "both were paid for"
    (note,) = found.notes
    assert note == (
        "asked again, begun with '<think></think><answer>', to no avail: the second "
        "response cannot be read either"
    )


NAMES = ("good", "bad", "fails", "worse")


def failing(error):
    """A network that raises at one of three second requests."""

    def rule(request):
        if request.key == "fails:again":
            raise error("the network", expected="a response", found="none")
        if request.prefix:
            return f"{BOX}</answer>"
        return "no" if request.key != "good" else f"<think>it</think><answer>{BOX}</answer>"

    return model(rule)


def test_a_second_try_that_fails_costs_neither_first_responses_nor_other_second_ones():
    made, chat = failing(ModelError)
    good, bad, fails, worse = made.predict([query(key=name) for name in NAMES])
    assert [len(one) for one in chat.asked] == [4, 3, 1, 1, 1], "then each on its own"
    assert good.failure is None and good.notes == ()
    for found in (bad, worse):
        assert found.failure is None and found.answer.boxes == good.answer.boxes
        assert found.notes == ("asked again, begun with '<think></think><answer>'",)
    assert fails.failure.kind == "parse" and fails.responses == ("no",)
    assert fails.usage.completion_tokens == 3
    assert [one.response for one in fails.calls] == ["no", None]
    (note,) = fails.notes
    assert note.endswith("to no avail: the network: expected a response, found none")


@pytest.mark.parametrize("error", [OutOfMemory, Unavailable])
def test_what_says_nothing_of_the_network_is_no_failure_of_it(error):
    """It would be scored as a response that cannot be read, though another day it might be."""
    made, _ = failing(error)
    with pytest.raises(error):
        made.predict([query(key=name) for name in NAMES])
    good, bad, fails, worse = predict(made, [query(key=name) for name in NAMES], Stage())
    assert [one.failure for one in (good, bad, worse)] == [None] * 3
    assert fails.failure.kind == "infrastructure"


ENDLESS = '<think>red circle</think><answer>[{"bbox_2d": [1, 2'


def test_whether_a_second_try_helped_does_not_hang_on_how_the_first_response_began():
    made, chat = model(lambda one: " 3" if one.prefix else ENDLESS, cut=True)
    (found,) = made.predict([query()])
    assert ENDLESS.startswith(chat.asked[1][0].prefix)
    assert found.responses == (ENDLESS,) and found.failure is not None
    again, cut = found.notes
    assert again.endswith("to no avail: the second response cannot be read either")
    assert cut == "cut off", "tokens are of both"


@pytest.mark.parametrize("greedy", [True, False])
def test_a_greedy_network_is_not_asked_for_what_it_began_by_itself(greedy):
    output = {"endless": ENDLESS, "other": "<think>red circle, red"}
    made, chat = model(
        lambda one: f"{BOX}</answer>" if one.prefix else output[one.key], greedy=greedy
    )
    endless, other = made.predict([query(key=name) for name in output])
    assert [one.key for one in chat.asked[1]] == ["endless:again"] * (not greedy) + ["other:again"]
    assert other.failure is None
    assert bool(endless.notes) == (endless.failure is None) == (not greedy)


def test_of_several_forms_only_the_one_that_cannot_be_read_is_asked_again():
    def rule(request):
        if request.prefix:
            return f"{BOX}</answer>"
        return "no" if request.key.endswith("boxes") else "<think>two</think><answer>B</answer>"

    made, chat = model(rule)
    forms = (AnswerForm.CHOICE, AnswerForm.BOXES)
    requested = replace(query(options=("red", "blue")), forms=forms)
    (found,) = made.predict([requested])
    assert [one.key for one in chat.asked[1]] == ["one:boxes:again"]
    assert found.answer.choice == "B" and len(found.answer.boxes) == 1


@pytest.mark.parametrize("settings", [{"retry": False}, {"goes_on": False}])
def test_nothing_is_asked_twice_unless_it_may_and_can_be(settings):
    made, chat = model(lambda one: "nothing at all", **settings)
    (found,) = made.predict([query()])
    assert len(chat.asked) == 1 and found.failure is not None


def test_the_record_says_so():
    assert model(str)[0].describe()["retry"] is True
    assert "retry" not in model(str, retry=False)[0].describe()
    assert "retry" not in model(str, goes_on=False)[0].describe(), "nothing is asked again"


CUT = st.from_regex(r"(<frame>\d</frame>)?(<think>.{0,20})?", fullmatch=True)


def test_what_repeats_itself_is_not_sent_back_whole():
    assert len(response_start(f"<think>{'red cross ' * 20_000}")) < 120


@given(st.text(max_size=60) | CUT, st.sampled_from([(), (3,), (0, 4, 9)]))
def test_what_is_begun_can_be_ended(response, numbered):
    output = grammar.parse(f"{response_start(response, numbered=numbered)}{BOX}</answer>")
    assert output.ok and len(output.items) == 1
    assert (output.frame in numbered) if numbered else output.frame is None
