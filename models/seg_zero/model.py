"""Seg-Zero: prompted for one object's box and two points on it, then segmented."""

from typing import Annotated

from harness.models.composition import Composition
from harness.models.own_prompt import asked_with, own_template
from harness.models.pipeline import PromptedModel
from harness.models.prompts import WORDINGS
from harness.models.questions import Questions
from harness.models.seg_zero.grammar import SegZero, Semantics, method_name
from harness.models.visionreasoner.grammar import CANVAS
from harness.models.visionreasoner.model import with_sam2
from harness.options import Carried, Only, with_options


@with_options(Composition)
def seg_zero(
    parts: Composition,
    *,
    sam2: Annotated[str | None, Only(segmenter=None)] = None,
    semantics: Semantics = "soft",
    canvas: Carried[int] = CANVAS[0],
    prompt: Carried[str] = "paper",
) -> PromptedModel:
    """A checkpoint of Seg-Zero, or one to train into it: one box and two points, then a mask.

    Args:
        sam2: Weights of SAM 2, such as facebook/sam2-hiera-large, which the paper segments with:
            short for `segmenter=sam2(checkpoint=…)`.
        semantics: How responses are read: `soft`, keys that contain `bbox` and `points`, with
            repairs of the JSON; `strict`, as the strict reward: `bbox`, `points_1`, `points_2`, no
            repairs.
        canvas: Side of the square, in pixels, that images are squashed to; the paper's is 840,
            that of `pocket` 168.
        prompt: `paper`; `short`: little but the question, for networks such as `pocket` that never
            read the words around it, and learn the grammar in training; or a text of your own with
            {question}, or file:PATH, whose response is read in the paper's format.
        segmenter: None: the paper's, `sam2(checkpoint=facebook/sam2-hiera-large)`.
        propagator: Carries masks from the key frame through a video. The paper knows no videos.
        max_new_tokens: Longest response; 1024 as in the official code.
    """
    template = own_template("seg_zero", prompt, WORDINGS)
    model = PromptedModel(
        name=method_name(semantics),
        prompt=SegZero(
            (canvas, canvas), semantics, wording="short" if prompt == "short" else "paper"
        ),
        words=Questions(),
        **with_sam2(parts, sam2).build(method="seg_zero"),
    )
    return asked_with(model, template)
