"""Video scenes as records of JiTBench."""

from pathlib import Path

from harness.tasks.rvtbench.writing import write_records
from harness.world.shapes import World

LEVELS = 3


def write(world: World, root: Path) -> None:
    """Write `root/jitbench/annotations.jsonl`, and the videos."""
    write_records(
        world, root / "jitbench", "segmentation", levels=LEVELS, annotations="annotations.jsonl"
    )
