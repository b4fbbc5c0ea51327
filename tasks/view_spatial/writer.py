"""Questions of the generated world in ViewSpatial-Bench's table."""

from pathlib import Path

from harness.tasks.qa.options import lettered
from harness.tasks.video_qa.benchmarks import images, write_rows
from harness.world.shapes import World

COLUMNS = {
    "images": "images",
    "question": "text",
    "choices": "text",
    "answer": "text",
    "question_type": "text",
}


def write(world: World, root: Path) -> None:
    """Write `root/view_spatial/data/test-00000-of-00001.parquet`."""
    write_rows(
        world,
        root / "view_spatial" / "data" / "test-00000-of-00001.parquet",
        COLUMNS,
        lambda number, scene, question: {
            "images": images(scene),
            "question": question.text,
            "choices": "\n".join(lettered(question.options)),
            "answer": f"{question.letter}. {question.answer}",
            "question_type": "Camera perspective - Relative Direction",
        },
    )
