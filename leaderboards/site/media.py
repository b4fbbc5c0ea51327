"""Images of a site: media as WebP, a video's frames in a grid, and sheets of thumbnails.

A medium is written once, whatever number of samples, runs and tables show it.
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
FRAMES = 64  # of a video at most
COLUMNS = 8
QUALITY = 75
METHOD = 2  # of WebP: the default, 4, takes twice as long and saves a twentieth
THUMB = 96  # pixels of a thumbnail's sides
THUMB_COLUMNS = 10
THUMBS = 100  # in a sheet


def describe(media: Media) -> dict[str, object]:
    """Return size, frames and times of a medium, and the layout of its file."""
    shown = uniform(range(len(media)), FRAMES)
    width, height = _fitted(media.size, CELL if len(media) > 1 else SIDE)
    layout: dict[str, object] = {
        "file": f"{media.id}.webp",
        "width": media.size[0],
        "height": media.size[1],
        "frames": len(media),
        "cell": [width, height],
    }
    if len(media) > 1:
        times = [round(media.times()[index], 3) for index in shown]
        layout |= {"shown": list(shown), "times": times, "columns": min(COLUMNS, len(shown))}
    return layout


def encode(media: Media) -> bytes:
    """Return an image, or a video's frames in a grid from left to right, as WebP.

    Raises:
        MediaError: it cannot be read.
    """
    shown = uniform(range(len(media)), FRAMES)
    if len(shown) == 1:
        return _webp(_resized(media.frame(0), _fitted(media.size, SIDE)))
    width, height = _fitted(media.size, CELL)
    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    sheet = Image.new("RGB", (columns * width, rows * height))
    for place, index in enumerate(shown):
        cell = _resized(media.frame(index), (width, height))
        sheet.paste(cell, (place % columns * width, place // columns * height))
    return _webp(sheet)


def thumbnail(media: Media) -> Image.Image:
    """Return the middle frame's middle square.

    Raises:
        MediaError: it cannot be read.
    """
    frame = Image.fromarray(media.frame(len(media) // 2))
    return ImageOps.fit(frame, (THUMB, THUMB), Image.Resampling.BILINEAR)


@dataclass
class Thumbnails:
    """Sheets of thumbnails, each handed to `save` when it is full."""

    save: Callable[[int, bytes], None]
    _sheet: Image.Image | None = None
    _count: int = 0

    def add(self, media: Media | None) -> None:
        """Add the next sample's thumbnail; its place stays empty where there is no image."""
        place = self._count % THUMBS
        if self._sheet is None:
            side = THUMB * THUMB_COLUMNS
            self._sheet = Image.new("RGB", (side, side), (127, 127, 127))
        image = None
        if media is not None:
            with suppress(MediaError):
                image = thumbnail(media)
        if image is not None:
            left, top = place % THUMB_COLUMNS * THUMB, place // THUMB_COLUMNS * THUMB
            self._sheet.paste(image, (left, top))
        self._count += 1
        if place == THUMBS - 1:
            self.close()

    def close(self) -> None:
        """Hand over the last sheet, if it is not empty."""
        if self._sheet is not None:
            rows = -(-((self._count - 1) % THUMBS + 1) // THUMB_COLUMNS)
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
