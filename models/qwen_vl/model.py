"""Zero-shot Qwen2.5-VL (or Qwen3-VL): prompted for boxes, or boxes and points, then segmented.

harness eval --model "qwen_vl(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct,prompt=locate,
    segmenter=sam2(checkpoint=facebook/sam2-hiera-large),propagator=still)" …
harness score --model "qwen_vl(backend=stored)" --predictions replies.jsonl …
"""

from typing import Literal

from harness.model import Chat, Propagator, Segmenter
from harness.models.building import chat_of, frames_of, propagator_of, segmenter_of
from harness.models.compose import KeyFrame, PromptedModel
from harness.models.qwen_vl.locate import Locate
from harness.models.qwen_vl.questions import Questions
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.spec import Spec

PROMPTS: dict[str, type[Locate] | type[VisionReasoner]] = {
    "visionreasoner": VisionReasoner,
    "locate": Locate,
}


def qwen_vl(
    *,
    checkpoint: str | None = None,
    prompt: Literal["visionreasoner", "locate"] = "visionreasoner",
    backend: Spec | Chat = Spec("transformers"),  # noqa: B008 - a Spec is frozen
    segmenter: Spec | Segmenter = Spec("grabcut"),  # noqa: B008
    propagator: Spec | Propagator = Spec("flow"),  # noqa: B008
    keyframe: KeyFrame = "middle",
    frames: int | Spec = 8,
    max_new_tokens: int = 1024,
    batch_size: int = 8,
    system: str | None = None,
    seed: int = 0,
) -> PromptedModel:
    """Qwen2.5-VL or Qwen3-VL through a backend: prompted for boxes, which are then segmented.

    Args:
        checkpoint: A folder, or a name that the Hugging Face cache holds; handed to the backend.
        prompt: `visionreasoner`: its prompt and 840 × 840 canvas; `locate`: Qwen's own grounding
            request at native resolution.
        backend: What calls the network. With `stored`, replies are read that exist already.
        segmenter: Makes a mask from a box (and a point, with `visionreasoner`).
        propagator: Carries masks from the key frame through a video.
        keyframe: The frame of a video that is marked: `first`, `middle`, or `named` by the reply.
        frames: How many frames of a video are shown where more than the key frame is, or a rule
            such as `fps(rate=2,max_frames=64)`; see docs/data.md.
        max_new_tokens: Longest reply.
        batch_size: Queries at once.
        seed: Of a backend that samples, unless the backend's SPEC names one.
        system: System message; None leaves it to the checkpoint's chat template.
    """
    return PromptedModel(
        name=f"qwen_vl/{prompt}",
        chat=chat_of(backend, checkpoint=checkpoint, batch_size=batch_size, seed=seed),
        prompt=PROMPTS[prompt](),
        words=Questions(),
        segmenter=segmenter_of(segmenter),
        propagator=propagator_of(propagator),
        keyframe=keyframe,
        frames=frames_of(frames),
        max_new_tokens=max_new_tokens,
        system=system,
        batch_size=batch_size,
    )
