"""Write still scenes in the layouts of RefCOCO."""

from pathlib import Path

from harness.tasks.refcoco.task import REFCOCO
from harness.tasks.refer.writer import GAME, PLAIN, write_refer
from harness.world.referring import attributes, relations, superlatives
from harness.world.shapes import World

KINDS = (attributes, relations, superlatives)


def write(world: World, root: Path) -> None:
    """Write `root/refer_seg/refcoco`, its images, and its copies of `val` and `testA`."""
    write_refer(
        world,
        root,
        REFCOCO,
        generators=KINDS,
        divided={"unc": GAME, "google": PLAIN},
        copied=("val", "testA"),
    )
