"""Still scenes in the layouts of RefCOCOg: mostly longer expressions."""

from pathlib import Path

from harness.tasks.refcocog.task import REFCOCOG
from harness.tasks.refer.writer import PLAIN, write_refer
from harness.world.referring import relations, superlatives
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/refer_seg/refcocog`, its images, and its copies of `val` and `test`."""
    google = {split: part for split, part in PLAIN.items() if split != "test"}
    write_refer(
        world,
        root,
        REFCOCOG,
        kinds=(relations, superlatives),
        divided={"umd": PLAIN, "google": google},
        copied=("val", "test"),
    )
