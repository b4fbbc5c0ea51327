"""Families of VLMs: what each writes, and a tiny random network of each real class."""

import runpy
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness import media, plugins  # noqa: E402
from harness.chat import ChatRequest  # noqa: E402
from harness.errors import UsageError  # noqa: E402
from harness.models.backends.inputs import chat_text  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.backends.transformers import transformers  # noqa: E402
from harness.models.grammar import Item  # noqa: E402
from harness.models.vlm.dialect import dialect, names  # noqa: E402
from harness.models.vlm.model import vlm  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.types import AnswerForm, Box, FailureKind, Point, Query  # noqa: E402

ensure_torchvision()

FOUND = runpy.run_path(str(Path(__file__).parent / "vlm_networks.py"))
NETWORKS = ("internvl3_5", "glm_v", "gemma", "llava_onevision", "molmo2", "paligemma2")
"""Dialects whose real class transformers has."""


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """Makes the checkpoint of a dialect, once."""
    made = {}

    def of(name):
        if name not in made:
            made[name] = FOUND["tiny_network"](name, tmp_path_factory.mktemp("vlm") / name)
        return made[name]

    return of


def image(width, height):
    pixels = np.random.default_rng(width).integers(0, 255, (height, width, 3), np.uint8)
    return media.pixels([pixels], id=f"{width}x{height}", times=[0.0], is_video=False)


@pytest.mark.parametrize(
    ("name", "response", "items"),
    [
        ("internvl3_5", "<ref>a cat</ref><box>[[1, 2, 30, 40]]</box>", [Box(1, 2, 30, 40)]),
        (
            "internvl3_5",
            "It is at [1,2,30.5,40] and [5, 6, 7, 8].",
            [Box(1, 2, 30.5, 40), Box(5, 6, 7, 8)],
        ),
        ("glm_v", "<think>[9, 9, 99, 99]?</think>1. Cat: box [1, 2, 30, 40]", [Box(1, 2, 30, 40)]),
        ("glm_v", "<|begin_of_box|>[]<|end_of_box|>", []),
        (
            "gemma",
            '```json\n[{"box_2d": [2, 1, 40, 30], "label": "cat"}]\n```',
            [Box(2, 1, 40, 30)],
        ),
        ("gemma", "[]", []),
        (
            "gemma",
            '```json\n[{"point": [415, 632], "label": "a"}, {"point": [2, 0], "label": "b"}]\n```',
            [Point(415, 632), Point(2, 0)],
        ),
        ("llava_onevision", "[0.1, 0.25, 0.5, 1]", [Box(0.1, 0.25, 0.5, 1)]),
        (
            "molmo2",
            '<points coords="1 1 090 400 2 911 800">cats</points>',
            [Point(90, 400), Point(911, 800)],
        ),
        (
            "molmo2",
            'Counting the <points coords="0.5 7 090 400">x</points> shows 1.',
            [Point(90, 400)],
        ),
        ("molmo2", "There are none.", []),
        ("paligemma2", "<loc0002><loc0001><loc0040><loc0030> cat", [Box(2, 1, 40, 30)]),
        (
            "rex_omni",
            "<|object_ref_start|>a<|object_ref_end|><|box_start|><1><2><3><4>, <5><6><7><8>",
            [Box(1, 2, 3, 4), Box(5, 6, 7, 8)],
        ),
        ("rex_omni", "cat<1><2><30><40>,<5><6><7><8>", [Box(1, 2, 30, 40), Box(5, 6, 7, 8)]),
    ],
)
def test_what_a_family_writes_is_read(name, response, items):
    found = dialect(name).parse(response)
    assert found.error is None
    assert [one.box or one.point for one in found.items] == items


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(
    "response", ["", "I cannot see it.", "[1, 2, 3]", "<loc0001>", "[4, 4, 4, 4]"]
)
def test_what_no_family_writes_is_a_failure(name, response):
    assert dialect(name).parse(response).error is not None


@pytest.mark.parametrize(
    "response",
    [
        '[{"box_2d": [2, 1, 40, 30], "label": "a"}, {"point": [2, 1], "label": "b"}]',
        '[{"point": [2, 1, 40], "label": "a"}]',
        '[{"point": [[2, 1]], "label": "a"}]',
        '[{"point_2d": [2, 1], "label": "a"}]',
    ],
)
def test_points_of_gemini_beside_other_places_are_a_failure(response):
    assert dialect("gemma").parse(response).error is not None


def test_points_of_gemini_have_y_first():
    model = plugins.build("models", parse("vlm(dialect=gemma,backend=stored,segmenter=box)"))
    query = Query(id="q", text="the cup", media=(image(200, 100),), forms=(AnswerForm.POINTS,))
    output = model.read(query, ['[{"point": [250, 500], "label": "cup"}]'])
    assert output.answer.points == (Point(100, 25),)


@pytest.mark.parametrize("name", names())
@given(
    st.lists(
        st.tuples(*[st.integers(0, 499)] * 2, *[st.integers(500, 999)] * 2), min_size=1, max_size=5
    )
)
def test_what_is_written_is_read_back(name, boxes):
    own = dialect(name)
    items = [Item(box=Box(*one), point=Point(one[0], one[3]), phrase="a cat") for one in boxes]
    found = own.parse(own.write(items, frame=3))
    assert found.frame == 3 and found.error is None
    for one, other in zip(found.items, items, strict=True):
        assert one.box == other.box if one.box else one.point == other.point


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(
    "part", ["[1,", "<loc0001>", '<points coords="', '"box_2d": [', "<1>", " 1 ", "<box>"]
)
def test_reading_takes_time_linear_in_the_length(name, part):
    started = time.process_time()
    dialect(name).parse(part * 20_000)
    assert time.process_time() - started < 2


@pytest.mark.parametrize("name", names())
def test_reasoning_that_was_cut_off_is_no_answer(name):
    own = dialect(name)
    inside = own.write([Item(box=Box(1, 2, 30, 40), point=Point(2, 3), phrase="cat")])
    assert own.parse(f"<think>maybe {inside}").error is not None


def test_a_mark_within_a_mark_is_none():
    assert dialect("internvl3_5").render("<re<ref>f>dog").count("<ref>") == 1


def test_a_question_cannot_write_the_marks_of_its_request(checkpoint):
    model = vlm(dialect="internvl3_5", checkpoint=str(checkpoint("internvl3_5")))
    text = model.prompt.render("the </ref> cat <img>")
    assert text.endswith("<ref>the  cat <img></ref>")
    request = ChatRequest(key="a", text=text, marks=model.marks, media=(image(60, 60),))
    words = model.chat.processor.tokenizer
    words.add_special_tokens({"additional_special_tokens": ["<ref>", "</ref>"]})
    assert chat_text(model.chat.processor, request).count("<ref>") == 1
    assert "<img>" not in chat_text(model.chat.processor, request)


def test_an_unknown_family_is_refused_with_those_that_are_known():
    with pytest.raises(UsageError, match=r"molmo2.*paligemma2"):
        vlm(dialect="gpt")


def test_the_numbers_are_those_of_the_dialect_whatever_the_architecture(tiny_qwen):
    """Rex-Omni's is Qwen2.5-VL's, whose numbers are pixels."""
    model = vlm(dialect="rex_omni", checkpoint=str(tiny_qwen))
    assert model.chat.coordinates == model.coordinates == "normalized_999"


@pytest.mark.parametrize("name", NETWORKS)
def test_a_batch_says_what_each_request_says_alone(name, checkpoint):
    chat = transformers(
        checkpoint=str(checkpoint(name)), coordinates=dialect(name).coordinates, dtype="float32"
    )
    requests = [
        ChatRequest(key="a", text="where?", media=(image(120, 90),), max_new_tokens=6),
        ChatRequest(key="b", text="a longer question", media=(image(64, 64),), max_new_tokens=6),
    ]
    assert chat.generate(requests) == [chat.generate([one])[0] for one in requests]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_the_real_class_is_asked_and_read(name, checkpoint, ask):
    spec = f"vlm(dialect={name},checkpoint={checkpoint(name)},max_new_tokens=8)"
    model = plugins.build("models", parse(spec))
    queries = [ask(form, name=form) for form in (AnswerForm.MASK, AnswerForm.BOXES)]
    queries.append(ask(AnswerForm.MASK_TRACK, frames=4, name="track"))
    for query, found in zip(queries, model.predict(queries), strict=True):
        assert found.query_id == query.id and len(found.responses) == 1
        assert found.answer is not None or found.failure.kind is FailureKind.PARSE
        assert model.read(query, found.responses).answer == found.answer


def test_a_mask_that_the_model_writes_itself_is_not_replaced_by_that_of_a_segmenter():
    model = plugins.build("models", parse("vlm(dialect=gemma,backend=stored,segmenter=box)"))
    box = '"box_2d": [100, 200, 500, 600]'
    for form, is_read in ((AnswerForm.MASK, False), (AnswerForm.BOXES, True)):
        query = Query(id="q", text="the dog", media=(image(100, 50),), forms=(form,))
        assert model.read(query, [f"[{{{box}}}]"]).failure is None
        empty = model.read(query, [f'[{{{box}, "mask": []}}]'])
        assert empty.failure is None
        own = f'[{{{box}, "mask": "data:image/png;base64,iVBOR", "label": "dog"}}]'
        read = model.read(query, [own])
        assert (read.failure is None) is is_read
        assert is_read or "a mask of the model's own" in read.failure.message
