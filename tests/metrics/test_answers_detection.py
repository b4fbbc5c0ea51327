"""Laws of COCO AP: order, crowds, perfect and missing boxes, and the libraries that compute it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import MissingDependency, UsageError
from harness.metrics import detection
from harness.scores import Corpus, Metric, Totals
from harness.types import Box

BOX = Box(0, 0, 4, 4)
whole = st.integers(0, 60)
sided = st.tuples(whole, whole, whole, whole).map(
    lambda four: Box(four[0], four[1], four[0] + four[2], four[1] + four[3])
)
lists = st.lists(st.tuples(sided, st.integers(1, 9)), max_size=4)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(lists, lists), min_size=1, max_size=4), st.randoms())
def test_ap_does_not_depend_on_the_order_of_items(units, random):
    items = [
        detection.detection_item(
            place,
            1,
            ground_truth=[box for box, _ in ground_truth],
            predicted=[box for box, _ in output],
            scores=[(score + place / 10) / 10 for _, score in output],
        )
        for place, (ground_truth, output) in enumerate(units)
    ]
    found = detection.coco_statistics(items)
    assert detection.coco_statistics(random.sample(items, len(items))) == found
    assert all(value == -1 or 0 <= value <= 1 for value in found.values())


def test_perfect_boxes_have_an_ap_of_one_less_two_roundings():
    box = Box(0, 0, 40, 40)
    item = detection.detection_item("a", "x", ground_truth=[box], predicted=[box], scores=[1.0])
    assert detection.coco_statistics([item])["AP"] == pytest.approx(1, abs=3e-16)


def test_no_prediction_scores_zero_and_no_ground_truth_minus_one():
    box = Box(0, 0, 40, 40)
    missed = detection.detection_item("a", "x", ground_truth=[box], predicted=[], scores=[])
    wrong = detection.detection_item("a", "x", ground_truth=[], predicted=[box], scores=[1.0])
    neither = detection.detection_item("a", "x", ground_truth=[], predicted=[], scores=[])
    assert detection.coco_statistics([missed])["AP"] == 0
    assert detection.coco_statistics([missed])["APs"] == -1
    assert detection.coco_statistics([wrong])["AP"] == -1
    assert detection.coco_statistics([neither])["AP"] == -1


def test_a_crowd_takes_several_boxes_and_a_true_box_one():
    box = Box(0, 0, 40, 40)
    twice = {"ground_truth": [box], "predicted": [box, box], "scores": [0.9, 0.8]}
    one = detection.detection_item("a", "x", ground_truth=[box], predicted=[box], scores=[0.1])
    strict = [one, detection.detection_item("b", "x", **twice)]
    crowd = [one, detection.detection_item("b", "x", **twice, crowd=[True])]
    assert detection.coco_statistics(crowd)["AP"] > detection.coco_statistics(strict)["AP"]


@pytest.mark.parametrize("library", [name for name in detection.PLACES if name != "pycocotools"])
def test_a_faster_library_equals_pycocotools_to_the_last_bit(library):
    pytest.importorskip(library)
    rng = np.random.default_rng(7)
    items = []
    for place in range(60):
        ground_truth = [
            Box(x, y, x + w, y + h) for x, y, w, h in rng.integers(5, 150, (4, 4)).tolist()
        ]
        output = [
            Box(*(side + int(rng.integers(-4, 5)) for side in box)) for box in ground_truth * 3
        ]
        items.append(
            detection.detection_item(
                place // 3,
                place % 3,
                ground_truth=ground_truth,
                crowd=(rng.random(4) < 0.2).tolist(),
                predicted=output,
                scores=np.round(rng.random(12), 1 + place % 2).tolist(),
            )
        )
    for chosen in (items, items[:1], [{**item, "predicted": []} for item in items]):
        expected = detection.coco_statistics(chosen)
        assert detection.coco_statistics(chosen, library=library) == expected


def test_a_library_that_is_absent_is_named_with_what_to_install(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(detection, "import_module", absent)
    item = detection.detection_item("a", "x", ground_truth=[], predicted=[], scores=[])
    with pytest.raises(MissingDependency, match="pip install hotcoco"):
        detection.coco_statistics([item], library="hotcoco")


def test_an_unknown_statistic_is_refused_when_the_metric_is_declared():
    with pytest.raises(UsageError, match="AP50"):
        detection.average_precision("mAP")


def test_a_corpus_metric_gives_ap_of_all_units():
    totals = Totals((Metric("AP", corpus=detection.average_precision()),))
    for place, scores in enumerate(([], [0.5], [0.25])):
        item = detection.detection_item(
            place, "x", ground_truth=[BOX], predicted=[BOX] * len(scores), scores=scores
        )
        totals.add({"AP": Corpus((item,))})
    assert totals.values()["AP"] == pytest.approx(67 / 101)
