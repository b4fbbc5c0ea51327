"""Write the golden files of predictions: masks and answers of ours, as official tools write them.

    python tests/golden/make_formats.py --official FOLDER

FOLDER holds checkouts named as in `COMMITS`. The functions, loops and assignments that write files
are compiled from there, without the networks around them; none of that code is kept here. It needs
torch, pandas and xlsxwriter, which harness does not.
"""

import argparse
import ast
import base64
import csv
import json
import os
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd
import torch
from checkouts import inside
from PIL import Image
from pycocotools import mask as coco

HERE = Path(__file__).parent
SIZE = (6, 9)  # height, width
FRAMES = ("00000", "00005")
VIDEOS = {"a1": ("0", "1"), "OVIS/b2": ("0",)}
COMMITS = {
    "LISA": "3cb2d4301f1af4691bd4f3938335ef06e76f155a",
    "VISA": "ec158fde9cdf87f702399c73618aa0f1127062e9",
    "Sa2VA": "9832e1a80e74ed513e8072bf882a09bdd80566c4",
    "MeViS": "7c0620b9dc0ab7802747957f221674f175c8a47b",
    "detectron2": "02b5c4e295e990042a714712c21dc79b731e8833",
    "BLINK_Benchmark": "2d6a779be4aa1ad0d38d7aa539bcb43b6dd81592",
    "VLMEvalKit": "e8e78f05f3080fe28154f2130321f17951c3be94",
}
Kept = Callable[[ast.AST], bool]


def run(path: Path, kept: Kept, namespace: dict[str, Any], *changes: tuple[str, str]) -> None:
    """Execute the parts of a file that are `kept`, after changes to its text."""
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    body = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt) and kept(node)]
    module = ast.Module(body=body, type_ignores=[])
    exec(compile(module, str(path), "exec"), namespace)


def function(*names: str) -> Kept:
    """Choose functions by name."""
    return lambda node: isinstance(node, ast.FunctionDef) and node.name in names


def beginning(text: str) -> Kept:
    """Choose statements by how they begin."""
    return lambda node: ast.unparse(node).startswith(text)


def write(name: str, tool: str, source: str, folder: Path, **content: Any) -> None:
    """Keep the files of a folder as base64, and what they were made of."""
    files = {
        str(path.relative_to(folder)): base64.b64encode(path.read_bytes()).decode()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    head = {"tool": tool, "commit": COMMITS[tool], "source": source}
    path = HERE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**head, "files": files, **content}, indent=1) + "\n", "utf-8")
    sys.stdout.write(f"{name}: {path.stat().st_size} bytes\n")


def counts(mask: np.ndarray) -> str:
    """COCO's run-length of a mask."""
    return str(coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode())


def masks(number: int) -> np.ndarray:
    """Masks of the frames of an expression: frames × height × width."""
    return np.random.default_rng(number).random((len(FRAMES), *SIZE)) > 0.6


def tracks() -> dict[str, np.ndarray]:
    """Masks of every expression, by video and expression with a slash."""
    ids = [f"{video}/{number}" for video, numbers in VIDEOS.items() for number in numbers]
    return {name: masks(number) for number, name in enumerate(ids)}


def expected() -> dict[str, list[str]]:
    """The run-lengths of all masks."""
    return {name: [counts(mask) for mask in track] for name, track in tracks().items()}


def lisa(official: Path, place: Path) -> None:
    """`chat.py`: a JPEG a mask, and PNG where its user changed the suffix, as many do."""
    first, second = masks(7)
    logits = [torch.from_numpy(np.where(mask, 2.0, -2.0))[None] for mask in (first, second)]
    changes = {"jpeg": [], "png": [("_mask_{}.jpg", "_mask_{}.png")]}
    for kind, changed in changes.items():
        (place / kind).mkdir()
        namespace = {
            "pred_masks": logits,
            "args": types.SimpleNamespace(vis_save_path=str(place / kind)),
            "image_path": "images/x_1.jpg",
            "image_np": np.full((*SIZE, 3), 120, np.uint8),
            "np": np,
            "cv2": cv2,
            "print": lambda *_: None,
        }
        kept = beginning("for i, pred_mask in enumerate(pred_masks)")
        run(official / "LISA/chat.py", kept, namespace, *changed)
    write("lisa/chat.json", "LISA", "chat.py", place, masks=[counts(first | second)])


def visa(official: Path, place: Path) -> None:
    """`rvos_validate` of train_ds.py: a PNG a frame of each expression."""
    namespace = {
        "torch": torch,
        "tqdm": types.SimpleNamespace(tqdm=iter),
        "dict_to_cuda": dict,
        "np": np,
        "Image": Image,
        "os": os,
    }
    run(official / "VISA/train_ds.py", function("rvos_validate"), namespace)
    for name, track in tracks().items():

        class Model:
            def eval(self) -> None:
                """Do nothing."""

            def __call__(self, track: np.ndarray = track, **_: Any) -> dict[str, Any]:
                return {"pred_masks": [torch.from_numpy(np.where(track, 1.0, -1.0))]}

        paths = [str(place / "Annotations" / name / f"{frame}.png") for frame in FRAMES]
        query = {"images": [], "images_clip": [], "image_paths": paths}
        arguments = types.SimpleNamespace(precision="fp32")
        namespace["rvos_validate"]([query], Model(), 0, None, arguments)
    write("visa/masks.json", "VISA", "train_ds.py", place, masks=expected())


def sa2va(official: Path, place: Path) -> None:
    """`sa2va_eval_ref_vos.py`: run-lengths in one file, and with --submit a PNG a frame."""
    source = "projects/sa2va/evaluation/sa2va_eval_ref_vos.py"
    path = official / "Sa2VA" / source
    namespace: dict[str, Any] = {
        "cocomask": coco,
        "np": np,
        "os": os,
        "Image": Image,
        "mmengine": types.SimpleNamespace(
            mkdir_or_exist=lambda folder: Path(folder).mkdir(parents=True, exist_ok=True)
        ),
        "results": [],
        "final_results": {},
        "text_prediction": "It is [SEG].",
    }
    run(path, function("mask_to_rle", "mask_save"), namespace)
    for number, (name, track) in enumerate(tracks().items()):
        video, _, expression = name.rpartition("/")
        namespace["item"] = {
            "index": number,
            "video_id": video,
            "exp_id": expression,
            "frames": list(FRAMES),
            "text_prompt": "Please segment it.",
        }
        namespace["encoded_mask"] = namespace["mask_to_rle"](track)
        run(path, beginning("result = {'index'"), namespace)
        namespace["results"].append(namespace["result"])
        namespace["mask_save"](namespace["item"], track, str(place / "submit"))
    run(path, beginning("for item in results:"), namespace)
    (place / "results.json").write_text(json.dumps(namespace["final_results"]))
    write("sa2va/results.json", "Sa2VA", source, place, masks=expected())


def mevis(official: Path, place: Path) -> None:
    """LMPM's `evaluator.py` writes a PNG a frame; `ytvis_eval.py` instances of a video in JSON."""
    source = official / "MeViS/lmpm"
    for name, track in tracks().items():
        save_path = place / "inference" / name
        save_path.mkdir(parents=True)
        namespace = {
            "video_len": len(FRAMES),
            "frames": [f"JPEGImages/{name}/{frame}.jpg" for frame in FRAMES],
            "all_pred_masks": torch.from_numpy(track),
            "save_path": str(save_path),
            "np": np,
            "Image": Image,
            "os": os,
        }
        kept = beginning("for j in range(video_len)")
        run(source / "evaluation/evaluator.py", kept, namespace)
    namespace = {"np": np, "mask_util": coco}
    run(source / "data/ytvis_eval.py", function("instances_to_coco_json_video"), namespace)
    first, second = masks(0), masks(1)
    outputs = {"pred_scores": [0.9, 0.2], "pred_labels": [1, 1], "pred_masks": [first, second]}
    instances = namespace["instances_to_coco_json_video"]([{"video_id": 3}], outputs)
    (place / "results.json").write_text(json.dumps(instances))
    tracked = [[counts(mask) for mask in track] for track in (first, second)]
    write("mevis/lmpm.json", "MeViS", "lmpm", place, masks=expected(), instances=tracked)


class Instances(types.SimpleNamespace):
    """As much of detectron2's as it is written by."""

    def __len__(self) -> int:
        return len(self.scores)

    def has(self, name: str) -> bool:
        """Return True if there is a field."""
        return hasattr(self, name)


def detectron2(official: Path, place: Path) -> None:
    """`instances_to_coco_json` of coco_evaluation.py: boxes and masks with scores."""
    source = "detectron2/evaluation/coco_evaluation.py"
    modes = types.SimpleNamespace(
        XYXY_ABS=0,
        XYWH_ABS=1,
        convert=lambda boxes, *_: np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1),
    )
    namespace = {"np": np, "mask_util": coco, "BoxMode": modes}
    run(official / "detectron2" / source, function("instances_to_coco_json"), namespace)
    boxes, results, kept = [[1.0, 2.0, 4.5, 6.0], [0.0, 0.5, 3.0, 5.0]], [], {}
    for image, scores in (("139", [0.9, 0.7]), ("285", [0.8, 0.3])):
        found = masks(int(image))

        instances = Instances(
            pred_boxes=types.SimpleNamespace(tensor=torch.tensor(boxes, dtype=torch.float64)),
            scores=torch.tensor(scores, dtype=torch.float64),
            pred_classes=torch.tensor([1, 1]),
            pred_masks=found,
        )
        results += namespace["instances_to_coco_json"](instances, int(image))
        sure = [mask for mask, score in zip(found, scores, strict=True) if score > 0.5]
        kept[image] = {
            "union": counts(np.any(sure, axis=0)),
            "instances": [counts(mask) for mask in found],
            "scores": scores,
        }
    (place / "coco_instances_results.json").write_text(json.dumps(results))
    write("detectron2/results.json", "detectron2", source, place, boxes=boxes, images=kept)


def blink(official: Path, place: Path) -> None:
    """`get_prediction_file` of evaluate.py: letters by id, from outputs on each task."""
    letters = {"val_Counting_1": "(B)", "val_Counting_2": "(Z)", "val_Jigsaw_1": "(C) Point C"}
    tasks = ["Counting", "Jigsaw"]
    outputs = {
        task: {
            "val": [
                {"idx": name, "answer": "(B)", "full_prediction": "?", "prediction": letter}
                for name, letter in letters.items()
                if task in name
            ],
            "test": [
                {
                    "idx": f"test_{task}_1",
                    "answer": "hidden",
                    "full_prediction": "?",
                    "prediction": "(A)",
                }
            ],
        }
        for task in tasks
    }
    (place / "outputs/m").mkdir(parents=True)
    for task, output in outputs.items():
        (place / f"outputs/m/{task}.json").write_text(json.dumps(output))
    namespace = {"os": os, "json": json, "subtasks": tasks, "output_save_folder": "outputs"}
    path = official / "BLINK_Benchmark/eval/evaluate.py"
    run(path, function("get_prediction_file"), namespace)
    with inside(str(place)):
        namespace["get_prediction_file"]("val", "m")
    write("blink/predictions.json", "BLINK_Benchmark", "eval/evaluate.py", place, letters=letters)


def vlmevalkit(official: Path, place: Path) -> None:
    """`dump` of smp/file.py: the table as .xlsx, .tsv and .json."""
    responses = {"001-1": "B", "001-2": None, "002-1": "=A", "002-2": "D\r\nso"}
    table = pd.DataFrame(
        {
            "index": range(4),
            "question_id": list(responses),
            "hit": [1, 0, 1, 0],
            "prediction": list(responses.values()),
        }
    )

    class Encoder(json.JSONEncoder):
        """As much of VLMEvalKit's as plain data needs."""

    names = {"pd": pd, "csv": csv, "json": json, "NumpyEncoder": Encoder}
    run(official / "VLMEvalKit/vlmeval/smp/file.py", function("dump"), names)
    for suffix in ("xlsx", "tsv", "json"):
        names["dump"](table, str(place / f"m_Video-MME.{suffix}"))
    source = "vlmeval/smp/file.py"
    write("vlmevalkit/table.json", "VLMEvalKit", source, place, responses=responses)


def main() -> None:
    """Write all golden files of predictions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--official", type=Path, required=True)
    official = parser.parse_args().official.resolve()
    for make in (lisa, visa, sa2va, mevis, detectron2, blink, vlmevalkit):
        with tempfile.TemporaryDirectory() as folder:
            make(official, Path(folder))


if __name__ == "__main__":
    main()
