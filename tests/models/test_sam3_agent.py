"""The SAM 3 agent with scripted VLMs: each tool, what is kept of a conversation, and its ends."""

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from harness import media, plugins
from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.errors import UsageError
from harness.interchange.journal_form import prediction_from_json, prediction_to_json
from harness.leaderboards.request_log import request_log
from harness.masks import Rle
from harness.models.backends.inputs import chat_text
from harness.models.propagators.still import still
from harness.models.sam3_agent.agent import without_overlaps
from harness.models.sam3_agent.drawing import COLOURS, as_image, close_up, numbered
from harness.models.sam3_agent.model import Sam3Agent
from harness.models.segmenters.box import box
from harness.run.verify import verify
from harness.segmentation import Instance, Segmenter
from harness.spec import parse
from harness.tasks.mevis import writer as mevis
from harness.tasks.reason_seg import writer as reason_seg
from harness.types import AnswerForm, EarlierTurn, FailureKind, Query, query_id
from harness.world.shapes import make

from .test_sam3 import tiny_sam3  # noqa: F401 - a fixture

HEIGHT, WIDTH = 60, 80


@dataclass(eq=False)
class Says(Chat):
    """Gives the responses of a script, by what follows the query's id in a request's key."""

    script: dict
    batch_size: int = 4
    coordinates: str = "pixels"
    requests: list = field(default_factory=list)

    def describe(self):
        return {"backend": "script"}

    def canvas(self, request):
        return request.media[0].size

    def count_tokens(self, text):
        return len(text)

    def generate(self, requests):
        self.requests += requests
        return [self._say(one) for one in requests]

    def _say(self, request):
        text, stopped, _ = self.script[request.key.partition("/")[2]].partition("</tool>")
        return ChatResponse(text=text, stopped=stopped if request.stop else "", prompt_tokens=1)


@dataclass
class Finds(Segmenter):
    """Finds what is listed under a phrase."""

    known: dict
    name = "finds"

    def segment(self, image, prompts):
        raise AssertionError("the agent prompts with phrases")

    def find_instances(self, image, phrase):
        return self.known.get(phrase, [])


def square(left, score=0.9, *, size=10, top=10):
    mask = np.zeros((HEIGHT, WIDTH), dtype=bool)
    mask[top : top + size, left : left + size] = True
    return Instance(mask, score)


CUPS = [square(5, 0.6), square(30, 0.9), square(60, 0.8)]
"""By falling confidence they are numbered 2nd, 3rd, 1st: those at 30, 60, 5."""


def call(name, **parameters):
    return f"<think>hm</think><tool>{json.dumps({'name': name, 'parameters': parameters})}</tool>"


def phrase(words):
    return call("segment_phrase", text_prompt=words)


def select(*numbers):
    return call("select_masks_and_return", final_answer_masks=list(numbers))


EXAMINE, NOTHING = call("examine_each_mask"), call("report_no_mask")
BOTH = "<verdict>Accept or Reject</verdict>"
YES, NO = "<verdict>Accept</verdict>", "<think>no</think><verdict>Reject</verdict>"


def question(frames=1, text="the cup to drink from"):
    image = np.full((HEIGHT, WIDTH, 3), 90, dtype=np.uint8)
    shown = media.pixels(
        [image + place for place in range(frames)],
        times=range(frames),
        is_video=frames > 1,
        id=f"m{frames}",
    )
    form = AnswerForm.MASK if frames == 1 else AnswerForm.MASK_TRACK
    return Query(id=query_id(text), text=text, media=(shown,), forms=(form,))


def asked(*rounds, known=None, verdicts=None, query=None, **given):
    """What comes of a conversation with these responses, and the requests of it."""
    script = {f"round{number}": text for number, text in enumerate(rounds)} | (verdicts or {})
    chat, query = Says(script), query or question()
    segmenter = Finds({"cup": CUPS} if known is None else known)
    model = Sam3Agent(chat=chat, segmenter=segmenter, propagator=still(), **given)
    (result,) = model.generate([query])
    found = model.begin(query, result)()
    again = model.read(query, found.responses)
    assert (again.answer, again.failure, again.parsed) == (
        found.answer,
        found.failure,
        found.parsed,
    )
    return found, chat.requests


def union(*instances):
    return np.logical_or.reduce([one.mask for one in instances])


def test_a_phrase_is_segmented_and_masks_are_picked_by_their_number():
    found, (first, second) = asked(phrase("cup"), select(3, 1, 3, 9))
    assert found.failure is None
    assert np.array_equal(found.answer.masks[0].to_array(), union(CUPS[0], CUPS[1]))
    assert found.answer.box_scores == (0.9, 0.6)
    assert [one.left for one in found.answer.boxes] == [30, 5]
    # The first request has the image, the second what was called and what came of it.
    assert "the cup to drink from" in first.text and not first.earlier
    assert len(first.media) == 1 and first.stop == ("</tool>",)
    (turn,) = second.earlier
    assert (turn.text, turn.response, turn.media) == (first.text, phrase("cup"), 1)
    assert len(second.media) == 2 and "3 mask(s)" in second.text
    assert second.system == first.system


@pytest.mark.parametrize("frames", [1, 3])
def test_masks_are_kept_apart_where_the_query_asks_for_instances(frames):
    query = replace(question(frames=frames), instances=True)
    answer = asked(phrase("cup"), select(1, 3), query=query)[0].answer
    assert [len(one) for one in answer.instances] == [frames] * 2
    for track, true in zip(answer.instances, (CUPS[1], CUPS[0]), strict=True):
        assert np.array_equal(track[0].to_array(), true.mask)
    assert answer.box_scores == (0.9, 0.6) and answer.masks[-1].area == 200
    nothing = asked(NOTHING, query=query)[0].answer
    assert nothing.instances is None and nothing.no_target


def test_a_phrase_that_utf8_cannot_hold_is_made_storable():
    found, (_, second) = asked(phrase("cup \ud800"), select(1), known={"cup ?": CUPS})
    assert found.answer.masks[0].area == 100 and found.parsed[0].objects[0].phrase == "cup ?"
    second.text.encode()


def test_every_turn_is_in_the_record():
    found, _ = asked(phrase("cup"), EXAMINE, select(1), verdicts=judged(YES, NO, NO))
    assert [one.key for one in found.calls] == [
        "/round0",
        "/round1",
        *(f"/round1/mask{place}" for place in (1, 2, 3)),
        "/round2",
    ]
    again = prediction_from_json(prediction_to_json(found))
    assert again.calls == found.calls
    assert again.calls[-1].request.earlier[0].response == phrase("cup")
    assert len(again.responses) == 6
    log = request_log(question(), again.calls)
    assert log["turn 1 before 6"].endswith(phrase("cup")) and "turn 2 before 6" in log


def test_earlier_phrases_are_warned_of_and_their_turns_are_dropped():
    rounds = (phrase("mug"), phrase("glass"), phrase("cup"), select(1))
    found, requests = asked(*rounds)
    assert found.failure is None and "'mug', 'glass', 'cup'" in found.notes[0]
    for number, request in enumerate(requests[1:], start=1):
        (turn,) = request.earlier
        assert turn.response == rounds[number - 1]
        assert ("'mug'" in turn.text) == (number > 1) and ("'glass'" in turn.text) == (number > 2)
        assert len(request.media) == (2 if number == 3 else 1)


def test_a_phrase_that_was_used_is_not_segmented_again_and_masks_stay():
    found, requests = asked(phrase("cup"), phrase("cup"), select(1))
    (turn,) = requests[2].earlier
    assert len(requests[2].media) == 1 and turn.response == phrase("cup")
    assert "['cup']" in requests[2].text
    assert np.array_equal(found.answer.masks[0].to_array(), CUPS[1].mask)


def judged(*verdicts, number=1):
    return {f"round{number}/mask{place}": text for place, text in enumerate(verdicts, start=1)}


def test_masks_are_examined_one_by_one_and_numbered_anew():
    verdicts = judged(NO, YES, YES)
    found, requests = asked(phrase("cup"), EXAMINE, select(2), verdicts=verdicts)
    assert np.array_equal(found.answer.masks[0].to_array(), CUPS[0].mask)
    judges, last = requests[2:5], requests[5]
    assert all(len(one.media) == 3 and not one.earlier and not one.stop for one in judges)
    assert len({one.media[1].id for one in judges}) == 3
    # The image with all masks is gone: no request has more than the raw one and another.
    assert [turn.media for turn in last.earlier] == [1, 0]
    assert len(last.media) == 2 and "2 mask(s)" in last.text


def test_another_phrase_follows_where_all_masks_are_rejected():
    known = {"mug": [square(5)], "cup": [square(30)]}
    rounds = (phrase("mug"), EXAMINE, phrase("cup"), select(1))
    found, requests = asked(*rounds, known=known, verdicts=judged(NO))
    assert np.array_equal(found.answer.masks[0].to_array(), known["cup"][0].mask)
    assert len(requests[3].media) == 1 and len(requests[3].earlier) == 2


@pytest.mark.parametrize(
    "rounds", [(NOTHING,), (phrase("cup"), NOTHING), (phrase("cup"), select())]
)
def test_no_mask_is_an_answer(rounds):
    found, _ = asked(*rounds)
    assert found.failure is None and found.answer.no_target
    assert not found.answer.masks[0].area


def test_what_follows_a_call_is_not_read():
    found, _ = asked(phrase("cup") + NOTHING, select(1) + phrase("more"))
    assert found.answer.masks[0].area == 100


ENDS = {
    "no-call": ("It is the red one.",),
    "no-json": ("<tool>segment_phrase(cup)</tool>",),
    "unknown": (call("draw_mask"),),
    "select-first": (select(1),),
    "examine-first": (EXAMINE,),
    "parameters": (call("segment_phrase", text_prompt="cup", box=[1, 2, 3, 4]),),
    "no-text": (call("segment_phrase", text_prompt=["cup"]),),
    "nothing-to-examine": (phrase("mug"), EXAMINE),
    "ten-messages": (phrase("cup"), EXAMINE, EXAMINE, EXAMINE),
    "both-verdicts": (phrase("cup"), EXAMINE),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_the_official_agent_ends_with_an_error_is_a_failure(name):
    verdicts = judged(*([BOTH] * 3)) if name == "both-verdicts" else judged(*([YES] * 3))
    verdicts |= judged(YES, YES, YES, number=2) | judged(YES, YES, YES, number=3)
    found, _ = asked(*ENDS[name], verdicts=verdicts)
    assert found.failure.kind is FailureKind.PARSE and found.failure.message
    assert found.answer is None and found.parsed[0].error == found.failure.message


def test_rounds_have_a_limit():
    found, requests = asked(*map(phrase, "abcdef"), max_rounds=3)
    assert found.failure is not None and len(requests) == 4


def test_of_overlapping_masks_the_more_confident_stays():
    # 10 × 10 each; moved by 7 they share 30 of 100, by 6 they share 40.
    best, fits, not_ = square(20, 0.9), square(27, 0.5), square(14, 0.8)
    inside, empty = square(22, 0.7, size=3, top=12), Instance(np.zeros_like(best.mask), 0.99)
    kept = without_overlaps([fits, inside, not_, empty, best])
    assert [one.score for one in kept] == [0.9, 0.5]


def test_masks_of_a_video_are_carried_from_its_middle():
    query = question(frames=5)
    found, (first, second) = asked(phrase("cup"), select(1), query=query)
    assert first.frames == ((2,),) and second.frames == ((2,), (0,))
    assert [mask.area for mask in found.answer.masks] == [100] * 5
    assert found.parsed[0].frame == 2


def test_masks_are_drawn_with_their_numbers_and_from_near():
    image = np.full((HEIGHT, WIDTH, 3), 90, dtype=np.uint8)
    drawn = numbered(image, [one.mask for one in CUPS])
    changed = (drawn != image).any(axis=2)
    assert (image == 90).all()
    for one in CUPS:
        assert changed[one.mask].all()
    assert not changed[40:].any()
    assert (drawn[10:20, 5:15] != drawn[10:20, 30:40]).any()
    near = close_up(image, CUPS[1].mask, COLOURS[0])
    assert near.shape == (448, 2 * 448 + 8, 3)


def conversation():
    """A request of two turns about an image, the second of which shows another one."""
    image = question().media[0]
    return ChatRequest(
        key="k",
        system="Call tools.",
        earlier=(EarlierTurn(text="The cup?", response="<tool>cup</tool>", media=1),),
        text="Two masks<|im_end|>.",
        media=(image, as_image(image.frame(0)[:30])),
        frames=((0,), (0,)),
    )


def test_a_network_in_process_sees_turns_in_their_order_each_with_its_image(tiny_qwen3):
    chat = plugins.build("backends", parse(f"transformers(checkpoint={tiny_qwen3})"))
    request = conversation()
    text = chat_text(chat.processor, request)
    places = [text.index(one) for one in ("Call tools.", "The cup?", "<tool>cup", "Two masks")]
    assert places == sorted(places)
    vision = chat.processor.image_token
    before, _, after = text.partition("<tool>cup</tool>")
    assert (before.count(vision), after.count(vision)) == (1, 1)
    assert "masks<|im_end|>" not in text and text.count("<|im_start|>assistant") == 2
    (response,) = chat.generate([replace(request, max_new_tokens=4)])
    assert len(response.canvases) == 2 and response.canvases[0] != response.canvases[1]


def test_a_server_is_sent_turns_as_messages():
    form = plugins.build(
        "backends", parse("openai(model=m,base_url=http://127.0.0.1:1/v1,coordinates=pixels)")
    ).form
    messages = json.loads(form.body(conversation()))["messages"]
    assert [one["role"] for one in messages] == ["system", "user", "assistant", "user"]
    assert messages[2]["content"] == "<tool>cup</tool>"
    for message, text in ((messages[1], "The cup?"), (messages[3], "Two masks< |im_end|>.")):
        kinds = [part["type"] for part in message["content"]]
        assert kinds == ["image_url", "text"] and message["content"][1]["text"] == text


def test_official_system_prompts_are_read_from_a_checkout(tmp_path):
    spec = f"sam3_agent(backend=stored,segmenter=box,prompts={tmp_path})"
    with pytest.raises(UsageError, match=r"system_prompt\.txt"):
        plugins.build("models", parse(spec))
    (tmp_path / "system_prompt.txt").write_text("Call tools.\n")
    (tmp_path / "system_prompt_iterative_checking.txt").write_text("Judge.\n")
    model = plugins.build("models", parse(spec))
    (first,) = model.requests(question())
    assert first.system == "Call tools." and model.judge == "Judge."
    assert model.describe()["prompts"] == "official"


def test_a_question_in_words_is_refused():
    image = question().media
    words = Query(id="w", text="How many?", media=image, forms=(AnswerForm.NUMBER,))
    model = Sam3Agent(chat=Says({}), segmenter=Finds({}), propagator=still())
    for refused in (model.requests, lambda one: model.generate([one])):
        with pytest.raises(UsageError, match="number"):
            refused(words)


def test_a_segmenter_that_reads_no_phrases_is_refused_before_the_first_sample():
    model = Sam3Agent(chat=Says({}), segmenter=box(), propagator=still())
    with pytest.raises(UsageError, match="box"):
        model.prepare()


def test_sam3_itself_finds_the_masks_of_a_phrase(tiny_sam3):  # noqa: F811
    spec = parse(f"sam3(checkpoint={tiny_sam3},threshold=0.0)")
    segmenter = plugins.build("segmenters", spec)
    query = question()
    model = Sam3Agent(
        chat=Says({"round0": phrase("cup"), "round1": select(*range(1, 101))}),
        segmenter=segmenter,
        propagator=still(),
    )
    (result,) = model.generate([query])
    found = model.begin(query, result)()
    image = query.media[0].frame(0)
    every = segmenter.find_instances(image, "cup")
    assert len(every) > 1 and [one.score for one in every] == sorted(
        (one.score for one in every), reverse=True
    )
    kept = without_overlaps(every)
    assert found.answer.masks[0] == Rle.from_array(union(*kept))
    assert found.answer.box_scores == tuple(one.score for one in kept)


def test_perfect_conversations_reach_the_ceilings(tmp_path):
    make(tmp_path, seed=0, size=4, writers={"mevis": mevis.write, "reason_seg": reason_seg.write})
    model = plugins.build("models", parse("sam3_agent(backend=stored,segmenter=box)"))
    for name in ("mevis", "reason_seg"):
        checks = list(verify(plugins.build("tasks", name, tmp_path), model))
        assert [one.way for one in checks] == ["answers", "responses"]
        assert all(one.is_passed for one in checks), checks
