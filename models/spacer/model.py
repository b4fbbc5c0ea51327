"""The plugin `spacer`: a VLM for spatial questions that writes a map of objects before it answers.

The map is a 10 × 10 grid; `spacer/grammar.py` reads it.
"""

from typing import Literal

from harness.models.composition import Composition
from harness.models.prompts import Wording
from harness.models.video_str.composed import TextAnswerModel, text_answer_model
from harness.options import Carried, with_options

FRAMES = "linspace(n=32,max_pixels=200704)"
"""The official rule: 32 frames, evenly spread, of at most 448² pixels."""


@with_options(Composition, frames=None)
def spacer(
    parts: Composition,
    *,
    map: Carried[Literal["listed", "named", "vsi", "off"]] = "listed",
    prompt: Carried[Wording] = "paper",
    pixels: Carried[int | None] = None,
) -> TextAnswerModel:
    """SpaceR (arXiv 2504.01805): `<think>`, a `<map>` where objects are named, `<answer>`.

    Args:
        frames: Number of frames of a video to show, or a rule; None: the official 32, of at most
            448² pixels.
        map: Ask for a map of the objects that the query lists beside its text (`listed`) or else
            names in it (`named`), of the official evaluation's list for VSI-Bench (`vsi`), or
            never. The official evaluation asks for one on VSI-Bench alone.
        prompt: `paper`: the official wording; `short`: a shorter one for small networks.
        pixels: Largest number of pixels of a frame or an image; None: that of the rule `frames`.
    """
    return text_answer_model("spacer", parts, frames=FRAMES, pixels=pixels, aid=map, prompt=prompt)
