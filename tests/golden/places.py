"""Inputs of the golden files of places and times, made from a seed, defects included."""

from typing import Any

import numpy as np


def interval_answers(rng: np.random.Generator, count: int) -> list[Any]:
    """Answers to "when": lists, texts of lists, reversed, empty, of another kind."""
    found: list[Any] = []
    for turn in range(count):
        start, length = float(rng.integers(0, 16)), round(float(rng.random() * 9), 2)
        pair = [start, start + length]
        forms = (
            pair,
            repr(pair),
            f"({start}, {length})",
            pair[::-1],
            [int(start), int(start) + 3],
            [],
            "",
            None,
            "3 to 7",
            [1, 2, 3],
            ["1", "2"],
            "[1",
            "{1: 2}",
            [True, 5],
            [start] * 2,
            "1, 9",
            "[[1, 2]]",
            {"a": 1},
        )
        found.append(forms[turn % len(forms) if turn % 2 else int(rng.integers(5))])
    return found


def boxes_of(rng: np.random.Generator, count: int) -> list[list[float]]:
    """Boxes in pixels, of whole and of broken numbers, some with sides swapped."""
    found = []
    for _ in range(count):
        left, top = (float(side) for side in rng.integers(0, 300, 2))
        right, bottom = left + float(rng.integers(0, 200)), top + float(rng.integers(0, 200))
        if rng.random() < 0.3:
            left, bottom = (
                left + round(float(rng.random()), 3),
                bottom + round(float(rng.random()), 3),
            )
        if rng.random() < 0.05:
            left, right = right, left
        found.append([left, top, right, bottom])
    return found


def moved(rng: np.random.Generator, box: list[float], reach: float) -> list[float]:
    """The box with each side moved by a whole number of pixels."""
    return [
        side + float(round(step)) for side, step in zip(box, rng.normal(0, reach, 4), strict=True)
    ]


def vstar_items(rng: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Items with all five answers, some missing, some in a form that does not count."""
    items = []
    judgements = ("3", "2", "1", "0", " 3\n", "2.", "Rating: 3", "", "-1", "7")
    for turn in range(count):
        start = float(rng.integers(0, 40))
        times = [int(start) + step for step in range(int(rng.integers(0, 6)))]
        boxes = [[float(round(side)) for side in box] for box in boxes_of(rng, len(times))]
        boxes = [[min(b[0], b[2]), b[1], max(b[0], b[2]), b[3]] for b in boxes]
        item: dict[str, Any] = {
            "fps": 30.0,
            "frame_count": int(rng.integers(300, 9000)),
            "width": 640,
            "height": 480,
            "domain": ["Sports", "Daily"][turn % 2],
            "question": "What?",
            "answer": "it",
            "timestamps": [start, start + float(rng.integers(1, 20))],
            "bboxes": [
                {
                    "timestamp": time if rng.random() < 0.8 else float(time),
                    **dict(zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)),
                }
                for time, box in zip(times, boxes, strict=True)
            ],
        }
        judgement = judgements[int(rng.integers(len(judgements)))]
        item["answer_vqa"] = f"judge says: {judgement}|" if rng.random() < 0.9 else ""
        for name in ("answer_temporal", "answer_temporal_2"):
            shift = float(rng.normal(0, 4))
            item[name] = [round(start + shift, 2), round(item["timestamps"][1] + shift, 2)]
            if rng.random() < 0.2:  # an IoU that is the threshold itself
                item[name] = [start, (start + item["timestamps"][1]) / 2]
            if rng.random() < 0.3:
                item[name] = interval_answers(rng, 1)[0]
        for name in ("answer_spatial", "answer_spatial_2"):
            item[name] = {
                str(time): moved(rng, box, 12) for time, box in zip(times, boxes, strict=True)
            }
            for time, box in zip(times, boxes, strict=True):
                odd = (
                    [moved(rng, box, 60), box],
                    [box[:3]],
                    "box",
                    [["a", 1, 2, 3], box],
                    [],
                    {"box": box},
                    None,
                    box[:3],
                    [box, "x"],
                    [*box[:3], (box[1] + box[3]) / 2],
                )
                if rng.random() < 0.25:
                    item[name][str(time)] = odd[int(rng.integers(len(odd)))]
            if rng.random() < 0.1:
                item[name] = None
        items.append(item)
    return items


def objects_of(rng: np.random.Generator, count: int) -> list[tuple[Any, Any]]:
    """True and predicted objects (box, point) on the 840 × 840 canvas, known edge cases first."""
    one = ([0, 0, 99, 99], [50, 50])
    outside = ([0, 0, 99, 99], [110, 50])
    cases: list[tuple[Any, Any]] = [
        ([one], [one]),
        ([([0, 0, 99, 49], [50, 50])], [one]),
        ([outside], [outside]),
        ([one], [one, one]),
        ([([0, 0, 99, 139], [50, 50])], [one]),
        ([([0, 0, 99, 138], [50, 50])], [one]),
        ([], []),
        ([one], []),
        ([], [one]),
        ([one], [([99, 99, 0, 0], [50, 50])]),
        ([one], [([0, 0, 99, float("nan")], [50, 50])]),
        ([one, one], [one, ([0, 0, 99, 99], [float("nan"), 50])]),
        ([one], [([0, 0, float("inf"), 99], [50, 50])]),
        ([one], [([0, 0, 99, 99], [80, 50])]),
        ([one], [([0, 0, 79, 99], [79, 50])]),
        ([one] * 130, [one] * 125),
        ([one] * 2, [one] * 130),
    ]
    while len(cases) < count:
        ground_truth = [
            ([int(side) for side in box], [int(box[0]) + 20, int(box[1]) + 20])
            for box in boxes_of(rng, int(rng.integers(1, 7)))
        ]
        output = []
        for box, point in ground_truth:
            reach = float(rng.choice([0, 4, 12, 40]))
            near = moved(rng, [float(side) for side in box], reach)
            whole = rng.random() < 0.7
            output.append(
                (
                    [int(side) if whole else side + 0.25 for side in near],
                    [side + int(rng.normal(0, reach)) for side in point],
                )
            )
        order = [
            int(place) for place in rng.permutation(len(output))[: rng.integers(1, len(output) + 1)]
        ]
        predicted = [output[place] for place in order]
        cases.append((ground_truth, predicted + predicted[:1] if rng.random() < 0.2 else predicted))
    return cases[:count]


def corpus(rng: np.random.Generator, *, images: int, crowd: bool, ties: bool) -> list[Any]:
    """Items of detections: an image and a category each, numbered so that order matters."""
    items = []
    for image in range(1, images + 1):
        for category in range(1, 4):
            ground_truth, predicted = [], []
            for _ in range(int(rng.integers(0, 4))):
                left, top = (float(side) for side in rng.integers(0, 300, 2))
                box = [
                    left,
                    top,
                    left + float(rng.integers(4, 150)),
                    top + float(rng.integers(4, 150)),
                ]
                area = (box[2] - box[0]) * (box[3] - box[1])
                ground_truth.append([*box, round(area * 0.8, 2), int(crowd and rng.random() < 0.2)])
                for _ in range(int(rng.integers(0, 4))):
                    score = round(float(rng.random()), 1 if ties else 6)
                    predicted.append([*moved(rng, box, 6), score])
            wrong = boxes_of(rng, int(rng.integers(0, 2 if image % 5 else 60)))
            predicted += [[*box, round(float(rng.random()) / 2, 1 if ties else 6)] for box in wrong]
            items.append(
                {
                    "image": image * 7,
                    "category": category,
                    "ground_truth": ground_truth,
                    "predicted": predicted,
                }
            )
    if not any(item["predicted"] for item in items):
        items[0]["predicted"].append([0.0, 0.0, 9.0, 9.0, 0.5])
    return items
