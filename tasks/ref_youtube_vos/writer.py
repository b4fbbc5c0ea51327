"""Video scenes in the layout of Ref-YouTube-VOS: frames, palettes of objects, expressions.

The world's `val` scenes get names that put them into `train_dev`, its `train` scenes others. As the
organisers' file does, that of `valid` holds the videos of `test` as well; those have only texts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.tasks.ref_youtube_vos.splits import held_out
from harness.tasks.rvos.writing import (
    frame_name,
    salted,
    some_frames,
    video_name,
    write_json,
    write_labels,
    write_some,
)
from harness.world.draws import Draws
from harness.world.questions import every_question
from harness.world.raster import visible_masks
from harness.world.scene import Scene
from harness.world.shapes import Example, World

DIGITS = 10
TEST = 1  # the salt of names of test


def write(world: World, root: Path) -> None:
    """Write `root/ref_youtube_vos`: train with its ground truth, valid and test without."""
    folder = root / "ref_youtube_vos"
    named = [
        (_of_train(example.scene), example)
        for split in ("train", "val")
        for example in world.examples_of("video", split)
    ]
    for name, example in named:
        frames = some_frames(example.scene)
        write_some(example.scene, folder / "train" / "JPEGImages" / name)
        write_labels(
            example.scene,
            folder / "train" / "Annotations" / name,
            frames,
            values=range(1, len(example.scene.things) + 1),
        )
    objects = {name: objects_entry(example.scene) for name, example in named}
    write_json(folder / "train" / "meta.json", {"videos": objects})
    _write_expressions(
        folder, "train", {name: video_entry(example, ground_truth=True) for name, example in named}
    )
    hidden = {
        video_name(example.scene, digits=DIGITS): example
        for example in world.examples_of("video", "test")
    }
    for name, example in hidden.items():
        write_some(example.scene, folder / "valid" / "JPEGImages" / name)
    valid = {name: video_entry(example, ground_truth=False) for name, example in hidden.items()}
    test = {
        video_name(example.scene, digits=DIGITS, salt=TEST): video_entry(
            example, ground_truth=False
        )
        for example in hidden.values()
    }
    _write_expressions(folder, "valid", {**valid, **test})
    _write_expressions(folder, "test", test)


def _of_train(scene: Scene) -> str:
    return salted(scene, lambda name: held_out(name) == (scene.split == "val"), digits=DIGITS)


def _write_expressions(folder: Path, part: str, videos: Mapping[str, object]) -> None:
    path = folder / "meta_expressions" / part / "meta_expressions.json"
    write_json(path, {"videos": dict(videos)})


def video_entry(example: Example, *, ground_truth: bool) -> dict[str, object]:
    """The entry of one video: expressions that mean one object, which the number `obj_id` has."""
    target = single(example)
    return {
        "expressions": {
            str(place): {"exp": text, **({"obj_id": str(index + 1)} if ground_truth else {})}
            for place, (text, index) in enumerate(target)
        },
        "frames": [frame_name(frame) for frame in some_frames(example.scene)],
    }


def single(example: Example) -> Sequence[tuple[str, int]]:
    """Return as many texts as the example has questions, each about one visible thing."""
    scene = example.scene
    shown = set(objects_entry(scene)["objects"])
    fitting = {
        question.text: question.referents[0]
        for question in (*example.questions, *every_question(scene))
        if question.count == 1 and str(question.referents[0] + 1) in shown
    }
    own = [question.text for question in example.questions if question.text in fitting]
    draws = Draws(scene.seed, scene.id, "ref_youtube_vos")
    others = draws.shuffle([text for text in fitting if text not in own])
    texts = [*own, *others][: len(example.questions)]
    return [(text, fitting[text]) for text in texts]


def objects_entry(scene: Scene) -> dict[str, dict[str, object]]:
    """The entry of one video in `meta.json`: the objects that are in any frame, and in which."""
    masks = {frame: visible_masks(scene, frame) for frame in some_frames(scene)}
    objects: dict[str, object] = {}
    for index, thing in enumerate(scene.things):
        frames = [frame_name(frame) for frame, mask in masks.items() if mask[index].any()]
        if frames:
            objects[str(index + 1)] = {"category": thing.shape, "frames": frames}
    return {"objects": objects}
