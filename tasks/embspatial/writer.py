"""Questions of the generated world in FlagEval's table of EmbSpatial-Bench."""

from pathlib import Path

from harness.tasks.video_qa.benchmarks import images, write_rows
from harness.world.shapes import World

COLUMNS = {
    "question_id": "text",
    "question": "text",
    "image": "image",
    "answer_options": "texts",
    "answer": "whole",
    "relation": "text",
    "data_source": "text",
}


def write(world: World, root: Path) -> None:
    """Write `root/embspatial/data/test-00000-of-00001.parquet`."""
    write_rows(
        world,
        root / "embspatial" / "data" / "test-00000-of-00001.parquet",
        COLUMNS,
        lambda number, scene, question: {
            "question_id": f"shapes_{number}",
            "question": question.text,
            "image": images(scene, 1)[0],
            "answer_options": list(question.options),
            "answer": question.options.index(str(question.answer)),
            "relation": question.kind,
            "data_source": ("ai2thor", "mp3d", "scannet")[number % 3],
        },
    )
