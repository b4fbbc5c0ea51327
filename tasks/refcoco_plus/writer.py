"""Write sample data: still scenes in RefCOCO+'s layouts, without words for locations."""

from pathlib import Path

from harness.tasks.refcoco_plus.task import REFCOCO_PLUS
from harness.tasks.refer.writer import TWO_TEST_SETS, write_refer
from harness.world.referring import attributes
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/refer_seg/refcoco+`, its images, and its copies of `val` and `testA`."""
    write_refer(
        world,
        root,
        REFCOCO_PLUS,
        generators=(attributes,),
        divided={"unc": TWO_TEST_SETS},
        copied=("val", "testA"),
    )
