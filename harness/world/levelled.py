"""Composition of scenes in three levels of difficulty, for `families`.

| | easy | medium | hard |
| --- | --- | --- | --- |
| things in a still | 2 or 3 | 4 or 5 | 6 or 7 |
| things in a video | 2 | 3 | 4 |
| one covers part of another | no | every second time | yes |
| background | plain | any | noisy or textured |
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from harness.world.composing import mix_combinations, with_depths
from harness.world.draws import Draws
from harness.world.language import nouns
from harness.world.placing import BORDER, Path, draw_path, place_at_rest, reach_of
from harness.world.raster import is_inside
from harness.world.referring import names
from harness.world.scene import Combination, Level, Scene, Thing

STILL_THINGS: Mapping[Level, tuple[int, int]] = MappingProxyType(
    {"easy": (2, 3), "medium": (4, 5), "hard": (6, 7)}
)
VIDEO_THINGS: Mapping[Level, int] = MappingProxyType({"easy": 2, "medium": 3, "hard": 4})
ARRIVALS: Mapping[Level, tuple[int, int]] = MappingProxyType(
    {"easy": (2, 2), "medium": (2, 3), "hard": (3, 3)}
)
MIN_NAMED = 3  # things with a unique name in a still
MAX_TRIES = 20  # random places of a thing before an attempt is given up
FIRST_ENTRY, LAST_ENTRY = 1, 5  # frames in which a thing may enter
MIN_FRAMES_APART = 2  # between the entries of two things
MIN_SPEED = 5  # of an entering thing, in pixels a frame


def still(draws: Draws, empty: Scene) -> tuple[Thing, ...] | None:
    """Draw things at rest of which three or more (or all) have a unique name."""
    crowded = empty.level == "hard" or (empty.level == "medium" and draws.chance(1, 2))
    combinations = mix_combinations(
        draws, empty.split, draws.integer_between(*STILL_THINGS[empty.level])
    )
    placed: list[tuple[Combination, Path]] = []
    for combination in combinations:
        if crowded and len(placed) == 1:
            path = _overlapping_path(draws, empty, combination, placed[0])
        else:
            path = place_at_rest(draws, empty, combination, placed, crowded=crowded)
        if path is None:
            return None
        placed.append((combination, path))
    things = with_depths(draws, placed)
    n_named = len(names(replace(empty, things=things)))
    return things if n_named >= min(MIN_NAMED, len(things)) else None


def referring(draws: Draws, empty: Scene) -> tuple[Thing, ...] | None:
    """Draw things as `still` does, but so that a noun with attributes names several of them."""
    things = still(draws, empty)
    if things is None:
        return None
    phrases = [
        members for noun, members in nouns(replace(empty, things=things)) if noun.attribute_count
    ]
    return things if any(len(members) > 1 for members in phrases) else None


def moving(draws: Draws, empty: Scene) -> tuple[Thing, ...] | None:
    """Draw things that move, leave, come or stand still; no two share a name."""
    combinations = mix_combinations(draws, empty.split, VIDEO_THINGS[empty.level])
    return _with_named_things(
        draws,
        empty,
        [(combination, draw_path(draws, empty, combination)) for combination in combinations],
    )


def arriving(draws: Draws, empty: Scene) -> tuple[Thing, ...] | None:
    """Draw two or three things that enter at different times, and perhaps one visible before."""
    combinations = mix_combinations(draws, empty.split, VIDEO_THINGS[empty.level])
    paths: list[tuple[Combination, Path]] = []
    for combination, frame in zip(combinations, _entry_frames(draws, empty), strict=False):
        path = _entering_path(draws, empty, combination, frame)
        if path is None:
            return None
        paths.append((combination, path))
    for combination in combinations[len(paths) :]:
        path = _visible_path(draws, empty, combination)
        if path is None:
            return None
        paths.append((combination, path))
    return _with_named_things(draws, empty, draws.shuffle(paths))


def _with_named_things(
    draws: Draws, empty: Scene, paths: Sequence[tuple[Combination, Path]]
) -> tuple[Thing, ...] | None:
    """Return things on these paths; None if one of them has no unique name."""
    things = with_depths(draws, paths)
    return things if len(names(replace(empty, things=things))) == len(things) else None


def _entry_frames(draws: Draws, empty: Scene) -> list[int]:
    """Draw the frames in which things enter, `MIN_FRAMES_APART` or more from each other."""
    number = draws.integer_between(*ARRIVALS[empty.level])
    spare = LAST_ENTRY - FIRST_ENTRY - MIN_FRAMES_APART * (number - 1)
    steps = sorted(draws.integer_below(spare + 1) for _ in range(number))
    return [FIRST_ENTRY + MIN_FRAMES_APART * index + step for index, step in enumerate(steps)]


def _overlapping_path(
    draws: Draws, empty: Scene, combination: Combination, neighbour: tuple[Combination, Path]
) -> Path | None:
    """Draw a place where a thing overlaps its neighbour by a quarter to a half of their extents."""
    reach = reach_of(empty, combination)
    neighbour_reach = reach_of(empty, neighbour[0])
    both = [own + its for own, its in zip(reach, neighbour_reach, strict=True)]
    for _ in range(MAX_TRIES):
        axis = draws.integer_below(2)
        offset = [draws.integer_between(-side // 5, side // 5) for side in both]
        offset[axis] = draws.sign() * both[axis] * draws.integer_between(50, 75) // 100
        x, y = neighbour[1].x + offset[0], neighbour[1].y + offset[1]
        if all(
            end + BORDER <= centre < side - end - BORDER
            for centre, end, side in zip((x, y), reach, (empty.width, empty.height), strict=True)
        ):
            return Path(x, y)
    return None


def _entering_path(draws: Draws, empty: Scene, combination: Combination, frame: int) -> Path | None:
    """Draw a path that enters in a given frame and ends inside; None if the thing is too large.

    The thing moves straight in from a random side, so fast that a good part of it is visible at
    once.
    """
    last = empty.frames - 1
    axis = draws.integer_below(2)
    reach, sides = reach_of(empty, combination), (empty.width, empty.height)
    extent, side = reach[axis], sides[axis]
    slowest = max(-(-(2 * extent + 1 + BORDER) // (last - frame)), MIN_SPEED)
    fastest = min((side - BORDER) // (last - frame + 1), slowest + 6)
    if fastest < slowest:
        return None
    speed = draws.integer_between(slowest, fastest)
    along = -extent - 1 + speed - draws.integer_below(speed // 3 + 1)  # in the frame of its arrival
    start, step = along - frame * speed, speed
    if draws.chance(1, 2):
        start, step = side - 1 - start, -speed
    cross_side = sides[1 - axis]
    across = draws.integer_between(
        reach[1 - axis] + BORDER, cross_side - reach[1 - axis] - BORDER - 1
    )
    return Path(start, across, step, 0) if axis == 0 else Path(across, start, 0, step)


def _visible_path(draws: Draws, empty: Scene, combination: Combination) -> Path | None:
    """Draw a path through the image that starts inside it."""
    for _ in range(MAX_TRIES):
        path = draw_path(draws, empty, combination)
        thing = Thing(**combination._asdict(), **path._asdict(), depth=0)
        if is_inside(empty, thing, 0):
            return path
    return None
