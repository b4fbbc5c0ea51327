"""DR2Seg: reasons, describes the target, and gives its place, which is then segmented.

harness eval --model "dr2seg(checkpoint=DIR,segmenter=sam2(checkpoint=facebook/sam2-hiera-large),
    propagator=still)" …
harness eval --model "dr2seg(checkpoint=DIR,form=sam3,segmenter=sam3(checkpoint=facebook/sam3),
    propagator=still)" …
"""

from harness.model import Chat, Propagator, Segmenter
from harness.models.building import chat_of, frames_of, propagator_of, segmenter_of
from harness.models.compose import KeyFrame, PromptedModel
from harness.models.dr2seg.grammar import CANVAS, DR2Seg, Form
from harness.models.prompts import Wording
from harness.models.qwen_vl.questions import Questions
from harness.spec import Spec


def dr2seg(
    *,
    checkpoint: str | None = None,
    form: Form = "sam2",
    canvas: int = CANVAS[0],
    prompt: Wording = "paper",
    backend: Spec | Chat = Spec("transformers"),  # noqa: B008 - a Spec is frozen
    segmenter: Spec | Segmenter | None = None,
    propagator: Spec | Propagator = Spec("flow"),  # noqa: B008
    keyframe: KeyFrame = "middle",
    frames: int | Spec = 8,
    max_new_tokens: int = 1024,
    batch_size: int = 8,
    system: str | None = None,
    seed: int = 0,
) -> PromptedModel:
    """DR2Seg's first pass, which is all that it needs after training: one request, one reply.

    Args:
        checkpoint: The folder of a training, or a name that the Hugging Face cache holds; handed
            to the backend.
        form: `sam2`: boxes and points go to the segmenter; `sam3`: boxes and the description.
        canvas: Side of the square, in pixels, that pictures are squashed to; the paper's is 840,
            that of `pocket` 168.
        prompt: `paper`; `short`: little but the question, for networks such as `pocket` that never
            read the words around it, and learn the grammar in training.
        backend: What calls the network. With `stored`, replies are read that exist already.
        segmenter: None: `grabcut`, which needs no weights, or `sam3` in the form of that name. The
            paper's are `sam2(checkpoint=facebook/sam2-hiera-large)` and `sam3`.
        propagator: Carries masks from the key frame through a video. The paper knows no videos.
        keyframe: The frame of a video that is marked: `first`, `middle`, or `named` by the reply.
        frames: How many frames of a video are shown where more than the key frame is, or a rule
            such as `fps(rate=2,max_frames=64)`; see docs/data.md.
        max_new_tokens: Longest reply.
        batch_size: Queries at once.
        system: System message; None leaves it to the checkpoint's chat template.
        seed: Of a backend that samples, unless the backend's SPEC names one.
    """
    if segmenter is None and form == "sam3":
        segmenter = Spec("sam3")
    return PromptedModel(
        name="dr2seg" if form == "sam2" else f"dr2seg/{form}",
        chat=chat_of(backend, checkpoint=checkpoint, batch_size=batch_size, seed=seed),
        prompt=DR2Seg(form, (canvas, canvas), wording=prompt),
        words=Questions(),
        segmenter=segmenter_of(segmenter),
        propagator=propagator_of(propagator),
        keyframe=keyframe,
        frames=frames_of(frames),
        max_new_tokens=max_new_tokens,
        system=system,
        batch_size=batch_size,
    )
