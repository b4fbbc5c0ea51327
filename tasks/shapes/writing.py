"""Writing the world's own layout: images once a scene, questions as JSON lines."""

import json
from collections.abc import Iterable
from pathlib import Path

from harness.tasks.shapes.records import QUESTIONS
from harness.world.encode import write_jpeg
from harness.world.raster import render
from harness.world.scene import Scene


def write_images(scene: Scene, place: Path) -> list[str]:
    """Write a still or the frames of a video below `place`; returns their names there."""
    stem = f"images/{scene.family}_{scene.index:05d}"
    still = scene.frames == 1
    names = [f"{stem}.jpg"] if still else [f"{stem}/{k:05d}.jpg" for k in range(scene.frames)]
    (place / names[0]).parent.mkdir(parents=True, exist_ok=True)
    for frame, name in enumerate(names):
        write_jpeg(place / name, render(scene, frame))
    return names


def write_questions(place: Path, questions: Iterable[dict[str, object]]) -> None:
    """Write `questions.jsonl`."""
    place.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(plain, ensure_ascii=False) + "\n" for plain in questions)
    (place / QUESTIONS).write_text(text, encoding="utf-8", newline="\n")
