"""VideoChat-R1: reasoning about videos, with the times that an answer rests on."""

from harness.models.composition import Composition
from harness.models.video_str.composed import SpokenModel, spoken_model
from harness.options import Carried, with_options

FRAMES = "qwen(n=32,max_pixels=175616,min_pixels=12544)"


@with_options(Composition, frames=None)
def videochat_r1(
    parts: Composition,
    *,
    pixels: Carried[int | None] = None,
) -> SpokenModel:
    """VideoChat-R1 (arXiv 2504.06958): `<think>` with times in `<timestep>`, and `<answer>`.

    Args:
        frames: How many frames of a video are shown, or a rule; None: 32, of at most 224 · 28²
            pixels: what the official budget for a video leaves each.
        pixels: The most pixels of a frame, and of an image.
    """
    return spoken_model("videochat_r1", parts, frames=FRAMES, pixels=pixels)
