"""The plugin `visionreasoner`: a VLM that is asked for boxes and points, and a segmenter."""

from dataclasses import replace
from typing import Annotated

from harness.models.composition import Composition
from harness.models.own_prompt import asked_with, own_template
from harness.models.pipeline import PromptedModel
from harness.models.questions import Questions
from harness.models.visionreasoner.grammar import CANVAS, VisionReasoner
from harness.options import Carried, Only, with_options
from harness.spec import Spec


@with_options(Composition, max_new_tokens=2048)
def visionreasoner(
    parts: Composition,
    *,
    sam2: Annotated[str | None, Only(segmenter=None)] = None,
    canvas: Carried[int] = CANVAS[0],
    prompt: Carried[str] = "paper",
) -> PromptedModel:
    """A checkpoint of VisionReasoner, or one to train into it: boxes and points, then masks.

    Args:
        sam2: Weights of the paper's segmenter, SAM 2, such as facebook/sam2-hiera-large; short for
            `segmenter=sam2(checkpoint=…)`.
        canvas: Side of the square, in pixels, that images are squashed to; the paper's is 840,
            that of `pocket` 168.
        prompt: `paper`: the paper's prompt. Or a text of your own with {question}, or file:PATH;
            its response is read in the paper's format.
        segmenter: Makes masks of boxes and points; None: the paper's,
            `sam2(checkpoint=facebook/sam2-hiera-large)`.
        propagator: Carries masks from the key frame through a video; the paper has images only.
        max_new_tokens: Longest response; 2048 as in the official inference code.
    """
    model = PromptedModel(
        name="visionreasoner",
        prompt=VisionReasoner(resize=(canvas, canvas)),
        words=Questions(),
        **with_sam2(parts, sam2).build(method="visionreasoner"),
    )
    return asked_with(model, own_template("visionreasoner", prompt, ["paper"]))


def with_sam2(parts: Composition, weights: str | None) -> Composition:
    """Return the parts with SAM 2 of these weights as the segmenter; unchanged for None."""
    if weights is None:
        return parts
    return replace(parts, segmenter=Spec("sam2", {"checkpoint": weights}))
