"""The segmenter `pocket_sam`: the small SAM 2 of this project, which knows coloured shapes."""

from dataclasses import asdict

from harness.models import pocket_sam as shipped
from harness.models.backends.checkpoint_part import Computing
from harness.models.segmenters.sam2_transformers import Sam2
from harness.options import with_options


@with_options(Computing)
def pocket_sam(
    computing: Computing, *, checkpoint: str | None = None, multimask: bool = True
) -> Sam2:
    """A SAM 2 of 2.1 million parameters that ships: a toy, for the generated world alone.

    Args:
        checkpoint: The folder of a `harness train --method pocket_sam`; None: the shipped weights.
        multimask: Decode three masks and take the best one, instead of decoding one.

    Raises:
        ModelError: the checkpoint is missing, incomplete, or not SAM 2.
    """
    checkpoint_files = shipped.find_checkpoint(checkpoint, memory=False)
    return Sam2(name="pocket_sam", **checkpoint_files, **asdict(computing), multimask=multimask)
