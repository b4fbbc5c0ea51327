"""Protocols on cases worked by hand: overlaps, no target, several boxes, failures."""

import numpy as np
import pytest

from harness.errors import DataError
from harness.masks import Rle
from harness.tasks.coco_detection.task import PROTOCOLS as COCO
from harness.tasks.grefcoco.task import PROTOCOLS as GREFCOCO
from harness.tasks.refcoco.task import PROTOCOLS as REFCOCO
from harness.types import Answer, AnswerForm, Box, Sample, Target

SIZE = (6, 10)
NOTHING = Rle.empty(*SIZE)


def block(left, right, *, top=1, bottom=3):
    mask = np.zeros(SIZE, bool)
    mask[top:bottom, left:right] = True
    return Rle.from_array(mask)


@pytest.fixture(scope="module")
def asked(query):
    def made(answer, *, form=AnswerForm.MASK, number=0, **extra):
        return Sample(
            id=f"s{number}",
            query=query(number, form, size=SIZE),
            target=Target(answer=answer, extra=extra),
        )

    return made


# gRefCOCO: the four cells of ReLA

TARGET, NONE = Answer(masks=(block(0, 4),)), Answer(masks=(NOTHING,), no_target=True)
MASK, SAID_NONE = Answer(masks=(block(2, 6),)), Answer(masks=(block(2, 6),), no_target=True)


@pytest.mark.parametrize(
    ("ground_truth", "answer", "expected"),
    [
        (NONE, SAID_NONE, {"gIoU": 1.0, "cIoU": None, "N_acc": 1.0, "T_acc": None}),
        (NONE, MASK, {"gIoU": 0.0, "cIoU": 0.0, "N_acc": 0.0, "T_acc": None}),
        (TARGET, SAID_NONE, {"gIoU": 0.0, "cIoU": 0.0, "N_acc": None, "T_acc": 0.0}),
        (TARGET, MASK, {"gIoU": 4 / 12, "cIoU": 4 / 12, "N_acc": None, "T_acc": 1.0}),
        (NONE, Answer(masks=(NOTHING,)), {"gIoU": 0.0, "cIoU": None, "N_acc": 0.0}),
        (NONE, Answer(no_target=True), {"gIoU": 1.0, "N_acc": 1.0}),
        (NONE, None, {"gIoU": 0.0, "N_acc": 0.0}),
        (TARGET, None, {"gIoU": 0.0, "cIoU": 0.0, "T_acc": 0.0}),
    ],
)
def test_the_four_cells_of_rela_and_what_is_none_of_them(
    asked, numbers, ground_truth, answer, expected
):
    found = numbers(GREFCOCO["res/rela_pixels"], [(asked(ground_truth), answer)])
    assert {name: found[name] for name in expected} == expected


def test_unions_of_the_four_cells_add_up_as_in_rela(asked, numbers):
    """A mask on nothing adds its 8 pixels; a target that was denied the union of both masks."""
    pairs = [
        (asked(NONE, number=0), MASK),
        (asked(TARGET, number=1), SAID_NONE),
        (asked(TARGET, number=2), TARGET),
        (asked(NONE, number=3), SAID_NONE),
    ]
    found = numbers(GREFCOCO["res/rela_pixels"], pairs)
    assert found["cIoU"] == 8 / (8 + 12 + 8) and found["gIoU"] == 0.5
    assert (found["N_acc"], found["T_acc"], found["Pr@0.7"]) == (0.5, 0.5, 0.5)


def test_visionreasoners_variant_takes_no_box_for_no_target(asked, numbers):
    protocol = GREFCOCO["res/visionreasoner-nonobj"]
    none = asked(Answer(masks=(NOTHING,), boxes=(), no_target=True))
    one = asked(Answer(masks=(block(0, 4),), boxes=(Box(0, 1, 4, 3),)))
    right = numbers(protocol, [(none, Answer(masks=(NOTHING,), boxes=()))])
    assert (right["gIoU"], right["N_acc"], right["bbox_AP"]) == (1.0, 1.0, 1.0)
    boxed = Answer(masks=(block(0, 2),), boxes=(Box(0, 1, 2, 3),))
    wrong = numbers(protocol, [(none, boxed)])
    assert (wrong["gIoU"], wrong["N_acc"], wrong["bbox_AP"]) == (0.0, 0.0, 0.0)
    large = asked(Answer(masks=(block(0, 9, bottom=6),), boxes=()))
    halves = Answer(masks=large.target.answer.masks, boxes=(Box(0, 1, 4, 6), Box(5, 1, 9, 6)))
    assert numbers(protocol, [(large, halves)])["bbox_AP"] == 1.0, "their hull is the box"
    masked = numbers(protocol, [(one, Answer(masks=(block(0, 9, bottom=5),)))])
    assert masked["bbox_AP"] == 0.0, "a mask alone has the box around it"
    assert numbers(protocol, [(large, Answer(masks=large.target.answer.masks))])["bbox_AP"] == 1.0
    empty = numbers(protocol, [(none, Answer(masks=(NOTHING,)))])
    assert (empty["N_acc"], empty["bbox_AP"]) == (1.0, 1.0)
    failed = numbers(protocol, [(none, None), (asked(TARGET, number=1), None)])
    assert failed["gIoU"] == failed["N_acc"] == failed["bbox_AP"] == 0.0


def test_nothing_is_meant_for_visionreasoners_variant_where_the_mask_is_empty(asked, numbers):
    """A target without a pixel, and two objects: both count as their merged masks do."""
    protocol = GREFCOCO["res/visionreasoner-nonobj"]
    hollow = asked(Answer(masks=(NOTHING,), boxes=(Box(0, 1, 4, 3),)))
    right = numbers(protocol, [(hollow, Answer(no_target=True))])
    assert (right["gIoU"], right["N_acc"], right["bbox_AP"]) == (1.0, 1.0, 1.0)
    both = block(0, 3, bottom=5).union(block(6, 10, bottom=5))
    two = asked(Answer(masks=(both,), boxes=(Box(0, 1, 3, 5), Box(6, 1, 10, 5))))
    found = numbers(protocol, [(two, Answer(masks=(both,), boxes=two.target.answer.boxes))])
    assert (found["gIoU"], found["bbox_AP"]) == (1.0, 1.0), "the hull of both is the box"


def test_every_image_weighs_the_same_in_rela_s_evaluation(build, refer_files, numbers, tmp_path):
    """One half of an image of 600 pixels that is found, and of one of 60,000 that is missed."""
    found = {}
    for protocol in ("res/rela", "res/rela_pixels"):
        pairs = []
        for number, scale in enumerate((1, 10)):
            corners = [0, 0, 15 * scale, 0, 15 * scale, 20 * scale, 0, 20 * scale]
            root = refer_files(
                "grefcoco",
                "grefs(unc).json",
                refs=[{"ann_id": [70]}],
                things=[{"segmentation": [list(map(float, corners))]}],
                image={"width": 30 * scale, "height": 20 * scale},
                size=(30 * scale, 20 * scale),
            )
            task = build(f"grefcoco(protocol={protocol})", root)
            (sample,) = task.samples()
            ground_truth = sample.target.answer
            empty = Answer(masks=(Rle.empty(20 * scale, 30 * scale),))
            pairs.append((sample, empty if number else ground_truth))
        found[protocol] = numbers(task.protocol, pairs)["cIoU"]
    assert found == {"res/rela": 0.5, "res/rela_pixels": pytest.approx(1 / 101)}


def test_expressions_of_grefcoco_are_asked_as_they_were_typed(build, refer_files):
    output = {"sent_id": 9, "sent": "the dog", "raw": " The DOG.", "tokens": []}
    root = refer_files(
        "grefcoco", "grefs(unc).json", refs=[{"ann_id": [70], "sentences": [output]}]
    )
    assert [one.query.text for one in build("grefcoco", root).samples()] == [" The DOG."]
    del output["raw"]
    root = refer_files(
        "grefcoco", "grefs(unc).json", refs=[{"ann_id": [70], "sentences": [output]}]
    )
    with pytest.raises(DataError, match="raw"):
        list(build("grefcoco", root).samples())


LEFT, RIGHT = Box(0, 0, 4, 4), Box(6, 0, 10, 4)


@pytest.mark.parametrize(
    ("ground_truth", "answer", "f1_score", "f1"),
    [
        ((LEFT, RIGHT), Answer(boxes=(RIGHT, LEFT)), 1.0, 1.0),
        ((LEFT, RIGHT), Answer(boxes=(LEFT,)), 0.0, 2 / 3),
        ((LEFT,), Answer(boxes=(LEFT, RIGHT)), 0.0, 2 / 3),
        ((LEFT,), Answer(boxes=(LEFT, RIGHT), box_scores=(0.9, 0.5)), 1.0, 1.0),
        ((LEFT,), Answer(no_target=True), 0.0, 0.0),
        ((), Answer(no_target=True), 1.0, 1.0),
        ((), Answer(boxes=()), 1.0, 1.0),
        ((), Answer(boxes=(LEFT,)), 0.0, 0.0),
        ((), Answer(boxes=(LEFT,), box_scores=(0.5,)), 1.0, 1.0),
        ((), None, 0.0, 0.0),
        ((LEFT,), None, 0.0, 0.0),
    ],
)
def test_grec_asks_for_exactly_the_right_boxes(asked, numbers, ground_truth, answer, f1_score, f1):
    sample = asked(Answer(boxes=ground_truth, no_target=not ground_truth), form=AnswerForm.BOXES)
    found = numbers(GREFCOCO["rec/grec"], [(sample, answer)])
    assert (found["F1_score"], found["F1"]) == (f1_score, pytest.approx(f1))
    right = answer is not None and (f1 > 0 or f1_score == 1)
    assert found["T_acc" if ground_truth else "N_acc"] == float(right)
    assert found["N_acc" if ground_truth else "T_acc"] is None


# RefCOCO


@pytest.mark.parametrize(
    ("answer", "accuracy", "iou"),
    [
        (Answer(boxes=(LEFT,)), 1.0, 1.0),
        (Answer(boxes=(Box(0, 0, 4, 2),)), 0.0, 0.5),
        (Answer(boxes=(Box(0, 0, 4, 2.1),)), 1.0, 2.1 / 4),
        (Answer(boxes=(RIGHT, LEFT)), 0.0, 0.0),
        (Answer(boxes=(RIGHT, LEFT), box_scores=(0.1, 0.2)), 1.0, 1.0),
        (Answer(boxes=()), 0.0, 0.0),
        (Answer(no_target=True), 0.0, 0.0),
        (None, 0.0, 0.0),
    ],
)
def test_one_box_is_right_above_half_and_the_most_confident_counts(
    asked, numbers, answer, accuracy, iou
):
    sample = asked(Answer(boxes=(LEFT,)), form=AnswerForm.BOXES)
    found = numbers(REFCOCO["rec/expression"], [(sample, answer)])
    assert (found["Acc@0.5"], found["IoU"]) == (accuracy, pytest.approx(iou))


def test_any_box_counts_by_visionreasoner(asked, numbers):
    sample = asked(Answer(boxes=(LEFT,)), form=AnswerForm.BOXES)
    protocol = REFCOCO["rec/instance"]
    assert numbers(protocol, [(sample, Answer(boxes=(RIGHT, LEFT)))])["bbox_AP"] == 1.0
    assert numbers(protocol, [(sample, Answer(boxes=(Box(0, 0, 4, 2),)))])["bbox_AP"] == 0.0
    assert numbers(protocol, [(sample, None)])["bbox_AP"] == 0.0


def test_a_mask_without_boxes_does_not_count_in_bbox_ap(asked, numbers):
    sample = asked(Answer(masks=(block(0, 4),), boxes=(Box(0, 1, 4, 3),)))
    protocol = REFCOCO["res/instance"]
    found = numbers(protocol, [(sample, Answer(masks=(block(0, 4),)))])
    assert (found["gIoU"], found["bbox_AP"]) == (1.0, None)
    assert numbers(protocol, [(sample, None)])["bbox_AP"] == 0.0
    both = Answer(masks=(block(0, 2),), boxes=(Box(0, 1, 4, 3),))
    found = numbers(protocol, [(sample, both)])
    assert (found["gIoU"], found["cIoU"], found["bbox_AP"]) == (0.5, 0.5, 1.0)


def test_a_pixel_in_two_polygons_costs_a_perfect_answer_of_the_strict_ground_truth(
    build, refer_files, numbers
):
    """Two overlapping squares of 16 pixels that share 4: LISA's ground truth has 24 pixels,
    not 28.
    """
    squares = [[2, 2, 6, 2, 6, 6, 2, 6], [4, 4, 8, 4, 8, 8, 4, 8]]
    root = refer_files(things=[{"segmentation": squares}])
    (once,) = build("refcoco", root).samples()
    (union,) = build("refcoco(protocol=res/expression-strict)", root).samples()
    assert (once.target.answer.masks[0].area, union.target.answer.masks[0].area) == (24, 28)
    found = numbers(REFCOCO["res/expression"], [(once, union.target.answer)])
    assert found["cIoU"] == pytest.approx(24 / 28)


def test_every_expression_weighs_alike_and_an_object_is_asked_by_its_first(build, refer_files):
    output = [{"sent_id": n, "sent": f" Text {n} ", "tokens": []} for n in (4, 5, 6)]
    root = refer_files(refs=[{"sentences": output}])
    texts = [one.query.text for one in build("refcoco", root).samples()]
    assert texts == ["text 4", "text 5", "text 6"]
    instance = build("refcoco(protocol=res/instance)", root)
    assert [one.query.text for one in instance.samples()] == ["text 4"]


# COCO


def question(asked, boxes, *, image, category, crowd=None):
    return asked(
        Answer(boxes=tuple(boxes)),
        form=AnswerForm.BOXES,
        number=image * 10 + category,
        image=image,
        category=category,
        asked=bool(boxes),
        crowd=crowd or [False] * len(boxes),
        areas=[16.0] * len(boxes),
    )


def test_visionreasoners_scores_rank_boxes_by_their_area(asked, numbers):
    """A large wrong box comes before the right one and halves its precision; 1.0 keeps order."""
    sample = question(asked, [LEFT], image=1, category=1)
    answer = Answer(boxes=(LEFT, Box(0, 0, 10, 6)))
    by_area = numbers(COCO["coco/visionreasoner"], [(sample, answer)])
    assert by_area["coco_ap50_area_score"] == pytest.approx(0.5)
    assert numbers(COCO["coco/scores"], [(sample, answer)])["AP50"] == pytest.approx(1.0)
    ranked = Answer(boxes=answer.boxes, box_scores=(0.1, 0.9))
    assert numbers(COCO["coco/scores"], [(sample, ranked)])["AP50"] == pytest.approx(0.5)


def test_a_failure_misses_all_objects_of_its_question(asked, numbers):
    pairs = [
        (question(asked, [LEFT], image=1, category=1), Answer(boxes=(LEFT,))),
        (question(asked, [LEFT], image=1, category=2), None),
    ]
    for name, protocol in COCO.items():
        found = numbers(protocol, pairs)
        assert found[protocol.headline] == pytest.approx(0.5), name
        nothing = numbers(protocol, [(pairs[1][0], Answer(no_target=True))])
        assert nothing[protocol.headline] == 0.0


def test_a_crowd_is_neither_missed_nor_a_false_positive(asked, numbers):
    sample = question(asked, [LEFT, RIGHT], image=1, category=1, crowd=[False, True])
    for output in ((LEFT,), (LEFT, RIGHT)):
        found = numbers(COCO["coco/scores"], [(sample, Answer(boxes=output))])
        assert found["AP"] == pytest.approx(1.0)


def test_only_a_question_that_lists_boxes_gives_scores_by_area(asked):
    from harness.tasks.coco_detection.scoring import by_area
    from harness.types import Prediction

    answer = Answer(boxes=(LEFT,))
    for boxes, score in (([LEFT], 16 / 60), ([], 0.0)):
        sample = question(asked, boxes, image=1, category=1)
        output = Prediction(query_id=sample.query.id, answer=answer)
        assert by_area(sample, output, answer.boxes) == [pytest.approx(score)]
