"""The propagator `pocket_sam_video`: the memory of this project's small SAM 2."""

from harness.models import pocket_sam as shipped
from harness.models.backends import sam2 as checkpoints
from harness.models.propagators.sam2_transformers import Sam2Video


def pocket_sam_video(
    *,
    checkpoint: str | None = None,
    dtype: checkpoints.Dtype = "auto",
    device: str = "auto",
    compiled: bool = False,
) -> Sam2Video:
    """The same small SAM 2 as `pocket_sam`, for videos: a toy, for the generated world alone.

    Args:
        checkpoint: The folder of a `harness train --method pocket_sam`; None: what ships.
        dtype: Of weights and activations; `auto` is what the checkpoint was saved in.
        device: Such as `cuda:1` or `cpu`; `auto` is CUDA where there is one.
        compiled: Compile the image encoder when it is first used, about a minute.

    Raises:
        ModelError: the checkpoint is not there, not whole, or has no memory.
        UsageError: the type is none.
    """
    checkpoints.check_dtype("pocket_sam_video", dtype)
    found = shipped.find_checkpoint(checkpoint, memory=True)
    return Sam2Video(
        name="pocket_sam_video",
        checkpoint=found.name,
        weights=found.fingerprint,
        files=found.files,
        folder=found.folder,
        dtype=dtype,
        device=device,
        compiled=compiled,
    )
