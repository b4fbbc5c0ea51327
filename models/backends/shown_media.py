"""Media as a processor takes them: the frames shown, their sizes, the canvases, the times of clips.

One frame goes in as an image and several as a video, whatever the medium is.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from harness.chat import ChatRequest
from harness.errors import ModelError, UsageError, raised_as
from harness.media import Frame, Media
from harness.models.canvas import clip_smart_resize, smart_resize

if TYPE_CHECKING:
    from transformers import BatchFeature, ProcessorMixin


def frames_shown(request: ChatRequest, place: int) -> tuple[int, ...]:
    """The frames of a request's medium that the network sees."""
    return request.frames[place] if request.frames else tuple(range(len(request.media[place])))


def has_grids(processor: "ProcessorMixin") -> bool:
    """Return True if tensors say how many patches an image has, as those of Qwen's and GLM's do.

    Such processors take images in one row; the others want to know whose they are.
    """
    return "image_grid_thw" in processor.image_processor.model_input_names


def check_clip_limits(processor: "ProcessorMixin") -> None:
    """Raise UsageError if limits were asked for that this processor cannot keep clips to."""
    if getattr(processor, "clips_without_limits", False):
        raise UsageError(
            "min_pixels=…,max_pixels=… of a clip",
            expected="a processor with limits for each frame (Qwen2-VL, Qwen2.5-VL)",
            found=f"{type(processor.video_processor).__name__}, whose limits span all frames",
            fix="Remove them. For text questions, use a budget per frame instead, such as "
            "frames=uniform(n=8,max_pixels=200704).",
        )


def keeps_clip_sizes(processor: "ProcessorMixin", request: ChatRequest) -> bool:
    """Return True if a request's clips have sizes of their own, which the processor must not touch.

    Qwen3-VL's limit of all frames together is below the totals that its authors evaluate with:
    they resize by qwen-vl-utils, and turn the processor's resizing off.
    """
    video = getattr(processor, "video_processor", None)
    if video is None or not type(video).__name__.startswith("Qwen3"):
        return False
    factor = video.patch_size * video.merge_size
    sizes = [
        request.squash(place)
        for place in range(len(request.media))
        if len(frames_shown(request, place)) > 1
    ]
    return bool(sizes) and all(
        size is not None and size[0] % factor == size[1] % factor == 0 for size in sizes
    )


def squashed(frame: Frame, size: tuple[int, int] | None) -> Frame:
    """A copy at `size` (width, height), bilinear, its aspect ratio not kept; None: as it is."""
    if size is None or size == (frame.shape[1], frame.shape[0]):
        return np.array(frame)  # a tensor over the cache's own pixels could change them
    return np.array(Image.fromarray(frame).resize(size, Image.Resampling.BILINEAR))


def clip_times(media: Media, indices: Sequence[int]) -> dict[str, object]:
    """Rate and frame numbers of a clip, from which the network's clock is set."""
    times = media.times()
    length = times[-1] - times[0]
    return {
        "total_num_frames": len(media),
        "fps": (len(times) - 1) / length if length > 0 else 1.0,
        "frames_indices": list(indices),
    }


def planned_canvas(
    processor: "ProcessorMixin", model_type: str, request: ChatRequest
) -> tuple[int, int]:
    """(width, height) that the processor will bring the first medium to, by its rule.

    Raises:
        ModelError: the rule is not the one of Qwen's networks.
        UsageError: it is a clip, to which the limits that were asked for do not apply.
    """
    size = request.resize or request.media[0].size
    frames = len(frames_shown(request, 0))
    if frames > 1:
        check_clip_limits(processor)
        if keeps_clip_sizes(processor, request):
            return size
    part = processor.image_processor if frames == 1 else processor.video_processor
    what, unlike = f"processor {type(part).__name__}", (AttributeError, KeyError, TypeError)
    fix = "This architecture's canvas is not known."
    with raised_as(ModelError, what, "the resizing rule of Qwen's VLMs", *unlike, fix=fix):
        limits = {
            "factor": part.patch_size * part.merge_size,
            "min_pixels": part.size["shortest_edge"],
            "max_pixels": part.size["longest_edge"],
        }
    if frames > 1 and model_type.startswith("qwen3"):
        return clip_smart_resize(
            size, frames=frames, patch_frames=part.temporal_patch_size, **limits
        )
    return smart_resize(size, **limits)


def seen_canvases(
    processor: "ProcessorMixin", requests: Sequence[ChatRequest], inputs: "BatchFeature"
) -> list[tuple[tuple[int, int], ...]]:
    """(width, height) of every medium of every request, as the tensors have it.

    Empty where the network cuts an image into parts, or squashes all to one size: its numbers are
    shares of the image.
    """
    if not any(request.media for request in requests) or not has_grids(processor):
        return [() for _ in requests]
    patch = int(processor.image_processor.patch_size)
    grids = {
        kind: iter(inputs[f"{kind}_grid_thw"].tolist())
        for kind in ("image", "video")
        if f"{kind}_grid_thw" in inputs
    }
    seen = []
    for request in requests:
        counts = (len(frames_shown(request, place)) for place in range(len(request.media)))
        rows = [next(grids["image" if count == 1 else "video"]) for count in counts]
        seen.append(tuple((wide * patch, high * patch) for _, high, wide in rows))
    return seen
