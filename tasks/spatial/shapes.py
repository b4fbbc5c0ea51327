"""Questions of space and time about generated scenes, for sample data of the spatial benchmarks.

The `writer` modules of VSI-Bench, STI-Bench and others use them. Each function asks one question
about any scene with two uniquely named things, so that sample data have every question type of a
benchmark; the questions of `harness.world.qa` need special scenes. Positions are in pixels, y
downwards; a `Named` is (index of the thing in the scene, phrase that names it).
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import hypot
from pathlib import Path
from types import MappingProxyType

from harness.world.mp4 import encode_mp4
from harness.world.qa_video import visible_frames
from harness.world.quiz import QA, Named, called, choice, pick
from harness.world.raster import render
from harness.world.scene import Scene

RATE = 1  # frames a second
UNIT = "pixels"
WRONG_FACTORS = (Fraction(1, 2), Fraction(3, 2), Fraction(2), Fraction(3))
"""Wrong options of a number, as multiples of the right one."""


def write_video(path: Path, scene: Scene) -> None:
    """Write a scene as MP4; frame k is second k."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_mp4(scene))


@lru_cache(maxsize=512)
def _mp4(scene: Scene) -> bytes:
    """Return a scene as an MP4 file; cached, because many benchmarks show the same scenes."""
    frames = [render(scene, frame) for frame in range(scene.frames)]
    return encode_mp4(frames, times=range(scene.frames))


def pair(scene: Scene) -> tuple[Named, Named]:
    """Return the first two things with unique names."""
    first, second, *_ = called(scene)
    return first, second


def count(scene: Scene) -> QA:
    """Ask for the number of things."""
    return QA(
        kind="count",
        text="How many object(s) are in this video?",
        answer=float(len(scene.things)),
        named=(),
    )


def width(scene: Scene) -> QA:
    """Ask for the width of a thing."""
    index, phrase = pair(scene)[0]
    size = float(2 * scene.radius(scene.things[index]))
    text = f"What is the width of the {phrase} (in {UNIT})?"
    return QA(kind="width", text=text, answer=size, named=((index, phrase),))


def room(scene: Scene) -> QA:
    """Ask for the area of the image in thousands of square pixels; it stands for a room's size."""
    return QA(
        kind="room",
        text="What is the size of the picture (in thousand square pixels)?",
        answer=scene.width * scene.height / 1000,
        named=(),
    )


def distance(scene: Scene) -> QA:
    """Ask for the distance between the centres of two things at the start, rounded, at least 1."""
    first, second = pair(scene)
    text = (
        f"What is the distance between the centres of the {first[1]} and the {second[1]} at the "
        f"start (in {UNIT})?"
    )
    return QA(
        kind="distance",
        text=text,
        answer=float(max(1, round(_offset_length(scene, first, second)))),
        named=(first, second),
    )


def displacement(scene: Scene) -> QA:
    """Ask how far the fastest thing moves in all, along the axis on which it moves more."""
    index, phrase = max(called(scene), key=lambda thing_: _speed(scene, thing_[0]))
    moved = _speed(scene, index) * (scene.frames - 1)
    text = f"How far does the {phrase} move sideways or upwards, whichever is more?"
    return QA(kind="displacement", text=text, answer=float(moved), named=((index, phrase),))


def side_question(scene: Scene) -> QA:
    """Ask on which side of a thing another one is: left or right."""
    return _relative_side(scene, ("left", "right"), lambda dx, dy: "left" if dx < 0 else "right")


def quadrant(scene: Scene) -> QA:
    """Ask in which of four quadrants around a thing another one is."""
    options = ("above left", "above right", "below left", "below right")
    return _relative_side(
        scene,
        options,
        lambda dx, dy: f"{'above' if dy < 0 else 'below'} {'left' if dx < 0 else 'right'}",
    )


def third_question(scene: Scene) -> QA:
    """Ask if a thing is left or right of another, or farther above or below it than sideways."""

    def option_for(dx: int, dy: int) -> str:
        return "above or below" if abs(dx) < abs(dy) else "left" if dx < 0 else "right"

    return _relative_side(scene, ("left", "right", "above or below"), option_for)


def route(scene: Scene) -> QA:
    """Ask for the two directions of a route from a thing to another: sideways, then up or down."""
    start, goal = pair(scene)
    dx, dy = _offset(scene, goal, start)
    sideways, vertically = ("right" if dx > 0 else "left"), ("down" if dy > 0 else "up")
    right = f"{sideways}, then {vertically}"
    ways = [f"{first}, then {then}" for first in ("left", "right") for then in ("up", "down")]
    text = f"You are at the {start[1]} and go to the {goal[1]}. Which way do you go?"
    return choice(scene, "route", text, answer=right, others=ways, named=(start, goal))


def nearer_question(scene: Scene) -> QA:
    """Ask for the one of two things that is nearer to the middle of the image at the start."""
    nearer, farther = sorted(pair(scene), key=lambda thing_: _from_middle(scene, thing_))
    text = "Which of these objects is closest to the middle of the picture at the start?"
    return pick(scene, "nearer", text, answer=nearer[1], group=(nearer, farther))


def appearance(scene: Scene) -> QA:
    """Ask for the order in which things appear; things that appear at once are ordered by place."""
    chosen = sorted(
        called(scene)[:3],
        key=lambda thing_: (visible_frames(scene, thing_[0])[0], scene.things[thing_[0]].x),
    )
    phrases = [phrase for _, phrase in chosen]
    wrong = [", ".join(phrases[1:] + phrases[:1])]
    if len(phrases) > 2:  # the reverse of two is the rotation above
        wrong.append(", ".join(phrases[::-1]))
    text = (
        "What is the order of the first appearance of these objects, those seen at once from "
        f"left to right: {', '.join(sorted(phrases))}?"
    )
    return choice(scene, "appearance", text, answer=", ".join(phrases), others=wrong, named=chosen)


def trajectory(scene: Scene) -> QA:
    """Ask for the direction in which a thing moves."""
    index, phrase = pair(scene)[0]
    thing = scene.things[index]
    sideways = ("", "right", "left")[thing.heading[0]]  # heading is 0, 1 or -1
    vertically = ("", "down", "up")[thing.heading[1]]
    right = " and ".join(filter(None, (sideways, vertically))) or "not at all"
    ways = ("left", "right", "up", "down", "not at all", "left and up", "right and down")
    wrong = [way for way in ways if way != right][:4]
    return choice(
        scene,
        "trajectory",
        f"How does the {phrase} move?",
        answer=right,
        others=wrong,
        named=((index, phrase),),
    )


def faster(scene: Scene) -> QA:
    """Ask for the speed of the fastest thing, as a number with options."""
    index, phrase = max(called(scene), key=lambda thing_: _speed(scene, thing_[0]))
    return with_numbers(
        scene,
        "speed",
        f"What is the speed of the {phrase} along the axis on which it moves most?",
        _speed(scene, index),
        f"{UNIT}/s",
    )


def place(scene: Scene, *, frame: int, moment: str) -> QA:
    """Ask for a thing's centre in a frame, as [x, y, depth]; depth is its order from the viewer."""
    index, phrase = pair(scene)[0]
    thing = scene.things[index]
    x, y = thing.centre(frame)
    positions = [(x + dx, y + dy, thing.depth) for dx, dy in ((0, 0), (40, 0), (0, 40), (-40, 0))]
    right, *wrong = (f"[{a}, {b}, {c}]" for a, b, c in positions)
    text = f"Where is the centre of the {phrase} {moment}, as [x, y, order from the viewer]?"
    return choice(scene, "place", text, answer=right, others=wrong, named=((index, phrase),))


def camera(scene: Scene) -> QA:
    """Ask for the camera's rotation; there is none."""
    wrong = ("to the left", "to the right", "upwards")
    return choice(
        scene, "camera", "How does the camera turn?", answer="it does not turn", others=wrong
    )


def with_numbers(scene: Scene, kind: str, text: str, value: float, unit: str) -> QA:
    """Return a question for a number with options in the same unit: the right one and multiples."""
    right = max(1, round(value))
    wrong = dict.fromkeys(f"{round(right * factor)} {unit}" for factor in WRONG_FACTORS)
    return choice(scene, kind, text, answer=f"{right} {unit}", others=wrong)


def _relative_side(
    scene: Scene, options: Sequence[str], right_option: Callable[[int, int], str]
) -> QA:
    """Ask where a thing is as seen from another; `right_option` takes its offset (dx, dy)."""
    subject, reference = pair(scene)
    dx, dy = _offset(scene, subject, reference)
    right = right_option(dx, dy)
    text = f"Seen from the {reference[1]}, where is the {subject[1]} at the start?"
    return choice(scene, "side", text, answer=right, named=(subject, reference), others=options)


def _offset(scene: Scene, first: Named, second: Named) -> tuple[int, int]:
    """Return (dx, dy) from the second to the first thing in frame 0."""
    x, y = scene.things[first[0]].centre(0)
    second_x, second_y = scene.things[second[0]].centre(0)
    return x - second_x, y - second_y


def _offset_length(scene: Scene, first: Named, second: Named) -> float:
    """Return the distance between the centres of two things in frame 0."""
    return hypot(*_offset(scene, first, second))


def _from_middle(scene: Scene, thing_: Named) -> int:
    """Return four times the squared distance of a thing from the image's middle in frame 0."""
    x, y = scene.things[thing_[0]].centre(0)
    return (2 * x - scene.width) ** 2 + (2 * y - scene.height) ** 2


def _speed(scene: Scene, index: int) -> int:
    """Return the pixels per frame along the axis on which a thing moves more."""
    return max(abs(scene.things[index].dx), abs(scene.things[index].dy))


Asked = Callable[[Scene], QA]
"""Function that asks a question about a scene."""
ENDS: Mapping[str, Asked] = MappingProxyType(
    {
        "start": lambda scene: place(scene, frame=0, moment="at the start"),
        "end": lambda scene: place(scene, frame=scene.frames - 1, moment="at the end"),
    }
)
"""Questions for a thing's centre in the first and in the last frame."""
