"""Video scenes as records of RVTBench: summary."""

from pathlib import Path

from harness.tasks.rvtbench.writing import write_records
from harness.world.shapes import World

LEVELS = 4


def write(world: World, root: Path) -> None:
    """Write `root/rvtbench/annotations/summary.jsonl`, and the videos."""
    write_records(
        world, root / "rvtbench", "summary", levels=LEVELS, annotations="annotations/summary.jsonl"
    )
