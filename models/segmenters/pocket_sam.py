"""The segmenter `pocket_sam`: the small SAM 2 of this project, which knows coloured shapes."""

from harness.models import pocket_sam as shipped
from harness.models.backends import sam2 as checkpoints
from harness.models.segmenters.sam2_transformers import Sam2


def pocket_sam(
    *,
    checkpoint: str | None = None,
    dtype: checkpoints.Dtype = "auto",
    device: str = "auto",
    multimask: bool = True,
    compiled: bool = False,
) -> Sam2:
    """A SAM 2 of 2.1 million parameters that ships: a toy, for the generated world alone.

    Args:
        checkpoint: The folder of a `harness train --method pocket_sam`; None: what ships.
        dtype: Of weights and activations; `auto` is what the checkpoint was saved in.
        device: Such as `cuda:1` or `cpu`; `auto` is CUDA where there is one.
        multimask: Take the best of three masks, or ask for one.
        compiled: Compile the image encoder when it is first used, about a minute.

    Raises:
        ModelError: the checkpoint is not there, not whole, or not SAM 2.
        UsageError: the type is none.
    """
    checkpoints.check_dtype("pocket_sam", dtype)
    found = shipped.find_checkpoint(checkpoint, memory=False)
    return Sam2(
        name="pocket_sam",
        checkpoint=found.name,
        weights=found.fingerprint,
        files=found.files,
        folder=found.folder,
        dtype=dtype,
        device=device,
        multimask=multimask,
        compiled=compiled,
    )
