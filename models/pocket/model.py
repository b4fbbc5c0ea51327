"""pocket: a Qwen2.5-VL of 2.6 million parameters, trained by this project on `shapes`.

harness eval --model pocket --tasks reason_seg,mevis --data ROOT --out DIR
harness eval --model "pocket(checkpoint=pocket-base)" --tasks reason_seg,mevis --data ROOT --out DIR
harness train --method pocket --out runs/pocket
harness eval --model "pocket(checkpoint=runs/pocket)" --tasks reason_seg,mevis --data ROOT --out DIR

It answers in VisionReasoner's grammar, in pixels of its canvas of 168 × 168, and carries out every
step that a large model does. What it knows is coloured shapes.
"""

from harness.model import Chat, Propagator, Segmenter
from harness.models.building import chat_of, propagator_of, segmenter_of
from harness.models.compose import KeyFrame, PromptedModel
from harness.models.qwen_vl.questions import Questions
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.spec import Spec

CANVAS = (168, 168)
"""(width, height) that every picture is squashed to: 6 × 6 image tokens of 28 pixels."""

MOST_FRAMES = 8
"""Frames of a clip that it was trained on."""


def pocket(
    *,
    checkpoint: str = "pocket",
    backend: Spec | Chat = Spec("transformers"),  # noqa: B008 - a Spec is frozen
    segmenter: Spec | Segmenter = Spec("pocket_sam"),  # noqa: B008
    propagator: Spec | Propagator = Spec("pocket_sam_video"),  # noqa: B008
    keyframe: KeyFrame = "named",
    frames: int = MOST_FRAMES,
    max_new_tokens: int = 256,
    second_try: bool = True,
    batch_size: int = 32,
    seed: int = 0,
) -> PromptedModel:
    """A checkpoint of `harness train --method pocket`, with its prompt, canvas and perception.

    Args:
        checkpoint: `pocket`: the weights that come with the package; `pocket-base`: an earlier
            checkpoint of their training; else the folder of a training that made or started from
            such weights.
        backend: What calls the network.
        segmenter: Makes a mask from a box and a point.
        propagator: Carries masks from the named frame through a video.
        keyframe: The frame of a video that is marked: `named` by the reply, `first` or `middle`.
        frames: How many frames of a video are shown.
        max_new_tokens: Longest reply.
        second_try: Ask again for a reply that cannot be read, with its reasoning begun and ended;
            of `transformers`, `vllm`, and `openai` with a server that goes on from a beginning.
        batch_size: Queries at once.
        seed: Of a backend that samples, unless the backend's SPEC names one.
    """
    return PromptedModel(
        name="pocket",
        chat=chat_of(backend, checkpoint=checkpoint, batch_size=batch_size, seed=seed),
        prompt=VisionReasoner(resize=CANVAS),
        words=Questions(package="harness.models.pocket"),
        segmenter=segmenter_of(segmenter),
        propagator=propagator_of(propagator),
        keyframe=keyframe,
        frames=frames,
        max_new_tokens=max_new_tokens,
        second_try=second_try,
        batch_size=batch_size,
        words_resize=CANVAS,
    )
