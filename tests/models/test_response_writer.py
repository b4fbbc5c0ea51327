"""Objects of the ground truth: instances where known, else connected parts; both without specks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.masks import Rle
from harness.models.grammar import MAX_OBJECTS, Item
from harness.models.response_writer import objects_in, objects_of, parts, training_answer
from harness.types import Answer, AnswerForm, Box, Point

SIZE = (60, 40)  # width, height


def area(*boxes):
    array = np.zeros(SIZE[::-1], bool)
    for left, top, right, bottom in boxes:
        array[top:bottom, left:right] = True
    return Rle.from_array(array)


def meant(*instances):
    """The ground truth of objects, each a list of one mask a frame."""
    frames = zip(*instances, strict=True)
    masks = tuple(first.union(*others) for first, *others in frames)
    return Answer(masks=masks, instances=tuple(map(tuple, instances)))


def found(answer, frame=0, form=AnswerForm.MASK_TRACK):
    return objects_of(form, answer, frame, SIZE)


SMALL, LARGE = (0, 0, 5, 11), (20, 0, 31, 11)
NOTHING = area()


def test_what_something_hides_in_its_middle_is_one_object():
    dog = area(SMALL, LARGE)
    assert found(meant([dog])) == [Item(Box(0, 0, 31, 11), Point(25, 5))]
    assert found(meant([dog]), form=AnswerForm.MASK) == found(meant([dog]))
    assert len(found(Answer(masks=(dog,)))) == 2, "nothing tells that it is one"


def test_two_that_touch_are_two_the_larger_first():
    one, two = area((0, 0, 11, 11)), area((11, 0, 31, 11))
    boxes = [item.box for item in found(meant([one], [two]))]
    assert boxes == [Box(11, 0, 31, 11), Box(0, 0, 11, 11)]
    assert [item.box for item in found(Answer(masks=(one.union(two),)))] == [Box(0, 0, 31, 11)]


def test_an_instance_that_a_frame_does_not_show_is_none_of_its_objects():
    answer = meant([area(SMALL), NOTHING, NOTHING], [area(LARGE), area(LARGE), NOTHING])
    assert [len(found(answer, frame)) for frame in range(3)] == [2, 1, 0]
    assert found(answer, 1)[0].box == Box(*LARGE)
    assert found(Answer(masks=(NOTHING,), instances=())) == []


def test_there_are_at_most_as_many_as_a_grammar_holds():
    dots = [[area((x, y, x + 1, y + 1))] for x in range(0, 60, 4) for y in range(0, 40, 4)]
    assert len(dots) > MAX_OBJECTS == len(found(meant(*dots)))


def test_parts_without_a_limit_begin_with_the_largest():
    mask = area(SMALL, LARGE, (40, 20, 42, 22))
    assert parts(mask, limit=1) == parts(mask)[:1] == [Item(Box(*LARGE), Point(25, 5))]


def test_specks_of_an_instance_do_not_widen_its_box():
    body, speck = (0, 0, 30, 30), (50, 35, 52, 36)
    answer = meant([area(body, speck)], [area((35, 0, 40, 5))])
    assert found(answer)[0].box == Box(0, 0, 52, 36), "what is written is all of it"
    clean = training_answer(answer, [0])
    assert [item.box for item in found(clean)] == [Box(*body), Box(35, 0, 40, 5)]
    assert clean.masks == (area(body, (35, 0, 40, 5)),)


def test_a_small_instance_beside_a_large_one_is_no_speck():
    bird, house = (50, 35, 53, 37), (0, 0, 30, 30)
    answer = meant([area(bird)], [area(house)])
    assert training_answer(answer, [0]) == answer
    assert len(found(training_answer(answer, [0]))) == 2
    assert len(found(training_answer(Answer(masks=answer.masks), [0]))) == 1, (
        "it is one of a mask alone"
    )


def test_frames_that_are_not_looked_at_keep_their_specks():
    whole, dirty = area((0, 0, 30, 31)), area((0, 0, 30, 30), (50, 35, 51, 36))
    clean = training_answer(meant([dirty, whole, dirty]), [0])  # and the largest, the second
    assert clean.instances == ((area((0, 0, 30, 30)), whole, dirty),)
    assert clean.masks == clean.instances[0]


@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from([0.0, 0.01, 0.3])), max_size=3))
def test_taught_masks_are_the_union_of_taught_instances(drawn):
    instances = []
    for seed, share in drawn:
        array = np.random.default_rng(seed).random((40, 60)) < share
        array[5:30, seed % 30 : seed % 30 + 20] |= seed % 2 == 0
        instances.append([Rle.from_array(array)])
    answer = meant(*instances) if instances else Answer(masks=(NOTHING,), instances=())
    clean = training_answer(answer, [0])
    assert clean.masks is not None and clean.instances is not None
    union = NOTHING.union(*(track[0] for track in clean.instances))
    assert (clean.masks[0].to_array() == union.to_array()).all()
    seen = [track[0].area > 0 for track in answer.instances or ()]
    assert [track[0].area > 0 for track in clean.instances] == seen
    assert len(objects_in(clean, 0)) == sum(seen)
