"""Video-R1: reasoning about videos, in `<think>` and `<answer>`.

harness eval --model "video_r1(checkpoint=Video-R1/Video-R1-7B,segmenter=box,propagator=still)" \
    --tasks video_mme,vsi_bench …
"""

from typing import Literal

from harness.models.composition import Composition
from harness.models.video_str.composed import PromptStyle, SpokenModel, spoken_model
from harness.options import Carried, with_options

FILES = {"paper": "prompt.toml", "short": "short.toml"}
FRAMES = "qwen(n=32,max_pixels=200704,min_pixels=100352,image_min_pixels=3136)"


@with_options(Composition, frames=None)
def video_r1(
    parts: Composition,
    *,
    prompt: Carried[Literal["paper", "short"]] = "paper",
    pixels: Carried[int | None] = None,
) -> SpokenModel:
    """Video-R1 (arXiv 2503.21776): `<think>` and `<answer>`, by the type of question.

    Args:
        parts: The options of a composition.
        frames: How many frames of a video are shown, or a rule; None: the official 32, of at most
            256 · 28² pixels.
        prompt: The official words, or `short` ones for networks too small for them.
        pixels: The most pixels of a frame, and of an image.
    """
    wording = PromptStyle(
        name="video_r1" if prompt == "paper" else f"video_r1/{prompt}",
        package="harness.models.video_r1",
        frames=FRAMES,
        file=FILES[prompt],
    )
    return spoken_model(wording, parts, pixels=pixels)
