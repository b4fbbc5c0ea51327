"""SpaceR: spatial questions, answered with a map of objects on a 10 × 10 grid."""

from typing import Literal

from harness.models.composition import Composition
from harness.models.prompts import Wording
from harness.models.video_str.composed import SpokenModel, spoken_model
from harness.options import Carried, with_options

FRAMES = "linspace(n=32,max_pixels=200704)"


@with_options(Composition, frames=None)
def spacer(
    parts: Composition,
    *,
    map: Carried[Literal["listed", "named", "vsi", "off"]] = "listed",
    prompt: Carried[Wording] = "paper",
    pixels: Carried[int | None] = None,
) -> SpokenModel:
    """SpaceR (arXiv 2504.01805): `<think>`, a `<map>` where objects are named, `<answer>`.

    Args:
        frames: How many frames of a video are shown, or a rule; None: the official 32, of at most
            448² pixels.
        map: Ask for a map of the objects that the query lists beside its text (`listed`) or else
            names in it (`named`), of the official evaluation's list for VSI-Bench (`vsi`), or
            never. The official evaluation asks for one on VSI-Bench alone.
        prompt: The official words, or `short` ones for networks too small for them.
        pixels: The most pixels of a frame, and of an image.
    """
    return spoken_model("spacer", parts, frames=FRAMES, pixels=pixels, aid=map, prompt=prompt)
