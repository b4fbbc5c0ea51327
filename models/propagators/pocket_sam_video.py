"""The propagator `pocket_sam_video`: the memory of this project's small SAM 2."""

from dataclasses import asdict

from harness.models import pocket_sam as shipped
from harness.models.backends.checkpoint_part import Computing
from harness.models.propagators.sam2_transformers import Sam2Video
from harness.options import with_options


@with_options(Computing)
def pocket_sam_video(computing: Computing, *, checkpoint: str | None = None) -> Sam2Video:
    """The same small SAM 2 as `pocket_sam`, for videos: a toy, for the generated world alone.

    Args:
        checkpoint: The folder of a `harness train --method pocket_sam`; None: the shipped weights.

    Raises:
        ModelError: the checkpoint is missing, incomplete, or has no memory.
    """
    checkpoint_files = shipped.find_checkpoint(checkpoint, memory=True)
    return Sam2Video(name="pocket_sam_video", **checkpoint_files, **asdict(computing))
