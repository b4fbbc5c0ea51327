"""Write sample data: video scenes in the layout of ReVOS (frames, expressions, two mask files).

Expressions are alternately referring and reasoning; the third of a video has no referent.
"""

from collections.abc import Collection, Mapping
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.masks import Rle
from harness.tasks.rvos.writing import (
    frame_name,
    joint_masks,
    mask_tracks,
    sampled_frames,
    video_name,
    write_json,
    write_sampled_frames,
)
from harness.world.draws import Draws
from harness.world.language import Noun, Question
from harness.world.questions import every_question
from harness.world.scene import COLOURS, SHAPES, Scene, Split
from harness.world.shapes import Example, World

SPLIT_NAMES: Mapping[str, Split] = MappingProxyType({"train": "train", "valid": "val"})
"""The world's split for each split of the benchmark."""

ABSENT_INDEX = 2
"""Index of the expression without a referent among those of a video."""


def write(world: World, root: Path) -> None:
    """Write `root/revos`: JPEGImages, two files of expressions and two of masks."""
    folder = root / "revos"
    masks: dict[str, object] = {}
    foreground: dict[str, object] = {}
    for name, split in SPLIT_NAMES.items():
        videos = {}
        for example in world.examples_of("video", split):
            scene = example.scene
            video = f"shapes/{video_name(scene)}"
            write_sampled_frames(scene, folder / "JPEGImages" / video)
            videos[video] = video_entry(example, first_annotation=len(masks))
            # Indices of the things that expressions are about; annotation ids are counted on from
            # video to video.
            used = {
                annotation - len(masks)
                for expression in videos[video]["expressions"].values()
                for annotation in expression["anno_id"]
            }
            foreground[video] = foreground_entry(scene, used)
            tracks = enumerate(mask_tracks(scene, sampled_frames(scene)), start=len(masks))
            masks.update({str(number): track for number, track in tracks})
        write_json(folder / f"meta_expressions_{name}_.json", {"videos": videos})
    write_json(folder / "mask_dict.json", masks)
    write_json(folder / "mask_dict_foreground.json", foreground)


def video_entry(
    example: Example, *, first_annotation: int, absent: int | None = ABSENT_INDEX
) -> dict[str, Any]:
    """Return the entry of one video; its annotation ids are counted from `first_annotation`.

    The expression with the index `absent` has no referent.
    """
    scene = example.scene
    expressions: dict[str, dict[str, object]] = {}
    target: tuple[int, ...]
    for expression_index, question in enumerate(example.questions):
        type_id = expression_index % 2
        if expression_index == absent:
            type_id, text, target = 2, absent_phrase(scene), ()
        else:
            earlier_texts = {entry["exp"] for entry in expressions.values()}
            fitted = fitting(scene, question, reasoning=type_id == 1, earlier_texts=earlier_texts)
            text, target = fitted.text, fitted.referents
        expressions[str(expression_index)] = {
            "exp": text,
            "obj_id": list(target),
            "type_id": type_id,
            "anno_id": [first_annotation + index for index in target],
        }
    frames = [frame_name(frame) for frame in sampled_frames(scene)]
    return {
        "height": scene.height,
        "width": scene.width,
        "frames": frames,
        "expressions": expressions,
    }


def fitting(
    scene: Scene, question: Question, *, reasoning: bool, earlier_texts: Collection[object]
) -> Question:
    """Return the question if it has the wanted type and a new text, else another that has both.

    If there is no such question, the given one is returned.

    A question is of the type "reasoning" if it is a full sentence.
    """
    if question.is_sentence == reasoning and question.text not in earlier_texts:
        return question
    draws = Draws(scene.seed, scene.id, "revos", question.text)
    candidates = [
        candidate
        for candidate in every_question(scene)
        if candidate.is_sentence == reasoning and candidate.text not in earlier_texts
    ]
    return draws.choice(candidates) if candidates else question


def absent_phrase(scene: Scene) -> str:
    """Return a phrase that fits none of the scene's things."""
    absent = [
        noun
        for noun in (Noun(shape, colour) for shape, colour in product(SHAPES, COLOURS))
        if not any(noun.could_fit(thing) for thing in scene.things)
    ]
    return f"the {Draws(scene.seed, scene.id, 'revos', 'nothing').choice(absent).words()}"


def foreground_entry(scene: Scene, used: set[int]) -> dict[str, object]:
    """Return the entry of a video's foreground: the union of the things with the indices `used`."""
    masks = joint_masks(scene, sorted(used), sampled_frames(scene))
    pixels = scene.width * scene.height
    return {
        "masks_rle": [Rle.from_array(mask).to_json() for mask in masks],
        "foreground_ratio": [int(mask.sum()) / pixels for mask in masks],
    }
