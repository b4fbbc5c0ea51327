"""DR2Seg: reasons, describes the target, and gives its place, which is then segmented."""

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
        form: `sam2`: boxes and points go to the segmenter; `sam3`: boxes and the description.
        canvas: Side of the square, in pixels, that images are squashed to; the paper's is 840,
            that of `pocket` 168.
        prompt: `paper`; `short`: little but the question, for networks such as `pocket` that never
            read the words around it, and learn the grammar in training; or a text of your own with
            {question}, or file:PATH, whose response is read in the paper's format.
        segmenter: None: the paper's, `sam2(checkpoint=facebook/sam2-hiera-large)`, or `sam3` in the
            form of that name.
        propagator: Carries masks from the key frame through a video. The paper knows no videos.
    """
    template = own_template("dr2seg", prompt, WORDINGS)
    model = PromptedModel(
        name="dr2seg" if form == "sam2" else f"dr2seg/{form}",
        prompt=DR2Seg(form, (canvas, canvas), wording="short" if prompt == "short" else "paper"),
        words=Questions(),
        **parts.build(method="dr2seg", form=form),
    )
    return asked_with(model, template)
