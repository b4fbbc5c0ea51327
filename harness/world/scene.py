"""A generated scene as data: things with a shape, a colour, a size, a place, a depth and a motion.

`families` draws scenes at random, `raster` draws their pixels. Coordinates are whole numbers of
pixels, with the origin at the top left and y downwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import isqrt
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias, get_args

Shape: TypeAlias = Literal[
    "circle", "square", "triangle", "rectangle", "diamond", "star", "cross", "hexagon"
]
Colour: TypeAlias = Literal["red", "green", "blue", "yellow", "purple", "orange", "white", "black"]
Size: TypeAlias = Literal["small", "medium", "large"]
Split: TypeAlias = Literal["train", "val", "test"]
BackgroundKind: TypeAlias = Literal["plain", "noisy", "textured"]
Level: TypeAlias = Literal["easy", "medium", "hard"]

SHAPES: tuple[Shape, ...] = get_args(Shape)
SIZES: tuple[Size, ...] = get_args(Size)
SPLITS: tuple[Split, ...] = get_args(Split)
LEVELS: tuple[Level, ...] = get_args(Level)
BACKGROUNDS: tuple[BackgroundKind, ...] = get_args(BackgroundKind)

RGB: TypeAlias = tuple[int, int, int]

COLOURS: Mapping[Colour, RGB] = MappingProxyType(
    {
        "red": (214, 32, 36),
        "green": (36, 160, 52),
        "blue": (40, 72, 216),
        "yellow": (244, 220, 40),
        "purple": (140, 44, 172),
        "orange": (248, 132, 20),
        "white": (248, 248, 248),
        "black": (24, 24, 28),
    }
)
"""Red, green and blue of each named colour, exactly as every pixel inside a thing has them."""

RADIUS: Mapping[Size, int] = MappingProxyType({"small": 11, "medium": 17, "large": 25})
"""Half the extent of a thing, in pixels of an image of 168 × 168."""

REFERENCE_SIDE = 168


class Combination(NamedTuple):
    """Attributes of a thing; held-out combinations never occur in `train`."""

    shape: Shape
    colour: Colour
    size: Size


COMBINATIONS: tuple[Combination, ...] = tuple(
    Combination(*attributes) for attributes in product(SHAPES, COLOURS, SIZES)
)


def is_held_out(combination: Combination) -> bool:
    """Return True for the combinations that never occur in `train`: 72 of 192.

    Every shape with every colour has at least one size that is held out and one that is not, so
    that both can be drawn for any shape and colour.
    """
    shape, colour, size = combination
    code = SHAPES.index(shape) + 3 * tuple(COLOURS).index(colour) + 5 * SIZES.index(size)
    return code % 8 < 3


HELD_OUT: frozenset[Combination] = frozenset(filter(is_held_out, COMBINATIONS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """One object: its look, its centre in frame 0, and its motion."""

    shape: Shape
    colour: Colour
    size: Size
    x: int
    y: int
    depth: int
    """Order from the viewer: 0 is nearest; no two things of a scene share one."""
    dx: int = 0
    dy: int = 0
    """Pixels that the centre moves each frame."""

    @property
    def combination(self) -> Combination:
        """Shape, colour and size."""
        return Combination(self.shape, self.colour, self.size)

    @property
    def is_moving(self) -> bool:
        """True if the thing changes its place."""
        return (self.dx, self.dy) != (0, 0)

    @property
    def heading(self) -> tuple[int, int]:
        """The signs of `dx` and `dy`: -1, 0 or 1."""
        across, down = ((step > 0) - (step < 0) for step in (self.dx, self.dy))
        return across, down

    @property
    def squared_speed(self) -> int:
        """Square of the pixels that the centre moves each frame."""
        return self.dx**2 + self.dy**2

    def centre(self, frame: int) -> tuple[int, int]:
        """(x, y) in a frame; it may lie outside the image."""
        return self.x + frame * self.dx, self.y + frame * self.dy


@dataclass(frozen=True, slots=True)
class Background:
    """Background of the things; the seed decides its colour and its pattern."""

    kind: BackgroundKind
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An image (one frame) or a video, before it is drawn."""

    seed: int
    """The world's seed."""
    family: str
    split: Split
    index: int
    width: int
    height: int
    background: Background
    things: tuple[Thing, ...]
    frames: int = 1
    level: Level = "medium"
    """Difficulty of the scene; the families with levels define it."""

    @property
    def id(self) -> str:
        """A name that is unique in a world, such as `still/val/00003`."""
        return f"{self.family}/{self.split}/{self.index:05d}"

    @property
    def unit(self) -> int:
        """The side in pixels of a square with the image's area; sizes are measured by it."""
        return isqrt(self.width * self.height)

    def radius(self, thing: Thing) -> int:
        """Half the extent of a thing in pixels (its shape may reach a little further)."""
        return radius_in(self.unit, thing.size)


def radius_in(unit: int, size: Size) -> int:
    """Return half the extent in pixels of a thing, in an image of unit × unit pixels."""
    return unit * RADIUS[size] // REFERENCE_SIDE
