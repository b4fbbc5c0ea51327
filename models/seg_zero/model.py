"""The plugin `seg_zero`: a VLM that is asked for one box and two points, and a segmenter."""

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
        sam2: Weights of the paper's segmenter, SAM 2, such as facebook/sam2-hiera-large; short for
            `segmenter=sam2(checkpoint=…)`.
        semantics: Rule for reading responses. `soft`: keys that contain `bbox` and `points`; the
            JSON is repaired. `strict`: the keys `bbox`, `points_1` and `points_2` as in the strict
            reward, without repairs.
        canvas: Side of the square, in pixels, that images are squashed to; the paper's is 840,
            that of `pocket` 168.
        prompt: `paper`: the paper's prompt. `short`: little but the question, for networks such as
            `pocket` that ignore other words and learn the grammar in training. Or a text of your
            own with {question}, or file:PATH; its response is read in the paper's format.
        segmenter: Makes masks of boxes and points; None: the paper's,
            `sam2(checkpoint=facebook/sam2-hiera-large)`.
        propagator: Carries masks from the key frame through a video; the paper has images only.
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
