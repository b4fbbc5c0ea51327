"""Twins of generated scenes against the ground truth: masks, names and order in depth.

    python benchmarks/twins.py --nodes local --size 40

Pictures are JPEG at quality 90, as benchmarks store them. A thing is found if one instance has an
IoU above 0.5 with it, over all frames; instances and things are paired one to one.
"""

import argparse
import time
from dataclasses import dataclass, field

import cv2
import numpy as np
from scipy.optimize import linear_sum_assignment

from harness.media import pixels
from harness.models.dt_r1.executor import TwinBuilder
from harness.models.dt_r1.plan import parse_plan
from harness.models.nodes.instances import mask_overlap
from harness.spec import parse
from harness.world.families import draw_scene
from harness.world.raster import render, visible_masks

PLAN = (
    '{"SAM2": [], "DepthAnything2": [], "DepthStats": ["SAM2", "DepthAnything2"], '
    '"SemanticAnalysis": ["SAM2"]}'
)
FOUND = 0.5


@dataclass
class Counts:
    things: int = 0
    found: int = 0
    beside: int = 0
    colours: int = 0
    shapes: int = 0
    pairs: int = 0
    ordered: int = 0
    overlaps: list[float] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="local")
    parser.add_argument("--families", default="still,count,referring,qa,video,qa_video,arrivals")
    parser.add_argument("--size", type=int, default=40, help="scenes a family; a quarter of videos")
    given = parser.parse_args()
    builder = TwinBuilder(parse(given.nodes))
    print(f"nodes {given.nodes}, seed 7, split val\n")
    print("| family | things | found | beside | J of all | colour | shape | order | s a scene |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for family in given.families.split(","):
        counts, begin = Counts(), time.monotonic()
        video = draw_scene(7, family=family, split="val", index=0).frames > 1
        scenes = max(1, given.size // 4) if video else given.size
        for index in range(scenes):
            count(counts, builder, family, index)
        seconds = (time.monotonic() - begin) / scenes
        shares = (counts.colours, counts.shapes)
        named = " | ".join(f"{share / max(counts.found, 1):.3f}" for share in shares)
        order = f"{counts.ordered} of {counts.pairs}" if counts.pairs else ""
        print(
            f"| {family} | {counts.things} | {counts.found / counts.things:.3f} | {counts.beside} "
            f"| {np.mean(counts.overlaps):.3f} | {named} | {order} | {seconds:.2f} |",
            flush=True,
        )


def count(counts: Counts, builder: TwinBuilder, family: str, index: int) -> None:
    """Build one twin, and pair its instances with what is seen of the scene's things."""
    scene = draw_scene(7, family=family, split="val", index=index)
    frames = [stored(render(scene, frame)) for frame in range(scene.frames)]
    times = [float(frame) for frame in range(scene.frames)]
    media = pixels(frames, times=times, is_video=len(frames) > 1, id=scene.id)
    twin = builder.build(media, parse_plan(PLAN, builder.catalog))
    assert not twin.faults, twin.faults
    ground_truth = np.stack([visible_masks(scene, frame) for frame in range(scene.frames)], axis=1)
    seen = [thing for thing in range(len(ground_truth)) if ground_truth[thing].any()]
    instances = twin.data["instances"]
    table = np.zeros((len(seen), len(instances)))
    for row, thing in enumerate(seen):
        for column, instance in enumerate(instances):
            masks = twin.masks[instance["mask"]]
            table[row, column] = np.mean(
                [overlap(one, other) for one, other in zip(ground_truth[thing], masks, strict=True)]
            )
    rows, columns = linear_sum_assignment(-table)
    counts.things += len(seen)
    counts.overlaps += [*table[rows, columns], *([0.0] * (len(seen) - len(rows)))]
    found = {
        seen[row]: instances[column]
        for row, column in zip(rows, columns, strict=True)
        if table[row, column] > FOUND
    }
    counts.found += len(found)
    counts.beside += len(instances) - len(found)
    for thing, instance in found.items():
        counts.colours += instance.get("colour") == scene.things[thing].colour
        counts.shapes += instance.get("shape") == scene.things[thing].shape
    if len(frames) > 1:
        return
    for front in found:
        near = cv2.dilate(ground_truth[front, 0].astype(np.uint8), np.ones((3, 3))) != 0
        for back in found:
            behind = scene.things[front].depth < scene.things[back].depth
            if behind and (near & ground_truth[back, 0]).any():
                depths = [found[one]["frames"][0]["depth"]["mean"] for one in (front, back)]
                counts.pairs += 1
                counts.ordered += depths[0] > depths[1]


def stored(image: np.ndarray) -> np.ndarray:
    encoded = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 90])[1]
    return np.ascontiguousarray(cv2.imdecode(encoded, cv2.IMREAD_COLOR)[..., ::-1])


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    return mask_overlap(one, other) if one.any() or other.any() else 1.0


if __name__ == "__main__":
    main()
