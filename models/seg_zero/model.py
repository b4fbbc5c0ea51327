"""Seg-Zero: prompted for one object's box and two points on it, on its own canvas, then segmented.

harness eval --model "seg_zero(checkpoint=Ricky06662/Seg-Zero-7B,
    segmenter=sam2(checkpoint=facebook/sam2-hiera-large),propagator=still)" …
harness eval --model "seg_zero(checkpoint=DIR,semantics=strict)" …   # GrabCut, which is marked
"""

from harness.model import Chat, Propagator, Segmenter
from harness.models.building import chat_of, frames_of, propagator_of, segmenter_of
from harness.models.compose import KeyFrame, PromptedModel
from harness.models.prompts import Wording
from harness.models.qwen_vl.questions import Questions
from harness.models.seg_zero.grammar import SegZero, Semantics, named
from harness.models.visionreasoner.grammar import CANVAS
from harness.spec import Spec


def seg_zero(
    *,
    checkpoint: str | None = None,
    sam2: str | None = None,
    semantics: Semantics = "soft",
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
    """A checkpoint of Seg-Zero, or one to train into it: one box and two points, then a mask.

    Args:
        checkpoint: A folder, or a name that the Hugging Face cache holds; handed to the backend.
        sam2: Weights of SAM 2, such as facebook/sam2-hiera-large, which the paper segments with.
        semantics: How replies are read: `soft`, keys that contain `bbox` and `points`, with repairs
            of the JSON; `strict`, as the strict reward: `bbox`, `points_1`, `points_2`, no repairs.
        canvas: Side of the square, in pixels, that pictures are squashed to; the paper's is 840,
            that of `pocket` 168.
        prompt: `paper`; `short`: little but the question, for networks such as `pocket` that never
            read the words around it, and learn the grammar in training.
        backend: What calls the network. With `stored`, replies are read that exist already.
        segmenter: Makes a mask from a box and two points; None: SAM 2 if `sam2` is given, else
            `grabcut`, which needs no weights.
        propagator: Carries masks from the key frame through a video. The paper knows no videos.
        keyframe: The frame of a video that is marked: `first`, `middle`, or `named` by the reply.
        frames: How many frames of a video are shown where more than the key frame is, or a rule
            such as `fps(rate=2,max_frames=64)`; see docs/data.md.
        max_new_tokens: Longest reply; 1024 as in the official code.
        batch_size: Queries at once.
        system: System message; None leaves it to the checkpoint's chat template, and Qwen's says
            the official one.
        seed: Of a backend that samples, unless the backend's SPEC names one.
    """
    return PromptedModel(
        name=named(semantics),
        chat=chat_of(backend, checkpoint=checkpoint, batch_size=batch_size, seed=seed),
        prompt=SegZero((canvas, canvas), semantics, wording=prompt),
        words=Questions(),
        segmenter=segmenter_of(segmenter, sam2=sam2),
        propagator=propagator_of(propagator),
        keyframe=keyframe,
        frames=frames_of(frames),
        max_new_tokens=max_new_tokens,
        system=system,
        batch_size=batch_size,
    )
