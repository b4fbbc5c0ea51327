"""Video-R1: reasoning about videos, in `<think>` and `<answer>`.

harness eval --model "video_r1(checkpoint=Video-R1/Video-R1-7B,segmenter=box,propagator=still)" \
    --tasks video_mme,vsi_bench …
"""

from typing import Literal

from harness.model import Chat, Propagator, Segmenter
from harness.models.compose import KeyFrame
from harness.models.video_str.composed import SpokenModel, Wording, spoken_model
from harness.spec import Spec

FILES = {"paper": "prompt.toml", "short": "short.toml"}
FRAMES = "qwen(n=32,max_pixels=200704,min_pixels=100352,picture_min_pixels=3136)"


def video_r1(
    *,
    checkpoint: str | None = None,
    backend: Spec | Chat = Spec("transformers"),  # noqa: B008 - a Spec is frozen
    prompt: Literal["paper", "short"] = "paper",
    frames: int | Spec | None = None,
    pixels: int | None = None,
    segmenter: Spec | Segmenter = Spec("grabcut"),  # noqa: B008
    propagator: Spec | Propagator = Spec("flow"),  # noqa: B008
    keyframe: KeyFrame = "middle",
    max_new_tokens: int = 1024,
    batch_size: int = 8,
    seed: int = 0,
) -> SpokenModel:
    """Video-R1 (arXiv 2503.21776): `<think>` and `<answer>`, by the type of question.

    Args:
        checkpoint: A folder, or a name that the Hugging Face cache holds; handed to the backend.
        backend: What calls the network. With `stored`, replies are read that exist already.
        prompt: The official words, or `short` ones for networks too small for them.
        frames: How many frames of a video are shown, or a rule of `harness.frames`; without, the
            official 32, of at most 256 · 28² pixels.
        pixels: The most pixels of a frame, and of a picture.
        segmenter: Makes a mask from a box, for questions that want one.
        propagator: Carries masks from the key frame through a video.
        keyframe: The frame of a video that is marked: `first`, `middle`, or `named` by the reply.
        max_new_tokens: Longest reply.
        batch_size: Queries at once.
        seed: Of a backend that samples, unless the backend's SPEC names one.
    """
    wording = Wording(
        name="video_r1" if prompt == "paper" else f"video_r1/{prompt}",
        package="harness.models.video_r1",
        frames=FRAMES,
        file=FILES[prompt],
    )
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
