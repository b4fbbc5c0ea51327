"""Video-R1: reasoning about videos, in `<think>` and `<answer>`."""

from harness.models.composition import Composition
from harness.models.prompts import Wording
from harness.models.video_str.composed import SpokenModel, spoken_model
from harness.options import Carried, with_options

FRAMES = "qwen(n=32,max_pixels=200704,min_pixels=100352,image_min_pixels=3136)"


@with_options(Composition, frames=None)
def video_r1(
    parts: Composition,
    *,
    prompt: Carried[Wording] = "paper",
    pixels: Carried[int | None] = None,
) -> SpokenModel:
    """Video-R1 (arXiv 2503.21776): `<think>` and `<answer>`, by the type of question.

    Args:
        frames: How many frames of a video are shown, or a rule; None: the official 32, of at most
            256 · 28² pixels.
        prompt: The official words, or `short` ones for networks too small for them.
        pixels: The most pixels of a frame, and of an image.
    """
    return spoken_model("video_r1", parts, frames=FRAMES, pixels=pixels, prompt=prompt)
