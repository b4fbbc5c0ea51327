"""Video-STR: spatio-temporal questions, answered with a graph of objects in space.

harness eval --model "video_str(checkpoint=DIR,segmenter=box,propagator=still)" --tasks vsi_bench …
"""

from typing import Literal

from harness.model import Chat, Propagator, Segmenter
from harness.models.compose import KeyFrame
from harness.models.video_str.composed import SpokenModel, Wording, spoken_model
from harness.spec import Spec

FILES = {"paper": "prompt.toml", "short": "short.toml"}


def video_str(
    *,
    checkpoint: str | None = None,
    backend: Spec | Chat = Spec("transformers"),  # noqa: B008 - a Spec is frozen
    graph: Literal["listed", "named", "off"] = "named",
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
    """Video-STR (2025): `<think>`, a graph of object centres where objects are named, `<answer>`.

    Args:
        checkpoint: A folder, or a name that the Hugging Face cache holds; handed to the backend.
        backend: What calls the network. With `stored`, replies are read that exist already.
        graph: Ask for a graph of the objects that the query lists beside its text (`listed`), of
            those or else of the ones that a question about places names, or never.
        prompt: The paper's words, or `short` ones for networks too small for them.
        frames: How many frames of a video are shown, or a rule of `harness.frames`; without, the
            paper's 32 frames of at most 448 · 28² pixels.
        pixels: The most pixels of a frame, and of a picture.
        segmenter: Makes a mask from a box, for questions that want one.
        propagator: Carries masks from the key frame through a video.
        keyframe: The frame of a video that is marked: `first`, `middle`, or `named` by the reply.
        max_new_tokens: Longest reply.
        batch_size: Queries at once.
        seed: Of a backend that samples, unless the backend's SPEC names one.
    """
    wording = Wording(
        name="video_str" if prompt == "paper" else f"video_str/{prompt}",
        package="harness.models.video_str",
        frames="video_str",
        aid=graph,
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
