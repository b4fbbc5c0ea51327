"""Video scenes as records of RVTBench: grounding."""

from pathlib import Path

from harness.tasks.rvtbench.writing import write_records
from harness.world.shapes import World

LEVELS = 4


def write(world: World, root: Path) -> None:
    """Write `root/rvtbench/annotations/grounding.jsonl`, and the videos."""
    write_records(
        world,
        root / "rvtbench",
        "grounding",
        levels=LEVELS,
        annotations="annotations/grounding.jsonl",
    )
