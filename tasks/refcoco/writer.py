"""Write sample data: still scenes in the layouts of RefCOCO."""

from pathlib import Path

from harness.tasks.refcoco.task import REFCOCO
from harness.tasks.refer.writer import ONE_TEST_SET, TWO_TEST_SETS, write_refer
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
        divided={"unc": TWO_TEST_SETS, "google": ONE_TEST_SET},
        copied=("val", "testA"),
    )
