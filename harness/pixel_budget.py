"""Size to which an image or a clip's frames are resized for Qwen's networks, by bounds on pixels.

`PixelBudget.size` computes it as qwen-vl-utils does; frame policies (`harness.frames`) call it.
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.errors import UsageError

Resample: TypeAlias = Literal["bilinear", "bicubic", "torchvision_bicubic"]
"""Filter of a resizing: Pillow's, or (`torchvision_…`) torchvision's on tensors of float32."""
PATCH = 28
"""Side in pixels of the patch that Qwen2-VL and Qwen2.5-VL turn into one token."""
MAX_ASPECT = 200  # largest ratio of sides that qwen-vl-utils accepts
PAIR = 2
"""Number of consecutive frames that Qwen's video encoder merges into one."""
FRAME_TOKENS = 768
"""Most tokens of a frame in qwen-vl-utils (`VIDEO_MAX_TOKEN_NUM`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelBudget:
    """Bounds on the number of pixels of a frame, and the size in pixels that follows from them."""

    max_pixels: int
    min_pixels: int = 4 * PATCH * PATCH
    factor: int = PATCH
    """Both sides become multiples of this number of pixels."""
    total_pixels: int | None = None
    """Bound on the pixels of all frames of a clip, `PAIR` frames counted as one: the clip's tokens
    times `factor`²."""

    def __post_init__(self) -> None:
        if not 0 < self.min_pixels <= self.max_pixels or self.factor < 1:
            raise UsageError(
                "a budget of pixels",
                expected="0 < min_pixels ≤ max_pixels",
                found=f"{self.min_pixels} and {self.max_pixels}",
            )
        if self.total_pixels is not None and self.max_pixels > FRAME_TOKENS * self.factor**2:
            raise UsageError(
                "max_pixels beside total_pixels",
                expected=f"at most {FRAME_TOKENS} · factor², to which qwen-vl-utils cuts it",
                found=f"{self.max_pixels} with factor={self.factor}",
            )

    def size(self, size: tuple[int, int], frames: int = 1) -> tuple[int, int]:
        """Return the (width, height) at which an image, or each of a clip's `frames`, is shown.

        The aspect ratio is nearly kept. As `smart_resize` of qwen-vl-utils (commit f0af299), with
        the limits of its `fetch_video` (0.0.14), except that a clip is refused if its frames exceed
        `total_pixels` at their smallest size.

        >>> PixelBudget(max_pixels=448 * 28 * 28).size((1920, 1080))
        (784, 420)

        Raises:
            UsageError: the sides differ by more than `MAX_ASPECT`, or the frames do not fit into
                `total_pixels`.
        """
        if self.total_pixels is None:
            return self._frame_size(size, self.max_pixels)
        pairs = math.ceil(frames / PAIR)
        # Written as in `fetch_video`, whose rounding it shares; 1.05 is a constant there too.
        frame_limit = max(self.total_pixels / (PAIR * pairs) * PAIR, int(self.min_pixels * 1.05))
        width, height = self._frame_size(size, min(self.max_pixels, frame_limit))
        if pairs * width * height > self.total_pixels:
            raise UsageError(
                f"total_pixels={self.total_pixels}",
                expected=f"room for {frames} frames of min_pixels={self.min_pixels}",
                found=f"{pairs * width * height} pixels: {width} × {height}, {PAIR} frames as one",
                fix="Show fewer frames, or give a smaller min_pixels.",
            )
        return width, height

    def _frame_size(self, size: tuple[int, int], max_pixels: float) -> tuple[int, int]:
        """Return (width, height), multiples of `factor`, for one frame of at most `max_pixels`."""
        width, height = size
        if max(size) > MAX_ASPECT * min(size):
            raise UsageError(
                "an image with a budget of pixels",
                expected=f"sides of at most 1 : {MAX_ASPECT}",
                found=f"{width} × {height}",
            )
        sides = [max(self.factor, round(side / self.factor) * self.factor) for side in size]
        if sides[0] * sides[1] > max_pixels:
            scale = math.sqrt(width * height / max_pixels)
            sides = [math.floor(side / scale / self.factor) * self.factor for side in size]
        elif sides[0] * sides[1] < self.min_pixels:
            scale = math.sqrt(self.min_pixels / (width * height))
            sides = [math.ceil(side * scale / self.factor) * self.factor for side in size]
        return max(sides[0], self.factor), max(sides[1], self.factor)
