"""The tables "malformed responses" of the cards of models/*/README.md, row by row."""

import json
from pathlib import Path

import pytest

from harness import plugins
from harness.spec import parse
from harness.types import AnswerForm, FailureKind

ADAPTERS = (
    "video_r1",
    "videochat_r1",
    "spacer",
    "video_str",
    "videoseg_r1",
    "dr2seg",
    "seg_zero",
    "visionreasoner",
    "qwen_vl",
)
SPOKEN = ADAPTERS[:4]
CARDS = Path(__file__).parents[2] / "models"

FAILS, NOTHING, NOTED, READ = "fails", "nothing is meant", "read, and noted", "read"
BOX = {"bbox_2d": [10, 20, 110, 120], "point_2d": [30, 40]}
FLAT = {**BOX, "bbox_2d": [10, 20, 10, 120]}
ZERO = {"bbox": [10, 20, 110, 120], "points_1": [30, 40], "points_2": [50, 60]}


def said(value, tag="answer"):
    text = value if isinstance(value, str) else json.dumps(value)
    return f"<think>so</think><{tag}>{text}</{tag}>"


def outcome(ask, spec, form, response, frames=1):
    model = plugins.build("models", parse(spec))
    query = ask(form, frames=frames, options=("the cat", "the dog"))
    prediction = model.read(query, [response])
    if prediction.failure is not None:
        assert prediction.failure.kind is FailureKind.PARSE and prediction.answer is None
        return FAILS, None
    answer = prediction.answer
    if answer.no_target:
        return NOTHING, answer
    repaired = [note for note in prediction.notes if "named in the" not in note]
    return (NOTED if repaired else READ), answer


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_card_says_what_it_is_where_it_is_from_and_how_responses_fail(name):
    card = (CARDS / name / "README.md").read_text()
    assert "- Paper: " in card and "- Weights: " in card
    assert "icence" in card or "Apache-2.0" in card
    assert "alformed" in card and "a failure" in card
    if "Qwen2.5-VL-3B-Instruct" in card or name == "spacer":
        assert "commercial" in card


WORDS = [
    (AnswerForm.CHOICE, "<answer>A</answer><think>A?</think> B", READ, {"choice": "B"}),
    (AnswerForm.CHOICE, "<think>A</think>", FAILS, {}),
    (AnswerForm.CHOICE, "<think>the answer is A", FAILS, {}),
    (AnswerForm.CHOICE, "<think>A?</think> B", READ, {"choice": "B"}),
    (AnswerForm.CHOICE, "The answer is B.", READ, {"choice": "B"}),
    (AnswerForm.CHOICE, said("the dog"), READ, {"choice": "B"}),
    (AnswerForm.CHOICE, said("D"), FAILS, {}),
    (AnswerForm.CHOICE, said("a bird"), FAILS, {}),
    (AnswerForm.CHOICE, "", FAILS, {}),
    (AnswerForm.NUMBER, said("about 3.5 m"), READ, {"number": 3.5}),
    (AnswerForm.NUMBER, said("about 3.5 m, or 4"), FAILS, {}),
    (AnswerForm.NUMBER, said("three"), READ, {"number": 3}),
    (AnswerForm.NUMBER, said("a few"), FAILS, {}),
    (AnswerForm.INTERVAL, said("[4, 2]"), FAILS, {}),
    (AnswerForm.INTERVAL, said("soon"), FAILS, {}),
    (AnswerForm.TEXT, said(""), FAILS, {}),
]


@pytest.mark.parametrize("name", [*SPOKEN, "qwen_vl", "visionreasoner"])
@pytest.mark.parametrize(("form", "response", "expected", "fields"), WORDS)
def test_responses_in_words(ask, name, form, response, expected, fields):
    found, answer = outcome(ask, f"{name}(backend=stored)", form, response)
    assert found == expected
    for field, value in fields.items():
        assert getattr(answer, field) == value


@pytest.mark.parametrize(
    ("name", "letter", "note"),
    [
        *((name, "B", "2 answers: the first counts") for name in SPOKEN),
        ("qwen_vl", "A", "2 answers: the last counts"),
    ],
)
def test_of_several_answers_one_counts_and_a_note_says_which(ask, name, letter, note):
    model = plugins.build("models", parse(f"{name}(backend=stored)"))
    query = ask(AnswerForm.CHOICE, options=("the cat", "the dog"))
    prediction = model.read(query, ["<answer>B</answer><answer>A</answer>"])
    assert prediction.answer.choice == letter and note in prediction.notes


SPOKEN_ROWS = [
    (AnswerForm.BOXES, said("[1, 2, 30, 40,]"), NOTED),
    (AnswerForm.BOXES, said("```json\n[[1, 2, 30, 40]]\n```"), NOTED),
    (AnswerForm.BOXES, said("[[1, 2, 30, 40], [1, 2, 1, 9]]"), FAILS),
    (AnswerForm.BOXES, said("[[1, 2, 30, 40], [1, 2, 3]]"), FAILS),
    (AnswerForm.BOXES, said('["a", 2, 3, 4]'), FAILS),
    (AnswerForm.BOXES, said("[]"), NOTHING),
    (AnswerForm.COUNT, said("[]"), NOTHING),
    (AnswerForm.BOXES, "<frame>9</frame>" + said("[1, 2, 30, 40]"), FAILS),
    (AnswerForm.BOXES, "", FAILS),
    (AnswerForm.BOX_3D, said("[1, 2, 3, 4]"), FAILS),
    (AnswerForm.BOX_3D, said("[1, 2, 3, 4, 5]"), FAILS),
    (AnswerForm.BOX_3D, said("[1, 2, 3]"), READ),
    (AnswerForm.BOX_3D, said("[1, 2, 3, 4, 5, 6, 0.7]"), READ),
    (AnswerForm.INTERVAL, said("1.5 to 4"), READ),
]


@pytest.mark.parametrize("name", SPOKEN)
@pytest.mark.parametrize(("form", "response", "expected"), SPOKEN_ROWS)
def test_responses_of_models_that_answer_in_words_about_places_too(
    ask, name, form, response, expected
):
    assert outcome(ask, f"{name}(backend=stored)", form, response)[0] == expected


@pytest.mark.parametrize(("name", "tag"), [("video_str", "graph"), ("spacer", "map")])
@pytest.mark.parametrize("drawn", ["{'chair': 1}", "no", "{"])
def test_a_graph_or_map_that_cannot_be_read_costs_no_answer(ask, name, tag, drawn):
    for response in (
        f"<think>A</think><{tag}>{drawn}</{tag}><answer>B</answer>",
        f"<think>A</think><{tag}>{drawn}</{tag}> B",
    ):
        found, answer = outcome(ask, f"{name}(backend=stored)", AnswerForm.CHOICE, response)
        assert (found, answer.choice) == (READ, "B")


OBJECTS = [
    (json.dumps([BOX]), FAILS),
    ("<think>so</think><answer>" + json.dumps([BOX]), FAILS),
    ("<answer>" + json.dumps([BOX]) + "</answer>", READ),
    ("<think>so<answer>" + json.dumps([BOX]) + "</answer>", READ),
    (said([BOX]) + said([]), NOTHING),
    (said([BOX]) + "<answer>[]</answer>", NOTED),
    (said(str([BOX])), NOTED),
    (said("```json\n" + json.dumps([BOX]) + "\n```"), NOTED),
    (said([BOX, {"point_2d": [1, 2]}]), FAILS),
    (said([BOX, {**BOX, "bbox_2d": [1, 2, "3", 4]}]), FAILS),
    (said([BOX, FLAT]), FAILS),
    (said([{**BOX, "bbox_2d": [110, 20, 10, 120]}]), FAILS),
    (said([BOX] * 121), NOTED),
    (said([{**BOX, "bbox_2d": [10, 20, 860, 120]}]), READ),
    (said([{**BOX, "bbox_2d": [10, 20, 9999, 120]}]), FAILS),
    (said('[{"bbox_2d": [1, 2, 3, 4], "bbox_2d": [1, 2, 3, 4], "point_2d": [1, 2]}]'), FAILS),
    (said([]), NOTHING),
    ("<frame>9</frame>" + said([BOX]), FAILS),
]


@pytest.mark.parametrize("name", ["visionreasoner", "qwen_vl", "dr2seg"])
@pytest.mark.parametrize(("response", "expected"), OBJECTS)
def test_lists_of_objects_with_boxes_and_points(ask, name, response, expected):
    assert outcome(ask, f"{name}(backend=stored)", AnswerForm.BOXES, response)[0] == expected


def test_a_point_is_needed_but_by_those_that_say_otherwise(ask):
    bare = said([{"bbox_2d": BOX["bbox_2d"]}])
    assert outcome(ask, "visionreasoner(backend=stored)", AnswerForm.BOXES, bare)[0] == FAILS
    assert outcome(ask, "videoseg_r1(backend=stored)", AnswerForm.BOXES, bare)[0] == NOTED


@pytest.mark.parametrize("name", ["visionreasoner", "seg_zero", "qwen_vl"])
def test_a_frame_is_named_where_it_has_to_be(ask, name):
    response = said(ZERO) if name == "seg_zero" else said([BOX])
    spec = f"{name}(backend=stored,keyframe=named)"
    assert outcome(ask, spec, AnswerForm.BOXES, response, frames=3)[0] == FAILS
    assert outcome(ask, spec, AnswerForm.BOXES, f"<frame>2</frame>{response}", frames=3)[0] == READ
    assert outcome(ask, spec, AnswerForm.BOXES, f"<frame>3</frame>{response}", frames=3)[0] == FAILS


LOCATE = [
    ("It is [1, 2, 3", FAILS),
    ("nothing", FAILS),
    ("[1] so ```json\n" + json.dumps([{"bbox_2d": [10, 20, 80, 60]}]) + "\n```", NOTED),
    ("Here: " + json.dumps([{"bbox": [1, 2, 30, 40], "label": 7}]) + ".", READ),
    ("[maybe] " + json.dumps([BOX]), FAILS),
    (json.dumps([{"label": "dog"}]), FAILS),
    (json.dumps([BOX, FLAT]), FAILS),
    ("[]", NOTHING),
]


@pytest.mark.parametrize(("response", "expected"), LOCATE)
def test_qwens_own_grounding(ask, response, expected):
    found, _ = outcome(ask, "qwen_vl(backend=stored,prompt=locate)", AnswerForm.BOXES, response)
    assert (found in (READ, NOTED)) == (expected in (READ, NOTED))
    assert found == expected or expected == NOTED


ONE = [
    ("no", FAILS, FAILS),
    ("{}", FAILS, FAILS),
    (said(ZERO) + json.dumps({"bbox": 1}), NOTED, NOTED),
    (said(ZERO) + said({"bbox": 1}), FAILS, FAILS),
    (f"<think>{{1}}</think><answer>{json.dumps(ZERO)}</answer>", READ, READ),
    (json.dumps(ZERO), READ, READ),
    (said(str(ZERO)), NOTED, FAILS),
    (said({"BBox_2d": [1, 2, 30, 40], "Points_a": [3, 4], "points_b": [5, 6]}), READ, FAILS),
    (said({**ZERO, "label": "dog"}), READ, READ),
    (said({**ZERO, "points_1": [1]}), FAILS, FAILS),
    (said({**ZERO, "bbox": [1, 2, 1, 4]}), FAILS, FAILS),
    (said({**ZERO, "at": {"x": 1}}), FAILS, FAILS),
    (said({**ZERO, "bbox": [10, 20, 860, 120]}), READ, READ),
    (said({**ZERO, "bbox": [10, 20, 9999, 120]}), FAILS, FAILS),
    (said([ZERO, ZERO]), NOTED, NOTED),
    (said([]), FAILS, FAILS),
]


@pytest.mark.parametrize(("response", "soft", "strict"), ONE)
def test_seg_zeros_one_object(ask, response, soft, strict):
    for semantics, expected in (("soft", soft), ("strict", strict)):
        spec = f"seg_zero(backend=stored,semantics={semantics})"
        assert outcome(ask, spec, AnswerForm.BOXES, response)[0] == expected


PHRASE = "<target_desc>the dog</target_desc>"


def described(value):
    return said(value).replace("<answer>", f"{PHRASE}<answer>")


SAM3 = [
    (said([BOX]), AnswerForm.BOXES, READ),
    (described([BOX, {}]), AnswerForm.BOXES, NOTED),
    (described([BOX, FLAT]), AnswerForm.BOXES, NOTED),
    (said([BOX, FLAT]), AnswerForm.BOXES, NOTED),
    (said([FLAT]), AnswerForm.BOXES, FAILS),
    ("no", AnswerForm.BOXES, FAILS),
    (PHRASE + "no", AnswerForm.BOXES, FAILS),
    (described([]), AnswerForm.BOXES, FAILS),
    (said([]), AnswerForm.BOXES, NOTHING),
    (PHRASE + "no", AnswerForm.MASK, NOTED),
    (described([]), AnswerForm.MASK, NOTED),
    (described([BOX] * 121), AnswerForm.BOXES, NOTED),
]


@pytest.mark.parametrize(("response", "form", "expected"), SAM3)
def test_dr2segs_other_form(ask, response, form, expected):
    spec = "dr2seg(backend=stored,form=sam3,segmenter=box)"
    if form is AnswerForm.MASK:
        from harness.models.dr2seg.grammar import parse as read

        assert (read(response, form="sam3").ok, bool(read(response, form="sam3").notes)) == (
            True,
            True,
        )
        return
    assert outcome(ask, spec, form, response)[0] == expected


POINTED = {"bbox_2d": BOX["bbox_2d"], "point_pos": [30, 40, 1], "point_neg": [5, 6, 0]}
VIDEOSEG = [
    (said([POINTED]), READ),
    (said([{**POINTED, "point_neg": [5, 6, 1]}]), NOTED),
    (said([{**POINTED, "point_pos": [30, 40]}]), NOTED),
    (said([{**POINTED, "point_pos": [30]}]), FAILS),
    (said([{**POINTED, "point_pos": ["a", 2]}]), FAILS),
    (said([BOX]), NOTED),
    (said([POINTED, FLAT]), FAILS),
    (said([POINTED] * 121), NOTED),
    (said(str([POINTED])), NOTED),
    (json.dumps([POINTED]), FAILS),
    (said([]), NOTHING),
]


@pytest.mark.parametrize(("response", "expected"), VIDEOSEG)
def test_videoseg_r1s_points(ask, response, expected):
    assert outcome(ask, "videoseg_r1(backend=stored)", AnswerForm.BOXES, response)[0] == expected
