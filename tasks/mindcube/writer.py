"""Write sample data: generated questions in MindCube's tables."""

from pathlib import Path

from harness.tasks.mindcube.task import FIELDS
from harness.tasks.video_qa.benchmarks import in_text, question_writer
from harness.world.shapes import World

SETTINGS = ("among", "rotation", "aroundnew")


def write(world: World, root: Path) -> None:
    """Write `root/mindcube/{tiny,full}/combined-00000-of-00001.parquet`."""
    for name in ("tiny", "full"):
        question_writer(
            f"mindcube/{name}/combined-00000-of-00001.parquet",
            FIELDS,
            id=lambda example: f"{SETTINGS[example.number % 3]}_group{example.number:03d}_q0",
            input_prompt=lambda example: in_text(example.question),
        )(world, root)
