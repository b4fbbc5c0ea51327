"""Golden files of places and times against our numbers: V-STaR, the joint matching, COCO AP.

A check takes the modules to test, so that the mutation tests can hand it spoiled ones.
"""

import ast
import contextlib
import json
from collections.abc import Iterator
from typing import Any

from comparison import Comparison, gap
from scored import OURS, Check, Modules, line, read

from harness.models.grammar import Item
from harness.scores import Totals
from harness.types import Box, Interval, Point


def comparisons() -> Iterator[Comparison]:
    """One line a protocol and official number."""
    for check in CHECKS.values():
        yield check(OURS)


def interval_of(answer: Any) -> Interval | None:
    """The interval of an answer in an official file: two numbers, or such a list as text."""
    if isinstance(answer, str):
        with contextlib.suppress(ValueError, SyntaxError):
            answer = ast.literal_eval(answer)
    return Interval(*answer) if isinstance(answer, (list, tuple)) and len(answer) == 2 else None


def vstar_parts(m: Modules, item: Any) -> tuple[int | None, list[float], list[Any]]:
    """Rating, temporal IoU and IoU of frames of an item, in both chains."""
    output = item["answer_vqa"].removeprefix("judge says: ").removesuffix("|")
    ground_truth = [
        (box["timestamp"], Box(box["xmin"], box["ymin"], box["xmax"], box["ymax"]))
        for box in item["bboxes"]
    ]
    span = Interval(*item["timestamps"])
    temporal = [
        m.intervals.temporal_iou_of_hull(span, interval_of(item[name]))
        for name in ("answer_temporal", "answer_temporal_2")
    ]
    spatial = [
        m.vstar.frame_ious(ground_truth, item[name] or {})
        for name in ("answer_spatial", "answer_spatial_2")
    ]
    return m.vstar.read_rating(output), temporal, spatial


def vstar_samples(m: Modules) -> Comparison:
    file = read("vstar/samples.json")
    deviations = []
    for item in file["cases"]:
        if not item["answer_vqa"]:
            continue
        rating, temporal, spatial = vstar_parts(m, item)
        found = m.vstar.scores(rating, temporal, spatial)
        score, *ious, first, second = item["official"]
        deviations.append(gap(-1 if rating is None else rating, score))
        names = ("m_tIoU1", "m_tIoU2", "m_vIoU1", "m_vIoU2")
        deviations += [gap(found[n].value, iou) for n, iou in zip(names, ious, strict=True)]
        for chain, precisions in (("1", first), ("2", second)):
            for threshold, value in zip((0.1, 0.3, 0.5, 0.7, 0.9), precisions, strict=True):
                deviations.append(gap(found[f"AP@{threshold}_{chain}"].value, value))
    return line("vstar/official: samples", "eval.py", file, deviations)


VSTAR_NAMES = {
    "acc_vqa": "Acc",
    "avg_all_score": "rating",
    **{
        f"r1_iou{int(t * 100)}{x}": f"R1@{t}_{x[1:] or 1}"
        for t in (0.3, 0.5, 0.7)
        for x in ("", "_2")
    },
    **{f"mean_temporal_iou{x}": f"m_tIoU{x[1:] or 1}" for x in ("", "_2")},
    **{f"mean_miou{x}": f"m_vIoU{x[1:] or 1}" for x in ("", "_2")},
    **{f"vqa_temp{x}": f"what&when{x[1:] or 1}" for x in ("", "_2")},
    **{f"vqa_spat{x}": f"what&where{x[1:] or 1}" for x in ("", "_2")},
    **{f"temp_spat{x}": f"when&where{x[1:] or 1}" for x in ("", "_2")},
    **{f"vqa_temp_spat{x}": f"what&when&where{x[1:] or 1}" for x in ("", "_2")},
    "AM": "AM1",
    "AM2": "AM2",
    "mAM": "mAM",
    "LGM": "LGM1",
    "LGM2": "LGM2",
    "mLGM": "mLGM",
}
"""Our name of each variable that the official code prints."""


def vstar_totals(m: Modules) -> Comparison:
    file = read("vstar/samples.json")
    totals = Totals(m.vstar.METRICS)
    for item in file["cases"]:
        answered = bool(item["answer_vqa"])
        found = m.vstar.scores(*vstar_parts(m, item)) if answered else m.vstar.unanswered_scores()
        totals.add(found)
    values = totals.values()
    official = dict(file["totals"])
    for name, chain in (("mean_aps", "1"), ("mean_aps_2", "2")):
        for threshold, value in zip((0.1, 0.3, 0.5, 0.7, 0.9), official.pop(name), strict=True):
            official[f"AP@{threshold}_{chain}"] = value
    official.pop("avg_valid_score")
    deviations = [gap(values[VSTAR_NAMES.get(name, name)], x) for name, x in official.items()]
    return line("vstar/official: averages", "eval.py", file, deviations)


def vstar_intervals(m: Modules) -> Comparison:
    file = read("vstar/intervals.json")
    deviations = [
        gap(
            m.intervals.temporal_iou_of_hull(Interval(*ground_truth), interval_of(answer)),
            iou,
        )
        for ground_truth, answer, iou in file["cases"]
    ]
    return line("vstar/official: temporal IoU", "eval.py", file, deviations)


def vstar_responses(m: Modules) -> Comparison:
    file = read("vstar/intervals.json")
    wrong = [
        float(list(m.vstar.interval_in(response) or []) != found)
        for response, found in file["responses"]
    ]
    return line("vstar: times in responses", "inference_demo.py", file, wrong)


def seg_zero(m: Modules) -> Comparison:
    file = read("segzero/matching.json")
    deviations = []
    for ground_truth, predicted, score in file["cases"]:
        said = [{"bbox_2d": box, "point_2d": point} for box, point in predicted]
        true = [Item(Box(*box), Point(*point)) for box, point in ground_truth]
        found = m.scoring.accuracy(f"<answer>{json.dumps(said)}</answer>", true)
        deviations.append(gap(found.total, score))
    return line("joint matching of boxes and points", "vision_reasoner.py", file, deviations)


def coco(m: Modules) -> Comparison:
    file = read("pycocotools/detection.json")
    deviations = []
    for case in file["cases"]:
        found = m.detection.coco_statistics(items_of(m, case))
        deviations += [gap(*pair) for pair in zip(found.values(), case["stats"], strict=True)]
    return line("COCO AP and AR of boxes", "COCOeval", file, deviations)


def items_of(m: Modules, case: Any) -> list[Any]:
    """The stored items, made again from their parts."""
    return [
        m.detection.detection_item(
            item["image"],
            item["category"],
            ground_truth=[Box(*row[:4]) for row in item["ground_truth"]],
            areas=[row[4] for row in item["ground_truth"]],
            crowd=[row[5] for row in item["ground_truth"]],
            predicted=[Box(*row[:4]) for row in item["predicted"]],
            scores=[row[4] for row in item["predicted"]],
        )
        for item in case["items"]
    ]


def area_scores(m: Modules) -> Comparison:
    file = read("visionreasoner/area_score.json")
    deviations = [
        gap(m.detection.area_score(Box(*box), tuple(size), has_ground_truth=known), score)
        for box, size, known, score in file["cases"]
    ]
    return line("coco_ap_area_score: scores", "evaluation_coco.py", file, deviations)


CHECKS: dict[str, Check] = {
    "vstar": vstar_samples,
    "vstar totals": vstar_totals,
    "vstar intervals": vstar_intervals,
    "vstar responses": vstar_responses,
    "seg_zero": seg_zero,
    "coco": coco,
    "area scores": area_scores,
}
