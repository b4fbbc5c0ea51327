"""Video scenes in the layout of ReasonVOS; every other frame of a video has an annotation."""

from pathlib import Path

import numpy as np

from harness.tasks.rvos.writing import (
    frame_name,
    joint_masks,
    some_frames,
    video_name,
    write_json,
    write_some,
)
from harness.world.encode import encode_png
from harness.world.shapes import Example, World

SOURCES = ("BURST", "VIPSeg", "MOSE", "MeViS")


def write(world: World, root: Path) -> None:
    """Write `root/reason_vos`: JPEGImages, Annotations and `meta_expressions.json`."""
    place = root / "reason_vos"
    videos: dict[str, object] = {}
    for number, example in enumerate(world.examples_of("video", "test")):
        name = video_name(example.scene)
        write_some(example.scene, place / "JPEGImages" / name)
        videos[name] = _entry(example, name, SOURCES[number % len(SOURCES)], place)
    write_json(place / "meta_expressions.json", {"videos": videos})


def _entry(example: Example, name: str, source: str, place: Path) -> dict[str, object]:
    """The entry of a video; the referents of a question are one object."""
    frames = some_frames(example.scene)
    expressions = []
    for number, question in enumerate(example.questions):
        masks = joint_masks(example.scene, question.referents, frames)
        folder = place / "Annotations" / f"{source}_{name}_{number}"
        folder.mkdir(parents=True)
        for frame, mask in list(zip(frames, masks, strict=True))[::2]:
            png = encode_png(mask.astype(np.uint8) * 255)
            (folder / f"{frame_name(frame)}.png").write_bytes(png)
        entry = {"obj_id": number, "exp_id": number, "exp_text": question.text}
        expressions.append({**entry, "is_sent": question.is_sentence})
    names = [frame_name(frame) for frame in frames]
    return {"source": source, "frames": names, "expressions": expressions}
