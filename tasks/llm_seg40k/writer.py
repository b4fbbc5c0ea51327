"""Write sample data: still scenes in LLM-Seg40K's layout, with masks as run-lengths and images."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from harness.masks import BoolArray, Rle
from harness.tasks.refer.writer import write_json
from harness.world.encode import encode_png, write_jpeg
from harness.world.raster import render, visible_masks
from harness.world.scene import Split
from harness.world.shapes import Example, World

FILES: Mapping[str, Split] = {"train": "train", "validation": "val", "test": "test"}
SOURCES = (("coco", "coco/train2017"), ("ego_objects", "ego_objects/images"))


def write(world: World, root: Path, *, files: Mapping[str, Split] = FILES) -> None:
    """Write `root/llm_seg40k/LLMSeg-40K/{train,validation,test}.json` and the files they name."""
    benchmark_folder = root / "llm_seg40k"
    for _, folder in (*SOURCES, ("", "LLMSeg-40K"), ("", "masks")):
        (benchmark_folder / folder).mkdir(parents=True)
    for name, split in files.items():
        examples = world.examples_of("still", split)
        plain = dict(_entry(example, name, benchmark_folder) for example in examples)
        write_json(benchmark_folder / "LLMSeg-40K" / f"{name}.json", plain)


def _entry(example: Example, split: str, benchmark_folder: Path) -> tuple[str, dict[str, object]]:
    """Write the image and the mask of a scene; return the image's name and its entry."""
    scene, question = example.scene, example.questions[0]
    source, folder = SOURCES[scene.index % 2]
    name = f"{split}_{scene.index:06d}.jpg"
    write_jpeg(benchmark_folder / folder / name, render(scene))
    mask: BoolArray = np.asarray(visible_masks(scene)[list(question.referents)].any(0))
    mask_path = f"masks/{Path(name).stem}.png"
    (benchmark_folder / mask_path).write_bytes(encode_png(mask.astype(np.uint8) * 255))
    pair = {
        "question": question.text,
        "answer": f"{question.count} of them.",
        "rle_seg": Rle.from_array(mask).to_json(),
        "segmentation_path": mask_path,
    }
    return name, {"from_dataset": source, "qa_pairs": [pair]}
