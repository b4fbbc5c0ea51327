"""The plugin `video_r1`: a VLM that answers questions about videos in `<think>` and `<answer>`."""

from harness.models.composition import Composition
from harness.models.prompts import Wording
from harness.models.video_str.composed import TextAnswerModel, text_answer_model
from harness.options import Carried, with_options

FRAMES = "qwen(n=32,max_pixels=200704,min_pixels=100352,image_min_pixels=3136)"
"""The official rule: 32 frames of 128 · 28² to 256 · 28² pixels; images of at least 4 · 28²."""


@with_options(Composition, frames=None)
def video_r1(
    parts: Composition,
    *,
    prompt: Carried[Wording] = "paper",
    pixels: Carried[int | None] = None,
) -> TextAnswerModel:
    """Video-R1 (arXiv 2503.21776): `<think>` and `<answer>`, by the type of question.

    Args:
        frames: Number of frames of a video to show, or a rule; None: the official 32, of at most
            256 · 28² pixels.
        prompt: `paper`: the official wording; `short`: a shorter one for small networks.
        pixels: Largest number of pixels of a frame or an image; None: that of the rule `frames`.
    """
    return text_answer_model("video_r1", parts, frames=FRAMES, pixels=pixels, prompt=prompt)
