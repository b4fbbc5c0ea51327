"""The node `pocket_sam`: this project's small SAM 2, prompted with a grid of points or boxes."""

from harness.models.factory import build_propagator, build_segmenter
from harness.models.nodes.point_grid import PointGrid
from harness.spec import Spec


def pocket_sam(
    *,
    checkpoint: str | None = None,
    device: str = "auto",
    grid: int = 14,
    max_masks: int = 16,
) -> PointGrid:
    """Masks of drawn shapes by a SAM 2 of 2.1 million parameters that ships: no photographs.

    Args:
        checkpoint: Folder of a `harness train --method pocket_sam`; None: the weights that ship.
        device: `cuda:1`, `cpu`, …; `auto`: CUDA if there is a GPU, else the CPU.
        grid: Points per side of the grid of prompts, used without a detector's boxes.
        max_masks: Largest number of masks per frame.
    """
    arguments = {"device": device, **({} if checkpoint is None else {"checkpoint": checkpoint})}
    return PointGrid(
        label="pocket_sam",
        segmenter=build_segmenter(Spec("pocket_sam", arguments)),
        propagator=build_propagator(Spec("pocket_sam_video", arguments)),
        grid=grid,
        joins=True,
        min_votes=1,
        max_masks=max_masks,
    )
