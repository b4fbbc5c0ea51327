"""Write the golden files of image segmentation: inputs from a seed, outputs by official tools.

    python tests/golden/make_segmentation.py --official FOLDER

FOLDER holds checkouts named `LLMSeg`, `LISA`, `ReLA`, `gRefCOCO` and `VisionReasoner-JIA` (the
repository of JIA-Lab-research) at the commits in `pieces.py`. Their code is imported or compiled
from there; none of it is kept here. The tools need torch, which harness does not; what else they
import is replaced.
"""

import argparse
import types
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from inputs import answer_to, box, encoded, ignored, mask_of, pairs, transformed
from official import compiled, module, summary, with_locals
from pieces import classes, rle, write

SEED = 20250601
SIZES = ((24, 40), (33, 65), (48, 64), (60, 107))


def validation(folder: Path, function: str, model: Any, items: list[Any]) -> Any:
    """Run LISA's or LLMSeg's validation; the counts of class 1 a sample, gIoU and cIoU."""
    tool = module(folder / "utils/utils.py")
    tool.dist = types.SimpleNamespace(  # one process: its sum is the sum
        ReduceOp=types.SimpleNamespace(SUM=None), all_reduce=lambda *_, **__: None
    )
    seen: dict[str, list[float]] = {"Intersec": [], "Union": [], "gIoU": []}

    class Meter(tool.AverageMeter):  # type: ignore[misc, name-defined]
        def update(self, val: Any, n: int = 1) -> None:
            seen[self.name].append(float(val[1]))
            super().update(val, n)

    script = folder / ("train_ds.py" if function == "validate" else "finetune_llmseg.py")
    torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign, assignment]
    namespace = compiled(
        script,
        [function],
        {
            "torch": torch,
            "np": np,
            "tqdm": types.SimpleNamespace(tqdm=iter),
            "dict_to_cuda": lambda item, **_: dict(item),
            "AverageMeter": Meter,
            "Summary": tool.Summary,
            # torch counts whole numbers on a GPU only; as floats below 2^24 they are the same
            "intersectionAndUnionGPU": lambda output, target, *rest, **options: (
                tool.intersectionAndUnionGPU(output.float(), target.float(), *rest, **options)
            ),
        },
    )
    args = types.SimpleNamespace(precision="fp32", local_rank=1, eval_only=False, visualize=False)
    giou, ciou = namespace[function](items, model, 0, None, args)
    return seen, float(giou), float(ciou)


class Answers:
    """Answers a validation with what is stored in its input."""

    def eval(self) -> None:
        """Nothing to switch."""

    def __call__(self, *, answer: dict[str, Any], **_: Any) -> dict[str, Any]:
        return answer


def llmseg_item(ground_truth: Any, predicted: Any) -> dict[str, Any]:
    """An input of LLMSeg's validation, whose only segment is the prediction."""
    return {
        "origin_segs_list": [predicted[:, :, None].astype(np.uint8)],
        "answer": {
            "pred_iou": [np.array([[0.9]])],
            "gt_masks": [torch.tensor(ground_truth[None].astype(np.uint8))],
        },
    }


def llmseg(official: Path) -> None:
    """IoU, gIoU and cIoU, with predictions of other sizes, and ncIoU on squares of 1024."""
    rng = np.random.default_rng(SEED)
    cases, plain, square = [], [], []
    for number, (ground_truth, answer) in enumerate(pairs(rng, 12, 8)):
        ignore = ignored(ground_truth, rng)
        if number % 2:
            size = (int(rng.integers(1, 200)), int(rng.integers(1, 200)))
            answer = answer_to(mask_of("ellipse", size, rng), rng)
        labels = np.where(ignore if ignore is not None else False, 255, ground_truth).astype(
            np.uint8
        )
        plain.append(llmseg_item(labels, answer))
        resized = [
            torch.nn.functional.interpolate(
                torch.tensor(mask.astype(np.uint8))[None, None], size=(1024, 1024), mode="nearest"
            )[0, 0].numpy()
            for mask in (labels, answer)
        ]
        square.append(llmseg_item(*resized))
        cases.append(
            {
                **encoded(ground_truth=ground_truth, ignore=ignore),
                "answer_size": list(answer.shape),
                "predicted": rle(answer),
            }
        )
    folder = official / "LLMSeg"
    seen, giou, ciou = validation(folder, "validate_threshold", Answers(), plain)
    squares, _, nciou = validation(folder, "validate_threshold", Answers(), square)
    for place, case in enumerate(cases):
        case |= {
            "I": seen["Intersec"][place],
            "U": seen["Union"][place],
            "iou": seen["gIoU"][place],
            "square_I": squares["Intersec"][place],
            "square_U": squares["Union"][place],
        }
    write(
        "llmseg/masks.json",
        "LLMSeg",
        "finetune_llmseg.py validate_threshold",
        "counts and IoU of a sample, gIoU and cIoU, and ncIoU by the lines commented out there",
        gIoU=giou,
        cIoU=ciou,
        ncIoU=nciou,
        cases=cases,
    )


def referring(official: Path) -> None:
    """LISA on RefCOCO: several expressions an image, polygons of one object that overlap."""
    rng = np.random.default_rng(SEED + 1)
    cases, items = [], []
    for number in range(80):
        size = SIZES[number % 4]
        objects, answers = [], []
        for _ in range(1 + number % 3):
            kinds = rng.choice(["ellipse", "rectangle", "polygon", "dot", "empty"], 1 + number % 4)
            objects.append([mask_of(str(kind), size, rng) for kind in kinds])
            answers.append(answer_to(np.any(objects[-1], axis=0), rng))
        sums = [np.sum(parts, axis=0).astype(np.uint8) for parts in objects]
        logits = np.where(np.stack(answers), 1.5, -1.5)
        blank = torch.zeros(1)
        items.append(
            {
                "images": blank,
                "images_clip": blank,
                "answer": {
                    "pred_masks": [torch.tensor(logits)],
                    "gt_masks": [torch.tensor(np.stack(sums))],
                },
            }
        )
        cases.append(
            {
                "size": list(size),
                "objects": [[rle(part) for part in parts] for parts in objects],
                "predicted": [rle(one) for one in answers],
            }
        )
    seen, giou, ciou = validation(official / "LISA", "validate", Answers(), items)
    for place, case in enumerate(cases):
        case |= {
            "I": seen["Intersec"][place],
            "U": seen["Union"][place],
            "iou": seen["gIoU"][place],
        }
    write(
        "lisa/referring.json",
        "LISA",
        "train_ds.py validate",
        "sums of counts and mean IoU of an image's expressions, gIoU and cIoU of all",
        gIoU=giou,
        cIoU=ciou,
        cases=cases,
    )


def gres_sample(rng: np.random.Generator, number: int) -> tuple[Any, Any, bool, bool]:
    """(ground truth, answer, no target, said so): every cell, with empty and other masks in
    each.
    """
    size = SIZES[number % 4]
    kind = "empty" if number % 5 == 0 else str(rng.choice(["ellipse", "two", "polygon"]))
    ground_truth = mask_of(kind, size, rng)
    if number % 3 == 0:
        answer = transformed(ground_truth, shift=(int(rng.integers(-1, 2)), 0))
    else:
        answer = answer_to(ground_truth, rng)
    if number % 11 == 0:
        answer = mask_of("rectangle", size, rng)
    return (
        ground_truth,
        answer,
        number % 5 == 0,
        bool(rng.random() < (0.6 if number % 5 == 0 else 0.2)),
    )


def rela(official: Path) -> None:
    """The four cells of a sample, gIoU, cIoU, N_acc, T_acc and Pr@t."""
    tool = classes(
        official / "ReLA/gres_model/evaluation/refer_evaluation.py",
        ["ReferEvaluator", "computeIoU"],
        {
            "np": np,
            "torch": torch,
            "DatasetEvaluator": object,
            "OrderedDict": dict,
            "logging": __import__("logging"),
            "__name__": "rela",
        },
    )
    rng = np.random.default_rng(SEED + 2)
    groups = []
    for size in (200, 60, 20):
        evaluator = tool["ReferEvaluator"]("golden", distributed=False)
        evaluator.reset()
        cases = []
        for number in range(size):
            ground_truth, answer, none, output = gres_sample(rng, number + (size == 20))
            none = none and size != 20  # the last group has no sample without target
            evaluator.process(
                [
                    {
                        "image_id": number,
                        "source": "grefcoco",
                        "sentence": {"raw": ""},
                        "gt_mask_merged": torch.tensor(ground_truth.astype(np.uint8)),
                        "empty": none,
                    }
                ],
                [
                    {
                        "ref_seg": torch.tensor(np.stack([~answer, answer]).astype(np.float32)),
                        "nt_label": torch.tensor([1.0 - output, float(output)]),
                    }
                ],
            )
            cases.append(
                {
                    **encoded(ground_truth=ground_truth, predicted=answer),
                    "none": none,
                    "said": output,
                }
            )
        inside, results = with_locals(evaluator.evaluate)
        for case, row in zip(cases, inside["results_dict"], strict=True):
            case |= {"I": row["I"], "U": row["U"], "iou": row["cIoU"]}
        totals = {name: float(value) for name, value in results["grefcoco"].items()}
        groups.append({"totals": totals, "cases": cases})
    write(
        "rela/samples.json",
        "ReLA",
        "gres_model/evaluation/refer_evaluation.py",
        "intersection, union and IoU that a sample adds, and the printed numbers",
        groups=groups,
    )


def nonobject(official: Path) -> None:
    """VisionReasoner's later repository: masks, boxes, hulls and empty annotations."""
    place = official / "VisionReasoner-JIA/evaluation"
    names = ["compute_iou", "compute_bbox_iou", "process_batch", "merge_bboxes", "get_bbox"]
    functions = compiled(place / "evaluation_segmentation.py", names, {"np": np})
    rng = np.random.default_rng(SEED + 3)
    groups = []
    for has_box in (False, True):
        cases, results, ground_truths = [], [], []
        for number in range(160):
            ground_truth, answer, _, _ = gres_sample(rng, number)
            boxes = [box(rng) for _ in range(int(rng.integers(0, 4)))]
            found = functions["get_bbox"](ground_truth)
            if found and number % 2:
                left, top, right, bottom = found
                middle = (top + bottom) // 2
                boxes = [[left, top, right, middle], [left, middle, right, bottom]]
            if number % 10 < 5 and not ground_truth.any():
                boxes = []
            true_box = box(rng) if has_box else None
            results.append({"thinking": "a b", "bboxes": boxes, "masks": answer})
            ground_truths.append(
                {"image_id": 0, "ann_id": 0, "mask": ground_truth, "bbox": true_box}
            )
            cases.append(
                {
                    **encoded(ground_truth=ground_truth, predicted=answer),
                    "box": true_box,
                    "boxes": boxes,
                }
            )
        rows: list[dict[str, Any]] = []
        model = types.SimpleNamespace(segment_objects_batch=lambda *_, found=results: found)
        functions["process_batch"](model, None, None, ground_truths, rows, has_box)
        inside = summary(place / "calculate_iou_with_bbox_nonobj.py", rows)
        for case, row, item in zip(cases, rows, inside["all_ious"], strict=True):
            case |= {
                "I": row["intersection"],
                "U": row["union"],
                "iou": float(item["iou"]),
                "hit": row["bbox_iou"],
                "right": row["non_object"],
            }
        totals = {name: float(inside[name]) for name in ("gIoU", "cIoU", "bbox_iou")}
        totals["N-Acc"] = inside["non_object"] / inside["total_non_object_GT"]
        groups.append({"totals": totals, "cases": cases})
    write(
        "visionreasoner/nonobject.json",
        "VisionReasoner-JIA",
        "evaluation/evaluation_segmentation.py and calculate_iou_with_bbox_nonobj.py",
        "what a sample adds, and the printed numbers",
        groups=groups,
    )


class Annotations:
    """As much of pycocotools' COCO as gRefCOCO's evaluator uses."""

    def __init__(self, targets: list[list[list[float]]]) -> None:
        self.targets = targets
        self.imgs = {number: {} for number in range(len(targets))}

    def getAnnIds(self, *, imgIds: int) -> int:  # noqa: N803
        """One id for all annotations of an image."""
        return imgIds

    def loadImgs(self, number: int) -> list[dict[str, Any]]:
        """Nothing is read of it."""
        return [self.imgs[number]]

    def loadAnns(self, number: int) -> list[dict[str, Any]]:
        """Boxes as left, top, width, height."""
        if not self.targets[number]:
            return [{"category_id": -1, "bbox": [0, 0, 0, 0]}]
        return [
            {"category_id": 1, "bbox": [left, top, right - left, bottom - top]}
            for left, top, right, bottom in self.targets[number]
        ]


def torchvision_box_area() -> Any:
    """The function of torchvision, from its source: the package needs a torch built with it."""
    spec = find_spec("torchvision")
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent / "ops"
    namespace = {"torch": torch, "Tensor": torch.Tensor, "_log_api_usage_once": lambda _: None}
    compiled(folder / "_utils.py", ["_upcast"], namespace)
    return compiled(folder / "boxes.py", ["box_area"], namespace)["box_area"]


def grec_boxes(rng: np.random.Generator, number: int) -> tuple[Any, Any, Any]:
    """(ground truth, predicted, scores): nested, shifted, equal and half boxes; scores
    around 0.7.
    """
    ground_truth = []
    for _ in range(0 if number % 6 == 0 else int(rng.integers(1, 6))):
        left, top, right, bottom = box(rng)
        ground_truth.append([left, top, right + 3, bottom + 3])
    predicted = []
    for corners in ground_truth:
        for _ in range(int(rng.integers(0, 3))):
            shift = rng.integers(-3, 4, 4) if rng.random() < 0.7 else np.zeros(4)
            moved = np.asarray(corners) + shift
            moved[2:] = np.maximum(moved[2:], moved[:2])
            predicted.append([round(float(side), 2) for side in moved])
    if ground_truth and number % 4 == 0:  # exactly one half
        left, top, right, _ = ground_truth[0]
        ground_truth[0] = [left, top, right, top + 8]
        predicted.append([left, top, right, top + 4])
    predicted += [box(rng) for _ in range(int(rng.integers(0, 3)))]
    choices = [0.699, 0.7, 0.70001, 0.71, 0.9, 0.95, 0.3, 0.9]
    scores = [float(score) for score in rng.choice(choices, len(predicted))]
    return ground_truth, predicted, scores


def grec(official: Path) -> None:
    """F1 of each sample; the share of F1 = 1, N_acc and T_acc of all."""
    folder = official / "gRefCOCO/mdetr"
    boxes = compiled(
        folder / "util/box_ops.py",
        ["box_iou", "generalized_box_iou"],
        {"torch": torch, "box_area": torchvision_box_area()},
    )
    evaluator = classes(
        folder / "datasets/refexp.py",
        ["RefExpEvaluator"],
        {
            "copy": __import__("copy"),
            "np": np,
            "torch": torch,
            "dist": types.SimpleNamespace(is_main_process=lambda: True),
            "generalized_box_iou": boxes["generalized_box_iou"],
            "print": lambda *_: None,
        },
    )["RefExpEvaluator"]
    rng = np.random.default_rng(SEED + 4)
    cases = [
        dict(zip(("ground_truth", "predicted", "scores"), grec_boxes(rng, number), strict=True))
        for number in range(400)
    ]
    dummy = {"scores": torch.tensor([0.1]), "boxes": torch.tensor([[0.0, 0.0, 1.0, 1.0]])}

    def evaluate(samples: list[dict[str, Any]]) -> tuple[dict[str, Any], Any]:
        # As in MDETR, which always predicts, each image also has a box that is not confident.
        found = evaluator(Annotations([one["ground_truth"] for one in samples]), ("bbox",))
        found.update(
            {
                number: {
                    "scores": torch.cat([torch.tensor(one["scores"]), dummy["scores"]]),
                    "boxes": torch.cat(
                        [torch.tensor(one["predicted"]).reshape(-1, 4), dummy["boxes"]]
                    ),
                }
                for number, one in enumerate(samples)
            }
        )
        return with_locals(found.summarize)

    none: dict[str, Any] = {"ground_truth": [], "predicted": [], "scores": []}
    both = [none, {**none, "ground_truth": [[0, 0, 4, 4]]}]
    for case in cases:  # a set needs samples of both kinds, or the official code divides by 0
        case["f1"] = float(evaluate([*both, case])[0]["F_1"])
    for case in cases:
        if case["ground_truth"] and case["predicted"]:
            output, true = (
                torch.tensor(case[name], dtype=torch.float32)
                for name in ("predicted", "ground_truth")
            )
            case["giou"] = boxes["generalized_box_iou"](true, output).tolist()
            if not np.isfinite(case["giou"]).all():  # two boxes without area
                del case["giou"]
    write(
        "grefcoco/boxes.json",
        "gRefCOCO",
        "mdetr/datasets/refexp.py RefExpEvaluator",
        "F1 of a sample and generalised IoU of its pairs, and the printed numbers",
        totals=evaluate(cases)[1],
        cases=cases,
    )


def main(official: Path) -> None:
    """Write every file."""
    warnings.simplefilter("ignore", DeprecationWarning)
    cv2.setNumThreads(1)
    for write_files in (llmseg, referring, rela, nonobject, grec):
        write_files(official)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    main(parser.parse_args().official)
