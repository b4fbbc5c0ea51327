"""Write the golden files: inputs of our own from a seed, outputs by the official tools.

    python tests/golden/make.py --official FOLDER [--real FOLDER]

FOLDER holds checkouts named `davis2017-evaluation`, `MeViS`, `LISA`, `VisionReasoner` and
`Seg-Zero` at the commits below. Their code is imported or compiled from there; none of it is kept
here. The tools need scikit-image and torch, which harness does not.

LISA's masks from polygons need its own OpenCV and numpy: `make_polygons.py`.
"""

import argparse
import json
import sys
import tempfile
import types
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from inputs import (
    FRAMES,
    answer_to,
    box,
    encoded,
    ignored,
    mask_of,
    pairs,
    transformed,
)
from official import LisaModel, Queue, compiled, module, summary, with_locals, write

from harness.masks import Rle

SEED = 20250101


def davis(official: Path) -> None:
    """J and F of pairs of masks, with and without void pixels, and the tolerance a frame size."""
    metrics = module(official / "davis2017-evaluation/davis2017/metrics.py")
    rng = np.random.default_rng(SEED)
    cases = []
    for ground_truth, predicted in pairs(rng, 14, 120):
        void = ignored(ground_truth, rng)
        cases.append(
            {
                **encoded(ground_truth=ground_truth, predicted=predicted, void=void),
                "J": float(metrics.db_eval_iou(ground_truth, predicted, void)),
                "F": float(metrics.db_eval_boundary(ground_truth, predicted, void)),
            }
        )
    radii = []
    for size in FRAMES:
        blank = np.zeros(size, dtype=np.uint8)
        inside, _ = with_locals(metrics.f_measure, blank, blank)
        radii.append([*size, int(inside["bound_pix"])])
    write("davis2017/pairs.json", "davis2017-evaluation", "davis2017/metrics.py", cases=cases)
    write("davis2017/radius.json", "davis2017-evaluation", "davis2017/metrics.py", cases=radii)


def davis_real(official: Path, real: Path) -> None:
    """J and F of annotated frames of real videos, against later, moved, grown and shrunk ones."""
    metrics = module(official / "davis2017-evaluation/davis2017/metrics.py")
    tracks = json.loads((real / "mevis/valid_u/mask_dict.json").read_text())
    changes: list[dict[str, Any]] = [
        {"later": 1},
        {"later": 0, "shift": [3, -5]},
        {"later": 0, "grow": -3},
        {"later": 2, "shift": [-40, 0], "grow": 2},
    ]
    cases = []
    for track, masks in tracks.items():
        frames = [Rle.from_json(mask).to_array() for mask in masks]
        for frame in range(len(frames) - 2):
            for change in changes:
                rest = {key: value for key, value in change.items() if key != "later"}
                ground_truth = frames[frame]
                predicted = transformed(frames[frame + change["later"]], **rest)
                cases.append(
                    {
                        "track": track,
                        "frame": frame,
                        **change,
                        "J": float(metrics.db_eval_iou(ground_truth, predicted)),
                        "F": float(metrics.db_eval_boundary(ground_truth, predicted)),
                    }
                )
    write("davis2017/real.json", "davis2017-evaluation", "davis2017/metrics.py", cases=cases)


def mevis(official: Path) -> None:
    """Mean J and F of expressions over the frames of a video, with overlapping objects."""
    sys.path.insert(0, str(official / "MeViS/tools"))
    tool = module(official / "MeViS/tools/eval_mevis.py")
    rng = np.random.default_rng(SEED + 1)
    tool.exp_dict, tool.mask_dict = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        tracks = [mevis_video(number, tool, Path(folder), rng) for number in range(24)]
        queue, found = Queue([(f"v{number}", "0") for number in range(24)]), {}
        tool.eval_queue(queue, 0, found, folder)
    cases = [
        {**track, "J": float(found[f"v{number}_0"][0]), "F": float(found[f"v{number}_0"][1])}
        for number, track in enumerate(tracks)
    ]
    write("mevis/tracks.json", "MeViS", "tools/eval_mevis.py", cases=cases)


def mevis_video(number: int, tool: Any, folder: Path, rng: np.random.Generator) -> dict[str, Any]:
    """Write one video's predictions and annotations; return what the golden file keeps of it."""
    size, count = [(60, 107), (90, 160), (33, 64)][number % 3], 1 + number % 7
    objects = [
        [mask_of(str(rng.choice(["ellipse", "rectangle", "empty", "noise"])), size, rng)]
        for _ in range(1 + number % 3)
    ]
    for track in objects:
        track.extend(transformed(track[0], shift=(step, -2 * step)) for step in range(1, count))
    ground_truth = [np.any([track[frame] for track in objects], axis=0) for frame in range(count)]
    predicted = [answer_to(mask, rng) for mask in ground_truth]
    names, ids = [f"{frame:05d}" for frame in range(count)], []
    for track in objects:
        ids.append(len(tool.mask_dict))
        tool.mask_dict[str(ids[-1])] = [
            Rle.from_array(mask).to_json() if mask.any() else None for mask in track
        ]
    tool.exp_dict[f"v{number}"] = {"frames": names, "expressions": {"0": {"anno_id": ids}}}
    place = folder / f"v{number}/0"
    place.mkdir(parents=True)
    for name, mask in zip(names, predicted, strict=True):
        cv2.imwrite(str(place / f"{name}.png"), mask.astype(np.uint8) * 255)
    return {
        "size": list(size),
        "objects": [[Rle.from_array(mask).counts for mask in track] for track in objects],
        "predicted": [Rle.from_array(mask).counts for mask in predicted],
    }


def lisa_overlap(official: Path) -> None:
    """Counts and IoU of each sample, gIoU and cIoU of each group, by LISA's own `validate`."""
    import torch

    tool = module(official / "LISA/utils/utils.py")
    tool.dist = types.SimpleNamespace(  # one process: its sum is the sum
        ReduceOp=types.SimpleNamespace(SUM=None), all_reduce=lambda *_, **__: None
    )
    rng = np.random.default_rng(SEED + 2)
    found = [
        (ground_truth, answer, ignored(ground_truth, rng))
        for ground_truth, answer in pairs(rng, 18, 20)
    ]
    found += [(mask, mask, None) for mask, _ in pairs(rng, 2, 0)]
    groups = []
    for start in range(0, len(found), 80):
        group, seen = found[start : start + 80], {"Intersec": [], "Union": [], "gIoU": []}

        class Meter(tool.AverageMeter):  # type: ignore[misc, name-defined]
            def update(self, val: Any, n: int = 1, seen: Any = seen) -> None:
                seen[self.name].append(float(val[1]))
                super().update(val, n)

        function = compiled(
            official / "LISA/train_ds.py",
            ["validate"],
            {
                "torch": torch,
                "tqdm": types.SimpleNamespace(tqdm=iter),
                "dict_to_cuda": dict,
                "AverageMeter": Meter,
                "Summary": tool.Summary,
                # torch counts whole numbers on a GPU only; as floats below 2^24 they are the same
                "intersectionAndUnionGPU": lambda output, target, *rest, **options: (
                    tool.intersectionAndUnionGPU(output.float(), target.float(), *rest, **options)
                ),
            },
        )["validate"]
        args = types.SimpleNamespace(precision="fp32", local_rank=1)
        blank = torch.zeros(1)
        queries = [{"images": blank, "images_clip": blank, "case": case} for case in group]
        giou, ciou = function(queries, LisaModel(), 0, None, args)
        cases = [
            {
                **encoded(ground_truth=ground_truth, predicted=answer, ignore=ignore),
                "I": i,
                "U": u,
                "iou": iou,
            }
            for (ground_truth, answer, ignore), i, u, iou in zip(
                group, seen["Intersec"], seen["Union"], seen["gIoU"], strict=True
            )
        ]
        groups.append({"gIoU": float(giou), "cIoU": float(ciou), "cases": cases})
    write("lisa/overlap.json", "LISA", "train_ds.py validate", groups=groups)


def visionreasoner(official: Path) -> None:
    """What the evaluation writes for each sample, and the numbers that its summary prints."""
    place = official / "VisionReasoner/evaluation"
    functions = compiled(
        place / "evaluation_segmentation.py",
        ["compute_iou", "compute_bbox_iou", "process_batch"],
        {"np": np},
    )
    rng = np.random.default_rng(SEED + 4)
    cases, results, ground_truths = [], [], []
    for number, (ground_truth, answer) in enumerate(pairs(rng, 18, 20)):
        true_box, boxes = box(rng), [box(rng) for _ in range(number % 4)]
        if number % 5 == 0:  # an IoU of exactly one half, which is no hit
            true_box, boxes = [0, 0, 10, 10], [[0, 0, 10, 5]]
        elif number % 5 == 1:
            boxes = [*boxes, [side + 1 for side in true_box]]
        results.append({"thinking": "", "bboxes": boxes, "masks": answer})
        ground_truths.append(
            {"image_id": number, "ann_id": number, "mask": ground_truth, "bbox": true_box}
        )
        cases.append(
            {
                **encoded(ground_truth=ground_truth, predicted=answer),
                "box": true_box,
                "boxes": boxes,
            }
        )
    rows: list[dict[str, Any]] = []
    model = types.SimpleNamespace(segment_objects_batch=lambda *_: results)
    functions["process_batch"](model, None, None, ground_truths, rows, True)
    inside = summary(place / "calculate_iou_with_bbox.py", rows)
    for case, row, item in zip(cases, rows, inside["all_ious"], strict=True):
        case |= {"I": row["intersection"], "U": row["union"], "iou": float(item["iou"])}
        case["hit"] = row["bbox_iou"]
    totals = {name: float(inside[name]) for name in ("gIoU", "cIoU", "bbox_iou")}
    write(
        "visionreasoner/overlap.json",
        "VisionReasoner",
        "evaluation/evaluation_segmentation.py and calculate_iou_with_bbox.py",
        **totals,
        cases=cases,
    )


def visionreasoner_boxes(official: Path) -> None:
    """Exclusive IoU of boxes, and the errors of counts with the numbers that a summary prints."""
    place = official / "VisionReasoner/evaluation"
    functions = compiled(place / "evaluation_segmentation.py", ["compute_bbox_iou"], {})
    rng = np.random.default_rng(SEED + 6)
    boxes = [(box(rng), box(rng)) for _ in range(300)]
    cases = [[*both, float(functions["compute_bbox_iou"](*both))] for both in boxes]
    source = "evaluation/evaluation_segmentation.py"
    write("visionreasoner/boxes.json", "VisionReasoner", source, cases=cases)
    counts = [tuple(map(int, rng.integers(0, 12, 2))) for _ in range(200)]
    rows = [
        {"image_id": 0, "gt_count": true, "pred_count": true if place % 3 == 0 else output}
        for place, (true, output) in enumerate(counts)
    ]
    inside = summary(place / "calculate_counting.py", rows)
    totals = {name: float(inside[name]) for name in ("mae", "rmse", "correct_count")}
    errors = [
        [row["gt_count"], row["pred_count"], int(item["correct_count"]), item["mae"], item["rmse"]]
        for row, item in zip(rows, inside["all_counts"], strict=True)
    ]
    write(
        "visionreasoner/counting.json",
        "VisionReasoner",
        "evaluation/calculate_counting.py",
        **totals,
        cases=errors,
    )


def seg_zero(official: Path) -> None:
    """Inclusive IoU of boxes, as the training reward computes it."""
    source = "verl/utils/reward_score/vision_reasoner.py"
    functions = compiled(official / "Seg-Zero" / source, ["batch_iou"], {"np": np})
    batch_iou = functions["batch_iou"]
    rng = np.random.default_rng(SEED + 5)
    cases = []
    for number in range(60):
        ground_truth, output = ([box(rng) for _ in range(1 + number % top)] for top in (4, 5))
        ious = batch_iou(np.array(ground_truth), np.array(output))
        cases.append({"ground_truth": ground_truth, "predicted": output, "iou": ious.tolist()})
    write("visionreasoner/boxes_inclusive.json", "Seg-Zero", source, cases=cases)


def main(arguments: Mapping[str, Any]) -> None:
    """Write every file."""
    warnings.simplefilter("ignore", RuntimeWarning)  # the official J divides by 0
    cv2.setNumThreads(1)
    official, real = arguments["official"], arguments["real"]
    davis(official)
    mevis(official)
    lisa_overlap(official)
    visionreasoner(official)
    visionreasoner_boxes(official)
    seg_zero(official)
    if real is not None:
        davis_real(official, real)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    parser.add_argument("--real", type=Path)
    main(vars(parser.parse_args()))
