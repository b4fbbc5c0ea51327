"""SpaceR: spatial questions, answered with a map of objects on a 10 × 10 grid.

harness eval --tasks vsi_bench … \
    --model "spacer(checkpoint=RUBBISHLIKE/SpaceR,map=vsi,segmenter=box,propagator=still)"
harness eval --model "spacer(checkpoint=RUBBISHLIKE/SpaceR,segmenter=box,propagator=still)" \
    --tasks sti_bench,video_mme …
"""

from typing import Literal

from harness.models.composition import Composition
from harness.models.video_str.composed import PromptStyle, SpokenModel, spoken_model
from harness.options import Carried, with_options

FILES = {"paper": "prompt.toml", "short": "short.toml"}
FRAMES = "linspace(n=32,max_pixels=200704)"


@with_options(Composition, frames=None)
def spacer(
    parts: Composition,
    *,
    map: Carried[Literal["listed", "named", "vsi", "off"]] = "listed",
    prompt: Carried[Literal["paper", "short"]] = "paper",
    pixels: Carried[int | None] = None,
) -> SpokenModel:
    """SpaceR (arXiv 2504.01805): `<think>`, a `<map>` where objects are named, `<answer>`.

    Args:
        parts: The options of a composition.
        frames: How many frames of a video are shown, or a rule; None: the official 32, of at most
            448² pixels.
        map: Ask for a map of the objects that the query lists beside its text (`listed`) or else
            names in it (`named`), of the official evaluation's list for VSI-Bench (`vsi`), or
            never. The official evaluation asks for one on VSI-Bench alone.
        prompt: The official words, or `short` ones for networks too small for them.
        pixels: The most pixels of a frame, and of an image.
    """
    wording = PromptStyle(
        name="spacer" if prompt == "paper" else f"spacer/{prompt}",
        package="harness.models.spacer",
        frames=FRAMES,
        aid=map,
        file=FILES[prompt],
    )
    return spoken_model(wording, parts, pixels=pixels)
