"""VideoSeg-R1 with real networks: votes, batches, and searches beside each other."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from harness import media, plugins
from harness.backend import ConversingChat
from harness.chat import ChatRequest, ChatResponse
from harness.models.backends.ablation import ablation
from harness.models.backends.inputs import processor_inputs
from harness.models.multi_turn import ConversationScheduler
from harness.models.videoseg_r1 import frame_display
from harness.models.videoseg_r1.frame_search import search_frames
from harness.spec import Spec
from harness.spec import parse as spec
from harness.types import Query

from .videoseg_r1_script import FORM, GOOD, Script, interval, model, query


@pytest.fixture
def short_votes(monkeypatch):
    """Votes of few tokens: a network without training writes as many as it may."""
    monkeypatch.setattr(frame_display, "MAX_SAMPLER_TOKENS", 12)


@pytest.mark.usefixtures("short_votes")
def test_a_network_in_process_votes_and_reasons_with_weights_loaded_once(tiny_qwen, ask):
    made = plugins.build(
        "models",
        "videoseg_r1",
        checkpoint=str(tiny_qwen),
        canvas=56,
        context=56,
        votes=2,
        percentages=2,
        sampler_frames=4,
        reference_frames=2,
        key_frames=2,
        max_new_tokens=8,
        segmenter=plugins.build("segmenters", "box"),
    )
    requested = ask(FORM.MASK_TRACK, frames=8)
    made.prepare()
    assert made.voters is made.chat
    assert (made.showing.temperature, made.chat.temperature) == (0.7, 0.0)
    (output,) = made.predict([requested])
    assert len(output.responses) == 2 + 2 + 1
    assert output.responses[0] != output.responses[1]  # votes are drawn under keys of their own
    assert made.predict([requested])[0] == output


def in_process(tiny_qwen, **given):
    return plugins.build(
        "models",
        "videoseg_r1",
        **{
            "checkpoint": str(tiny_qwen),
            "canvas": 56,
            "context": 56,
            "votes": 3,
            "percentages": 2,
            "sampler_frames": 4,
            "reference_frames": 2,
            "key_frames": 2,
            "max_new_tokens": 4,
            "segmenter": plugins.build("segmenters", "box"),
            "propagator": plugins.build("propagators", "flow"),
            **given,
        },
    )


@pytest.mark.usefixtures("short_votes")
def test_searches_that_wait_for_each_other_find_the_same(tiny_qwen, ask):
    requested = [
        ask(FORM.MASK_TRACK, frames=frames, name=f"{frames}") for frames in (9, 3, 1, 14)
    ]  # the image is not looked for

    class Turns:
        """The voters, without a way of their own to converse."""

        def __init__(self, chat):
            self.generate = chat.generate

    made = in_process(tiny_qwen)
    made.voters.network.double()  # batches of other shapes round otherwise, and so might draw
    given = {"sampler": made.sampler, "showing": made.showing}
    found = search_frames(requested, voters=made.voters, **given)
    assert found == search_frames(requested, voters=Turns(made.voters), **given)
    assert [one and len(one.responses) for one in found] == [5, 3, None, 5]
    assert found[3] == search_frames(requested[3:], voters=made.voters, **given)[0]


@pytest.mark.usefixtures("short_votes")
@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({}, {"9:segment:0:0", "14:segment:0:0"}),
        ({"key_segment": False, "votes": 5}, {"9:frame:0:0", "14:frame:0:0"}),
        (
            {"key_segment": False, "votes": 5, "target_frame": False, "percentages": 5},
            {"9", "14"},
        ),
    ],
)
def test_what_a_batch_shows_first_is_made_while_another_is_asked(
    tiny_qwen, ask, monkeypatch, switches, expected
):
    requested = [replace(ask(FORM.MASK_TRACK, frames=frames), id=f"{frames}") for frames in (9, 14)]
    made = []

    def noted(processor, chosen):
        made.extend((one.key, threading.current_thread().name) for one in chosen)
        return processor_inputs(processor, chosen)

    model = in_process(tiny_qwen, **switches)
    model.prepare()
    output = model.predict(requested)
    monkeypatch.setattr("harness.models.backends.transformers.processor_inputs", noted)
    model.prepare_next(requested)
    assert model.predict(requested) == output
    threads = dict(made)
    assert len(threads) == len(made), "each is made once"
    assert {key for key, thread in threads.items() if thread.startswith("expected")} == expected


@pytest.mark.usefixtures("short_votes")
def test_a_network_whose_images_are_altered_votes_on_them(tiny_qwen, ask, monkeypatch):
    made = plugins.build(
        "models",
        "videoseg_r1",
        checkpoint=str(tiny_qwen),
        canvas=56,
        context=56,
        votes=2,
        percentages=2,
        max_new_tokens=4,
        backend=spec("ablation(images=grey)"),
        segmenter=plugins.build("segmenters", "box"),
    )
    shown = []
    within = type(made.chat.chat)

    def noted(chat, requests):
        shown.extend((one.temperature, one.media[0].frame(0).max()) for one in requests)
        return generate(chat, requests)

    generate = within.generate
    monkeypatch.setattr(within, "generate", noted)
    made.predict([ask(FORM.MASK_TRACK, frames=8)])
    assert shown == [(0.7, 128)] * 4 + [(None, 128)]


@pytest.mark.parametrize(
    ("given", "expected"), [({}, 0.7), ({"temperature": 0.3}, 0.3), ({"own": 0.1}, 0.1)]
)
def test_voters_of_their_own_vote_at_the_temperature_that_is_theirs(tiny_qwen, given, expected):
    own = given.pop("own", None)
    sampler = Spec("transformers", {} if own is None else {"temperature": own})
    made = in_process(tiny_qwen, sampler=sampler, **given)
    assert made.voters is not made.chat
    assert made.voters.temperature == expected
    assert made.showing.temperature is None


@pytest.mark.usefixtures("short_votes")
def test_voters_of_their_own_with_the_same_weights_come_to_the_same(tiny_qwen, ask):
    requested = [ask(FORM.MASK_TRACK, frames=frames, name=f"{frames}") for frames in (9, 1, 14)]
    apart = in_process(tiny_qwen, sampler=Spec("transformers"))
    alone = apart.predict(requested)
    assert (
        apart.wait_seconds
        == apart.voters.wait_seconds + apart.chat.wait_seconds
        > apart.chat.wait_seconds
        > 0
    )
    assert replace(apart, voters=Script({})).wait_seconds is None
    one = in_process(tiny_qwen)
    without = [replace(output, calls=()) for output in (*one.predict(requested), *alone)]
    assert without[:3] == without[3:], "votes of their own are drawn at their own temperature"
    assert one.wait_seconds == one.chat.wait_seconds > 0
    assert [len(one.responses) for one in alone] == [6, 1, 6]


def test_a_search_that_is_over_goes_on_to_the_reasoner_while_others_vote():
    class Hasty(Script, ConversingChat):
        """What was asked for last is answered first."""

        def converse_as_completed(self, conversations, *, go_on=False):
            scheduler = ConversationScheduler(conversations)
            while places := scheduler.pending_indices():
                scheduler.receive(places[-1], self._response(scheduler.requests[places[-1]]))
            yield from enumerate(scheduler.ends())

    says = {"segment": [interval(5, 7)], "frame": ['{"percent": 50}'], "reason": [GOOD]}
    made = model({}, backend=Hasty(says))
    requested = [query(name="first"), query(name="second")]
    together = made.generate(requested)
    keys = [one.key for one in made.chat.asked]
    assert keys.index("second") < keys.index("first:segment:0:4")
    assert together == [made.generate([one])[0] for one in requested]


class Unequal(Script):
    """A search of one round for `first`, of two for `second`; each reasons about itself."""

    def _response(self, request: ChatRequest) -> ChatResponse:
        self.asked.append(request)
        name, _, requested = request.key.partition(":")
        if requested.startswith("segment"):
            long = name == "second" and requested.startswith("segment:0")
            return ChatResponse(text=interval(0, 8) if long else interval(5, 7))
        if requested:
            return ChatResponse(text='{"percent": 50}')
        return ChatResponse(text=f"{request.prefix or f'<think>{name}</think>'}<answer>[]</answer>")


def of_unequal_rounds() -> list[Query]:
    """Videos whose searches end one after the other, and images; no two show the same."""
    frames = {"first": 20, "still": 1, "second": 20, "other": 1}
    shown = np.zeros((210, 420, 3), dtype=np.uint8)
    return [
        replace(
            query(name=name),
            media=(
                media.pixels(
                    [shown] * number, times=np.arange(number) / 2, is_video=number > 1, id=name
                ),
            ),
        )
        for name, number in frames.items()
    ]


def test_reasoning_is_swapped_between_queries_whatever_the_rounds_of_their_searches():
    made = model({}, backend=ablation(chat=Unequal({}), reasoning="swapped"))
    found = made.generate(of_unequal_rounds())
    assert [len(one.responses) for one in found] == [11, 1, 16, 1]
    thoughts = [one.responses[-1].text.partition("<think>")[2].partition("<")[0] for one in found]
    assert thoughts == ["still", "second", "other", "first"]


def test_images_are_swapped_between_queries_whatever_the_rounds_of_their_searches():
    made = model({}, backend=ablation(chat=Unequal({}), images="swapped"))
    made.generate(of_unequal_rounds())
    shown = {one.key: one.media[0].id for one in made.chat.chat.asked if ":" not in one.key}
    assert shown == {"first": "second", "second": "first", "still": "other", "other": "still"}


@dataclass(frozen=True)
class Expecting(Script):
    """Without a way of its own to converse; a call of `generate` for each turn."""

    expected: list[list[ChatRequest]] = field(default_factory=list)
    begun: list[list[ChatRequest]] = field(default_factory=list)

    def prepare_next(self, requests: Sequence[ChatRequest], *, go_on: bool = False) -> None:
        assert not go_on or isinstance(self, ConversingChat)
        self.expected.append([*requests])

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        self.begun.append([*requests])
        return super().generate(requests)


class Conversing(Expecting, ConversingChat):
    """With one, for which it expects other things."""

    def prepare_next(self, requests: Sequence[ChatRequest], *, go_on: bool = False) -> None:
        assert go_on == any(":" in one.key for one in requests)
        super().prepare_next(requests, go_on=go_on)

    def converse_as_completed(self, conversations: Any, *, go_on: bool = False) -> Any:
        scheduler = ConversationScheduler(conversations)
        while places := scheduler.pending_indices():
            output = self.generate([scheduler.requests[place] for place in places])
            for place, response in zip(places, output, strict=True):
                scheduler.receive(place, response)
        yield from enumerate(scheduler.ends())


@pytest.mark.parametrize("frames", [(20, 1), (1, 1), (20, 30)])
@pytest.mark.parametrize("kind", [Expecting, Conversing])
@pytest.mark.parametrize("apart", [False, True])
def test_what_is_expected_is_what_a_network_is_asked_first(kind, apart, frames):
    says = {"segment": [interval(5, 7)], "frame": ['{"percent": 50}'], "reason": [GOOD]}
    voters = {"sampler": kind(says)} if apart else {}
    made = model({}, backend=kind(says), votes=1, **voters)
    requested = [query(frames=number, name=f"{place}") for place, number in enumerate(frames)]
    made.prepare_next(requested)
    made.generate(requested)
    first = made.chat if frames == (1, 1) else made.voters
    assert first.expected == first.begun[:1]
    if apart:
        other = made.voters if frames == (1, 1) else made.chat
        assert not other.expected


@pytest.mark.usefixtures("short_votes")
@pytest.mark.parametrize("roll", [True, False])
def test_votes_and_images_that_are_begun_together_are_made_once(tiny_qwen, ask, monkeypatch, roll):
    """Fewer of them than rows, of unequal settings, and no two with one prompt."""
    made = []

    def noted(processor, chosen):
        made.extend((one.key, threading.current_thread().name) for one in chosen)
        return processor_inputs(processor, chosen)

    alone = in_process(
        tiny_qwen, votes=1, backend=Spec("transformers", {"continuous_batching": roll})
    )
    requested = [replace(ask(FORM.MASK_TRACK, frames=frames), id=f"{frames}") for frames in (9, 1)]
    alone.prepare()
    monkeypatch.setattr("harness.models.backends.transformers.processor_inputs", noted)
    alone.prepare_next(requested)
    alone.generate(requested)
    keys = [key for key, _ in made]
    assert len(keys) == len({*keys}), "each is made once"
    ahead = {key for key, thread in made if thread.startswith("expected")}
    assert ahead == ({"9:segment:0:0", "1"} if roll else {"1"})  # those of the lowest limit
