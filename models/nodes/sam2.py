"""The perception node `sam2`: SAM 2, prompted with a grid of points or a detector's boxes."""

from harness.errors import UsageError
from harness.models.backends.sam2 import PAPER_CHECKPOINT
from harness.models.factory import build_propagator, build_segmenter
from harness.models.nodes.point_grid import PointGrid
from harness.spec import Spec


def sam2(
    *,
    checkpoint: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    grid: int = 32,
    min_votes: int = 2,
    max_masks: int = 64,
) -> PointGrid:
    """SAM 2: everything in view, or what a detector's boxes hold, carried by its memory.

    Args:
        checkpoint: A folder, or a name such as facebook/sam2-hiera-large, of an architecture with
            memory. It must be given.
        dtype: Type of weights and activations; `auto`: the type of the saved checkpoint.
        device: `cuda:1`, `cpu`, …; `auto`: CUDA if there is a GPU, else the CPU.
        grid: Points per side of the grid of prompts, used without a detector's boxes.
        min_votes: Smallest number of points whose masks must agree.
        max_masks: Largest number of masks per frame.

    Raises:
        ModelError: the checkpoint is missing, incomplete, unsafe to load, or not SAM 2.
        UsageError: no checkpoint is named, or one that harness trained.
    """
    if checkpoint is None:
        raise UsageError(
            "node sam2",
            expected="checkpoint=, the weights of SAM 2",
            found="none",
            fix=f"For example SAM2=sam2(checkpoint={PAPER_CHECKPOINT}), or a node that needs no "
            "weights: SAM2=opencv_objects, or SAM2=pocket_sam for drawn shapes.",
        )
    arguments = {"checkpoint": checkpoint, "dtype": dtype, "device": device}
    return PointGrid(
        label="sam2",
        segmenter=build_segmenter(Spec("sam2", arguments)),
        propagator=build_propagator(Spec("sam2_video", arguments)),
        grid=grid,
        joins=False,
        min_votes=min_votes,
        max_masks=max_masks,
    )
