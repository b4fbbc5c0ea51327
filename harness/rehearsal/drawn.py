"""Random objects, places and words: the contents of a stand-in's responses."""

import random

from harness.models.grammar import Item
from harness.types import Box, Point

NOUNS = ("cup", "chair", "dog", "car", "person", "bicycle", "tree", "ball", "table", "lamp")
LOOKS = ("red", "small", "wooden", "left", "tall", "striped", "nearest", "round", "dark", "open")
THOUGHTS = (
    "The question asks for one thing in view.",
    "There are several objects that look alike.",
    "The one on the left does not fit the description.",
    "Its colour and place agree with the question.",
    "Compared with the others it is closer to the camera.",
    "Wait, the second one could be meant as well.",
    "It stays in view until the end.",
    "So the answer follows from its position.",
)


def thoughts(draw: random.Random) -> str:
    """Return some sentences of reasoning."""
    return " ".join(draw.choices(THOUGHTS, k=draw.randint(1, 4)))


def phrase(draw: random.Random) -> str:
    """Return a short noun phrase, such as `the red cup`."""
    return f"the {draw.choice(LOOKS)} {draw.choice(NOUNS)}"


def sentence(draw: random.Random) -> str:
    """Return a short sentence about a scene."""
    return f"There is {phrase(draw)} beside {phrase(draw)}."


def items(draw: random.Random, extent: tuple[int, int], *, most: int = 3) -> list[Item]:
    """Return one to `most` objects with boxes and points, in whole numbers from 0 to `extent`.

    `extent` is (width, height) of the image in the coordinates of the response; for (1, 1) numbers
    have three decimals. Sides of boxes are a tenth to a half of the image's; points lie in the box,
    the negative one beside it if there is room.
    """
    count = draw.randint(1, most)
    if max(extent) > 1:
        return [_item(draw, extent) for _ in range(count)]
    return [_item(draw, (1000, 1000), unit=1000) for _ in range(count)]


def _item(draw: random.Random, extent: tuple[int, int], unit: int = 1) -> Item:
    """Return one object of `items`, whose coordinates are divided by `unit`."""
    (left, right), (top, bottom) = (_span(draw, max(side, 4)) for side in extent)
    first, second = (
        Point(draw.randint(left, right - 1), draw.randint(top, bottom - 1)) for _ in range(2)
    )
    beside = Point(left - 1 if left > 0 else min(right + 1, extent[0] - 1), top)
    box = Box(left, top, right, bottom)
    if unit == 1:
        return Item(box, first, beside, second)
    on, off, second = (Point(x / unit, y / unit) for x, y in (first, beside, second))
    return Item(Box(*(number / unit for number in box)), on, off, second)


def _span(draw: random.Random, side: int) -> tuple[int, int]:
    """Return (start, end) of a random range of a tenth to a half of a side."""
    length = max(2, round(side * draw.uniform(0.1, 0.5)))
    start = draw.randint(0, max(0, side - length - 1))
    return start, start + length


def seconds(draw: random.Random) -> tuple[float, float]:
    """Return (start, end) of an interval in the first two seconds of a video."""
    start = round(draw.uniform(0, 1), 1)
    return start, round(start + draw.uniform(0.5, 1), 1)
