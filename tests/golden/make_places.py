"""Write the golden files of places and times: our inputs from a seed, the official tools' outputs.

    python tests/golden/make_places.py --official FOLDER

FOLDER holds checkouts named `V-STaR`, `Seg-Zero` and `VisionReasoner` at the commits that
`checkouts.py` lists. Their code is compiled from there, without what it imports; none of it is kept
here.
"""

import argparse
import ast
import contextlib
import io
import json
import math
import re
import tempfile
import types
from pathlib import Path
from typing import Any

import numpy as np
from answers import number_responses
from checkouts import inside, parts, watching, write
from places import boxes_of, corpus, interval_answers, objects_of, vstar_items
from scipy.optimize import linear_sum_assignment

from harness.metrics import detection
from harness.types import Box

SEED = 20250102


class Judge:
    """A tokenizer and a network in one, that responses what stands in its question's answer."""

    device = "cpu"
    input_ids: tuple[tuple[int, ...], ...] = ((),)

    def apply_chat_template(self, messages: Any, **_: Any) -> str:
        return str(messages[1]["content"]).split("judge says: ")[1].split("|")[0]

    def __call__(self, texts: list[str], **_: Any) -> Any:
        return _Inputs(texts[0])

    def generate(self, *, text: str, **_: Any) -> list[str]:
        return [text]

    def batch_decode(self, ids: list[str], **_: Any) -> list[str]:
        return ids


class _Inputs(dict[str, str]):
    input_ids = ((),)

    def __init__(self, text: str) -> None:
        super().__init__(text=text)

    def to(self, _: str) -> "_Inputs":
        return self


def v_star(official: Path) -> None:
    """Every sample's numbers and the statistics that are printed; the readers of responses."""
    judge = Judge()
    names = [
        "tmpl",
        "system_prompt",
        "qwen2_5_evaluation",
        "calculate_temporal_iou",
        "compute_iou",
        "calculate_bbox_iou",
        "calculate_spatial_metrics",
        "calculate_spatial_random",
        "evaluate_json",
    ]
    functions = parts(
        official / "V-STaR/eval.py",
        names,
        ast=ast,
        np=np,
        math=math,
        json=json,
        model=judge,
        tokenizer=judge,
        tqdm=lambda items, **_: items,
    )
    rng = np.random.default_rng(SEED + 9)
    items = vstar_items(rng, 90)
    with tempfile.TemporaryDirectory() as work, inside(work):
        Path("metrics").mkdir()
        Path("us_all.json").write_text(json.dumps(items))
        with watching("print_stats") as seen:
            functions["evaluate_json"]("us_all.json")
        done = json.loads(Path("metrics/us_merged_v2_metrics.json").read_text())
    keys = (
        "VQA_score",
        "temporal_IoU",
        "temporal_IoU_2",
        "spatial_mIoU",
        "spatial_mIoU_2",
        "AP1@0.1:0.9",
        "AP2@0.1:0.9",
    )
    rows = [
        {**item, "official": [new.get(key) for key in keys]}
        for item, new in zip(items, done, strict=True)
    ]
    kept = {
        name: value
        for name, value in seen[0].items()
        if isinstance(value, (float, list)) and name != "stats"
    }
    write(
        "vstar/samples.json",
        "V-STaR",
        f"eval.py: each item with {keys}, and overall statistics",
        totals=kept,
        cases=rows,
    )
    times = []
    for answer in interval_answers(rng, 300):
        ground_truth = sorted(float(value) for value in rng.integers(0, 20, 2))
        times.append(
            [ground_truth, answer, float(functions["calculate_temporal_iou"](ground_truth, answer))]
        )
    reading = parts(official / "V-STaR/inference_demo.py", ["extract_timestamps"], re=re)
    texts = [*number_responses(rng, 4.5, 100), "from 3 to 7.5 s", "1 2 3", "3.-4", "a1 2"]
    responses = [[text, reading["extract_timestamps"](text)] for text in texts]
    write(
        "vstar/intervals.json",
        "V-STaR",
        "eval.py: [ground truth, answer, IoU]; inference_demo.py: [response, found]",
        responses=responses,
        cases=times,
    )


def seg_zero(official: Path) -> None:
    """The accuracy reward of lists of objects."""
    path = official / "Seg-Zero/verl/utils/reward_score/vision_reasoner.py"
    reward = parts(
        path,
        [
            "vision_reasoner_accuracy_reward",
            "batch_iou",
            "batch_l1_distance",
            "batch_points_distance",
            "batch_points_in_box",
        ],
        re=re,
        json=json,
        np=np,
        linear_sum_assignment=linear_sum_assignment,
    )["vision_reasoner_accuracy_reward"]
    rng = np.random.default_rng(SEED + 10)
    rows = []
    for ground_truth, predicted in objects_of(rng, 400):
        output, true = (
            json.dumps([{"bbox_2d": box, "point_2d": point} for box, point in objects])
            for objects in (predicted, ground_truth)
        )
        score = float(reward(f"<think>t</think><answer>{output}</answer>", true))
        rows.append([ground_truth, predicted, score])
    write(
        "segzero/matching.json",
        "Seg-Zero",
        "verl/utils/reward_score/vision_reasoner.py: [true, predicted (box, point)…, reward]",
        cases=rows,
    )


def coco() -> None:
    """The twelve numbers of pycocotools, called as its own demo does, for corpora of our own."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    rng = np.random.default_rng(SEED + 11)
    cases = []
    for turn in range(24):
        items = corpus(rng, images=1 + turn, crowd=turn % 2 == 1, ties=turn % 3 == 0)
        ground_truth = COCO()
        ground_truth.dataset = {"images": [], "annotations": [], "categories": []}
        results = []
        for item in items:
            place = {"image_id": item["image"], "category_id": item["category"]}
            ground_truth.dataset["images"].append(
                {"id": item["image"], "width": 640, "height": 480}
            )
            ground_truth.dataset["categories"].append({"id": item["category"], "name": "x"})
            for left, top, right, bottom, area, crowd in item["ground_truth"]:
                ground_truth.dataset["annotations"].append(
                    {
                        **place,
                        "id": len(ground_truth.dataset["annotations"]) + 1,
                        "area": area,
                        "bbox": [left, top, right - left, bottom - top],
                        "iscrowd": crowd,
                    }
                )
            for left, top, right, bottom, score in item["predicted"]:
                box = [left, top, right - left, bottom - top]
                results.append({**place, "bbox": box, "score": score})
        with contextlib.redirect_stdout(io.StringIO()):
            ground_truth.createIndex()
            evaluator = COCOeval(ground_truth, ground_truth.loadRes(results), "bbox")
            evaluator.evaluate()
            evaluator.accumulate()
            evaluator.summarize()
        shuffled = [items[place] for place in rng.permutation(len(items))]
        cases.append({"items": shuffled, "stats": evaluator.stats.tolist()})
    write(
        "pycocotools/detection.json",
        "pycocotools",
        f"COCOeval bbox: items of one image and category, and {detection.STATISTICS}",
        cases=cases,
    )


def vision_reasoner(official: Path) -> None:
    """The score that a box is given for COCO AP."""
    path = official / "VisionReasoner/evaluation/evaluation_coco.py"
    process = parts(path, ["process_batch"])["process_batch"]
    rng = np.random.default_rng(SEED + 12)
    rows = []
    for turn in range(120):
        boxes = boxes_of(rng, 1)
        size = [int(side) for side in rng.integers(50, 700, 2)]
        known = turn % 4 > 0
        model = types.SimpleNamespace(
            detect_objects_batch=lambda *_, boxes=boxes: [{"thinking": "", "bboxes": boxes}]
        )
        ids = [
            {
                "image_id": 1,
                "ann_id": 1,
                "cat_id": 1,
                "img_width": size[0],
                "img_height": size[1],
                "bbox": [[0, 0, 1, 1]] if known else [],
            }
        ]
        outputs: list[dict[str, Any]] = []
        process(model, [None], [""], ids, outputs)
        rows.append([boxes[0], size, known, outputs[0]["score"]])
        assert Box(*boxes[0])
    write(
        "visionreasoner/area_score.json",
        "VisionReasoner",
        "evaluation/evaluation_coco.py: [box, size, has ground truth, score]",
        cases=rows,
    )


def main(official: Path) -> None:
    """Write every file."""
    for family in (v_star, seg_zero, vision_reasoner):
        family(official.resolve())
    coco()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    main(parser.parse_args().official)
