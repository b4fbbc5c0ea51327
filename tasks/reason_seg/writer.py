"""Write sample data: still scenes in the layouts of ReasonSeg, LISA's files and the hub's copies.

Polygons follow the outermost visible pixels of each thing. LISA truncates points to whole pixels,
draws the outline and fills it, which restores the scene's masks exactly. The copies hold these
masks, with regions to ignore as foreground.
"""

import json
from pathlib import Path
from typing import Any

from harness.masks import BoolArray
from harness.metrics.polygons import rasterise
from harness.tasks.refer.tables import image, write_table
from harness.world.draws import Draws
from harness.world.encode import write_jpeg
from harness.world.outlines import outlines
from harness.world.questions import wordings_of
from harness.world.raster import render, visible_masks
from harness.world.scene import SPLITS, Split
from harness.world.shapes import Example, World

FLAG_POINTS = ((0.0, 0.0), (1.0, 1.0), (2.0, 2.0))
"""Points of a meaningless shape `flag` that some official files have; readers skip it."""
COPY_COLUMNS = {
    "image": "image",
    "text": "string",
    "mask": "masks",
    "image_id": "string",
    "ann_id": "string",
    "img_height": "int64",
    "img_width": "int64",
}


def write(world: World, root: Path) -> None:
    """Write both layouts below `root/reason_seg`.

    LISA's are `ReasonSeg/{train,val,test}/<name>.jpg` and `<name>.json`, the hub's copies
    `ReasonSeg_{val,test}`.
    """
    for split in SPLITS:
        folder = root / "reason_seg" / "ReasonSeg" / split
        folder.mkdir(parents=True)
        for example in world.examples_of("still", split):
            stem = f"{split}_{example.scene.index:05d}"
            write_jpeg(folder / f"{stem}.jpg", render(example.scene))
            text = json.dumps(annotation(example, split), ensure_ascii=False)
            (folder / f"{stem}.json").write_text(text, encoding="utf-8", newline="\n")
        if split != "train":
            rows = [_copy(example, split) for example in world.examples_of("still", split)]
            write_table(root / "reason_seg" / f"ReasonSeg_{split}", "test", rows, COPY_COLUMNS)


def _copy(example: Example, split: Split) -> dict[str, Any]:
    """Return the row of VisionReasoner's copy, in which an ignored region is foreground."""
    scene, plain = example.scene, annotation(example, split)
    name = f"{split}_{scene.index:05d}"
    painted = rasterise(plain["shapes"], scene.height, scene.width)
    return {
        "image": image(scene, f"{name}.png"),
        "text": plain["text"][0],
        "mask": (painted > 0).tolist(),
        "image_id": name,
        "ann_id": name,
        "img_height": scene.height,
        "img_width": scene.width,
    }


def annotation(example: Example, split: Split) -> dict[str, Any]:
    """Return the content of one JSON file: `text`, `is_sentence` and `shapes`.

    `train` has one to three wordings. About one file in five has a thing that is not a target
    marked `ignore`, one in six a `flag`.
    """
    scene, question = example.scene, example.questions[0]
    draws = Draws(scene.seed, scene.id, "reason_seg")
    masks = visible_masks(scene)
    shapes = [shape for index in question.referents for shape in _shapes("target", masks[index])]
    distractors = [index for index in range(len(masks)) if index not in question.referents]
    if distractors and draws.chance(1, 5):
        shapes += _shapes("ignore", masks[draws.choice(distractors)])
    if draws.chance(1, 6):
        shapes.append({"label": "flag", "points": [list(point) for point in FLAG_POINTS]})
    wordings = wordings_of(question, scene) if split == "train" else (question.text,)
    return {"text": list(wordings), "is_sentence": question.is_sentence, "shapes": shapes}


def _shapes(label: str, mask: BoolArray) -> list[dict[str, object]]:
    """Return one polygon per piece of a mask, through the centres of pixels (such as 3.5)."""
    return [
        {"label": label, "points": [[x + 0.5, y + 0.5] for x, y in corners]}
        for corners in outlines(mask)
    ]
