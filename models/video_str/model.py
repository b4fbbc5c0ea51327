"""The plugin `video_str`: a VLM that draws up a graph of objects in space, and answers."""

from typing import Literal

from harness.models.composition import Composition
from harness.models.prompts import Wording
from harness.models.video_str.composed import TextAnswerModel, text_answer_model
from harness.options import Carried, with_options


@with_options(Composition, frames=None)
def video_str(
    parts: Composition,
    *,
    graph: Carried[Literal["listed", "named", "off"]] = "named",
    prompt: Carried[Wording] = "paper",
    pixels: Carried[int | None] = None,
) -> TextAnswerModel:
    """Video-STR (2025): `<think>`, a graph of object centres where objects are named, `<answer>`.

    Args:
        frames: Number of frames of a video to show, or a rule; None: the paper's 32 frames of at
            most 448 · 28² pixels.
        graph: Ask for a graph of the objects that the query lists beside its text (`listed`), of
            those or else of the ones that a question about places names, or never.
        prompt: `paper`: the paper's wording; `short`: a shorter one for small networks.
        pixels: Largest number of pixels of a frame or an image; None: that of the rule `frames`.
    """
    return text_answer_model(
        "video_str", parts, frames="video_str", pixels=pixels, aid=graph, prompt=prompt
    )
