"""COCO's numbers of many subsets at once are those of each subset alone."""

import math

import numpy as np
import pytest

from harness.metrics import detection
from harness.metrics.detection import STATISTICS, average_precision, detection_item
from harness.scores import Corpus, Metric
from harness.statistics.clusters import UnitScore
from harness.statistics.jackknife import intervals
from harness.types import Box


def scene(image, rng, *, categories=3):
    """Items of one image: crowds, small and large objects, several guesses each, or none."""
    for category in rng.permutation(categories)[: rng.integers(1, categories + 1)].tolist():
        corners = rng.integers(4, 180, (int(rng.integers(0, 4)), 4)).tolist()
        ground_truth = [Box(x, y, x + width, y + height) for x, y, width, height in corners]
        moves = rng.integers(-6, 7, (len(ground_truth) * 2 * (image % 4 > 0), 4)).tolist()
        output = [
            Box(*(side + step for side, step in zip(box, move, strict=True)))
            for box, move in zip(ground_truth * 2, moves, strict=False)
        ]
        output += [Box(3, 4, 40, 30)] * int(rng.integers(0, 2))
        yield detection_item(
            image,
            category,
            ground_truth=ground_truth,
            predicted=output,
            scores=np.round(rng.random(len(output)), 1).tolist(),
            crowd=(rng.random(len(ground_truth)) < 0.2).tolist(),
        )


@pytest.fixture
def blocks():
    """Eight blocks of one or two images, one of them empty, one with a category of its own."""
    rng = np.random.default_rng(5)
    made = [[*scene(2 * k, rng), *(scene(2 * k + 1, rng) if k % 2 else ())] for k in range(7)]
    box = Box(0, 0, 40, 40)
    made[3].append(detection_item(7, "9", ground_truth=[box], predicted=[box], scores=[0.5]))
    return [[{**item, "category": str(item["category"])} for item in block] for block in made] + [
        []
    ]


@pytest.mark.parametrize("name", STATISTICS)
def test_a_subset_scores_as_it_does_alone(blocks, name):
    rng = np.random.default_rng(6)
    kept = np.concatenate(
        [
            np.ones((1, 8)),
            1 - np.eye(8),
            (rng.random((4, 8)) < 0.5).astype(float),
            np.eye(8)[-1:],
            np.eye(8)[:1],
        ]
    )
    statistic = average_precision(name)
    found = statistic.over(blocks, kept)
    for marks, value in zip(kept, found, strict=True):
        chosen = [item for block, mark in zip(blocks, marks, strict=True) if mark for item in block]
        if chosen:
            assert value == pytest.approx(statistic(chosen), abs=1e-12)
        else:
            assert math.isnan(value)


def test_without_any_box_every_subset_is_zero_or_minus_one():
    blocks = [
        [detection_item(k, 1, ground_truth=[Box(0, 0, 9, 9)][: k % 2], predicted=[], scores=[])]
        for k in range(4)
    ]
    assert average_precision().over(blocks, np.eye(4)) == [-1.0, 0.0, -1.0, 0.0]


def test_boxes_are_matched_once_for_all_numbers_and_their_intervals(blocks, monkeypatch):
    plain = tuple(
        Metric(name, corpus=lambda items, name=name: detection.coco_statistics(items)[name])
        for name in ("AP", "AP50", "AP75")
    )
    metrics = tuple(Metric(one.name, corpus=average_precision(one.name)) for one in plain)
    units = [
        UnitScore(
            unit=str(k),
            group=str(k),
            samples=(str(k),),
            failed=0,
            scores={one.name: Corpus(tuple(block)) for one in metrics},
            categories={},
        )
        for k, block in enumerate(blocks)
        if block
    ]
    expected = intervals(plain, units)
    matched = []
    made = detection._evaluator
    monkeypatch.setattr(detection, "_evaluator", lambda *all: matched.append(all) or made(*all))
    found = intervals(metrics, units)
    assert len(matched) <= 2
    for name, bounds in expected.items():
        assert found[name] == pytest.approx(bounds, abs=1e-12), name


@pytest.mark.parametrize(
    ("bbox", "height", "reached"),
    [([203.3, 164.3, 38.4, 37.8], 18.9, 1.0), ([214.4, 6.0, 45.1, 12.9], 6.45, 0.0)],
)
def test_true_boxes_keep_the_width_and_height_of_the_annotation(bbox, height, reached):
    """A box with three edges of the true one and half of its height: an IoU of about 0.5."""
    left, top, width, tall = bbox
    edges, output = (Box(left, top, left + width, top + side) for side in (tall, height))
    item = detection_item(
        1, 1, ground_truth=[edges], predicted=[output], scores=[0.9], sizes=[(width, tall)]
    )
    assert average_precision("AP50")([item]) == pytest.approx(reached)
