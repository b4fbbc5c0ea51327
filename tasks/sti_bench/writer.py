"""Write sample data: generated videos in STI-Bench's layout, `qa.parquet` and its videos."""

from pathlib import Path

from harness.metrics.choices import FIVE_LETTERS
from harness.tasks.spatial import shapes
from harness.tasks.spatial.shapes import write_video
from harness.tasks.sti_bench.records import KIND_OF_TASK
from harness.tasks.video_qa.writing import write_table
from harness.world.quiz import QA
from harness.world.scene import Scene
from harness.world.shapes import World

FILE_PATTERNS = ("scene{:04d}_00.mp4", "camera_{:04d}.mp4", "{:06d}.mp4")
"""Patterns of file names for indoor, outdoor and desktop scenes."""

TASKS = tuple(KIND_OF_TASK)


def write(world: World, root: Path) -> None:
    """Write `world.size` questions, but at least one of each task, below `root/sti_bench`."""
    scenes = world.scenes("qa_video", "test")
    folder = root / "sti_bench"
    rows = [
        _row(scenes[number % len(scenes)], number, TASKS[number % len(TASKS)])
        for number in range(max(world.size, len(TASKS)))
    ]
    for index, scene in enumerate(scenes):
        write_video(folder / "video" / name_of(index), scene)
    write_table(folder / "qa.parquet", rows)


def name_of(index: int) -> str:
    """Return the file name of a scene's video; the kind of place is recognised by it."""
    return FILE_PATTERNS[index % len(FILE_PATTERNS)].format(index)


def _row(scene: Scene, number: int, task: str) -> dict[str, object]:
    """Return the row of a task's question about the whole video."""
    question = _question_of_task(scene, task)
    return {
        "Video": name_of(scene.index),
        "ID": number,
        "Source": "shapes",
        "Task": task,
        "Question": question.text,
        "Candidates": dict(zip(FIVE_LETTERS, question.options, strict=False)),
        "Answer": question.letter,
        "time_start": 0.0,
        "time_end": float(scene.frames - 1),  # in seconds: frame k is second k
    }


def _question_of_task(scene: Scene, task: str) -> QA:
    """Return a question of a task about a scene.

    Generated scenes have two dimensions, so questions about the plane, in pixels, stand in for the
    benchmark's questions about space, in metres.
    """
    lengths = {
        "Dimensional Measurement": shapes.width,
        "Displacement & Path Length": shapes.displacement,
    }
    if task in lengths:
        question = lengths[task](scene)
        return shapes.with_numbers(
            scene, question.kind, question.text, float(question.answer), "pixels"
        )
    question_of_task = {
        "Spatial Relation": shapes.quadrant,
        "3D Video Grounding": shapes.ENDS["start"],
        "Speed & Acceleration": shapes.faster,
        "Ego-Centric Orientation": shapes.camera,
        "Trajectory Description": shapes.trajectory,
        "Pose Estimation": shapes.ENDS["end"],
    }
    return question_of_task[task](scene)
