"""Write sample data: still scenes as FlagEval's table of Where2Place.

The masks of regions are JPEG files, grey along borders.
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image

from harness.masks import BoolArray
from harness.tasks.pointing.writing import pointed
from harness.tasks.refer.tables import image
from harness.tasks.video_qa.writing import write_table
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/where2place/data/test-00000-of-00001.parquet`."""
    rows = [
        {
            "question_id": str(number),
            "question": f"Please point out {example.question.text}",
            "question_type": "seen" if number % 2 else "unseen",
            "image": image(example.scene, f"{number:02d}.png"),
            "mask": {"bytes": _jpeg(example.region), "path": f"{number:02d}.jpg"},
        }
        for number, example in enumerate(pointed(world, "test"))
    ]
    write_table(root / "where2place" / "data" / "test-00000-of-00001.parquet", rows)


def _jpeg(region: BoolArray) -> bytes:
    """Encode a region, white on black, as a JPEG file."""
    file = io.BytesIO()
    Image.fromarray(region.astype(np.uint8) * 255).save(file, "JPEG", quality=30)
    return file.getvalue()
