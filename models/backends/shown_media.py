"""Compute what a processor is given of media: frames, their sizes, canvases, and times of clips.

A medium of which one frame is shown goes in as an image, one of several frames as a video, called a
clip here. All backends that build prompts call these functions.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from harness.chat import ChatRequest
from harness.errors import ModelError, UsageError, raised_as
from harness.frames import frame_rate
from harness.media import Frame, Media
from harness.models.canvas import clip_smart_resize, smart_resize
from harness.pixel_budget import Resample

if TYPE_CHECKING:
    from transformers import BatchFeature, ProcessorMixin


def frames_shown(request: ChatRequest, index: int) -> tuple[int, ...]:
    """Return the indices of the frames that the network sees of medium number `index`."""
    return request.frames[index] if request.frames else tuple(range(len(request.media[index])))


def has_grids(processor: "ProcessorMixin") -> bool:
    """Return True if a processor's tensors state each image's grid of patches (Qwen's, GLM's).

    Such processors take the images of all requests as one list; others take a list a request.
    """
    return "image_grid_thw" in processor.image_processor.model_input_names


def check_clip_limits(processor: "ProcessorMixin") -> None:
    """Raise UsageError if options limit pixels, and the processor cannot limit a clip's frames."""
    if getattr(processor, "clips_without_limits", False):
        raise UsageError(
            "min_pixels=…,max_pixels=… of a clip",
            expected="a processor with limits for each frame (Qwen2-VL, Qwen2.5-VL)",
            found=f"{type(processor.video_processor).__name__}, whose limits span all frames",
            fix="Remove them. For text questions, use a budget per frame instead, such as "
            "frames=uniform(n=8,max_pixels=200704).",
        )


def keeps_clip_sizes(processor: "ProcessorMixin", request: ChatRequest) -> bool:
    """Return True if a request states sizes of its clips, which the processor must not change.

    Qwen3-VL's limit of all frames together is below the totals that its authors evaluate with:
    they resize by qwen-vl-utils, and turn the processor's resizing off. False for other processors.
    """
    video = getattr(processor, "video_processor", None)
    if video is None or not type(video).__name__.startswith("Qwen3"):
        return False
    factor = video.patch_size * video.merge_size
    sizes = [
        request.squash(index)
        for index in range(len(request.media))
        if len(frames_shown(request, index)) > 1
    ]
    return bool(sizes) and all(
        size is not None and size[0] % factor == size[1] % factor == 0 for size in sizes
    )


def squashed(frame: Frame, size: tuple[int, int] | None, resample: Resample = "bilinear") -> Frame:
    """Return a copy of a frame at `size` (width, height), aspect ratio not kept; None: its own."""
    if size is None or size == (frame.shape[1], frame.shape[0]):
        return np.array(frame)  # a tensor over the cache's own pixels could change them
    if resample == "torchvision_bicubic":
        return _resized_by_torchvision(frame, size)
    return np.array(Image.fromarray(frame).resize(size, Image.Resampling[resample.upper()]))


def _resized_by_torchvision(frame: Frame, size: tuple[int, int]) -> Frame:
    """Return a frame at `size` (width, height), bicubic with antialiasing, as qwen-vl-utils does.

    The older `transforms` compute in float32 and round; `transforms.v2` gives other bytes.
    """
    from harness.models.backends.torchvision_cpu import ensure_torchvision

    ensure_torchvision()
    import torch
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.functional import resize

    pixels = torch.from_numpy(np.array(frame)).permute(2, 0, 1)
    output = resize(pixels, [size[1], size[0]], InterpolationMode.BICUBIC, antialias=True)
    return np.ascontiguousarray(output.permute(1, 2, 0).numpy())


def clip_size(processor: "ProcessorMixin") -> tuple[tuple[int, int], Resample] | None:
    """Return the (width, height) and filter to resize a clip's frames by Pillow; None: do not.

    Video processors of transformers never resize by Pillow, but leave frames of their own size as
    they are. So frames are resized before them where a checkpoint's processor says so.
    """
    video = getattr(processor, "video_processor", None)
    by_pillow = getattr(processor, "clips_by_pillow", False)
    if video is None or not by_pillow or "height" not in dict(video.size):
        return None
    resample: Resample = "bicubic" if video.resample == Image.Resampling.BICUBIC else "bilinear"
    return (video.size["width"], video.size["height"]), resample


def clip_times(
    media: Media, indices: Sequence[int], told: Sequence[float] = ()
) -> dict[str, object]:
    """Return a clip's rate and frame numbers, from which the processor computes times.

    `told`: times of the frames in seconds, which become frame numbers at a rate of 1 per second;
    empty: the medium's own rate and the `indices`.
    """
    times = media.times()
    if told:
        total = math.ceil(max(told)) + 1
        return {"total_num_frames": total, "fps": 1.0, "frames_indices": list(told)}
    rate = frame_rate(times)  # the file's, so that processors round times as they do for files
    return {"total_num_frames": len(media), "fps": rate, "frames_indices": list(indices)}


def planned_canvas(
    processor: "ProcessorMixin", model_type: str, request: ChatRequest
) -> tuple[int, int]:
    """(width, height) in pixels to which the processor will resize the first medium.

    Raises:
        ModelError: the processor does not have the resizing rule of Qwen's networks.
        UsageError: the medium is a clip, and the processor cannot limit its frames.
    """
    size = request.resize or request.media[0].size
    frames = len(frames_shown(request, 0))
    if frames > 1:
        check_clip_limits(processor)
        if keeps_clip_sizes(processor, request):
            return size
    resizer = processor.image_processor if frames == 1 else processor.video_processor
    what, unlike = f"processor {type(resizer).__name__}", (AttributeError, KeyError, TypeError)
    fix = "This architecture's canvas is not known."
    with raised_as(ModelError, what, "the resizing rule of Qwen's VLMs", *unlike, fix=fix):
        limits = {
            "factor": resizer.patch_size * resizer.merge_size,
            "min_pixels": resizer.size["shortest_edge"],
            "max_pixels": resizer.size["longest_edge"],
        }
    if frames > 1 and model_type.startswith("qwen3"):
        return clip_smart_resize(
            size, frames=frames, patch_frames=resizer.temporal_patch_size, **limits
        )
    return smart_resize(size, **limits)


def seen_canvases(
    processor: "ProcessorMixin", requests: Sequence[ChatRequest], inputs: "BatchFeature"
) -> list[tuple[tuple[int, int], ...]]:
    """Return (width, height) in pixels of every medium of every request, from the tensors' grids.

    Empty for processors without grids, which cut images into tiles or resize all to one size:
    coordinates in their responses are shares of the image.
    """
    if not any(request.media for request in requests) or not has_grids(processor):
        return [() for _ in requests]
    patch = int(processor.image_processor.patch_size)
    grids = {
        media_type: iter(inputs[f"{media_type}_grid_thw"].tolist())
        for media_type in ("image", "video")
        if f"{media_type}_grid_thw" in inputs
    }
    canvases = []
    for request in requests:
        frame_counts = (len(frames_shown(request, index)) for index in range(len(request.media)))
        own_grids = [
            next(grids["image" if n_frames == 1 else "video"]) for n_frames in frame_counts
        ]
        canvases.append(tuple((wide * patch, high * patch) for _, high, wide in own_grids))
    return canvases
