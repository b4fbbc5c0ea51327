"""Video scenes as records of RVTBench: vqa."""

from pathlib import Path

from harness.tasks.rvtbench.writing import write_records
from harness.world.shapes import World

LEVELS = 4


def write(world: World, root: Path) -> None:
    """Write `root/rvtbench/annotations/vqa.jsonl`, and the videos."""
    write_records(
        world, root / "rvtbench", "vqa", levels=LEVELS, annotations="annotations/vqa.jsonl"
    )
