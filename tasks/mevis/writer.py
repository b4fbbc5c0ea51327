"""Write sample data: video scenes in the layout of MeViS (frames, expressions and run-lengths).

`train` and `valid_u` have the ground truth; `valid` has only expressions, because the organisers
keep its masks.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from harness.tasks.mevis.task import expressions_file
from harness.tasks.revos.writer import ABSENT_INDEX, absent_phrase
from harness.tasks.rvos.writing import frame_name, mask_tracks, video_name, write_frames, write_json
from harness.world.scene import Split
from harness.world.shapes import Example, World

SPLIT_NAMES: Mapping[str, Split] = MappingProxyType(
    {"train": "train", "valid_u": "val", "valid": "test"}
)
"""The world's split for each split of the benchmark."""

WITHOUT_GROUND_TRUTH = frozenset({"valid"})


def write(world: World, root: Path) -> None:
    """Write `root/mevis/{train,valid_u,valid}`, and `valid_u` of the second version.

    Each holds JPEGImages and the two JSON files.
    """
    write_splits(world, root / "mevis", SPLIT_NAMES)
    write_splits(world, root / "mevis" / "v2", {"valid_u": "val"}, version=2)


def write_splits(
    world: World, root: Path, splits: Mapping[str, Split], *, version: int = 1
) -> None:
    """Write splits below `root`; in version 2 one expression of each video has no target."""
    absent = ABSENT_INDEX if version == 2 else None
    for name, split in splits.items():
        folder = root / name
        folder.mkdir(parents=True)
        videos: dict[str, object] = {}
        masks: dict[str, list[dict[str, object] | None]] = {}
        for number, example in enumerate(world.examples_of("video", split)):
            scene = example.scene
            write_frames(scene, folder / "JPEGImages" / video_name(scene))
            first_annotation = None if name in WITHOUT_GROUND_TRUTH else len(masks)
            videos[video_name(scene)] = video_entry(
                example, number, first_annotation=first_annotation, absent=absent
            )
            if first_annotation is not None:
                tracks = enumerate(mask_tracks(scene), start=first_annotation)
                masks.update((str(anno_id), track) for anno_id, track in tracks)
        write_json(folder / expressions_file(name, version), {"videos": videos})
        if name not in WITHOUT_GROUND_TRUTH:
            write_json(folder / "mask_dict.json", masks)


def video_entry(
    example: Example, number: int, *, first_annotation: int | None, absent: int | None = None
) -> dict[str, object]:
    """Return the entry of one video in `meta_expressions.json`.

    Args:
        example: The scene and its questions.
        number: The video's `vid_id`.
        first_annotation: The `anno_id` of the video's first thing; None: expressions have only
            their text, because the ground truth is hidden.
        absent: Index of the expression without a target; None: all expressions have one.
    """
    expressions: dict[str, dict[str, object]] = {}
    for expression_index, question in enumerate(example.questions):
        expressions[str(expression_index)] = {"exp": question.text}
        if expression_index == absent:
            expressions[str(expression_index)] = {"exp": absent_phrase(example.scene)}
            question = replace(question, referents=())
        if first_annotation is not None:
            expressions[str(expression_index)] |= {
                "obj_id": list(question.referents),
                "anno_id": [first_annotation + index for index in question.referents],
            }
    frames = [frame_name(frame) for frame in range(example.scene.frames)]
    return {"vid_id": number, "frames": frames, "expressions": expressions}
