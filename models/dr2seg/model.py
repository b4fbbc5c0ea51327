"""The plugin `dr2seg`: a VLM that describes the target and gives its place, and a segmenter."""

from harness.models.composition import Composition
from harness.models.dr2seg.grammar import CANVAS, DR2Seg, Form
from harness.models.own_prompt import asked_with, own_template
from harness.models.pipeline import PromptedModel
from harness.models.prompts import WORDINGS
from harness.models.questions import Questions
from harness.options import Carried, with_options


@with_options(Composition)
def dr2seg(
    parts: Composition,
    *,
    form: Carried[Form] = "sam2",
    canvas: Carried[int] = CANVAS[0],
    prompt: Carried[str] = "paper",
) -> PromptedModel:
    """DR2Seg's first pass, which is all that it needs after training: one request, one response.

    Args:
        form: `sam2`: the segmenter gets boxes and points; `sam3`: boxes and the description.
        canvas: Side of the square, in pixels, that images are squashed to; the paper's is 840,
            that of `pocket` 168.
        prompt: `paper`: the paper's prompt. `short`: little but the question, for networks such as
            `pocket` that ignore other words and learn the grammar in training. Or a text of your
            own with {question}, or file:PATH; its response is read in the paper's format.
        segmenter: Makes masks of boxes and points; None: the paper's,
            `sam2(checkpoint=facebook/sam2-hiera-large)`, or `sam3` if that is the form.
        propagator: Carries masks from the key frame through a video; the paper has images only.
    """
    template = own_template("dr2seg", prompt, WORDINGS)
    model = PromptedModel(
        name="dr2seg" if form == "sam2" else f"dr2seg/{form}",
        prompt=DR2Seg(form, (canvas, canvas), wording="short" if prompt == "short" else "paper"),
        words=Questions(),
        **parts.build(method="dr2seg", form=form),
    )
    return asked_with(model, template)
