"""Laws of a prompted model: canvases, boxes, masks and responses written and read back."""

import typing

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.coordinates import Coordinates
from harness.errors import ParseError
from harness.masks import Rle
from harness.models.canvas import Canvas
from harness.models.grammar import MAX_OBJECTS, Item
from harness.models.qwen_vl.locate import Locate
from harness.models.response_writer import parts
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.types import (
    Answer,
    Box,
    Call,
    Point,
    Request,
    Shown,
)

from .pipeline_model import FORM, Knows, model, query, response

sides = st.integers(1, 4000)


@st.composite
def boxes_in(draw, size):
    left, top = draw(st.integers(0, size[0] - 1)), draw(st.integers(0, size[1] - 1))
    right, bottom = draw(st.integers(left + 1, size[0])), draw(st.integers(top + 1, size[1]))
    point = Point(draw(st.integers(left, right - 1)), draw(st.integers(top, bottom - 1)))
    return Item(Box(left, top, right, bottom), point)


@given(
    st.data(), st.sampled_from(typing.get_args(Coordinates)), st.tuples(*[st.integers(1, 840)] * 2)
)
def test_every_kind_of_numbers_keeps_whole_boxes_of_small_images(data, coordinates, size):
    item = data.draw(boxes_in(size))
    rule = Canvas.for_image(coordinates, size, lambda: (840, 840))
    assert rule.to_image(rule.to_canvas(item)) == item
    assert rule.to_image(item._replace(box=None)).box is None


@given(st.data(), st.tuples(sides, sides), st.sampled_from([(840, 840), (1000, 1000), (112, 84)]))
def test_going_to_the_canvas_and_back_stays_within_a_canvas_pixel(data, size, canvas):
    item = data.draw(boxes_in(size))
    rule = Canvas(canvas, size)
    there = rule.to_canvas(item)
    back = rule.to_image(there)
    steps = [size[0] / canvas[0], size[1] / canvas[1]] * 2
    for old, new, step, side in zip(item.box, back.box, steps, size * 2, strict=True):
        assert abs(old - new) <= step + 0.5
        if step <= 1:
            assert old == new
        assert 0 <= new <= side
    for old, new, step in zip(item.point, back.point, steps, strict=False):
        assert abs(old - new) <= step + 0.5
    assert back.box.left < back.box.right
    assert back.box.top < back.box.bottom
    assert all(float(number).is_integer() for number in (*there.box, *there.point))


@given(
    st.tuples(*[st.floats(-1e9, 1e9)] * 6),
    st.tuples(sides, sides),
    st.sampled_from([(840, 840), (1000, 1000)]),
)
def test_any_numbers_of_a_response_become_a_box_inside_the_image(numbers, size, canvas):
    box, point, *_ = Canvas(canvas, size).to_image(Item(Box(*numbers[:4]), Point(*numbers[4:])))
    assert 0 <= box.left < box.right <= size[0]
    assert 0 <= box.top < box.bottom <= size[1]
    assert 0 <= point.x < size[0]
    assert 0 <= point.y < size[1]


@st.composite
def speckled(draw):
    width, height = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    seed, share = draw(st.integers(0, 999)), draw(st.sampled_from([0.0, 0.05, 0.3, 1.0]))
    return np.random.default_rng(seed).random((height, width)) < share


@settings(max_examples=60, deadline=None)
@given(speckled(), st.sampled_from([VisionReasoner(), Locate()]), st.booleans())
def test_a_mask_that_is_written_and_read_with_perfect_perception_is_the_same(array, prompt, norm):
    ground_truth = Rle.from_array(array)
    requested = query(size=ground_truth.size)
    made = model(
        prompt=prompt,
        segmenter=Knows((ground_truth,)),
        coordinates="normalized_1000" if norm else "pixels",
    )
    if len(parts(ground_truth)) == MAX_OBJECTS:
        return
    output = made.read(requested, made.write(requested, Answer(masks=(ground_truth,))))
    assert output.failure is None
    assert output.answer.masks == (ground_truth,)
    assert output.answer.no_target == (ground_truth.area == 0)


@given(st.data(), st.tuples(st.integers(1, 840), st.integers(1, 840)), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_boxes_and_counts_that_are_written_are_read_back(data, size, count):
    chosen = tuple(data.draw(boxes_in(size)).box for _ in range(count))
    requested = query((FORM.BOXES, FORM.COUNT), size=size)
    made = model()
    for ground_truth in (Answer(boxes=chosen, count=count), Answer(boxes=chosen)):
        responses = made.write(requested, ground_truth)
        assume("[0, 0, 1, 1]" not in "".join(responses))  # may be the whole image
        output = made.read(requested, responses).answer
        assert output.count == count
        assert output.boxes == chosen
    assert made.read(requested, made.write(requested, Answer(no_target=True))).answer.no_target


def test_points_that_are_written_are_read_back_to_a_canvas_pixel():
    requested = query(FORM.POINTS)
    ground_truth = Answer(points=(Point(0, 0), Point(419, 209), Point(33.4, 70.6)))
    output = model().read(requested, model().write(requested, ground_truth)).answer
    assert output.points == (Point(0, 0), Point(419, 209), Point(34, 71))


@settings(max_examples=60, deadline=None)
@given(st.text(), st.sampled_from([form for form in FORM if form is not FORM.BOX_3D]))
def test_any_response_becomes_a_prediction_with_its_text(text, form):
    requested = query(form, size=(30, 20), frames=2, options=("yes", "no"))
    for output in (text, f"<answer>{text}</answer>", response([3, 3, 9, 9]) + text):
        prediction = model().read(requested, [output])
        assert len(prediction.responses) == 1
        assert model().read(requested, prediction.responses) == prediction


def test_more_than_a_response_holds_cannot_be_written():
    with pytest.raises(ParseError, match="120"):
        model().write(query(FORM.COUNT), Answer(count=10**9))


def test_the_point_of_a_part_is_the_centre_of_its_largest_inscribed_circle():
    ring = np.zeros((60, 60), dtype=bool)
    ring[5:55, 5:55] = True
    ring[15:55, 15:45] = False  # a gate: its middle is not in it
    ring[5:25, 5:25] = True
    (part,) = parts(Rle.from_array(ring))
    assert part.box == Box(5, 5, 55, 55)
    assert abs(part.point.x - 14.5) <= 1
    assert abs(part.point.y - 14.5) <= 1


def test_pixels_are_of_the_canvas_that_the_record_has():
    text = response([84, 84, 168, 420])
    shown = Shown(frames=(0,), canvas=(1680, 1680))
    calls = [Call(request=Request(text="?", shown=(shown,)), response=text)]
    (here,) = model().read(query(FORM.BOXES), [text]).answer.boxes
    (there,) = model().read(query(FORM.BOXES), [text], calls).answer.boxes
    assert tuple(there) == pytest.approx(tuple(edge / 2 for edge in here), abs=0.5) != tuple(here)


@pytest.mark.parametrize("forms", [(FORM.BOXES,), (FORM.TEXT, FORM.COUNT)])
def test_a_prediction_says_what_was_parsed_form_by_form(forms):
    texts = ["a dog" if form is FORM.TEXT else response([84, 84, 168, 420]) for form in forms]
    output = model().read(query(forms), texts)
    assert [one.form for one in output.parsed] == list(forms)
    (one,) = output.parsed[-1].objects
    assert (one.box,) == output.answer.boxes and output.parsed[-1].frame is None


def test_what_could_not_be_parsed_has_its_reason_in_the_record():
    output = model().read(query((FORM.BOXES, FORM.COUNT)), [response(), "I see nothing"])
    first, second = output.parsed
    assert first.error == "" and second.error and second.error in "; ".join(output.notes)
