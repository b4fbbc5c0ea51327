"""Write sample data: still scenes in SA-Co's layout, with a present and an absent phrase each."""

from pathlib import Path

import numpy as np

from harness.masks import Rle
from harness.tasks.revos.writer import absent_phrase
from harness.tasks.rvos.writing import write_json
from harness.world.encode import write_jpeg
from harness.world.raster import render, visible_masks
from harness.world.shapes import World

FILES = {
    "gold": [f"gold_metaclip_merged_{annotator}_release_test.json" for annotator in "abc"],
    "silver": ["silver_geode_merged_test.json"],
}
IMAGE_FOLDERS = ("images", "images/geode")  # of Gold's domain, and of Silver's


def write(world: World, root: Path) -> None:
    """Write `root/saco`: Gold's domain metaclip, Silver's domain geode, and their images.

    So that Gold's three annotators differ, the second and third one's masks are wider, and the
    third marks nothing in every third scene.
    """
    benchmark_folder = root / "saco"
    for split, names in FILES.items():
        for annotator, name in enumerate(names):
            images: list[dict[str, object]] = []
            annotations: list[dict[str, object]] = []
            for example in world.examples_of("referring", "test"):
                scene, question = example.scene, example.questions[0]
                image_fields = {"file_name": f"1/{scene.index:04d}.jpeg", "width": scene.width}
                image_fields |= {"height": scene.height}
                for text in (question.text, absent_phrase(scene)):
                    pair = {"id": 10000000 + len(images), **image_fields, "text_input": text}
                    images.append(pair | {"is_instance_exhaustive": 1, "is_pixel_exhaustive": 1})
                if annotator == 2 and scene.index % 3 == 0:
                    continue
                for index in question.referents:
                    mask = visible_masks(scene)[index]
                    mask |= np.roll(mask, annotator, axis=1)
                    entry = {"id": len(annotations) + 1, "image_id": images[-2]["id"], "iscrowd": 0}
                    entry |= {"category_id": 1, "segmentation": Rle.from_array(mask).to_json()}
                    annotations.append(entry)
            plain = {"images": images, "annotations": annotations}
            plain["categories"] = [{"id": 1, "name": "object"}]
            write_json(benchmark_folder / split / name, plain)
    for folder in IMAGE_FOLDERS:
        (benchmark_folder / folder / "1").mkdir(parents=True)
        for example in world.examples_of("referring", "test"):
            path = benchmark_folder / folder / "1" / f"{example.scene.index:04d}.jpeg"
            write_jpeg(path, render(example.scene))
