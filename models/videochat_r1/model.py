"""The plugin `videochat_r1`: a VLM that answers with the times of a video that support it."""

from harness.models.composition import Composition
from harness.models.video_str.composed import TextAnswerModel, text_answer_model
from harness.options import Carried, with_options

FRAMES = "qwen(n=32,max_pixels=175616,min_pixels=12544)"
"""The official rule: 32 frames of 16 · 28² to 224 · 28² pixels."""


@with_options(Composition, frames=None)
def videochat_r1(
    parts: Composition,
    *,
    pixels: Carried[int | None] = None,
) -> TextAnswerModel:
    """VideoChat-R1 (arXiv 2504.06958): `<think>` with times in `<timestep>`, and `<answer>`.

    Args:
        frames: Number of frames of a video to show, or a rule; None: 32, of at most 224 · 28²
            pixels, which is each frame's share of the official budget for a video.
        pixels: Largest number of pixels of a frame or an image; None: that of the rule `frames`.
    """
    return text_answer_model("videochat_r1", parts, frames=FRAMES, pixels=pixels)
