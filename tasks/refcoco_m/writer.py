"""Still scenes in the hub's table of RefCOCO-M."""

from pathlib import Path

import numpy as np

from harness.masks import Rle
from harness.tasks.pointing.writing import pointed
from harness.tasks.refer.tables import image
from harness.tasks.video_qa.writing import write_table
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/refcoco_m/data/validation-00000-of-00001.parquet`."""
    rows = []
    for number, one in enumerate(pointed(world, "val")):
        rows_, columns = np.flatnonzero(one.region.any(1)), np.flatnonzero(one.region.any(0))
        box = (columns[0], rows_[0], columns[-1] + 1 - columns[0], rows_[-1] + 1 - rows_[0])
        mask = Rle.from_array(one.region).to_json()
        thing = {
            "id": 1000 + number,
            "category": "shape",
            "sentences": list(one.question.texts[:1]),
            "bbox": list(map(float, box)),
            "mask": mask,
        }
        name = f"{number:012d}.png"
        rows.append(
            {
                "image": image(one.scene, name),
                "image_id": number,
                "file_name": name,
                "samples": [thing],
            }
        )
    write_table(root / "refcoco_m" / "data" / "validation-00000-of-00001.parquet", rows)
