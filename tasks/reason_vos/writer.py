"""Write sample data: video scenes in the layout of ReasonVOS; every second frame has a mask."""

from pathlib import Path

import numpy as np

from harness.tasks.rvos.writing import (
    frame_name,
    joint_masks,
    sampled_frames,
    video_name,
    write_json,
    write_sampled_frames,
)
from harness.world.encode import encode_png
from harness.world.shapes import Example, World

SOURCES = ("BURST", "VIPSeg", "MOSE", "MeViS")


def write(world: World, root: Path) -> None:
    """Write `root/reason_vos`: JPEGImages, Annotations and `meta_expressions.json`."""
    benchmark_folder = root / "reason_vos"
    videos: dict[str, object] = {}
    for number, example in enumerate(world.examples_of("video", "test")):
        name = video_name(example.scene)
        write_sampled_frames(example.scene, benchmark_folder / "JPEGImages" / name)
        videos[name] = _entry(example, name, SOURCES[number % len(SOURCES)], benchmark_folder)
    write_json(benchmark_folder / "meta_expressions.json", {"videos": videos})


def _entry(example: Example, name: str, source: str, benchmark_folder: Path) -> dict[str, object]:
    """Write a video's masks and return its entry; the referents of a question are one object."""
    frames = sampled_frames(example.scene)
    expressions = []
    for number, question in enumerate(example.questions):
        masks = joint_masks(example.scene, question.referents, frames)
        folder = benchmark_folder / "Annotations" / f"{source}_{name}_{number}"
        folder.mkdir(parents=True)
        for frame, mask in list(zip(frames, masks, strict=True))[::2]:
            png = encode_png(mask.astype(np.uint8) * 255)
            (folder / f"{frame_name(frame)}.png").write_bytes(png)
        entry = {"obj_id": number, "exp_id": number, "exp_text": question.text}
        expressions.append({**entry, "is_sent": question.is_sentence})
    names = [frame_name(frame) for frame in frames]
    return {"source": source, "frames": names, "expressions": expressions}
