"""Video-STR: spatio-temporal questions, answered with a graph of objects in space.

harness eval --model "video_str(checkpoint=DIR,segmenter=box,propagator=still)" --tasks vsi_bench …
"""

from typing import Literal

from harness.models.composition import Composition
from harness.models.video_str.composed import PromptStyle, SpokenModel, spoken_model
from harness.options import Carried, with_options

FILES = {"paper": "prompt.toml", "short": "short.toml"}


@with_options(Composition, frames=None)
def video_str(
    parts: Composition,
    *,
    graph: Carried[Literal["listed", "named", "off"]] = "named",
    prompt: Carried[Literal["paper", "short"]] = "paper",
    pixels: Carried[int | None] = None,
) -> SpokenModel:
    """Video-STR (2025): `<think>`, a graph of object centres where objects are named, `<answer>`.

    Args:
        parts: The options of a composition.
        frames: How many frames of a video are shown, or a rule; None: the paper's 32 frames of at
            most 448 · 28² pixels.
        graph: Ask for a graph of the objects that the query lists beside its text (`listed`), of
            those or else of the ones that a question about places names, or never.
        prompt: The paper's words, or `short` ones for networks too small for them.
        pixels: The most pixels of a frame, and of an image.
    """
    wording = PromptStyle(
        name="video_str" if prompt == "paper" else f"video_str/{prompt}",
        package="harness.models.video_str",
        frames="video_str",
        aid=graph,
        file=FILES[prompt],
    )
    return spoken_model(wording, parts, pixels=pixels)
