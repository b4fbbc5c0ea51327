"""Write sample data: generated stills and videos in the layout of Video-R1-260k."""

import json
from collections.abc import Iterator
from pathlib import Path

from harness.tasks.spatial import shapes
from harness.tasks.spatial.shapes import write_video
from harness.tasks.training.question_writing import free_form, record
from harness.tasks.training.video_r1_260k.task import QUESTIONS_FILE
from harness.world.encode import write_jpeg
from harness.world.raster import render
from harness.world.shapes import World

STILLS, VIDEOS = "General/shapes", "shapes-videos"


def write(world: World, root: Path) -> None:
    """Write `root/video_r1_260k/Video-R1-260k.json` with about `size` questions, and its files."""
    folder = root / "video_r1_260k"
    (folder / STILLS).mkdir(parents=True)
    rows = [{**row, "problem_id": number} for number, row in enumerate(_rows(world, folder), 1)]
    text = json.dumps(rows, ensure_ascii=False, indent=1)
    (folder / QUESTIONS_FILE).write_text(text, encoding="utf-8", newline="\n")


def _rows(world: World, folder: Path) -> Iterator[dict[str, object]]:
    """Write the videos and images below `folder`, and yield their questions."""
    videos = max(1, world.size // 4)
    for scene in world.scenes("qa_video", "train")[:videos]:
        path = f"{VIDEOS}/{scene.index:05d}.mp4"
        write_video(folder / path, scene)
        for question in (shapes.side_question, shapes.count):
            yield record(question(scene), 0, path=f"./{path}", video=True, source=VIDEOS)
    for scene in world.scenes("qa", "train")[: max(1, world.size - 2 * videos)]:
        path, first = f"{STILLS}/{scene.index:05d}.jpg", scene.things[0]
        write_jpeg(folder / path, render(scene))
        yield free_form(
            0,
            f"What colour is the {first.shape} in the picture, or one of them?",
            first.colour,
            path=f"./{path}",
            source="General",
        )
