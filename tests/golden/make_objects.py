"""Write the golden files of video segmentation: inputs from a seed, outputs by official tools.

    python tests/golden/make_objects.py --official FOLDER

FOLDER holds checkouts named `davis2017-evaluation`, `ReferFormer`, `VISA` and `Sa2VA` at the
commits in `pieces.py`. Their code is imported or compiled from there; none of it is kept here. The
tools need torch, scikit-image and tqdm, which harness does not; what else they import is replaced.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from inputs import answer_to, mask_of, transformed
from official import Queue, compiled, module
from pieces import rle, statements, write
from PIL import Image

from harness.masks import Rle

SEED = 20250601
SIZES = ((24, 40), (33, 65), (48, 64), (60, 107))


def label_track(rng: np.random.Generator, size: tuple[int, int], count: int, top: int) -> Any:
    """Frames of labels from 0 to `top`, each object moving a little."""
    labels = np.zeros((count, *size), dtype=np.uint8)
    for number in range(1, top + 1):
        mask = mask_of(str(rng.choice(["ellipse", "rectangle", "two", "polygon"])), size, rng)
        for frame in range(count):
            labels[frame][transformed(mask, shift=(frame, -frame))] = number
    return labels


def unsupervised_case(rng: np.random.Generator, number: int) -> tuple[Any, Any]:
    """Labels of the ground truth, with void pixels, and of a prediction with its objects
    renumbered.
    """
    size, count = SIZES[number % 4], 1 + number % 4
    ground_truth = label_track(rng, size, count, 1 + number % 4)
    if number % 5 == 1 and count > 1:
        ground_truth[1:][ground_truth[1:] == 0] = (
            ground_truth.max() + 1
        )  # an object that the first frame lacks
    if number % 7 == 0:
        predicted = np.zeros_like(ground_truth)
    elif number % 7 == 1:
        predicted = label_track(rng, size, count, 20)
    else:
        order = rng.permutation(7).astype(np.uint8) + 1
        order[0] = order[0] if number % 3 else 0
        predicted = np.roll(order[ground_truth % 7], 1, axis=2)
        predicted[predicted == order[0]] = 0
        if number % 9 == 3:  # fewer than there are
            predicted = (ground_truth == 1).astype(np.uint8)
        elif number % 9 == 5:  # one that the first frame lacks
            predicted[predicted == predicted.max()] = 9
            predicted[0][predicted[0] == 9] = 0
    ground_truth[0, 0, 0] = max(1, number % 4)  # the first frame must have an object
    if number % 3:
        ground_truth[:, : size[0] // 4, size[1] // 2 :] = 255
    return ground_truth, predicted


def numbered(labels: Any) -> list[dict[str, str]]:
    """For each frame the run-length of each label but 0."""
    return [
        {str(value): rle(frame == value) for value in np.unique(frame) if value} for frame in labels
    ]


def save_davis(folder: Path, name: str, labels: Any) -> None:
    """Frames as images whose values are the labels."""
    place = folder / name
    place.mkdir(parents=True)
    for frame, label in enumerate(labels):
        Image.fromarray(label).save(place / f"{frame:05d}.png")


def davis(official: Path) -> None:
    """J and F of the objects of videos after Hungarian matching, by the whole evaluation."""
    sys.path.insert(0, str(official / "davis2017-evaluation"))
    from davis2017.evaluation import DAVISEvaluation

    rng = np.random.default_rng(SEED + 5)
    cases = []
    with tempfile.TemporaryDirectory() as place:
        root, found = Path(place, "DAVIS"), Path(place, "found")
        names = [f"v{number:02d}" for number in range(36)]
        (root / "ImageSets/2017").mkdir(parents=True)
        (root / "ImageSets/2017/val.txt").write_text("\n".join(names) + "\n")
        for number, name in enumerate(names):
            ground_truth, predicted = unsupervised_case(rng, number)
            save_davis(root / "Annotations_unsupervised/480p", name, ground_truth)
            save_davis(root / "JPEGImages/480p", name, ground_truth)
            for path in (root / "JPEGImages/480p" / name).iterdir():
                path.rename(path.with_suffix(".jpg"))  # only counted
            save_davis(found, name, predicted)
            cases.append(
                {
                    "size": list(ground_truth.shape[1:]),
                    "ground_truth": numbered(ground_truth),
                    "predicted": numbered(predicted),
                }
            )
        with contextlib.redirect_stderr(io.StringIO()):
            results = DAVISEvaluation(str(root), "unsupervised", "val").evaluate(str(found))
    for name, case in zip(names, cases, strict=True):
        for letter in "JF":
            values = results[letter]["M_per_object"].items()
            case[letter] = [float(mean) for key, mean in values if key.rpartition("_")[0] == name]
    totals = {letter: float(np.mean(results[letter]["M"])) for letter in "JF"}
    write(
        "davis2017/unsupervised.json",
        "davis2017-evaluation",
        "davis2017/evaluation.py",
        "J and F of each object, in the order of the proposals, and their means",
        totals=totals,
        cases=cases,
    )


def argmax(official: Path) -> None:
    """The object that has each pixel, by ReferFormer's lines."""
    lines = statements(
        official / "ReferFormer/inference_davis.py",
        "t, h, w = anno_masks.shape",
        "out_masks = out_masks.detach()",
    )
    rng = np.random.default_rng(SEED + 6)
    cases = []
    for number in range(40):
        levels = rng.integers(0, 256, (1 + number % 5, 1 + number % 3, 4, 6))
        if number % 2:
            levels = rng.choice([0, 25, 26, 127, 128, 129, 200, 255], levels.shape)
        masks = torch.tensor(levels.astype(np.float32) / np.float32(255))
        if number % 4 == 0:
            masks = masks.round(decimals=1)
        names = {
            "torch": torch,
            "np": np,
            "args": types.SimpleNamespace(device="cpu"),
            "anno_masks": masks.clone(),
        }
        exec(lines, names)
        cases.append({"confidences": masks.tolist(), "labels": names["out_masks"].tolist()})
    write(
        "referformer/argmax.json",
        "ReferFormer",
        "inference_davis.py sub_processor",
        "labels of pixels from confidences of objects, float32",
        cases=cases,
    )


def revos_world(rng: np.random.Generator) -> dict[str, Any]:
    """Videos, expressions of three types with objects that overlap, and predictions."""
    world: dict[str, Any] = {"videos": {}, "masks": {}, "foreground": {}, "predicted": {}}
    for number in range(16):
        size, count, name = SIZES[number % 4], 1 + number % 5, f"set/v{number}"
        ids = []
        for _ in range(1 + number % 4):
            kind = str(rng.choice(["ellipse", "rectangle", "two", "empty"]))
            mask = mask_of(kind, size, rng)
            ids.append(len(world["masks"]))
            world["masks"][str(ids[-1])] = [
                Rle.from_array(shown).to_json() if shown.any() or frame % 2 else None
                for frame in range(count)
                for shown in [transformed(mask, shift=(frame, frame))]
            ]
        expressions = {}
        for place in range(3):
            chosen = ids[: 1 + place] if place else ids
            expressions[str(place)] = {
                "exp": "",
                "type_id": (number + place) % 3,
                "anno_id": chosen,
            }
            frames = revos_ground_truth(world, chosen, size, count)
            world["predicted"][f"{name}_{place}"] = [answer_to(frame, rng) for frame in frames]
        world["videos"][name] = {
            "height": size[0],
            "width": size[1],
            "expressions": expressions,
            "frames": [f"f{frame:03d}" for frame in range(count)],
        }
    return world


def revos_ground_truth(
    world: dict[str, Any], ids: list[int], size: tuple[int, int], count: int
) -> Any:
    """The union of some objects in each frame."""
    union = np.zeros((count, *size), dtype=np.bool_)
    for number in ids:
        for frame, mask in enumerate(world["masks"][str(number)]):
            if mask is not None:
                union[frame] |= Rle.from_json(mask).to_array()
    return union


def revos(official: Path) -> None:
    """J, F, A and R of expressions and their means, by VISA's and by Sa2VA's scorer."""
    world = revos_world(np.random.default_rng(SEED + 7))
    merge = compiled(
        official / "VISA/tools/generate_foreground_mask.py",
        ["merge_rle"],
        {"np": np, "maskUtils": __import__("pycocotools.mask").mask},
    )
    for name, video in world["videos"].items():
        ids = sorted({one for exp in video["expressions"].values() for one in exp["anno_id"]})
        tracks = [world["masks"][str(number)] for number in ids]
        masks, _ = merge["merge_rle"](tracks, video["height"], video["width"])
        world["foreground"][name] = {"masks_rle": masks}
    found = {
        "VISA": revos_visa(official / "VISA", world),
        "Sa2VA": revos_sa2va(official / "Sa2VA", world),
    }
    cases = []
    for name, video in world["videos"].items():
        for key, exp in video["expressions"].items():
            cases.append(
                {
                    "size": [video["height"], video["width"]],
                    "video": name,
                    "type": exp["type_id"],
                    "objects": [
                        [mask and mask["counts"] for mask in world["masks"][str(number)]]
                        for number in exp["anno_id"]
                    ],
                    "foreground": [
                        mask["counts"] for mask in world["foreground"][name]["masks_rle"]
                    ],
                    "predicted": [rle(mask) for mask in world["predicted"][f"{name}_{key}"]],
                    **{
                        tool: [float(value) for value in rows[f"{name}_{key}"]]
                        for tool, rows in found.items()
                    },
                }
            )
    for tool, script in (("VISA", "tools/eval_revos.py"), ("Sa2VA", "tools/eval/eval_revos.py")):
        names = {"np": np, "output_dict": found[tool], "exp_dict": world["videos"]}
        exec(statements(official / tool / script, "data_list = []", "results = "), names)
        totals = {
            group: {key: float(value) for key, value in row.items()}
            for group, row in names["results"].items()
        }
        percents = [[row[letter] for letter in "JFAR"] for row in names["data_list"]]
        rows = [
            {key: value for key, value in case.items() if key not in ("VISA", "Sa2VA")}
            | {"scores": case[tool], "percent": percent}
            for case, percent in zip(cases, percents, strict=True)
        ]
        write(
            f"revos/{tool.lower()}.json",
            tool,
            script,
            "J, F, A and R of an expression, in percent, and the means of a run",
            totals=totals,
            cases=rows,
        )


def revos_visa(folder: Path, world: dict[str, Any]) -> dict[str, Any]:
    """VISA's worker, on images of 0 and 255."""
    metrics = module(folder / "tools/metrics.py")
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        for name, video in world["videos"].items():
            for key in video["expressions"]:
                target = Path(place, name, key)
                target.mkdir(parents=True)
                for frame, mask in zip(
                    video["frames"], world["predicted"][f"{name}_{key}"], strict=True
                ):
                    cv2.imwrite(str(target / f"{frame}.png"), mask.astype(np.uint8) * 255)
        names = {
            **vars(metrics),
            "os": __import__("os"),
            "colored": lambda text, _: text,
            "traceback": __import__("traceback"),
            "exp_dict": world["videos"],
            "cocomask": __import__("pycocotools.mask").mask,
            "mask_dict": world["masks"],
            "mask_dict_foreground": world["foreground"],
        }
        worker = compiled(folder / "tools/eval_revos.py", ["eval_queue"], names)["eval_queue"]
        worker(Queue(revos_pairs(world)), 0, results, place)
    return results


def revos_sa2va(folder: Path, world: dict[str, Any]) -> dict[str, Any]:
    """Sa2VA's worker, on run-lengths."""
    names = ("metircs.py", "metrics.py")  # the name was mended after the pinned commit
    paths = (folder / "third_parts/revos/utils" / name for name in names)
    metrics = module(next(path for path in paths if path.is_file()))
    results: dict[str, Any] = {}
    predictions: dict[str, Any] = {}
    for name, key in revos_pairs(world):
        masks = [Rle.from_array(mask).to_json() for mask in world["predicted"][f"{name}_{key}"]]
        predictions.setdefault(name, {})[key] = {"prediction_masks": masks}
    known = {
        **vars(metrics),
        "cocomask": __import__("pycocotools.mask").mask,
        "mask_pred_dict": predictions,
        "mask_dict_foreground": world["foreground"],
        "exp_dict": world["videos"],
        "mask_dict": world["masks"],
    }
    worker = compiled(folder / "tools/eval/eval_revos.py", ["eval_queue"], known)["eval_queue"]
    worker(Queue(revos_pairs(world)), 0, results)
    return results


def revos_pairs(world: dict[str, Any]) -> list[tuple[str, str]]:
    """(video, expression) of all."""
    return [(name, key) for name, video in world["videos"].items() for key in video["expressions"]]


def visa_davis(official: Path) -> None:
    """Ref-DAVIS17 as VISA scores it: masks numbered in the order of text, J and F, their means."""
    metrics = module(official / "VISA/tools/metrics.py")
    script = official / "VISA/tools/eval_davis17.py"
    rng = np.random.default_rng(SEED + 8)
    data: dict[str, Any] = {"videos": {}}
    for name in ("dog", "bear", "dance-twirl"):
        expressions = {str(key): {"exp": ""} for key in range(12)}
        data["videos"][name] = {"frames": ["00000", "00001"], "expressions": expressions}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "meta.json")
        path.write_text(json.dumps(data))
        names = compiled(
            script,
            ["get_meta_exp", "eval_queue"],
            {
                **vars(metrics),
                "json": json,
                "os": __import__("os"),
                "cocomask": __import__("pycocotools.mask").mask,
            },
        )
        names["exp_dict"] = names["get_meta_exp"](path)
        names["mask_dict"], results, cases = {}, {}, []
        for name, video in names["exp_dict"].items():
            for key, exp in video["expressions"].items():
                (number,) = exp["anno_id"]
                ground_truth = [mask_of("ellipse", (15, 20), rng) for _ in range(2)]
                names["mask_dict"][str(number)] = [
                    Rle.from_array(mask).to_json() for mask in ground_truth
                ]
                cases.append(
                    {
                        "size": [15, 20],
                        "video": name,
                        "expression": key,
                        "number": number,
                        "ground_truth": [rle(mask) for mask in ground_truth],
                        "predicted": [],
                    }
                )
                target = Path(place, "found", name, key)
                target.mkdir(parents=True)
                for frame, mask in zip(video["frames"], ground_truth, strict=True):
                    answer = answer_to(mask, rng)
                    cases[-1]["predicted"].append(rle(answer))
                    cv2.imwrite(str(target / f"{frame}.png"), answer.astype(np.uint8) * 255)
        worker = [(case["video"], case["expression"]) for case in cases]
        names["eval_queue"](Queue(worker), 0, results, Path(place, "found"))
    for case in cases:
        j, f = results[f"{case['video']}_{case['expression']}"]
        case |= {"J": float(j), "F": float(f)}
    exec_names = {
        "output_dict": results,
        "np": np,
        "osp": __import__("os").path,
        "args": types.SimpleNamespace(mevis_pred_path="", save_name=""),
    }
    exec(statements(script, "j = [output_dict[x][0]", "results = "), exec_names)
    write(
        "visa/davis.json",
        "VISA",
        "tools/eval_davis17.py",
        "the number of an expression's masks, its J and F, and the printed means",
        totals=exec_names["results"],
        cases=cases,
    )


def main(official: Path) -> None:
    """Write every file."""
    warnings.simplefilter("ignore", RuntimeWarning)  # the official J divides by 0
    warnings.simplefilter("ignore", DeprecationWarning)
    cv2.setNumThreads(1)
    for write_files in (davis, argmax, revos, visa_davis):
        write_files(official)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    main(parser.parse_args().official)
