"""The propagator `sam3_video`: SAM 3's tracker through transformers.

The method is SAM 3 (Carion et al.: "SAM 3: Segment Anything with Concepts", 2025). Its tracker is
SAM 2's with other features. SAM 3.1's joint tracker is not in transformers yet.
"""

from dataclasses import dataclass
from typing import ClassVar

from harness.models.backends.checkpoint_part import Computing
from harness.models.propagators.sam2_transformers import Sam2Video
from harness.models.segmenters.sam3 import PUBLISHED, find_sam3
from harness.options import with_options

MODEL_TYPES = ("sam3_video", "sam3_tracker_video")
"""Architectures whose weights contain the tracker; the published checkpoint is a `sam3_video`."""


@dataclass(frozen=True, kw_only=True)
class Sam3Video(Sam2Video):
    """SAM 3's tracker, loaded at the first use; it propagates as `Sam2Video` does."""

    name: str = "sam3_video"
    family: ClassVar[str] = "Sam3TrackerVideo"


@with_options(Computing, without=("compiled",))
def sam3_video(computing: Computing, *, checkpoint: str = PUBLISHED) -> Sam3Video:
    """SAM 3's tracker from a folder or the local cache.

    Args:
        checkpoint: A folder, or a name in the Hugging Face cache. Its weights are given out by
            Meta on request: accept the licence on the page of facebook/sam3 and fetch them there.

    Raises:
        ModelError: the checkpoint is not there, not whole, not safe to load, has no tracker, or is
            SAM 3.1.
    """
    return Sam3Video(
        **find_sam3("propagator sam3_video", checkpoint, MODEL_TYPES),
        dtype=computing.dtype,
        device=computing.device,
    )
