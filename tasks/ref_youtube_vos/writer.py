"""Write sample data: video scenes in the layout of Ref-YouTube-VOS.

A hash of a video's name decides whether it is in the split `train_dev` or `train_fit`. Names are
chosen so that `train_dev` has exactly the world's `val` scenes. As in the organisers' files,
`valid` also lists the videos of `test`, which have no frames here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.tasks.ref_youtube_vos.splits import held_out
from harness.tasks.rvos.writing import (
    frame_name,
    salted,
    sampled_frames,
    video_name,
    write_json,
    write_labels,
    write_sampled_frames,
)
from harness.world.draws import Draws
from harness.world.questions import every_question
from harness.world.raster import visible_masks
from harness.world.scene import Scene
from harness.world.shapes import Example, World

NAME_DIGITS = 10  # length of a video's name
TEST_SALT = 1  # gives the videos of `test` names other than those of `valid`


def write(world: World, root: Path) -> None:
    """Write `root/ref_youtube_vos`: `train` with ground truth, `valid` and `test` without it."""
    folder = root / "ref_youtube_vos"
    examples = [
        (_train_name(example.scene), example)
        for split in ("train", "val")
        for example in world.examples_of("video", split)
    ]
    for name, example in examples:
        frames = sampled_frames(example.scene)
        write_sampled_frames(example.scene, folder / "train" / "JPEGImages" / name)
        write_labels(
            example.scene,
            folder / "train" / "Annotations" / name,
            frames,
            values=range(1, len(example.scene.things) + 1),
        )
    objects = {name: objects_entry(example.scene) for name, example in examples}
    write_json(folder / "train" / "meta.json", {"videos": objects})
    _write_expressions(
        folder,
        "train",
        {name: video_entry(example, ground_truth=True) for name, example in examples},
    )
    hidden = {
        video_name(example.scene, digits=NAME_DIGITS): example
        for example in world.examples_of("video", "test")
    }
    for name, example in hidden.items():
        write_sampled_frames(example.scene, folder / "valid" / "JPEGImages" / name)
    valid = {name: video_entry(example, ground_truth=False) for name, example in hidden.items()}
    test = {
        video_name(example.scene, digits=NAME_DIGITS, salt=TEST_SALT): video_entry(
            example, ground_truth=False
        )
        for example in hidden.values()
    }
    _write_expressions(folder, "valid", {**valid, **test})
    _write_expressions(folder, "test", test)


def _train_name(scene: Scene) -> str:
    """Return a name of a scene that is in `train_dev` exactly if the scene is of `val`."""
    is_val = scene.split == "val"
    return salted(scene, lambda name: held_out(name) == is_val, digits=NAME_DIGITS)


def _write_expressions(folder: Path, part: str, videos: Mapping[str, object]) -> None:
    path = folder / "meta_expressions" / part / "meta_expressions.json"
    write_json(path, {"videos": dict(videos)})


def video_entry(example: Example, *, ground_truth: bool) -> dict[str, object]:
    """Return the entry of one video; each expression is about one object, with number `obj_id`."""
    return {
        "expressions": {
            str(number): {"exp": text, **({"obj_id": str(index + 1)} if ground_truth else {})}
            for number, (text, index) in enumerate(single_object_expressions(example))
        },
        "frames": [frame_name(frame) for frame in sampled_frames(example.scene)],
    }


def single_object_expressions(example: Example) -> Sequence[tuple[str, int]]:
    """Return (text, index of the thing) pairs, each about one visible thing.

    The example's own questions come first, then others about the scene; there are as many pairs as
    the example has questions, if the scene has enough.
    """
    scene = example.scene
    visible_objects = set(objects_entry(scene)["objects"])
    referents = {
        question.text: question.referents[0]
        for question in (*example.questions, *every_question(scene))
        if question.count == 1 and str(question.referents[0] + 1) in visible_objects
    }
    own_texts = [question.text for question in example.questions if question.text in referents]
    draws = Draws(scene.seed, scene.id, "ref_youtube_vos")
    other_texts = draws.shuffle([text for text in referents if text not in own_texts])
    chosen_texts = [*own_texts, *other_texts][: len(example.questions)]
    return [(text, referents[text]) for text in chosen_texts]


def objects_entry(scene: Scene) -> dict[str, dict[str, object]]:
    """Return the entry of one video in `meta.json`: its visible objects, with their frames."""
    masks = {frame: visible_masks(scene, frame) for frame in sampled_frames(scene)}
    objects: dict[str, object] = {}
    for index, thing in enumerate(scene.things):
        frames = [frame_name(frame) for frame, mask in masks.items() if mask[index].any()]
        if frames:
            objects[str(index + 1)] = {"category": thing.shape, "frames": frames}
    return {"objects": objects}
