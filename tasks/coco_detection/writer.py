"""Still scenes as COCO's val2017 and VisionReasoner's copy of it: shapes are the categories."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.tasks.refer.tables import image, write_table
from harness.tasks.refer.world import (
    category,
    instances,
    number_of,
    write_images,
)
from harness.tasks.refer.writer import write_json
from harness.world.raster import edges, visible_masks
from harness.world.scene import SHAPES, Scene
from harness.world.shapes import World

COPY = {
    "image": "image",
    "text": "string",
    "image_id": "int64",
    "ann_id": "int64",
    "cat_id": "int64",
    "bbox": "boxes",
    "img_height": "int64",
    "img_width": "int64",
}


def file_name(scene: Scene) -> str:
    """Return the name of an image in COCO since 2017."""
    return f"{number_of(scene):012d}.jpg"


def write(world: World, root: Path) -> None:
    """Write `root/coco_detection/{annotations,val2017,coco_val}`."""
    place = root / "coco_detection"
    scenes = world.scenes("still", "val")
    write_images(scenes, place / "val2017", named=file_name)
    (place / "annotations").mkdir()
    plain = instances(scenes, named=file_name)
    write_json(place / "annotations" / "instances_val2017.json", plain)
    write_table(place / "coco_val", "test", list(_rows(scenes)), COPY)


def _rows(scenes: Sequence[Scene]) -> Iterator[dict[str, object]]:
    """One row an image and category, as the hub has them."""
    for scene in scenes:
        drawn, masks = image(scene, file_name(scene)), visible_masks(scene)
        numbers = [category(scene, index) for index in range(len(masks))]
        for number in sorted(set(numbers)):
            boxes = [
                list(map(float, edges(mask)))
                for mask, own in zip(masks, numbers, strict=True)
                if own == number
            ]
            yield {
                "image": drawn,
                "text": SHAPES[number - 1],
                "image_id": number_of(scene),
                "ann_id": number_of(scene),
                "cat_id": number,
                "bbox": boxes,
                "img_height": scene.height,
                "img_width": scene.width,
            }
