"""Generators of questions about places of things: sides, distances and depth.

Each yields every unambiguous question of its kind about a scene; `harness.world.qa` chooses.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations

import numpy as np

from harness.masks import BoolArray
from harness.world.quiz import QA, Named, called, choice, groups, in_random_order, percent, pick
from harness.world.raster import extents, owners
from harness.world.referring import DIRECTIONS, foremost
from harness.world.scene import Scene, Shape

SIDES = (("left", "right"), ("above", "below"))
CORNERS = ("upper left", "upper right", "lower left", "lower right")
LOPSIDED: tuple[Shape, ...] = ("triangle", "star")
"""Shapes whose centre of area is not at half of their height: "the centre" is ambiguous."""
MIN_OVERLAP = 24  # least number of pixels where the nearer thing covers the other


def relations(scene: Scene) -> Iterator[QA]:
    """`Is the red circle to the left or to the right of the blue square?`; also above or below."""
    for subject, reference in permutations(called(scene), 2):
        for axis in (0, 1):
            if side := side_of(scene, subject[0], reference[0], axis):
                yield side_question(scene, "relation", subject, reference, axis, side)


def corners(scene: Scene) -> Iterator[QA]:
    """`Where is the red circle, seen from the blue square?`, where both axes are clear."""
    for subject, reference in permutations(called(scene), 2):
        across, down = (side_of(scene, subject[0], reference[0], axis) for axis in (0, 1))
        if across and down:
            right = CORNERS[(across > 0) + 2 * (down > 0)]
            yield choice(
                scene,
                "relation4",
                f"Where is the {subject[1]}, seen from the {reference[1]}?",
                answer=right,
                others=CORNERS,
                named=(subject, reference),
            )


def extremes(scene: Scene) -> Iterator[QA]:
    """`Which of these is furthest to the left?`, of three or four things."""
    for group in groups(called(scene)):
        words_of_index = dict(group)
        for direction in DIRECTIONS:
            first = foremost(scene, tuple(words_of_index), direction)
            if first is not None:
                text = f"Which of these is {direction.far}?"
                yield pick(scene, "extreme", text, answer=words_of_index[first], group=group)


def nearest(scene: Scene) -> Iterator[QA]:
    """`Which of these is nearest to the star?`, if centre and edge agree."""
    named_things = called(scene)
    for anchor in named_things:
        for group in groups([thing for thing in named_things if thing != anchor]):
            answer = _nearest_thing(scene, anchor, group)
            if answer is not None:
                text = f"Which of these is nearest to the {anchor[1]}?"
                yield pick(scene, "nearest", text, answer=answer, group=group, named=[anchor])


def depths(scene: Scene) -> Iterator[QA]:
    """`Which is in front, the red circle or the blue square?`, if the overlap is visible."""
    owner = owners(scene)
    for pair in combinations(called(scene), 2):
        front, back = sorted(pair, key=lambda thing: scene.things[thing[0]].depth)
        shared = _mask_alone(scene, front[0]) & _mask_alone(scene, back[0])
        seen = int((shared & (owner == front[0])).sum())
        if seen >= MIN_OVERLAP and 10 * seen >= 9 * int(shared.sum()):
            first, second = in_random_order(scene, "front", pair)
            text = f"Which is in front, the {first[1]} or the {second[1]}?"
            yield pick(scene, "depth", text, answer=front[1], group=pair, named=(first, second))


def distances(scene: Scene) -> Iterator[QA]:
    """`How far apart are the centres of …?`, sideways or upwards, in percent of the image."""
    for first, second in combinations(called(scene), 2):
        first_thing, second_thing = scene.things[first[0]], scene.things[second[0]]
        across, down = (
            abs(a - b) for a, b in zip(first_thing.centre(0), second_thing.centre(0), strict=True)
        )
        start = f"How far apart are the centres of the {first[1]} and the {second[1]}"
        text = f"{start} from left to right, in percent of the picture's width?"
        yield from percent("distance", text, across, scene.width, first, second)
        if first_thing.shape not in LOPSIDED and second_thing.shape not in LOPSIDED:
            text = f"{start} from top to bottom, in percent of the picture's height?"
            yield from percent("distance", text, down, scene.height, first, second)


def side_of(scene: Scene, first: int, second: int, axis: int, *, frame: int = 0) -> int:
    """Return -1 if the first thing is clearly left of the second, 1 if right of it; 0: unclear.

    With axis 1: above (-1) or below (1). Clear is an eighth of the image's side between centres.
    """
    first_at, second_at = (scene.things[index].centre(frame)[axis] for index in (first, second))
    if abs(first_at - second_at) < scene.unit // 8:
        return 0
    return 1 if first_at > second_at else -1


def side_question(
    scene: Scene,
    kind: str,
    subject: Named,
    reference: Named,
    axis: int,
    side: int,
    *,
    start: str = "",
) -> QA:
    """Return the question `Is A to the left or to the right of B?`, after a `start` if given."""
    between = ("to the left or to the right of", "above or below")[axis]
    verb = "is" if start else "Is"
    before, beyond = SIDES[axis]
    right, wrong = (beyond, before) if side > 0 else (before, beyond)
    return choice(
        scene,
        kind,
        f"{start}{verb} the {subject[1]} {between} the {reference[1]}?",
        answer=right,
        others=[wrong],
        named=(subject, reference),
    )


def _mask_alone(scene: Scene, index: int) -> BoolArray:
    """Return the mask of a thing in frame 0 as if it were the only one."""
    mask: BoolArray = owners(replace(scene, things=(scene.things[index],))) == 0
    return mask


def _nearest_thing(scene: Scene, anchor: Named, group: tuple[Named, ...]) -> str | None:
    """Return the words of the thing in `group` nearest to `anchor`; None if it is not clear.

    It is clear if the next thing's centre is at least 1.5 times as far away, and no other edge is
    as near.
    """
    anchor_centre = np.array(scene.things[anchor[0]].centre(0))
    squares, gaps = [], []  # squared distances of centres, and of rectangles
    for index, _ in group:
        thing = scene.things[index]
        distance = np.abs(np.array(thing.centre(0)) - anchor_centre)
        reach = np.add(
            extents(thing.shape, scene.radius(thing)),
            extents(scene.things[anchor[0]].shape, scene.radius(scene.things[anchor[0]])),
        )
        squares.append(int((distance**2).sum()))
        gaps.append(int((np.maximum(distance - reach, 0) ** 2).sum()))
    first, second = np.argsort(squares, kind="stable")[:2]
    clear = 4 * squares[second] >= 9 * squares[first]
    others = [gap for number, gap in enumerate(gaps) if number != first]
    return group[int(first)][1] if clear and gaps[int(first)] < min(others) else None
