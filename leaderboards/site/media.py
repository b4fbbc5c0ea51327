"""Images of a site as WebP: media (a video's frames in a grid) and sheets of thumbnails.

The file of a medium is named by its content, so that it is written once for all samples and tables.
"""

import io
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageOps

from harness.errors import MediaError
from harness.frames import uniform
from harness.media import Frame, Media

SIDE = 1024  # pixels of the longer side of an image
CELL = 480  # pixels of the longer side of a frame in a grid
FRAMES = 64  # largest number of a video's frames, uniformly chosen
COLUMNS = 8  # of a video's grid
QUALITY = 75
METHOD = 2  # of WebP: the default, 4, takes twice as long and saves 5 % of the size
THUMB = 96  # pixels of a thumbnail's sides
THUMB_COLUMNS = 10  # of a sheet
THUMBS = 100  # thumbnails in a sheet


def describe(media: Media) -> dict[str, object]:
    """Return size in pixels, frames and times in seconds of a medium, and its file's layout."""
    frames = uniform(range(len(media)), FRAMES)
    width, height = _fitted(media.size, CELL if len(media) > 1 else SIDE)
    layout: dict[str, object] = {
        "file": f"{media.id}.webp",
        "width": media.size[0],
        "height": media.size[1],
        "frames": len(media),
        "cell": [width, height],
    }
    if len(media) > 1:
        times = [round(media.times()[index], 3) for index in frames]
        layout |= {"shown": list(frames), "times": times, "columns": min(COLUMNS, len(frames))}
    return layout


def encode(media: Media) -> bytes:
    """Return an image, or a video's frames in a grid from left to right, as WebP.

    Raises:
        MediaError: it cannot be read.
    """
    frames = uniform(range(len(media)), FRAMES)
    if len(frames) == 1:
        return _webp(_resized(media.frame(0), _fitted(media.size, SIDE)))
    width, height = _fitted(media.size, CELL)
    columns = min(COLUMNS, len(frames))
    rows = -(-len(frames) // columns)  # rounded up
    sheet = Image.new("RGB", (columns * width, rows * height))
    for cell_number, index in enumerate(frames):
        cell = _resized(media.frame(index), (width, height))
        sheet.paste(cell, (cell_number % columns * width, cell_number // columns * height))
    return _webp(sheet)


def thumbnail(media: Media) -> Image.Image:
    """Return the middle square of the middle frame, THUMB × THUMB pixels.

    Raises:
        MediaError: the medium cannot be read.
    """
    frame = Image.fromarray(media.frame(len(media) // 2))
    return ImageOps.fit(frame, (THUMB, THUMB), Image.Resampling.BILINEAR)


@dataclass
class Thumbnails:
    """Fills sheets of thumbnails, and calls `save` with (number, WebP) of each full sheet."""

    save: Callable[[int, bytes], None]
    _sheet: Image.Image | None = None
    _count: int = 0

    def add(self, media: Media | None) -> None:
        """Add the next sample's thumbnail; its place stays grey without a readable image."""
        cell_number = self._count % THUMBS
        if self._sheet is None:
            side = THUMB * THUMB_COLUMNS
            self._sheet = Image.new("RGB", (side, side), (127, 127, 127))
        image = None
        if media is not None:
            with suppress(MediaError):
                image = thumbnail(media)
        if image is not None:
            left, top = cell_number % THUMB_COLUMNS * THUMB, cell_number // THUMB_COLUMNS * THUMB
            self._sheet.paste(image, (left, top))
        self._count += 1
        if cell_number == THUMBS - 1:
            self.close()

    def close(self) -> None:
        """Save the current sheet, if it is not empty."""
        if self._sheet is not None:
            n_on_sheet = (self._count - 1) % THUMBS + 1
            rows = -(-n_on_sheet // THUMB_COLUMNS)  # rounded up
            sheet = self._sheet.crop((0, 0, THUMB * THUMB_COLUMNS, rows * THUMB))
            self.save((self._count - 1) // THUMBS, _webp(sheet, quality=70))
            self._sheet = None


def _fitted(size: tuple[int, int], side: int) -> tuple[int, int]:
    """Return a size with the longer side at most `side`, never enlarged."""
    scale = min(1.0, side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _resized(frame: Frame, size: tuple[int, int]) -> Image.Image:
    image = Image.fromarray(np.asarray(frame))
    return image if image.size == size else image.resize(size, Image.Resampling.BOX)


def _webp(image: Image.Image, *, quality: int = QUALITY) -> bytes:
    encoded = io.BytesIO()
    image.save(encoded, "WEBP", quality=quality, method=METHOD)
    return encoded.getvalue()
