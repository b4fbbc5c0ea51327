"""A prompted model: boxes, forms, videos, and what it records."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from harness.chat import ChatResponse
from harness.errors import ModelError, UsageError
from harness.explained.parsed import lines
from harness.explained.parsed import parsed_parts as shown_parts
from harness.interchange.journal_form import prediction_from_json, prediction_to_json
from harness.masks import Rle
from harness.model import ResponseReader
from harness.models.chat_result import ChatResult
from harness.models.grammar import Item, ParseResult
from harness.models.qwen_vl.locate import Locate
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.segmentation import Propagator, Segmenter
from harness.types import (
    Answer,
    Box,
    FailureKind,
    Interval,
    ParsedObject,
    Point,
)

from .pipeline_model import FORM, Knows, model, query, response


def filled(size: tuple[int, int], *boxes: Sequence[int]) -> Rle:
    mask = np.zeros((size[1], size[0]), dtype=bool)
    for left, top, right, bottom in boxes:
        mask[top:bottom, left:right] = True
    return Rle.from_array(mask)


def test_it_is_a_reader_of_responses():
    assert isinstance(model(), ResponseReader)


def test_boxes_are_scaled_from_the_canvas_to_the_image():
    (output,) = model(response([84, 84, 168, 420])).predict([query(FORM.BOXES)])
    assert output.answer.boxes == (Box(42, 21, 84, 105),)
    assert output.answer.box_scores is None


def test_a_canvas_other_than_asked_for_is_the_one_that_counts():
    (output,) = model(response([84, 84, 168, 420]), size=(420, 420)).predict([query(FORM.BOXES)])
    assert output.answer.boxes == (Box(84, 42, 168, 210),)


def test_normalized_numbers_are_of_each_side():
    output = model(coordinates="normalized_1000").read(
        query(FORM.BOXES), [response([100, 100, 500, 1000])]
    )
    assert output.answer.boxes == (Box(42, 21, 210, 210),)


@pytest.mark.parametrize(
    ("coordinates", "numbers"),
    [
        ("pixels", (84, 84, 420, 840)),
        ("pixels_yx", (84, 84, 840, 420)),
        ("normalized_1", (0.1, 0.1, 0.5, 1)),
        ("normalized_1_yx", (0.1, 0.1, 1, 0.5)),
        ("normalized_100", (10, 10, 50, 100)),
        ("normalized_1000_yx", (100, 100, 1000, 500)),
        ("normalized_1024", (102, 102, 512, 1024)),
        ("normalized_1024_yx", (102, 102, 1024, 512)),
    ],
)
def test_numbers_mean_what_is_declared_both_ways(coordinates, numbers):
    box = Box(42, 21, 210, 210)
    output = json.dumps([{"bbox_2d": numbers, "label": "target"}])
    for made in (model(coordinates=coordinates), replace(model(), coordinates=coordinates)):
        made = replace(made, prompt=Locate())
        assert made.read(query(FORM.BOXES), [output]).answer.boxes == (box,)
        (written,) = made.write(query(FORM.BOXES), Answer(boxes=(box,)))
        assert json.loads(written.strip("`json\n"))[0]["bbox_2d"] == list(numbers)


@dataclass(frozen=True)
class Named:
    """A grammar whose objects are a phrase, and a point with a phrase."""

    name: str = "named"
    resize: tuple[int, int] | None = None

    def render(self, text, *, numbered=()):
        return text

    def parse(self, response):
        return ParseResult(items=(Item(phrase="a dog"), Item(point=Point(84, 84), phrase="a cat")))

    def write(self, items, *, frame=None):
        return ""


def test_the_record_keeps_the_point_and_the_phrase_of_every_object():
    prediction = model(prompt=Named()).read(query(), ["two"])
    (parsed,) = prediction.parsed
    assert parsed.objects == (
        ParsedObject(phrase="a dog"),
        ParsedObject(positive=(Point(42, 21),), phrase="a cat"),
    )
    kept = prediction_from_json(json.loads(json.dumps(prediction_to_json(prediction))))
    assert kept.parsed == prediction.parsed
    shown = "\n".join(lines(*shown_parts(prediction)))
    assert "'a dog'" in shown and "'a cat'" in shown


def test_boxes_are_clipped_to_the_image_and_keep_an_area():
    output = model().read(query(FORM.BOXES), [response([-20, -40, 880, 90], [845, 850, 860, 881])])
    assert output.answer.boxes == (Box(0, 0, 420, 23), Box(419, 209, 420, 210))
    assert output.parsed[0].outside == 11


@pytest.mark.parametrize(
    "box", [[0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1], [10, 20, 900, 40], [10, -60, 30, 40]]
)
def test_boxes_of_another_scale_are_a_failure(box):
    output = model().read(query(FORM.BOXES), [response([84, 84, 168, 168], box)])
    assert output.answer is None and output.failure.kind == "parse"


def test_masks_of_several_objects_are_joined():
    output = model().read(query(), [response([0, 0, 84, 84], [168, 168, 336, 336])])
    assert output.answer.masks == (filled((420, 210), (0, 0, 42, 21), (84, 42, 168, 84)),)
    assert len(output.answer.boxes) == 2


@pytest.mark.parametrize(
    ("form", "frames", "expected"),
    [
        (FORM.MASK, 1, {"masks": (Rle.empty(210, 420),), "boxes": ()}),
        (FORM.MASK_TRACK, 3, {"masks": (Rle.empty(210, 420),) * 3}),
        (FORM.BOXES, 1, {"boxes": ()}),
        (FORM.BOX_TRACK, 2, {"box_track": (None, None)}),
        (FORM.POINTS, 1, {"points": (), "boxes": ()}),
        (FORM.COUNT, 1, {"count": 0, "boxes": ()}),
    ],
)
def test_an_empty_list_is_no_target_in_every_form(form, frames, expected):
    output = model().read(query(form, frames=frames), [response()])
    assert output.answer == Answer(no_target=True, **expected)


def test_a_count_is_the_number_of_boxes():
    output = model().read(query(FORM.COUNT), [response(*[[9, 9, 20, 20]] * 5)])
    assert output.answer.count == 5
    assert not output.answer.no_target


def test_a_malformed_response_is_a_parse_failure_that_keeps_the_text():
    (output,) = model("no idea \ud800!", max_new_tokens=9).predict([query()])
    assert output.failure.kind is FailureKind.PARSE
    assert output.responses == ("no idea ?",)
    assert output.notes == ("cut off after 9 tokens",)


def test_usage_is_counted():
    text = response([9, 9, 20, 20]).replace("<think>", "<think>three words here")
    (output,) = model(text).predict([query(FORM.MASK_TRACK, frames=9)])
    usage = output.usage
    assert (usage.completion_tokens, usage.reasoning_tokens) == (len(text), len("three words here"))
    assert usage.prompt_tokens > len("the dog")
    assert usage.frames == 1


def test_repairs_are_noted():
    output = model().read(query(), [response([9, 9, 20, 20]).replace("]}]", "]},]")])
    assert output.answer is not None
    assert output.notes == ("trailing comma",)


@pytest.mark.parametrize(("rule", "frame"), [("first", 0), ("middle", 2)])
def test_of_a_video_the_key_frame_is_shown_and_marked(rule, frame):
    ground_truth = tuple(filled((420, 210), (index, 0, index + 9, 9)) for index in range(5))
    requested = query(FORM.MASK_TRACK, frames=5)
    made = model(keyframe=rule, propagator=Knows(ground_truth), segmenter=Knows(ground_truth))
    (request,) = made.requests(requested)
    assert request.frames == ((frame,),)
    assert request.resize == (840, 840)
    output = made.read(requested, made.write(requested, Answer(masks=ground_truth)))
    assert output.answer.masks == ground_truth


def test_a_track_that_is_empty_in_the_key_frame_names_the_frame_where_it_is_largest():
    empty = Rle.empty(210, 420)
    ground_truth = (
        empty,
        filled((420, 210), (5, 5, 9, 9)),
        empty,
        filled((420, 210), (5, 5, 90, 90)),
    )
    requested = query(FORM.MASK_TRACK, frames=4)
    made = model(propagator=Knows(ground_truth), segmenter=Knows(ground_truth))
    (text,) = made.write(requested, Answer(masks=ground_truth))
    assert text.startswith("<frame>3</frame><think>")
    assert made.read(requested, [text]).answer.masks == ground_truth
    (text,) = made.write(requested, Answer(masks=(empty,) * 4))
    assert "<frame>" not in text
    assert made.read(requested, [text]).answer.no_target


def test_where_the_frame_must_be_named_the_numbers_are_shown_and_it_is_missed():
    requested = query(FORM.MASK_TRACK, frames=30)
    made = model(keyframe="named", frames=4)
    (request,) = made.requests(requested)
    assert request.frames == ((0, 10, 19, 29),)
    assert "0, 10, 19, 29" in request.text
    assert request.text.endswith(VisionReasoner().render("the dog"))
    assert "<frame>" in made.read(requested, [response([9, 9, 20, 20])]).failure.message
    assert made.read(requested, [response([9, 9, 20, 20], frame=29)]).answer is not None
    assert made.read(requested, [response([9, 9, 20, 20], frame=30)]).failure is not None
    assert made.read(requested, [response()]).answer.no_target


def test_a_box_track_is_the_extent_of_the_masks():
    output = model().read(query(FORM.BOX_TRACK, frames=2), [response([84, 84, 168, 420])])
    assert output.answer.box_track == (Box(42, 21, 84, 105),) * 2


def test_a_product_is_asked_form_by_form_and_answered_as_far_as_it_can_be_read():
    requested = query((FORM.TEXT, FORM.INTERVAL, FORM.BOXES), frames=3)
    ground_truth = Answer(text="a dog", interval=Interval(1.0, 2.5), boxes=(Box(42, 21, 84, 105),))
    made = model("a dog", "in the morning", response([84, 84, 168, 420]))
    texts = made.write(requested, ground_truth)
    assert len(made.requests(requested)) == 3
    assert made.read(requested, texts).answer == ground_truth
    (output,) = made.predict([requested])
    assert output.answer == replace(ground_truth, interval=None)
    assert output.notes[0].startswith("interval: ")
    assert len({request.key for request in made.chat.requests}) == 3
    assert made.read(requested, texts[:2]).failure.kind is FailureKind.PARSE


@pytest.mark.parametrize("forms", [(FORM.TEXT, FORM.BOXES), (FORM.BOXES, FORM.TEXT)])
def test_a_product_is_no_target_only_if_every_part_says_so(forms):
    texts = [{FORM.TEXT: "a dog", FORM.BOXES: response()}[form] for form in forms]
    assert model().read(query(forms), texts).answer == Answer(text="a dog", boxes=())
    assert model().read(query((FORM.BOXES, FORM.COUNT)), [response()] * 2).answer.no_target


def asked(*responses: str) -> ChatResult:
    return ChatResult(tuple(ChatResponse(text=text) for text in responses))


TWO, NONE = response((20, 20, 60, 60), (80, 20, 120, 60)), response()
ONE = response((20, 20, 60, 60))


@pytest.mark.parametrize(
    ("forms", "responses", "objects"),
    [
        ((FORM.MASK_TRACK,), [TWO], 2),
        ((FORM.BOX_TRACK,), [ONE], 1),
        ((FORM.MASK_TRACK,), [NONE], 0),
        ((FORM.MASK_TRACK,), ["no boxes at all"], 0),
        ((FORM.BOXES,), [TWO], 0),
        ((FORM.BOXES, FORM.MASK_TRACK), [TWO, ONE], 1),
        ((FORM.MASK_TRACK, FORM.BOX_TRACK), [ONE, TWO], 2),
        ((FORM.MASK_TRACK,), ["a turn before", TWO], 2),
        ((FORM.MASK_TRACK,), [], 0),
    ],
    ids=["two", "one", "none", "unread", "unmasked", "of-the-form", "most", "last", "silent"],
)
def test_it_says_beforehand_how_many_objects_masks_are_made_of(forms, responses, objects):
    assert model().objects(query(forms, frames=3), asked(*responses)) == objects


def test_it_says_as_many_objects_as_are_carried_through_the_video():
    carried = []

    class Carries(Propagator):
        name = "carries"

        def propagate(self, video, start, masks):
            carried.append(len(masks))
            return [[mask] * len(video) for mask in masks]

    made = model(propagator=Carries())
    question = query((FORM.MASK_TRACK, FORM.BOX_TRACK), frames=3)
    output = asked(ONE, TWO)
    assert made.begin(question, output)().answer is not None
    assert carried == [1, 2] and made.objects(question, output) == max(carried)


def test_a_form_that_cannot_be_asked_for_ends_the_run():
    with pytest.raises(UsageError, match="box_3d"):
        model().predict([query(FORM.BOX_3D)])


def test_settings_below_one_are_refused():
    with pytest.raises(UsageError, match="frames"):
        model(frames=0)


@dataclass(frozen=True)
class Wrong(Segmenter, Propagator):
    name: str = "wrong"

    def segment(self, image, prompts):
        return [np.zeros((3, 3), dtype=bool)]

    def propagate(self, video, start, masks):
        return [[mask] for mask in masks]


def test_perception_of_another_size_is_an_error_that_names_it():
    with pytest.raises(ModelError, match=r"^segmenter .*1 masks .*210 × 420.*\(3, 3\)"):
        model(segmenter=Wrong()).read(query(), [response([9, 9, 20, 20])])
    with pytest.raises(ModelError, match=r"^propagator .*2 masks .*210 × 420.*found 1"):
        model(propagator=Wrong()).read(query(frames=2), [response([9, 9, 20, 20])])


def test_other_perception_leaves_the_rest_as_it_is():
    made = model()
    other = made.with_perception(Wrong(), Wrong())
    assert other.segmenter.name == "wrong"
    assert replace(other, segmenter=made.segmenter, propagator=made.propagator) == made


def test_the_record_says_everything():
    output = model().describe()
    assert output["prompt_text"].startswith('Please find "question"')
    assert output["words_text"].keys() == model().words.forms
    assert "QUESTION" in output["words_text"]["text"] and "OPTION" in output["words_text"]["choice"]
    assert (output["segmenter"], output["propagator"]) == ({"name": "box"}, {"name": "still"})
    assert output["keyframe"] == "middle"
