"""Questions of the generated world in the table of 3DSRBench."""

from pathlib import Path

from harness.tasks.three_dsr_bench.task import KINDS
from harness.tasks.video_qa.benchmarks import images, write_rows
from harness.world.shapes import World

COLUMNS = {
    "index": "text",
    "image": "image",
    "question": "text",
    **dict.fromkeys("ABCD", "text"),
    "answer": "text",
    "category": "text",
}


def write(world: World, root: Path) -> None:
    """Write `root/three_dsr_bench/3dsr/test-00000-of-00001.parquet`."""
    write_rows(
        world,
        root / "three_dsr_bench" / "3dsr" / "test-00000-of-00001.parquet",
        COLUMNS,
        lambda number, scene, question: {
            "index": f"SHAPE{number:03d}",
            "image": images(scene, 1)[0],
            "question": question.text,
            **dict.fromkeys("ABCD"),
            **dict(zip("ABCD", question.options, strict=False)),
            "answer": question.letter,
            "category": f"{KINDS[number % len(KINDS)]}_{question.kind}",
        },
    )
