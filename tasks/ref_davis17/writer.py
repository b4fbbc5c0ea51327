"""Write sample data: video scenes in the layout of Ref-DAVIS17, as ReferFormer converts it.

The objects of a video are things that are visible in its first frame and that a question refers to
alone. One of the other things, if there are any, is void: its pixels do not count.
"""

from collections.abc import Mapping
from itertools import cycle, islice
from pathlib import Path
from types import MappingProxyType

from harness.tasks.rvos.labels import VOID
from harness.tasks.rvos.writing import (
    frame_name,
    sampled_frames,
    video_name,
    write_json,
    write_labels,
    write_sampled_frames,
)
from harness.world.draws import Draws
from harness.world.questions import every_question
from harness.world.raster import visible_masks
from harness.world.scene import Scene, Split
from harness.world.shapes import World

SPLIT_NAMES: Mapping[str, Split] = MappingProxyType({"train": "train", "valid": "val"})
"""The world's split for each split of the benchmark."""

ANNOTATORS = 4  # expressions of each object
MAX_OBJECTS = 3  # objects of one video


def write(world: World, root: Path) -> None:
    """Write `root/ref_davis17`: two splits with their ground truth."""
    folder = root / "ref_davis17"
    for name, split in SPLIT_NAMES.items():
        videos: dict[str, object] = {}
        objects: dict[str, object] = {}
        for scene in world.scenes("video", split):
            texts = texts_of(scene)
            if not texts:
                continue
            video, frames = video_name(scene), sampled_frames(scene)
            target = folder / name
            write_sampled_frames(scene, target / "JPEGImages" / video)
            write_labels(scene, target / "Annotations" / video, frames, values=values(scene, texts))
            videos[video] = video_entry(scene, texts)
            shapes = enumerate((scene.things[index].shape for index in texts), start=1)
            objects[video] = {
                "objects": {str(number): {"category": shape} for number, shape in shapes}
            }
        write_json(folder / name / "meta.json", {"videos": objects})
        meta = folder / "meta_expressions" / name / "meta_expressions.json"
        write_json(meta, {"videos": videos})


def texts_of(scene: Scene) -> dict[int, list[str]]:
    """Return {index of a thing: its expressions} for the things that are objects, in order."""
    first = visible_masks(scene, 0)
    texts: dict[int, list[str]] = {}
    for question in every_question(scene):
        if question.count == 1 and first[question.referents[0]].any():
            texts.setdefault(question.referents[0], []).extend(question.texts)
    return dict(islice(sorted(texts.items()), MAX_OBJECTS))


def values(scene: Scene, object_texts: Mapping[int, list[str]]) -> list[int]:
    """Return the value of each thing's pixels: an object's number, VOID, or 0 for background."""
    numbers = {index: number for number, index in enumerate(object_texts, start=1)}
    draws = Draws(scene.seed, scene.id, "ref_davis17")
    non_objects = [index for index in range(len(scene.things)) if index not in numbers]
    if non_objects:
        numbers[draws.choice(non_objects)] = VOID
    return [numbers.get(index, 0) for index in range(len(scene.things))]


def video_entry(scene: Scene, object_texts: Mapping[int, list[str]]) -> dict[str, object]:
    """Return the entry of one video: four expressions about each object, one by each annotator."""
    expressions: dict[str, object] = {}
    for number, (index, texts) in enumerate(object_texts.items(), start=1):
        draws = Draws(scene.seed, scene.id, "ref_davis17", index)
        for text in islice(cycle(draws.shuffle(list(dict.fromkeys(texts)))), ANNOTATORS):
            expressions[str(len(expressions))] = {"exp": text, "obj_id": str(number)}
    frames = [frame_name(frame) for frame in sampled_frames(scene)]
    return {"expressions": expressions, "frames": frames}
