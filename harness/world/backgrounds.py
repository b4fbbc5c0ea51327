"""Drawing of a scene's background: plain, noisy or textured, from the background's own seed.

Only whole numbers are used, so that pixels are equal on all machines. Backgrounds are greyish tones
in the middle of the range, far from all named colours.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.media import Frame
from harness.world.draws import Draws
from harness.world.scene import Background

Offsets: TypeAlias = NDArray[np.int64]
"""Height × width: offsets from the background's base colour."""

DARKEST, LIGHTEST = 96, 168  # grey levels of a background's base colour
TINT = 14  # largest difference of a channel from the grey level
NOISE = 18  # largest offset of a pixel from the base colour
CELL = 16  # pixels between the points from which a blotchy background is interpolated


@lru_cache(maxsize=8)
def draw_background(background: Background, *, width: int, height: int) -> Frame:
    """Draw the background alone: height × width × 3, uint8, RGB; read-only, since it is cached."""
    draws = Draws(background.seed, "background", background.kind)
    level = draws.integer_between(DARKEST, LIGHTEST)
    base = np.array([level + draws.integer_between(-TINT, TINT) for _ in range(3)], dtype=np.int64)
    offsets = np.zeros((height, width), dtype=np.int64)
    if background.kind == "noisy":
        offsets = draws.array((height, width), below=2 * NOISE + 1) - NOISE
    elif background.kind == "textured":
        offsets = draws.choice(TEXTURES)(draws, height, width)
    toned = base.astype(np.int16) + offsets.astype(np.int16)[:, :, None]
    image: Frame = np.clip(toned, 0, 255).astype(np.uint8)
    image.flags.writeable = False
    return image


def _stripes(draws: Draws, height: int, width: int) -> Offsets:
    y, x = np.mgrid[0:height, 0:width]
    along = draws.integer_between(-2, 2) * x + draws.integer_between(1, 2) * y
    return _two_tones(draws, along // draws.integer_between(8, 24))


def _checks(draws: Draws, height: int, width: int) -> Offsets:
    y, x = np.mgrid[0:height, 0:width]
    side = draws.integer_between(10, 28)
    return _two_tones(draws, x // side + y // side)


def _two_tones(draws: Draws, band: NDArray[np.int64]) -> Offsets:
    """Return one offset for pixels of even bands and its opposite for odd ones."""
    contrast = draws.integer_between(6, 14)
    return (band % 2) * (2 * contrast) - contrast


def _blotches(draws: Draws, height: int, width: int) -> Offsets:
    """Return random values on a coarse lattice, interpolated between its points."""
    lattice = draws.array((height // CELL + 2, width // CELL + 2), below=2 * NOISE + 1) - NOISE
    row, down = np.divmod(np.arange(height)[:, None], CELL)
    column, across = np.divmod(np.arange(width)[None, :], CELL)
    upper = lattice[row, column] * (CELL - across) + lattice[row, column + 1] * across
    lower = lattice[row + 1, column] * (CELL - across) + lattice[row + 1, column + 1] * across
    offsets: Offsets = (upper * (CELL - down) + lower * down) // (CELL * CELL)
    return offsets


TEXTURES: tuple[Callable[[Draws, int, int], Offsets], ...] = (_stripes, _checks, _blotches)
