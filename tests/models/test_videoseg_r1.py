"""VideoSeg-R1's predictions, and generated videos."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import media, plugins
from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.errors import UsageError
from harness.interchange.journal_form import prediction_from_json, prediction_to_json
from harness.masks import Rle
from harness.model import ResponseReader
from harness.models.backends.ablation import ablation
from harness.models.videoseg_r1.cues import Cues
from harness.models.videoseg_r1.model import videoseg_r1
from harness.run.batching import samples_of
from harness.run.verify import verify
from harness.segmentation import ObjectPrompt, Propagator, Segmenter
from harness.types import Answer, FailureKind, Point, Query

from .videoseg_r1_script import FORM, GOOD, Script, interval, model, query


def test_a_video_is_segmented_in_the_frame_that_was_found_and_propagated():
    @dataclass(frozen=True)
    class Watching(Propagator):
        started: list[int] = field(default_factory=list)
        name: str = "watching"

        def propagate(self, shown, start, masks):
            self.started.append(start)
            return [
                [mask if index == start else ~mask for index in range(len(shown))] for mask in masks
            ]

    watching = Watching()
    made = model(
        {"segment": [interval(5, 7)], "frame": ['{"percent": 100}'], "reason": [GOOD]},
        propagator=watching,
    )
    (output,) = made.predict([query(frames=40)])
    assert watching.started == [14]
    assert output.answer.masks[14].area == 42 * 84  # half of the canvas's box each way
    assert output.answer.masks[13].area == 420 * 210 - 42 * 84
    assert output.responses[-1] == f"<frame>14</frame>{GOOD}"
    assert len(output.responses) == 5 + 5 + 1
    assert output.usage.frames == 5 * 16 + 5 * 5 + 1 + 12 + 4
    assert output.usage.prompt_tokens == 11 * 7


def test_a_prediction_is_read_again_from_its_record():
    made = model({"segment": [interval(2, 4)], "frame": ["?"], "reason": [GOOD]})
    (output,) = made.predict([query()])
    kept = prediction_from_json(prediction_to_json(output))
    again = made.read(query(), kept.responses)
    assert (again.answer, again.responses) == (output.answer, output.responses)
    alone = made.read(query(), kept.responses[-1:])
    assert alone.answer == output.answer


@pytest.mark.parametrize(
    ("switches", "forms"),
    [
        ({}, (FORM.MASK_TRACK,)),
        ({"target_frame": False, "percentages": 5}, (FORM.MASK_TRACK,)),
        ({"key_segment": False, "votes": 5}, (FORM.MASK_TRACK, FORM.NUMBER)),
        (
            {"key_segment": False, "votes": 5, "target_frame": False, "percentages": 5},
            (FORM.MASK_TRACK,),
        ),
        ({}, (FORM.NUMBER,)),
    ],
)
def test_the_record_holds_every_call_in_order(switches, forms):
    made = model(
        {
            "segment": [interval(0, 9), interval(5, 7)],
            "frame": ['{"percent": 50}', "?"],
            "reason": [GOOD],
        },
        **{"votes": 2, "percentages": 2, **switches},
    )
    requested = replace(query(frames=40), forms=forms)
    (output,) = made.predict([requested])
    kept = prediction_from_json(json.loads(json.dumps(prediction_to_json(output))))
    assert kept == output
    assert [
        (requested.id + one.key, one.request.text, [shown.frames for shown in one.request.shown])
        for one in kept.calls
    ] == [(one.key, one.text, list(one.frames)) for one in made.chat.asked]
    marks = [
        response.removesuffix(call.response)
        for call, response in zip(kept.calls, kept.responses, strict=True)
    ]
    assert all(mark == "" or mark.startswith("<frame>") for mark in marks)
    times = requested.media[0].times()
    for shown in (shown for call in kept.calls for shown in call.request.shown):
        assert shown.times == tuple(times[frame] for frame in shown.frames)


def test_the_record_says_that_the_network_was_shown_other_media():
    chat = Script({"segment": [interval(5, 7)], "frame": ["?"], "reason": [GOOD]})
    made = model({}, backend=ablation(chat=chat, images="grey"))
    (output,) = made.predict([query(frames=40)])
    media = {shown.medium for call in output.calls for shown in call.request.shown}
    assert media == {one.media[0].id for one in chat.asked}, "none of them is the query's own"


def test_a_frame_that_the_network_names_itself_does_not_count():
    made = model(
        {
            "segment": [interval(2, 4)],
            "frame": ['{"percent": 0}'],
            "reason": [f"<frame>19</frame>{GOOD}"],
        }
    )
    (output,) = made.predict([query()])
    assert output.answer is not None
    assert output.responses[-1].startswith("<frame>4</frame><frame>19</frame>")


def test_an_image_is_a_video_of_one_frame_without_a_search():
    made = model({"reason": [GOOD]})
    (output,) = made.predict([query(FORM.MASK, frames=1)])
    (request,) = made.chat.asked
    assert (request.frames, request.resize) == (((0,),), (840, 840))
    assert output.answer.masks[0].area == 42 * 84
    assert output.responses == (GOOD,)


def test_a_question_in_words_is_asked_without_a_search():
    made = model({"reason": ["<answer>A</answer>"]})
    requested = replace(query(FORM.CHOICE), options=("yes", "no"))
    (output,) = made.predict([requested])
    assert output.answer.choice == "A"
    assert len(made.chat.asked) == 1


def test_a_response_outside_the_grammar_is_a_failure():
    made = model({"segment": ["?"], "frame": ["?"], "reason": ["I cannot"]})
    (output,) = made.predict([query()])
    assert output.failure.kind is FailureKind.PARSE


@pytest.mark.parametrize(
    ("switches", "shown"),
    [
        ({}, (True, True, True)),
        ({"box": False}, (False, True, True)),
        ({"central": False}, (True, False, True)),
        ({"negative": False}, (True, True, False)),
        ({"box": False, "negative": False}, (False, True, False)),
    ],
)
def test_table_6_chooses_what_the_segmenter_is_shown(switches, shown):
    @dataclass(frozen=True)
    class Seeing(Segmenter):
        seen: list[ObjectPrompt] = field(default_factory=list)
        name: str = "seeing"

        def segment(self, image, prompts):
            self.seen.extend(prompts)
            return [np.zeros(image.shape[:2], dtype=bool) for _ in prompts]

    seeing = Seeing()
    model({"reason": [GOOD]}, segmenter=seeing, **switches).predict([query(FORM.MASK, frames=1)])
    (prompt,) = seeing.seen
    assert (prompt.box is not None, bool(prompt.positive), bool(prompt.negative)) == shown
    if shown[2]:
        assert prompt.negative == (Point(100, 63),)


def test_no_prompt_at_all_is_refused():
    with pytest.raises(UsageError):
        model({}, box=False, central=False)
    assert Cues(segmenter=plugins.build("segmenters", "box"), box=False).name == "box"


def test_it_reads_perfect_responses_with_the_ground_truth_for_perception():
    ground_truth = np.zeros((210, 420), dtype=bool)
    ground_truth[20:60, 30:90] = True
    masks = tuple(
        Rle.from_array(ground_truth if index == 3 else ground_truth & False) for index in range(20)
    )

    @dataclass(frozen=True)
    class Knows(Segmenter, Propagator):
        name: str = "knows"

        def segment(self, image, prompts):
            assert image[0, 0, 0] == 3
            assert all(prompt.negative for prompt in prompts)
            return [ground_truth for _ in prompts]

        def propagate(self, shown, start, given):
            assert start == 3
            return [[mask.to_array() for mask in masks] for _ in given]

    made = model({})
    assert isinstance(made, ResponseReader)
    responses = made.write(query(), Answer(masks=masks))
    assert responses[0].startswith("<frame>3</frame><think></think>")
    assert made.with_perception(Knows(), Knows()).read(query(), responses).answer.masks == masks


def test_its_record_says_every_setting():
    plain = model({}, references="global", box=False).describe()
    assert plain["name"] == "videoseg_r1"
    assert plain["sampler"]["delta"] == 0.3
    assert plain["showing"]["strategy"] == "global"
    assert plain["segmenter"] == {"name": "box", "box": False, "central": True, "negative": True}
    json.dumps(plain)


@pytest.mark.parametrize("setting", [{"canvas": 0}, {"reference_frames": -1}, {"temperature": -1}])
def test_wrong_numbers_are_refused(setting):
    with pytest.raises(UsageError):
        model({}, **setting)


@dataclass(frozen=True)
class Sees(Chat):
    """A chat that has the ground truth of some samples: where, and in which frames, things are."""

    ground_truth: Mapping[str, Any]
    reader: Any
    coordinates: str = "pixels"
    batch_size: int = 4

    def describe(self) -> Mapping[str, Any]:
        return {"backend": "sees"}

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        return [ChatResponse(text=self.says(request)) for request in requests]

    def says(self, request: ChatRequest) -> str:
        sample = self.ground_truth[request.key.partition(":")[0]]
        masks, times = sample.target.answer.masks, request.media[0].times()
        seen = [index for index, mask in enumerate(masks) if mask.area]
        best = max(range(len(masks)), key=lambda index: masks[index].area)
        if ":segment:" in request.key:
            return interval(times[max(best - 1, 0)], times[min(best + 1, len(times) - 1)])
        if ":frame:" in request.key:
            return '{"percent": 50}'
        (target,) = request.frames[0]
        assert target in seen
        here = Answer(masks=(masks[target],))
        still = media.pixels([request.media[0].frame(target)], times=[0], is_video=False, id="x")
        requested = Query(id="x", text="x", media=(still,), forms=(FORM.MASK,))
        return self.reader.write(requested, here)[0]

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        return request.resize or request.media[0].size

    def count_tokens(self, text: str) -> int:
        return len(text.split())


@pytest.fixture(scope="module")
def mevis():
    root = Path(__file__).resolve().parents[2] / "tasks" / "mevis" / "example"
    return plugins.build("tasks", "mevis", root)


def test_a_network_that_sees_segments_generated_videos(mevis):
    samples = list(samples_of(mevis))
    assert all(any(mask.area for mask in one.target.answer.masks) for one in samples)
    ground_truth = {sample.query.id: sample for sample in samples}
    given = {
        "segmenter": plugins.build("segmenters", "grabcut"),
        "votes": 1,
        "percentages": 1,
        "propagator": plugins.build("propagators", "flow"),
    }
    made = videoseg_r1(backend=Sees(ground_truth, model({})), **given)
    found = made.predict([sample.query for sample in samples])
    overlaps = []
    for sample, output in zip(samples, found, strict=True):
        assert output.failure is None
        for one, other in zip(output.answer.masks, sample.target.answer.masks, strict=True):
            both, either = one.intersection(other).area, one.union(other).area
            overlaps.append(both / either if either else 1.0)
    assert np.mean(overlaps) > 0.6


def test_perfect_responses_reach_the_ceiling_of_a_benchmark(mevis):
    verdicts = list(verify(mevis, model({})))
    assert [verdict.way for verdict in verdicts] == ["answers", "responses"]
    assert all(verdict.is_passed for verdict in verdicts), verdicts
