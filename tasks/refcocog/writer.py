"""Write sample data: still scenes in the layouts of RefCOCOg, with mostly longer expressions."""

from pathlib import Path

from harness.tasks.refcocog.task import REFCOCOG
from harness.tasks.refer.writer import ONE_TEST_SET, write_refer
from harness.world.referring import relations, superlatives
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/refer_seg/refcocog`, its images, and its copies of `val` and `test`."""
    google = {split: world_part for split, world_part in ONE_TEST_SET.items() if split != "test"}
    write_refer(
        world,
        root,
        REFCOCOG,
        generators=(relations, superlatives),
        divided={"umd": ONE_TEST_SET, "google": google},
        copied=("val", "test"),
    )
