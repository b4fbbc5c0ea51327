"""Write the golden files of still images: what official readers make of the same folders.

    python tests/golden/make_stills.py --official FOLDER

FOLDER holds checkouts named `LISA`, `gRefCOCO`, `LLMSeg` and `VisionReasoner` at the commits below;
their classes and functions are compiled from there, and none of their code is kept here. Copies of
the hub are loaded by the package `datasets`, as the official evaluation does. Nothing of harness
reads here; it only makes the world that is read.
"""

import argparse
import glob
import itertools
import json
import os
import os.path as osp
import pickle
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import cv2
import numpy as np
from make_readers import digest, official_class
from official import compiled, with_locals
from PIL import Image
from pycocotools import mask as coco
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from harness.tasks.coco_detection.writer import write as write_coco_detection
from harness.tasks.grefcoco.writer import write as write_grefcoco
from harness.tasks.llm_seg40k.writer import write as write_llm_seg40k
from harness.tasks.reason_seg.writer import write as write_reason_seg
from harness.tasks.refcoco.writer import write as write_refcoco
from harness.tasks.refcoco_plus.writer import write as write_refcoco_plus
from harness.tasks.refcocog.writer import write as write_refcocog
from harness.world.shapes import make

HERE = Path(__file__).parent / "readers"
COMMITS = {
    "LISA": "3cb2d4301f1af4691bd4f3938335ef06e76f155a",
    "gRefCOCO": "41a8f008006bb1fb0f1df2547f9477bb97e36593",
    "LLMSeg": "65147a98cc49c2dac9b7a3633d9d3d336f1ac023",
    "VisionReasoner": "a455092a8d57d96f5d6e77597fb5a8741b8f3880",
}
WORLD = {"seed": 20250102, "size": 6}
WRITERS = {
    "reason_seg": write_reason_seg,
    "refcoco": write_refcoco,
    "refcoco_plus": write_refcoco_plus,
    "refcocog": write_refcocog,
    "grefcoco": write_grefcoco,
    "llm_seg40k": write_llm_seg40k,
    "coco_detection": write_coco_detection,
}
REFER = {
    "refcoco": ("refcoco", {"unc": ("val", "testA", "testB"), "google": ("val", "test")}),
    "refcoco_plus": ("refcoco+", {"unc": ("val", "testA", "testB")}),
    "refcocog": ("refcocog", {"umd": ("val", "test"), "google": ("val",)}),
}
COPIES = (
    "reason_seg/ReasonSeg_val",
    "reason_seg/ReasonSeg_test",
    "refer_seg/refcoco_val",
    "refer_seg/refcoco_val_all",
    "refer_seg/refcocoplus_testA_all",
    "refer_seg/refcocog_test",
)
PLAIN = {
    "os": os,
    "osp": osp,
    "json": json,
    "time": time,
    "np": np,
    "mask": coco,
    "itertools": itertools,
    "random": random,
    "cv2": cv2,
    "glob": glob,
    "pickle": pickle,
    "print": lambda *_: None,
    "__file__": "",
}


def odd() -> dict[str, Any]:
    """Files by hand: polygons that overlap, run-lengths, none, splits of several letters."""

    def box(left: int, top: int, right: int, bottom: int) -> list[float]:
        return [left, top, right, top, right, bottom, left, bottom]

    runs = coco.encode(np.asfortranarray(np.eye(20, 30, dtype=np.uint8)))
    parts = [
        [box(2, 2, 9, 9), box(6, 5, 14, 12)],  # overlapping
        [[3.2, 1.7, 25.6, 2.2, 14.9, 18.4]],
        [{"size": [20, 30], "counts": runs["counts"].decode()}],
        [],
        [box(20, 10, 45, 35)],  # reaches out of the image
        [box(1, 1, 5, 5), box(1, 1, 5, 5), box(3, 3, 8, 8)],
    ]
    output = ["  The LEFT one ", "it", "diagonal", "nothing", "corner", "Three  Pieces"]
    things = [
        {
            "id": 7 + n,
            "image_id": 5,
            "category_id": 3,
            "iscrowd": 0,
            "area": 9.5,
            "bbox": [1.5 * n + 0.25, 2.0, 3.75, 4.1],
            "segmentation": part,
        }
        for n, part in enumerate(parts)
    ]
    splits = ["testA", "testAB", "testB", "testA", "testAC", "testA"]
    refs = [
        {
            "ref_id": n,
            "ann_id": 7 + n,
            "category_id": 3,
            "image_id": 5,
            "split": split,
            "file_name": "COCO_train2014_000000000005_1.jpg",
            "sent_ids": [2 * n, 2 * n + 1],
            "sentences": [
                {
                    "sent_id": 2 * n + more,
                    "sent": output[n] + " now" * more,
                    "raw": output[n],
                    "tokens": [],
                }
                for more in (0, 1)
            ],
        }
        for n, split in enumerate(splits)
    ]
    images = [{"id": 5, "file_name": "COCO_train2014_000000000005.jpg", "width": 30, "height": 20}]
    categories = [{"id": 3, "name": "thing"}]
    return {
        "refs": refs,
        "instances": {"images": images, "annotations": things, "categories": categories},
    }


def write_odd(root: Path) -> None:
    """The files by hand, as `refcoco(unc)` below a folder."""
    plain = odd()
    (root / "refcoco").mkdir(parents=True)
    (root / "images/mscoco/images/train2014").mkdir(parents=True)
    (root / "refcoco/refs(unc).p").write_bytes(pickle.dumps(plain["refs"], protocol=0))
    (root / "refcoco/instances.json").write_text(json.dumps(plain["instances"]))
    for entry in plain["instances"]["images"]:
        image = Image.new("RGB", (entry["width"], entry["height"]))
        image.save(root / "images/mscoco/images/train2014" / entry["file_name"])


def lisa(official: Path, root: Path, dataset: str, split_by: str, split: str) -> list[Any]:
    """Every expression as LISA's `REFER` and `ValDataset` have it."""
    refer = official_class(official / "LISA/utils/refer.py", "REFER", dict(PLAIN))
    torch = MagicMock()
    torch.utils.data.Dataset = object
    stand_ins = ("conversation_lib", "CLIPImageProcessor", "ResizeLongestSide")
    dataset_class = official_class(
        official / "LISA/utils/dataset.py",
        "ValDataset",
        {
            **PLAIN,
            "torch": torch,
            "REFER": refer,
            "DEFAULT_IMAGE_TOKEN": "",
            **{name: MagicMock() for name in stand_ins},
        },
    )
    api = refer(str(root), dataset, split_by)
    reader = dataset_class(str(root), None, None, f"{dataset}|{split_by}|{split}")
    reader.preprocess = lambda image: image
    rows = []
    for index in range(len(reader)):
        inside, _ = with_locals(reader.__getitem__, index)
        masks = torch.from_numpy.call_args_list[-1].args[0]
        pairs = [(ref, output) for ref in inside["refs"] for output in ref["sentences"]]
        for (ref, output), text, mask in zip(pairs, inside["sents"], masks, strict=True):
            x, y, width, height = api.getRefBox(ref["ref_id"])
            rows.append(
                {
                    "id": str(output["sent_id"]),
                    "text": text,
                    "size": list(mask.shape),
                    "once": digest(mask == 1),
                    "any": digest(mask > 0),
                    "box": [x, y, x + width, y + height],
                }
            )
    return sorted(rows, key=lambda row: int(row["id"]))


def grefcoco(official: Path, root: Path, split: str) -> list[Any]:
    """Every expression as gRefCOCO's `G_REFER` has it."""
    api = official_class(official / "gRefCOCO/grefer.py", "G_REFER", dict(PLAIN))(str(root))
    rows = []
    for ref in api.loadRefs(api.getRefIds(split=split)):
        merged = api.getMaskByRef(ref=ref, merge=True)
        boxes = [] if merged["empty"] else api.getRefBox(ref["ref_id"])
        rows += [
            {
                "id": str(output["sent_id"]),
                "text": output["sent"],
                "empty": merged["empty"],
                "mask": digest(merged["mask"]),
                "size": list(merged["mask"].shape),
                "boxes": [[x, y, x + width, y + height] for x, y, width, height in boxes],
            }
            for output in ref["sentences"]
        ]
    return rows


def llm_seg(official: Path, root: Path, split: str) -> list[Any]:
    """Every question as LLM-Seg's two readers have it: by run-length, and by image."""
    torch = MagicMock()
    torch.utils.data.Dataset = object
    names = {
        **PLAIN,
        "torch": torch,
        "mask_util": coco,
        "F": MagicMock(),
        "LONG_QUESTION_LIST": ["{sent}"],
        "SHORT_QUESTION_LIST": [""],
        "ANSWER_LIST": [""],
        "DEFAULT_IMAGE_TOKEN": "",
        **{
            name: MagicMock()
            for name in (
                "conversation_lib",
                "CLIPImageProcessor",
                "ResizeLongestSide",
                "compute_all_iou",
                "compute_all_iop",
            )
        },
    }
    place = root / "llm_seg40k"
    given = {
        "json_path": str(place / f"LLMSeg-40K/{split}.json"),
        "tokenizer": None,
        "vision_tower": None,
        "egoobjects_sam_mask_helper": MagicMock(),
        "coco_sam_mask_helper": MagicMock(),
        "coco_image_dir": str(place / "coco/train2017"),
        "ego_objects_image_dir": str(place / "ego_objects/images"),
    }
    by_runs = official_class(
        official / "LLMSeg/utils/llm_seg_dataset.py", "LLMSegDataset", dict(names)
    )(**given)
    drawn_class = official_class(
        official / "LLMSeg/utils/dataset.py", "ValDataSet_LLMSeg", dict(names)
    )
    with chdir(place):
        drawn = drawn_class(**given)
        images = {}
        for index in range(len(drawn.samples)):
            drawn.preprocess = lambda image: image
            inside, _ = with_locals(drawn.__getitem__, index)
            images[inside["image_path"]] = digest(inside["masks_np"] > 0)
    rows = []
    for sample in by_runs.samples:
        mask = coco.decode(sample["rle_seg"]) > 0
        by_runs.preprocess = lambda image: image
        inside, _ = with_locals(by_runs.__getitem__, by_runs.samples.index(sample))
        assert np.array_equal(inside["masks_np"], mask)
        rows.append(
            {
                "id": Path(sample["image_path"]).name,
                "text": sample["question"],
                "answer": sample["answer"],
                "source": sample["from_dataset"],
                "size": list(mask.shape),
                "runs": digest(mask),
                "drawn": images[sample["image_path"]],
            }
        )
    return rows


def copies(folder: Path) -> Iterator[dict[str, Any]]:
    """Rows of a copy as `datasets` loads them."""
    from datasets import load_dataset

    with tempfile.TemporaryDirectory() as cache:
        for row in load_dataset(str(folder), split="test", cache_dir=cache):
            image = np.asarray(row["image"].convert("RGB"))
            mask = np.array(row["mask"]) if "mask" in row else None
            yield {
                "id": row["ann_id"],
                "image": row["image_id"],
                "text": row["text"],
                "pixels": digest(image),
                "size": [row["img_height"], row["img_width"]],
                **({} if mask is None else {"mask": digest(mask)}),
                **({"box": row["bbox"]} if "bbox" in row else {}),
                **({"category": row["cat_id"]} if "cat_id" in row else {}),
            }


def coco_ap(official: Path, root: Path) -> dict[str, Any]:
    """Boxes beside the true ones, scored by VisionReasoner's two scripts."""
    from datasets import load_dataset

    place = root / "coco_detection"
    rng = np.random.default_rng(20250601)
    process = compiled(
        official / "VisionReasoner/evaluation/evaluation_coco.py",
        ["process_batch"],
        {"np": np, "print": print},
    )["process_batch"]
    output: list[Any] = []
    outputs: list[Any] = []
    with tempfile.TemporaryDirectory() as cache:
        for row in load_dataset(str(place / "coco_val"), split="test", cache_dir=cache):
            boxes = [[int(side + rng.integers(-4, 5)) for side in box] for box in row["bbox"]]
            boxes = boxes[: rng.integers(0, len(boxes) + 1)] if rng.random() < 0.3 else boxes
            boxes += [[3, 4, 40, 30]] * int(rng.random() < 0.3)
            model = MagicMock()
            model.detect_objects_batch.return_value = [{"thinking": "", "bboxes": boxes}]
            process(model, [None], [""], [dict(row)], outputs)
            output.append({"id": f"{row['image_id']}/{row['cat_id']}", "boxes": boxes})
    script = official / "VisionReasoner/evaluation/calculate_coco_ap.py"
    names = {**PLAIN, "COCO": COCO, "COCOeval": COCOeval}
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        Path(folder, "output_0.json").write_text(json.dumps(outputs))
        function = compiled(script, ["calculate_metrics"], names)["calculate_metrics"]
        ground_truth = str(place / "annotations/instances_val2017.json")
        inside, _ = with_locals(function, folder, ground_truth)
    return {"said": output, "stats": list(map(float, inside["coco_eval"].stats))}


def write(name: str, tools: list[str], **content: Any) -> None:
    """Write one golden file, a sample a line."""
    head = {"tools": {tool: COMMITS.get(tool, tool) for tool in tools}, "made": WORLD}
    text = json.dumps({**head, **content}, ensure_ascii=False, separators=(",", ":"))
    (HERE / name).write_text(re.sub(r'(\{"id")', r"\n\1", text) + "\n", encoding="utf-8")
    sys.stdout.write(f"{name}: {(HERE / name).stat().st_size} bytes\n")


def main(official: Path) -> None:
    """Write every file."""
    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        root, by_hand = Path(folder, "world"), Path(folder, "odd")
        make(root, **WORLD, writers=WRITERS)
        write_odd(by_hand)
        place = root / "refer_seg"
        found = {
            f"{task}(split={split},split_by={split_by})": lisa(
                official, place, name, split_by, split
            )
            for task, (name, divided) in REFER.items()
            for split_by, splits in divided.items()
            for split in splits
        }
        hand = {
            split: lisa(official, by_hand, "refcoco", "unc", split)
            for split in ("testA", "testB", "test")
        }
        write("refer.json", ["LISA"], world=found, odd={**odd(), "read": hand})
        splits = ("train", "val", "testA", "testB")
        write(
            "grefcoco.json",
            ["gRefCOCO"],
            world={split: grefcoco(official, place, split) for split in splits},
        )
        names = ("train", "validation", "test")
        write(
            "llm_seg40k.json",
            ["LLMSeg"],
            world={split: llm_seg(official, root, split) for split in names},
        )
        loaded = {name: list(copies(root / name)) for name in (*COPIES, "coco_detection/coco_val")}
        write(
            "copies.json",
            ["VisionReasoner", f"datasets {datasets.__version__}"],
            world=loaded,
            coco_ap=coco_ap(official, root),
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    main(parser.parse_args().official)
