"""Still scenes in SA-Co's layout: a phrase that is there and one that is not, three annotators."""

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
IMAGES = ("images", "images/geode")  # of Gold, and of a domain of Silver


def write(world: World, root: Path) -> None:
    """Write `root/saco`: Gold's metaclip and Silver's geode, and images.

    The second annotator's masks are wider, the third finds nothing at every third phrase.
    """
    place = root / "saco"
    for split, names in FILES.items():
        for annotator, name in enumerate(names):
            images: list[dict[str, object]] = []
            annotations: list[dict[str, object]] = []
            for example in world.examples_of("referring", "test"):
                scene, question = example.scene, example.questions[0]
                shown = {"file_name": f"1/{scene.index:04d}.jpeg", "width": scene.width}
                shown |= {"height": scene.height}
                for text in (question.text, absent_phrase(scene)):
                    pair = {"id": 10000000 + len(images), **shown, "text_input": text}
                    images.append(pair | {"is_instance_exhaustive": 1, "is_pixel_exhaustive": 1})
                if annotator == 2 and scene.index % 3 == 0:
                    continue
                for thing in question.referents:
                    mask = visible_masks(scene)[thing]
                    mask |= np.roll(mask, annotator, axis=1)
                    entry = {"id": len(annotations) + 1, "image_id": images[-2]["id"], "iscrowd": 0}
                    entry |= {"category_id": 1, "segmentation": Rle.from_array(mask).to_json()}
                    annotations.append(entry)
            plain = {"images": images, "annotations": annotations}
            plain["categories"] = [{"id": 1, "name": "object"}]
            write_json(place / split / name, plain)
    for folder in IMAGES:
        (place / folder / "1").mkdir(parents=True)
        for example in world.examples_of("referring", "test"):
            path = place / folder / "1" / f"{example.scene.index:04d}.jpeg"
            write_jpeg(path, render(example.scene))
