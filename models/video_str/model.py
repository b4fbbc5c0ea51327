"""Video-STR: spatio-temporal questions, answered with a graph of objects in space."""

from typing import Literal

from harness.models.composition import Composition
from harness.models.prompts import Wording
from harness.models.video_str.composed import SpokenModel, spoken_model
from harness.options import Carried, with_options


@with_options(Composition, frames=None)
def video_str(
    parts: Composition,
    *,
    graph: Carried[Literal["listed", "named", "off"]] = "named",
    prompt: Carried[Wording] = "paper",
    pixels: Carried[int | None] = None,
) -> SpokenModel:
    """Video-STR (2025): `<think>`, a graph of object centres where objects are named, `<answer>`.

    Args:
        frames: How many frames of a video are shown, or a rule; None: the paper's 32 frames of at
            most 448 · 28² pixels.
        graph: Ask for a graph of the objects that the query lists beside its text (`listed`), of
            those or else of the ones that a question about places names, or never.
        prompt: The paper's words, or `short` ones for networks too small for them.
        pixels: The most pixels of a frame, and of an image.
    """
    return spoken_model(
        "video_str", parts, frames="video_str", pixels=pixels, aid=graph, prompt=prompt
    )
