"""Write the golden file of ReLA's mapper and evaluation: what is scored, and on which grid.

    python tests/golden/make_rela_mapper.py --official FOLDER

FOLDER holds checkouts named `ReLA` and `detectron2` at the commits below. ReLA's mapper and
evaluator and detectron2's transforms, annotations and masks are imported and run as they are; only
the BERT tokenizer, torchvision and what needs compiled operators are replaced. detectron2's own
dependencies (fvcore, iopath, omegaconf, yacs) have to be installed, which harness does not.
"""

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch
from inputs import polygon
from pieces import COMMITS, rle, write
from PIL import Image

DETECTRON2 = "02b5c4e295e990042a714712c21dc79b731e8833"
SEED = 20250701
SIZES = ((48, 64), (64, 43), (480, 480), (33, 100), (640, 427), (200, 200))
REPLACED = (
    "torchvision",
    "torchvision.ops",
    "torchvision.ops.boxes",
    "torchvision.transforms",
    "transformers",
)
CROWD = {"size": [1, 1], "counts": [0, 1]}


def loaded(path: Path) -> Any:
    """Import one file of a checkout."""
    spec = importlib.util.spec_from_file_location(f"rela_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def objects(rng: np.random.Generator, size: tuple[int, int], number: int) -> list[Any]:
    """Objects of one or two polygons; numbers with fractions, or all whole, and a crowd beside."""
    found = []
    for _ in range(0 if number % 6 == 0 else 1 + number % 3):
        parts = []
        while len(parts) < 1 + int(rng.integers(0, 2)):
            corners = polygon(rng, size)
            if len(corners) >= 3:
                parts.append([side for corner in corners for side in corner])
        found.append({"iscrowd": 0, "segmentation": parts})
    if found and number % 4 == 1:
        found.append({"iscrowd": 1, "segmentation": CROWD})
    return found


def main(official: Path) -> None:
    """Write the file."""
    for name in REPLACED:
        sys.modules[name] = MagicMock(__version__="0.20.0")
    sys.path.insert(0, str(official / "detectron2"))
    from detectron2.data import transforms
    from detectron2.structures import BoxMode

    folder = official / "ReLA/gres_model"
    mapping = loaded(folder / "data/dataset_mappers/refcoco_mapper.py")
    evaluator = loaded(folder / "evaluation/refer_evaluation.py").ReferEvaluator(
        "golden", distributed=False
    )
    mapping.BertTokenizer = MagicMock()
    mapping.BertTokenizer.from_pretrained.return_value.encode.return_value = [101, 102]
    # 480 is IMAGE_SIZE of configs/referring_R50.yaml, on which the others are based.
    settings = MagicMock(INPUT=MagicMock(IMAGE_SIZE=480))
    mapper = mapping.RefCOCOMapper(
        is_train=False,
        tfm_gens=mapping.build_transform_test(settings),
        image_format="RGB",
        bert_type="",
        max_tokens=20,
    )
    assert isinstance(mapper.tfm_gens[0], transforms.Resize)
    rng = np.random.default_rng(SEED)
    cases = []
    evaluator.reset()
    with tempfile.TemporaryDirectory() as place:
        path = str(Path(place, "image.png"))
        for number in range(30):
            height, width = SIZES[number % len(SIZES)]
            Image.new("RGB", (width, height)).save(path)
            target = objects(rng, (height, width), number)
            annotations = [
                {
                    **one,
                    "bbox": [0, 0, 1, 1],
                    "bbox_mode": BoxMode.XYWH_ABS,
                    "category_id": 1,
                    "empty": False,
                }
                for one in target
            ]
            nothing = [{"bbox": None, "segmentation": None, "iscrowd": None, "empty": True}]
            shown = mapper(
                {
                    "file_name": path,
                    "height": height,
                    "width": width,
                    "image_id": number,
                    "source": "grefcoco",
                    "empty": not target,
                    "sentence": {"raw": "It"},
                    "annotations": annotations or nothing,
                }
            )
            merged = shown["gt_mask_merged"]
            square = merged[0].numpy() > 0
            answer = np.roll(square, 1 + number % 5, axis=number % 2)  # nor is it kept
            output = bool(rng.random() < 0.3)
            evaluator.process(
                [shown],
                [
                    {
                        "ref_seg": torch.tensor(np.stack([~answer, answer]).astype(np.float32)),
                        "nt_label": torch.tensor([1.0 - output, float(output)]),
                    }
                ],
            )
            cases.append(
                {
                    "size": [height, width],
                    "objects": target,
                    "grid": list(merged.shape),
                    "ground_truth": rle(square),
                    "said": output,
                }
            )
    found: dict[str, Any] = {}

    def watch(frame: Any, event: str, _: object) -> None:
        if event == "return" and frame.f_code.co_name == "evaluate":
            found.update(frame.f_locals)

    sys.setprofile(watch)
    totals = evaluator.evaluate()["grefcoco"]
    sys.setprofile(None)
    for case, row in zip(cases, found["results_dict"], strict=True):
        case |= {"I": row["I"], "U": row["U"], "iou": row["cIoU"]}
    COMMITS["detectron2"] = DETECTRON2
    write(
        "rela/mapper.json",
        "ReLA",
        "gres_model/data/dataset_mappers/refcoco_mapper.py and evaluation/refer_evaluation.py",
        "the merged mask of the mapper, and what the evaluator makes of it",
        detectron2=DETECTRON2,
        totals={name: float(value) for name, value in totals.items()},
        cases=cases,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    main(parser.parse_args().official)
