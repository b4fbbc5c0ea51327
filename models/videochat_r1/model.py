"""VideoChat-R1: reasoning about videos, with the times that an answer rests on.

harness eval --model "videochat_r1(checkpoint=OpenGVLab/VideoChat-R1_7B,segmenter=box,
    propagator=still)" --tasks video_mme …
"""

from harness.model import Chat, Propagator, Segmenter
from harness.models.compose import KeyFrame
from harness.models.video_str.composed import SpokenModel, Wording, spoken_model
from harness.spec import Spec

FRAMES = "qwen(n=32,max_pixels=175616,min_pixels=12544)"


def videochat_r1(
    *,
    checkpoint: str | None = None,
    backend: Spec | Chat = Spec("transformers"),  # noqa: B008 - a Spec is frozen
    frames: int | Spec | None = None,
    pixels: int | None = None,
    segmenter: Spec | Segmenter = Spec("grabcut"),  # noqa: B008
    propagator: Spec | Propagator = Spec("flow"),  # noqa: B008
    keyframe: KeyFrame = "middle",
    max_new_tokens: int = 1024,
    batch_size: int = 8,
    seed: int = 0,
) -> SpokenModel:
    """VideoChat-R1 (arXiv 2504.06958): `<think>` with times in `<timestep>`, and `<answer>`.

    Args:
        checkpoint: A folder, or a name that the Hugging Face cache holds; handed to the backend.
        backend: What calls the network. With `stored`, replies are read that exist already.
        frames: How many frames of a video are shown, or a rule of `harness.frames`; without, 32,
            of at most 224 · 28² pixels: what the official budget for a video leaves each.
        pixels: The most pixels of a frame.
        segmenter: Makes a mask from a box, for questions that want one.
        propagator: Carries masks from the key frame through a video.
        keyframe: The frame of a video that is marked: `first`, `middle`, or `named` by the reply.
        max_new_tokens: Longest reply.
        batch_size: Queries at once.
        seed: Of a backend that samples, unless the backend's SPEC names one.
    """
    wording = Wording(name="videochat_r1", package="harness.models.videochat_r1", frames=FRAMES)
    return spoken_model(
        wording,
        checkpoint=checkpoint,
        backend=backend,
        frames=frames,
        pixels=pixels,
        segmenter=segmenter,
        propagator=propagator,
        keyframe=keyframe,
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
        seed=seed,
    )
