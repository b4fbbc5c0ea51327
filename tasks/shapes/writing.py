"""Write the layout of `shapes_qa` and `shapes_referring`: images of scenes, `questions.jsonl`."""

import json
from collections.abc import Iterable
from pathlib import Path

from harness.tasks.shapes.records import QUESTIONS_FILE
from harness.world.encode import write_jpeg
from harness.world.raster import render
from harness.world.scene import Scene


def write_images(scene: Scene, folder: Path) -> list[str]:
    """Write a still image, or a video's frames, below `folder`; return their paths below it."""
    stem = f"images/{scene.family}_{scene.index:05d}"
    still = scene.frames == 1
    names = [f"{stem}.jpg"] if still else [f"{stem}/{k:05d}.jpg" for k in range(scene.frames)]
    (folder / names[0]).parent.mkdir(parents=True, exist_ok=True)
    for frame, name in enumerate(names):
        write_jpeg(folder / name, render(scene, frame))
    return names


def write_questions(folder: Path, questions: Iterable[dict[str, object]]) -> None:
    """Write `questions.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(plain, ensure_ascii=False) + "\n" for plain in questions)
    (folder / QUESTIONS_FILE).write_text(text, encoding="utf-8", newline="\n")
