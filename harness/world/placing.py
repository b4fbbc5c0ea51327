"""Random places and motions of things: at rest, through the image, into or out of it; in pixels."""

from collections.abc import Sequence
from typing import NamedTuple

from harness.world.draws import Draws
from harness.world.raster import extents
from harness.world.scene import Combination, Scene, radius_in

MAX_TRIES = 40  # random places of a thing before an attempt is given up
BORDER = 2  # pixels between a thing at rest and the image's edge
GAP = 3  # pixels between things that do not touch
MOTION_KINDS = (
    *("still",) * 3,
    *("straight",) * 5,
    *("diagonal",) * 2,
    "leave",
    "enter",
)
"""Kinds of motion, each as many times as its weight."""


class Path(NamedTuple):
    """The centre in frame 0, and its motion from one frame to the next."""

    x: int
    y: int
    dx: int = 0
    dy: int = 0


def place_at_rest(
    draws: Draws,
    empty: Scene,
    combination: Combination,
    placed: Sequence[tuple[Combination, Path]],
    *,
    crowded: bool,
) -> Path | None:
    """Draw a place inside the image and apart from placed things; None if none was found.

    `crowded`: in half of the tries, rectangles of neighbours may overlap by a quarter.
    """
    sideways, upwards = reach_of(empty, combination)
    others = [(path, reach_of(empty, neighbour)) for neighbour, path in placed]
    for _ in range(MAX_TRIES):
        path = Path(
            draws.integer_between(sideways + BORDER, empty.width - sideways - BORDER - 1),
            draws.integer_between(upwards + BORDER, empty.height - upwards - BORDER - 1),
        )
        near = crowded and draws.chance(1, 2)
        if all(
            _are_apart((path, (sideways, upwards)), neighbour, near=near) for neighbour in others
        ):
            return path
    return None


def draw_path(draws: Draws, empty: Scene, combination: Combination) -> Path:
    """Draw a path through the image by one of the kinds of motion."""
    motion = draws.choice(MOTION_KINDS)
    if motion in ("leave", "enter"):
        path = _leaving_path(draws, empty, combination)
        if motion == "leave":
            return path
        last = empty.frames - 1  # entering is leaving with time turned round
        return Path(path.x + last * path.dx, path.y + last * path.dy, -path.dx, -path.dy)
    dx = dy = 0
    if motion == "diagonal":
        dx, dy = (draws.integer_between(3, 6) * draws.sign() for _ in range(2))
    elif motion == "straight":
        speed = draws.integer_between(3, 9) * draws.sign()
        dx, dy = (speed, 0) if draws.chance(1, 2) else (0, speed)
    sideways, upwards = reach_of(empty, combination)
    last = empty.frames - 1
    x = _start(draws, sideways, empty.width, last * dx)
    y = _start(draws, upwards, empty.height, last * dy)
    return Path(x, y, dx, dy)


def _leaving_path(draws: Draws, empty: Scene, combination: Combination) -> Path:
    """Draw a path that is inside in frame 0, and outside from one of the last two frames on."""
    sideways, upwards = reach_of(empty, combination)
    x = _start(draws, sideways, empty.width, 0)
    y = _start(draws, upwards, empty.height, 0)
    first_gone = empty.frames - draws.integer_between(1, 2)
    across = draws.chance(1, 2)
    extent, side = (sideways, empty.width) if across else (upwards, empty.height)
    slowest = -(-(2 * extent + BORDER) // first_gone)
    speed = draws.integer_between(slowest, slowest + 3)
    along = side + extent - first_gone * speed
    if draws.chance(1, 2):
        speed, along = -speed, side - 1 - along
    return Path(along, y, speed, 0) if across else Path(x, along, 0, speed)


def _start(draws: Draws, extent: int, side: int, travel: int) -> int:
    """Draw a first coordinate such that the thing is inside at both ends of its path."""
    low, high = extent + 1 - min(travel, 0), side - extent - 2 - max(travel, 0)
    return draws.integer_between(low, max(low, high))


def reach_of(empty: Scene, combination: Combination) -> tuple[int, int]:
    """Return the pixels from the centre of a thing to its sides: (sideways, up or down)."""
    return extents(combination.shape, radius_in(empty.unit, combination.size))


def _are_apart(
    first: tuple[Path, tuple[int, int]], second: tuple[Path, tuple[int, int]], *, near: bool
) -> bool:
    """Return True if two things' rectangles keep a gap (if near, overlap by a quarter at most).

    `first` and `second` are a thing's path and the reach from its centre.
    """
    quarters, gap = (3, 0) if near else (4, GAP)
    (first_path, first_reach), (second_path, second_reach) = first, second
    across, down = abs(first_path.x - second_path.x), abs(first_path.y - second_path.y)
    return (
        4 * across > quarters * (first_reach[0] + second_reach[0]) + 4 * gap
        or 4 * down > quarters * (first_reach[1] + second_reach[1]) + 4 * gap
    )
