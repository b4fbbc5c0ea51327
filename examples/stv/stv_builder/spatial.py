"""Questions of spatial reasoning: number, direction, distance, size, place.

Each takes a clip of one or more frames, filtered, and yields every question that it allows, in a
fixed order; the builder draws from them. Objects that a number here rules out are counted by the
reason. A clip of one frame is an image.
"""

import math
from collections.abc import Iterator
from itertools import combinations, permutations

from harness.types import Box, Box3D
from stv_builder.clips import Clip, ObjectView
from stv_builder.drafts import Choice, Draft, Number, seconds_text
from stv_builder.filters import FilterCounts, choose_names, clear_at
from stv_builder.geometry import clip_box, turn

MARGIN = 0.05  # of the image's sides, between centres that lie one left of the other
SLACK = 10.0  # degrees around the borders of "left", "right" and "back" where neither is said
BACK = 135.0  # degrees from which something is at one's back
APART = 0.5  # metres between where one stands and what one looks at
SHORTEST = 0.1  # metres that are asked for as a distance
SMALLEST = 1.0  # square metres that are asked for as a room
DIAGONALS = ("left-up", "left-down", "right-up", "right-down")
SIDES = ("left", "right", "back")

PARTLY_CLEAR = "object_counting: not every one of the category is clear"
PARTLY_LISTED = "object_counting: not every one of the category is annotated"
LEVEL = f"relative_direction: centres within {MARGIN:.0%} of a side"
TOGETHER = f"relative_direction: within {APART:g} m of where one stands"
BORDER = f"relative_direction: within {SLACK:g} degrees of a border"
TOUCHING = f"relative_distance: below {SHORTEST:g} m"
FLAT = "object_size: no side above 0 m"
PARTLY_NAMED = "object_size: not every one of the category is annotated"
CLOSET = f"object_size: a room below {SMALLEST:g} square metres"


def counting(clip: Clip, tally: FilterCounts) -> Iterator[Draft]:
    """Ask for the number of objects of a category, if all of them are clear."""
    tracks: dict[str, set[str]] = {}
    clear: dict[str, set[str]] = {}
    for frame in clip.sights:
        for sight in frame:
            tracks.setdefault(sight.category, set()).add(sight.track)
            if sight.clear:
                clear.setdefault(sight.category, set()).add(sight.track)
    for category in sorted(clear):
        if tracks[category] != clear[category]:
            tally.add(clip.source, PARTLY_CLEAR)
        elif category in clip.uncounted_ever:
            tally.add(clip.source, PARTLY_LISTED)
        else:
            yield Draft(
                "object_counting",
                "video" if clip.is_video else "image",
                Number(len(clear[category]), 0),
                {"object": category},
            )


def direction(clip: Clip, tally: FilterCounts) -> Iterator[Draft]:
    """Ask for an object's direction from another: in the image, or from a person beside one."""
    for frame in _frames(clip):
        seen = clear_at(clip, frame)
        if clip.source == "tao":
            yield from _in_image(clip, frame, seen, tally)
        elif clip.still or not clip.is_video:
            yield from _standing(clip, frame, seen, tally)


def _in_image(
    clip: Clip, frame: int, seen: dict[str, ObjectView], tally: FilterCounts
) -> Iterator[Draft]:
    width, height = clip.size
    for one, other in permutations(choose_names(clip, seen, "relative_direction", tally), 2):
        (x, y), (u, v) = (_middle(seen[name].box, clip.size) for name in (one, other))
        if abs(x - u) < MARGIN * width or abs(y - v) < MARGIN * height:
            tally.add(clip.source, LEVEL)
            continue
        right = f"{'left' if x < u else 'right'}-{'up' if y < v else 'down'}"
        others = tuple(option for option in DIAGONALS if option != right)
        yield Draft(
            "relative_direction",
            _name(clip, "plane"),
            Choice(right, others),
            {"object_1": one, "object_2": other, **_frame_fields(clip, frame)},
            frame,
        )


def _standing(
    clip: Clip, frame: int, seen: dict[str, ObjectView], tally: FilterCounts
) -> Iterator[Draft]:
    known = {name: sight.ground for name, sight in seen.items() if sight.ground is not None}
    for start, ahead, other in permutations(
        choose_names(clip, known, "relative_direction", tally), 3
    ):
        spots = known[start], known[ahead], known[other]
        if min(math.dist(spots[0], spot._replace(z=spots[0].z)) for spot in spots[1:]) < APART:
            tally.add(clip.source, TOGETHER)
            continue
        side = side_of(turn(*spots))
        if side is None:
            tally.add(clip.source, BORDER)
            continue
        others = tuple(option for option in SIDES if option != side)
        fields = {"object_1": start, "object_2": ahead, "object_3": other}
        yield Draft("relative_direction", "standing", Choice(side, others), fields, frame)


def side_of(degrees: float) -> str | None:
    """Left, right or back of one who has to turn so far; None near a border.

    >>> [side_of(degrees) for degrees in (90, -30, 180, -150, 0, 130)]
    ['left', 'right', 'back', 'back', None, None]
    """
    size = abs(degrees)
    if size < SLACK or abs(size - BACK) < SLACK:
        return None
    if size > BACK:
        return "back"
    return "left" if degrees > 0 else "right"


def separation(clip: Clip, tally: FilterCounts) -> Iterator[Draft]:
    """Ask for the distance of two objects' centres, in metres."""
    for frame in _frames(clip):
        seen = clear_at(clip, frame)
        known = {name: sight.centre for name, sight in seen.items() if sight.centre is not None}
        for one, other in combinations(choose_names(clip, known, "relative_distance", tally), 2):
            first, second = known[one], known[other]
            if math.dist(first, second) < SHORTEST:
                tally.add(clip.source, TOUCHING)
                continue
            name = "video" if clip.is_video and clip.still else _name(clip, "")
            metres = Number(round(math.dist(first, second), 2))
            fields = {"object_1": one, "object_2": other, **_frame_fields(clip, frame)}
            yield Draft("relative_distance", name, metres, fields, frame)


def size(clip: Clip, tally: FilterCounts) -> Iterator[Draft]:
    """Ask for the length of an object's longest side, in metres, and for the size of the room."""
    done: set[str] = set()
    for frame in _frames(clip):
        for category, sight in clear_at(clip, frame).items():
            if sight.sides is None or category in done:
                continue
            if max(sight.sides) <= 0:
                tally.add(clip.source, FLAT)
                continue
            if category in clip.unnamed_ever:  # the question tells no time
                tally.add(clip.source, PARTLY_NAMED)
                continue
            done.add(category)
            yield Draft(
                "object_size",
                _name(clip, "", timed=False),
                Number(round(max(sight.sides), 2)),
                {"object": category},
            )
    if clip.room is None or not clip.is_video:
        return
    if clip.room < SMALLEST:
        tally.add(clip.source, CLOSET)
    else:
        yield Draft("object_size", "room", Number(round(clip.room, 1), 1))


def localization(clip: Clip, _: FilterCounts) -> Iterator[Draft]:
    """The box of an object: in space where its depth is known, else in the image."""
    for frame in _frames(clip):
        for category, sight in clear_at(clip, frame).items():
            fields = {"object": category, **_frame_fields(clip, frame)}
            if sight.extent is not None:
                yield Draft(
                    "object_localization",
                    _name(clip, "space"),
                    whole_3d(sight.extent),
                    fields,
                    frame,
                )
            elif sight.centre is None:
                yield Draft(
                    "object_localization",
                    _name(clip, "plane"),
                    whole_box(clip_box(sight.box, clip.size)),
                    {**fields, **_resolution(clip)},
                    frame,
                )


def whole_box(box: Box) -> Box:
    """A box in whole pixels, as answers write it."""
    return Box(*(float(round(side)) for side in box))


def whole_3d(box: Box3D) -> Box3D:
    """A box in space in steps of a centimetre, as answers write it."""
    return Box3D(*(round(side, 2) + 0.0 for side in box))


def _frames(clip: Clip) -> range:
    return range(len(clip.sights))


def _middle(box: Box, size: tuple[int, int]) -> tuple[float, float]:
    inside = clip_box(box, size)
    return (inside.left + inside.right) / 2, (inside.top + inside.bottom) / 2


def _frame_fields(clip: Clip, frame: int) -> dict[str, str]:
    return {"timestamp": seconds_text(clip.seconds(frame))} if clip.is_video else {}


def _resolution(clip: Clip) -> dict[str, str]:
    return {"resolution": "{}x{}".format(*clip.size)}


def _name(clip: Clip, what: str, *, timed: bool = True) -> str:
    """A wording's name: `plane_image`, `plane_at`, `image`, `at`, `video`."""
    medium = ("at" if timed else "video") if clip.is_video else "image"
    return f"{what}_{medium}" if what else medium
