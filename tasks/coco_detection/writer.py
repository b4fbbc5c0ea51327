"""Write sample data: still scenes as COCO's val2017 and VisionReasoner's copy.

The categories are the things' shapes.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.tasks.refer.tables import image, write_table
from harness.tasks.refer.world import category, instances, number_of, write_images
from harness.tasks.refer.writer import write_json
from harness.world.raster import edges, visible_masks
from harness.world.scene import SHAPES, Scene
from harness.world.shapes import World

COPY_COLUMNS = {
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
    """Return the file name of an image as in COCO since 2017."""
    return f"{number_of(scene):012d}.jpg"


def write(world: World, root: Path) -> None:
    """Write `root/coco_detection/{annotations,val2017,coco_val}`."""
    folder = root / "coco_detection"
    scenes = world.scenes("still", "val")
    write_images(scenes, folder / "val2017", name_of=file_name)
    (folder / "annotations").mkdir()
    plain = instances(scenes, name_of=file_name)
    write_json(folder / "annotations" / "instances_val2017.json", plain)
    write_table(folder / "coco_val", "test", list(_rows(scenes)), COPY_COLUMNS)


def _rows(scenes: Sequence[Scene]) -> Iterator[dict[str, object]]:
    """Yield the copy's rows, one for each image and category."""
    for scene in scenes:
        image_cell, masks = image(scene, file_name(scene)), visible_masks(scene)
        category_ids = [category(scene, index) for index in range(len(masks))]
        for category_id in sorted(set(category_ids)):
            boxes = [
                list(map(float, edges(mask)))
                for mask, mask_category in zip(masks, category_ids, strict=True)
                if mask_category == category_id
            ]
            yield {
                "image": image_cell,
                "text": SHAPES[category_id - 1],
                "image_id": number_of(scene),
                "ann_id": number_of(scene),
                "cat_id": category_id,
                "bbox": boxes,
                "img_height": scene.height,
                "img_width": scene.width,
            }
