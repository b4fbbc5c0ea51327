"""Questions of space and time about the generated world, and its scenes as video files.

The world's own questions (`harness.world.qa`) need scenes that allow them. The questions here fit
every scene with two named things, so that every type of a benchmark occurs.
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
OTHER_NUMBERS = (Fraction(1, 2), Fraction(3, 2), Fraction(2), Fraction(3))


def write_video(path: Path, scene: Scene) -> None:
    """Write a scene as MP4; frame k is second k."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_mp4(scene))


@lru_cache(maxsize=512)
def _mp4(scene: Scene) -> bytes:
    """The file, kept: many benchmarks show the same scenes, and no encoder is quick."""
    frames = [render(scene, frame) for frame in range(scene.frames)]
    return encode_mp4(frames, times=range(scene.frames))


def pair(scene: Scene) -> tuple[Named, Named]:
    """Return the first two things with a unique name."""
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
    index, words = pair(scene)[0]
    size = float(2 * scene.radius(scene.things[index]))
    text = f"What is the width of the {words} (in {UNIT})?"
    return QA(kind="width", text=text, answer=size, named=((index, words),))


def room(scene: Scene) -> QA:
    """Ask for the size of the image."""
    return QA(
        kind="room",
        text="What is the size of the picture (in thousand square pixels)?",
        answer=scene.width * scene.height / 1000,
        named=(),
    )


def distance(scene: Scene) -> QA:
    """Ask for the distance of two things at the start."""
    first, second = pair(scene)
    text = (
        f"What is the distance between the centres of the {first[1]} and the {second[1]} at the "
        f"start (in {UNIT})?"
    )
    return QA(
        kind="distance",
        text=text,
        answer=float(max(1, round(_distance(scene, first, second)))),
        named=(first, second),
    )


def displacement(scene: Scene) -> QA:
    """Ask for the way of a thing to the end, along the axis on which it moves furthest."""
    index, words = max(called(scene), key=lambda named: _speed(scene, named[0]))
    moved = _speed(scene, index) * (scene.frames - 1)
    text = f"How far does the {words} move sideways or upwards, whichever is more?"
    return QA(kind="displacement", text=text, answer=float(moved), named=((index, words),))


def side_question(scene: Scene) -> QA:
    """Left or right."""
    return _side_question(scene, ("left", "right"), lambda dx, dy: "left" if dx < 0 else "right")


def quadrant(scene: Scene) -> QA:
    """One of four corners."""
    options = ("above left", "above right", "below left", "below right")
    return _side_question(
        scene,
        options,
        lambda dx, dy: f"{'above' if dy < 0 else 'below'} {'left' if dx < 0 else 'right'}",
    )


def third_question(scene: Scene) -> QA:
    """Left, right or neither clearly."""

    def option_for(dx: int, dy: int) -> str:
        return "above or below" if abs(dx) < abs(dy) else "left" if dx < 0 else "right"

    return _side_question(scene, ("left", "right", "above or below"), option_for)


def route(scene: Scene) -> QA:
    """Ask for the first direction of a route."""
    start, goal = pair(scene)
    dx, dy = _displacement(scene, goal, start)
    sideways, along = ("right" if dx > 0 else "left"), ("down" if dy > 0 else "up")
    right = f"{sideways}, then {along}"
    ways = [f"{first}, then {then}" for first in ("left", "right") for then in ("up", "down")]
    text = f"You are at the {start[1]} and go to the {goal[1]}. Which way do you go?"
    return choice(scene, "route", text, answer=right, others=ways, named=(start, goal))


def nearer_question(scene: Scene) -> QA:
    """Ask for the one of two things that is nearer to the middle of the image at the start."""
    nearer, farther = sorted(pair(scene), key=lambda named: _from_middle(scene, named))
    text = "Which of these objects is closest to the middle of the picture at the start?"
    return pick(scene, "nearer", text, answer=nearer[1], group=(nearer, farther))


def appearance(scene: Scene) -> QA:
    """Ask for the order in which things appear; things that appear at once are ordered by place."""
    things = sorted(
        called(scene)[:3],
        key=lambda named: (visible_frames(scene, named[0])[0], scene.things[named[0]].x),
    )
    words = [word for _, word in things]
    others = [", ".join(words[1:] + words[:1])]
    others += [", ".join(words[::-1])] if len(words) > 2 else []
    text = (
        "What is the order of the first appearance of these objects, those seen at once from "
        f"left to right: {', '.join(sorted(words))}?"
    )
    return choice(scene, "appearance", text, answer=", ".join(words), others=others, named=things)


def trajectory(scene: Scene) -> QA:
    """Ask for the direction in which a thing moves."""
    index, words = pair(scene)[0]
    thing = scene.things[index]
    across = ("", "right", "left")[thing.heading[0]]
    along = ("", "down", "up")[thing.heading[1]]
    right = " and ".join(filter(None, (across, along))) or "not at all"
    ways = ("left", "right", "up", "down", "not at all", "left and up", "right and down")
    others = [way for way in ways if way != right][:4]
    return choice(
        scene,
        "trajectory",
        f"How does the {words} move?",
        answer=right,
        others=others,
        named=((index, words),),
    )


def faster(scene: Scene) -> QA:
    """Ask for the speed of a thing, as a number with options."""
    index, words = max(called(scene), key=lambda named: _speed(scene, named[0]))
    return with_numbers(
        scene,
        "speed",
        f"What is the speed of the {words} along the axis on which it moves most?",
        _speed(scene, index),
        f"{UNIT}/s",
    )


def place(scene: Scene, *, frame: int, what: str) -> QA:
    """Ask for the centre of a thing, with its order from the viewer as a third coordinate."""
    index, words = pair(scene)[0]
    thing = scene.things[index]
    x, y = thing.centre(frame)
    spots = [(x + dx, y + dy, thing.depth) for dx, dy in ((0, 0), (40, 0), (0, 40), (-40, 0))]
    right, *others = (f"[{a}, {b}, {c}]" for a, b, c in spots)
    text = f"Where is the centre of the {words} {what}, as [x, y, order from the viewer]?"
    return choice(scene, "place", text, answer=right, others=others, named=((index, words),))


def camera(scene: Scene) -> QA:
    """Ask for the camera's rotation; there is none."""
    others = ("to the left", "to the right", "upwards")
    return choice(
        scene, "camera", "How does the camera turn?", answer="it does not turn", others=others
    )


def with_numbers(scene: Scene, kind: str, text: str, value: float, unit: str) -> QA:
    """A number as a choice among five with the same unit."""
    right = max(1, round(value))
    others = dict.fromkeys(f"{round(right * part)} {unit}" for part in OTHER_NUMBERS)
    return choice(scene, kind, text, answer=f"{right} {unit}", others=others)


def _side_question(scene: Scene, options: Sequence[str], value: Callable[[int, int], str]) -> QA:
    subject, reference = pair(scene)
    dx, dy = _displacement(scene, subject, reference)
    right = value(dx, dy)
    text = f"Seen from the {reference[1]}, where is the {subject[1]} at the start?"
    return choice(scene, "side", text, answer=right, named=(subject, reference), others=options)


def _displacement(scene: Scene, first: Named, second: Named) -> tuple[int, int]:
    (x, y), (u, v) = (scene.things[index].centre(0) for index, _ in (first, second))
    return x - u, y - v


def _distance(scene: Scene, first: Named, second: Named) -> float:
    return hypot(*_displacement(scene, first, second))


def _from_middle(scene: Scene, named: Named) -> int:
    x, y = scene.things[named[0]].centre(0)
    return (2 * x - scene.width) ** 2 + (2 * y - scene.height) ** 2


def _speed(scene: Scene, index: int) -> int:
    return max(abs(scene.things[index].dx), abs(scene.things[index].dy))


Asked = Callable[[Scene], QA]
ENDS: Mapping[str, Asked] = MappingProxyType(
    {
        "start": lambda scene: place(scene, frame=0, what="at the start"),
        "end": lambda scene: place(scene, frame=scene.frames - 1, what="at the end"),
    }
)
