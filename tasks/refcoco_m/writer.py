"""Write sample data: still scenes as the Hugging Face table of RefCOCO-M."""

from pathlib import Path

from harness.masks import Rle
from harness.tasks.pointing.writing import pointed
from harness.tasks.refer.tables import image
from harness.tasks.video_qa.writing import write_table
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/refcoco_m/data/validation-00000-of-00001.parquet`."""
    rows = []
    for number, example in enumerate(pointed(world, "val")):
        left, top, right, bottom = map(float, example.box)
        entry = {
            "id": 1000 + number,
            "category": "shape",
            "sentences": list(example.question.texts[:1]),
            "bbox": [left, top, right - left, bottom - top],
            "mask": Rle.from_array(example.region).to_json(),
        }
        name = f"{number:012d}.png"
        row = {"image": image(example.scene, name), "image_id": number, "file_name": name}
        rows.append({**row, "samples": [entry]})
    write_table(root / "refcoco_m" / "data" / "validation-00000-of-00001.parquet", rows)
