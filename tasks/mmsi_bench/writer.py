"""Questions of the generated world in MMSI-Bench's table."""

from pathlib import Path

from harness.tasks.video_qa.benchmarks import images, in_text, write_rows
from harness.world.shapes import World

COLUMNS = {
    "id": "whole",
    "images": "images",
    "question_type": "text",
    "question": "text",
    "answer": "text",
}


def write(world: World, root: Path) -> None:
    """Write `root/mmsi_bench/MMSI_Bench.parquet`."""
    write_rows(
        world,
        root / "mmsi_bench" / "MMSI_Bench.parquet",
        COLUMNS,
        lambda number, scene, question: {
            "id": number,
            "images": images(scene),
            "question_type": "MSR",
            "question": in_text(question),
            "answer": question.letter,
        },
    )
