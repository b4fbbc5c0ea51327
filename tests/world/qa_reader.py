"""A reader of questions that looks names up by attributes, and places off the masks."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from harness.world.qa import QA
from harness.world.raster import render, visible_masks
from harness.world.scene import Background, Scene, Thing

STILL = (
    "relation",
    "relation4",
    "size",
    "largest",
    "depth",
    "colour",
    "shape",
    "nearest",
    "extreme",
    "count_choice",
    "exists",
    "count",
    "width",
    "height",
    "distance",
)
VIDEO = ("direction", "speed", "order", "order3", "leaves", "end_relation", "path", "enter_count")
SHAPES = "circle|square|triangle|rectangle|diamond|star|cross|hexagon"
LIKE = [{"square", "rectangle"}, {"square", "diamond"}]
"""Shapes that share a name with some people."""
Answer = str | float


def singular(words: str) -> str:
    return re.sub(r"(cross)es\b|\b(\w+?)s\b(?<!cross)", lambda m: m[1] or m[2], words)


def fitting(scene: Scene, words: str) -> set[int]:
    """The things that words such as `red circle`, `star` or `red object` mean."""
    *colours, shape = words.split()
    assert len(colours) <= 1 and (shape == "object" or re.fullmatch(SHAPES, shape)), words
    found = {
        i
        for i, thing in enumerate(scene.things)
        if shape in ("object", thing.shape)
        and thing.colour in (*colours, thing.colour)
        and (not colours or thing.colour == colours[0])
    }
    doubtful = {
        i
        for i, thing in enumerate(scene.things)
        if {shape, thing.shape} in LIKE and colours in ([], [thing.colour])
    }
    assert not doubtful, f"{words!r} could mean something else"
    return found


def the(scene: Scene, words: str) -> int:
    (index,) = fitting(scene, words)
    return index


def middle(scene: Scene, index: int, frame: int = 0) -> np.ndarray:
    """(x, y) of the whole thing's outline, measured where it is drawn alone."""
    alone = replace(scene, things=(scene.things[index],))
    rows, columns = np.nonzero(visible_masks(alone, frame)[0])
    return np.array([(columns.min() + columns.max()) / 2, (rows.min() + rows.max()) / 2])


def extent(scene: Scene, index: int) -> tuple[int, int]:
    rows, columns = np.nonzero(visible_masks(scene)[index])
    return int(np.ptp(columns)) + 1, int(np.ptp(rows)) + 1


def seen(scene: Scene, index: int) -> list[int]:
    return [k for k in range(scene.frames) if visible_masks(scene, k)[index].any()]


def best(scene: Scene, names: tuple[str, ...], value: Callable[[int], float], clear: float) -> str:
    """The name with the highest value, which is `clear` times the next one or more."""
    order = sorted(names, key=lambda words: value(the(scene, words)), reverse=True)
    first, second = (value(the(scene, words)) for words in order[:2])
    assert first >= clear * second > 0, (names, first, second)
    return order[0]


def nearest(scene: Scene, qa: QA, anchor: str) -> str:
    here = middle(scene, the(scene, anchor))

    def nearness(index: int) -> float:
        return 1 / float(np.linalg.norm(middle(scene, index) - here))

    return best(scene, qa.options, nearness, 1.3)


def colour(scene: Scene, qa: QA, words: str) -> str:
    """By the most frequent colour among the pixels."""
    values, often = np.unique(
        render(scene)[visible_masks(scene)[the(scene, words)]], axis=0, return_counts=True
    )
    red, green, blue = values[often.argmax()].astype(int)
    known = {
        "red": (214, 32, 36),
        "green": (36, 160, 52),
        "blue": (40, 72, 216),
        "yellow": (244, 220, 40),
        "purple": (140, 44, 172),
        "orange": (248, 132, 20),
        "white": (248, 248, 248),
        "black": (24, 24, 28),
    }
    return next(name for name, value in known.items() if value == (red, green, blue))


def shape(scene: Scene, qa: QA, words: str) -> str:
    name = scene.things[the(scene, words)].shape
    assert not any({name, other} in LIKE for other in qa.options)
    return name


def count(scene: Scene, qa: QA, words: str) -> Answer:
    number = len(fitting(scene, singular(words)))
    return str(number) if qa.options else float(number)


def exists(scene: Scene, qa: QA, words: str) -> str:
    """A thing that the words mean is there, whatever else they could mean."""
    same = [one for one in scene.things if f"{one.colour} {one.shape}" == words]
    return "yes" if same or fitting(scene, words) else "no"


def width(scene: Scene, qa: QA, words: str) -> float:
    return round(100 * extent(scene, the(scene, words))[0] / scene.width + 1e-9)


def height(scene: Scene, qa: QA, words: str) -> float:
    return round(100 * extent(scene, the(scene, words))[1] / scene.height + 1e-9)


def apart(scene: Scene, qa: QA, one: str, other: str, way: str) -> float:
    across, down = abs(middle(scene, the(scene, one)) - middle(scene, the(scene, other)))
    part = across / scene.width if way == "left to right" else down / scene.height
    return round(100 * part + 1e-9)


def direction(scene: Scene, qa: QA, words: str) -> str:
    index = the(scene, words)
    x, y = middle_of_path(scene, index)
    assert not (x and y)
    if not x and not y:
        return "it does not move"
    return (("left", "right") if x else ("up", "down"))[int(x + y > 0)]


def middle_of_path(scene: Scene, index: int) -> tuple[int, int]:
    """What the centre moves by in a frame."""
    thing = scene.things[index]
    (x0, y0), (x1, y1) = thing.centre(0), thing.centre(1)
    return x1 - x0, y1 - y0


def path(scene: Scene, qa: QA, words: str, way: str) -> float:
    index = the(scene, words)
    x, y = abs(middle(scene, index, scene.frames - 1) - middle(scene, index))
    part = x / scene.width if way == "to the side" else y / scene.height
    return round(100 * part + 1e-9)


def scene_of(*things: Thing, frames: int = 1, family: str = "") -> Scene:
    return Scene(
        seed=0,
        family=family or ("qa_video" if frames > 1 else "qa"),
        split="val",
        index=0,
        width=168,
        height=168,
        background=Background("plain", 1),
        things=things,
        frames=frames,
    )


def thing(shape: str, colour: str, x: int, y: int, **more: object) -> Thing:
    made = Thing(shape=shape, colour=colour, size="small", x=x, y=y, depth=0)  # type: ignore[arg-type]
    return replace(made, **more)  # type: ignore[arg-type]
