"""SpaceR: spatial questions, answered with a map of objects on a 10 × 10 grid.

harness eval --tasks vsi_bench … \
    --model "spacer(checkpoint=RUBBISHLIKE/SpaceR,map=vsi,segmenter=box,propagator=still)"
harness eval --model "spacer(checkpoint=RUBBISHLIKE/SpaceR,segmenter=box,propagator=still)" \
    --tasks sti_bench,video_mme …
"""

from typing import Literal

from harness.model import Chat, Propagator, Segmenter
from harness.models.compose import KeyFrame
from harness.models.video_str.composed import SpokenModel, Wording, spoken_model
from harness.spec import Spec

FILES = {"paper": "prompt.toml", "short": "short.toml"}
FRAMES = "linspace(n=32,max_pixels=200704)"


def spacer(
    *,
    checkpoint: str | None = None,
    backend: Spec | Chat = Spec("transformers"),  # noqa: B008 - a Spec is frozen
    map: Literal["listed", "named", "vsi", "off"] = "listed",
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
    """SpaceR (arXiv 2504.01805): `<think>`, a `<map>` where objects are named, `<answer>`.

    Args:
        checkpoint: A folder, or a name that the Hugging Face cache holds; handed to the backend.
        backend: What calls the network. With `stored`, replies are read that exist already.
        map: Ask for a map of the objects that the query lists beside its text (`listed`) or else
            names in it (`named`), of the official evaluation's list for VSI-Bench (`vsi`), or
            never. The official evaluation asks for one on VSI-Bench alone.
        prompt: The official words, or `short` ones for networks too small for them.
        frames: How many frames of a video are shown, or a rule of `harness.frames`; without, the
            official 32, of at most 448² pixels.
        pixels: The most pixels of a frame, and of a picture.
        segmenter: Makes a mask from a box, for questions that want one.
        propagator: Carries masks from the key frame through a video.
        keyframe: The frame of a video that is marked: `first`, `middle`, or `named` by the reply.
        max_new_tokens: Longest reply.
        batch_size: Queries at once.
        seed: Of a backend that samples, unless the backend's SPEC names one.
    """
    wording = Wording(
        name="spacer" if prompt == "paper" else f"spacer/{prompt}",
        package="harness.models.spacer",
        frames=FRAMES,
        aid=map,
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
