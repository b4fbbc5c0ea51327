"""Questions of the generated world in MindCube's tables."""

from pathlib import Path

from harness.tasks.video_qa.benchmarks import images, in_text, write_rows
from harness.world.shapes import World

COLUMNS = {
    "id": "text",
    "images": "images",
    "question": "text",
    "input_prompt": "text",
    "gt_answer": "text",
}
SETTINGS = ("among", "rotation", "aroundnew")


def write(world: World, root: Path) -> None:
    """Write `root/mindcube/{tiny,full}/combined-00000-of-00001.parquet`."""
    for name in ("tiny", "full"):
        write_rows(
            world,
            root / "mindcube" / name / "combined-00000-of-00001.parquet",
            COLUMNS,
            lambda number, scene, question: {
                "id": f"{SETTINGS[number % 3]}_group{number:03d}_q0",
                "images": images(scene),
                "question": in_text(question),
                "input_prompt": in_text(question),
                "gt_answer": question.letter,
            },
        )
