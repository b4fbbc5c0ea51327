"""Generators of questions about videos: direction, speed, order of events, state at the end.

Each yields every unambiguous question of its kind about a scene; `harness.world.qa` chooses.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise, permutations

from harness.types import Interval
from harness.world.draws import Draws
from harness.world.qa_places import side_of, side_question
from harness.world.quiz import QA, Named, called, choice, in_random_order, percent, pick
from harness.world.raster import is_inside, is_outside
from harness.world.scene import Scene, Thing

MOTION_WORDS = {
    (-1, 0): "left",
    (1, 0): "right",
    (0, -1): "up",
    (0, 1): "down",
    (0, 0): "it does not move",
}
MAX_OPTIONS = 4
MIN_FRAMES_APART = 2
"""Least distance of two events in frames, so that their order is clear."""


def visible_frames(scene: Scene, index: int) -> tuple[int, ...]:
    """Return the frames in which a part of a thing is in the image.

    In these frames the thing is visible: `families.is_clear` excludes fully covered things.
    """
    thing = scene.things[index]
    return tuple(frame for frame in range(scene.frames) if not is_outside(scene, thing, frame))


def interval(scene: Scene, index: int) -> Interval:
    """Return the first and last second in which a thing is visible; frame k is at second k.

    Things move straight on, so that the thing is visible at all times in between.
    """
    frames = visible_frames(scene, index)
    return Interval(float(frames[0]), float(frames[-1]))


def directions(scene: Scene) -> Iterator[QA]:
    """`In which direction does the star move?`, for things that move straight or not at all."""
    for index, words in called(scene):
        thing = scene.things[index]
        if thing.dx and thing.dy:
            continue
        right = MOTION_WORDS[thing.heading]
        text = f"In which direction does the {words} move?"
        wrong = [way for way in MOTION_WORDS.values() if way != right]
        others = Draws(scene.seed, scene.id, "ways", text).shuffle(wrong)[: MAX_OPTIONS - 1]
        yield choice(scene, "direction", text, answer=right, others=others, named=[(index, words)])


def speeds(scene: Scene) -> Iterator[QA]:
    """`Which moves faster, the star or the cross?`, if it is at least 1.4 times as fast."""
    for pair in combinations(called(scene), 2):
        slow, fast = sorted(pair, key=lambda named: scene.things[named[0]].squared_speed)
        low, high = (scene.things[index].squared_speed for index, _ in (slow, fast))
        if low and high >= 2 * low:  # squares: the speeds differ by at least √2
            first, second = in_random_order(scene, "faster", pair)
            text = f"Which moves faster, the {first[1]} or the {second[1]}?"
            yield pick(scene, "speed", text, answer=fast[1], group=pair, named=(first, second))


def arrivals(scene: Scene) -> Iterator[QA]:
    """`Which comes into the image first, the star or the cross?`."""
    times = _arrival_frames(scene)
    coming = [named for named in called(scene) if named[0] in times]
    yield from _first_of_two(scene, ("order", "arrives", "comes into"), coming, times)


def orders(scene: Scene) -> Iterator[QA]:
    """`In which order do A, B and C come into the image?`, with four orders as options."""
    times = _arrival_frames(scene)
    for group in combinations([named for named in called(scene) if named[0] in times], 3):
        ordered = sorted(group, key=lambda named: times[named[0]])
        if any(times[b[0]] - times[a[0]] < MIN_FRAMES_APART for a, b in pairwise(ordered)):
            continue
        draws = Draws(scene.seed, scene.id, "orders", *(index for index, _ in group))
        phrases = draws.shuffle(group)
        right = _name_list(ordered)
        wrong = [listed for order in permutations(group) if (listed := _name_list(order)) != right]
        names = [f"the {words}" for _, words in phrases]
        text = f"In which order do {names[0]}, {names[1]} and {names[2]} come into the picture?"
        yield choice(
            scene,
            "order3",
            text,
            answer=right,
            others=draws.shuffle(wrong)[: MAX_OPTIONS - 1],
            named=phrases,
        )


def departures(scene: Scene) -> Iterator[QA]:
    """`Does the star leave the image?`, `Which leaves the image first, A or B?`."""
    times: dict[int, int] = {}
    staying: list[Named] = []
    for index, words in called(scene):
        thing, frames = scene.things[index], visible_frames(scene, index)
        if frames[-1] + 1 < scene.frames:
            times[index] = frames[-1]
        elif is_inside(scene, thing, scene.frames - 1):
            staying.append((index, words))
    leaving = [named for named in called(scene) if named[0] in times]
    if staying and leaving:  # without this condition "no" would be right far more often
        for named in called(scene):
            if named in leaving or named in staying:
                answer, wrong = ("yes", "no") if named in leaving else ("no", "yes")
                yield choice(
                    scene,
                    "leaves",
                    f"Does the {named[1]} leave the picture?",
                    answer=answer,
                    others=[wrong],
                    named=[named],
                )
    yield from _first_of_two(scene, ("leaves", "leaves", "leaves"), leaving, times)


def _first_of_two(
    scene: Scene,
    words: tuple[str, str, str],
    candidates: Sequence[Named],
    times: Mapping[int, int],
) -> Iterator[QA]:
    """Yield questions for the thing of two that does something first.

    Args:
        scene: The scene.
        words: The kind of question, the name of the stream of draws, and the verb.
        candidates: Things that do it.
        times: Frame in which a thing does it, by the thing's index.
    """
    kind, stream, verb = words
    for pair in combinations(candidates, 2):
        first, second = in_random_order(scene, stream, pair)
        if abs(times[first[0]] - times[second[0]]) >= MIN_FRAMES_APART:
            early = min(pair, key=lambda named: times[named[0]])
            text = f"Which {verb} the picture first, the {first[1]} or the {second[1]}?"
            yield pick(scene, kind, text, answer=early[1], group=pair, named=(first, second))


def end_relations(scene: Scene) -> Iterator[QA]:
    """`At the end of the video, is A to the left or to the right of B?`, if one of them moves."""
    last = scene.frames - 1
    inside = [named for named in called(scene) if is_inside(scene, scene.things[named[0]], last)]
    for subject, reference in permutations(inside, 2):
        if scene.things[subject[0]].is_moving or scene.things[reference[0]].is_moving:
            for axis in (0, 1):
                if side := side_of(scene, subject[0], reference[0], axis, frame=last):
                    yield side_question(
                        scene,
                        "end_relation",
                        subject,
                        reference,
                        axis,
                        side,
                        start="At the end of the video, ",
                    )


def paths(scene: Scene) -> Iterator[QA]:
    """`How far does the star move sideways …?`, for things that are fully visible at both ends."""
    last = scene.frames - 1
    for index, words in called(scene):
        thing = scene.things[index]
        if is_inside(scene, thing, 0) and is_inside(scene, thing, last):
            start = f"How far does the {words} move"
            across, down = last * abs(thing.dx), last * abs(thing.dy)
            text = (
                f"{start} to the side from the first frame to the last, in percent of the "
                "picture's width?"
            )
            yield from percent("path", text, across, scene.width, (index, words))
            text = (
                f"{start} up or down from the first frame to the last, in percent of the "
                "picture's height?"
            )
            yield from percent("path", text, down, scene.height, (index, words))


def arrival_counts(scene: Scene) -> Iterator[QA]:
    """`How many objects come into the image?`, if none is half inside at the start."""
    coming = _arrival_frames(scene)
    words = dict(called(scene))
    if coming and not any(_hangs_over(scene, thing) for thing in scene.things):
        yield QA(
            kind="enter_count",
            text="How many objects come into the picture?",
            answer=float(len(coming)),
            named=tuple((index, words.get(index, "object")) for index in coming),
        )


def _arrival_frames(scene: Scene) -> dict[int, int]:
    """Return the frame in which each thing that starts outside is first visible, by its index."""
    first = {index: visible_frames(scene, index)[0] for index in range(len(scene.things))}
    return {index: frame for index, frame in first.items() if frame}


def _hangs_over(scene: Scene, thing: Thing) -> bool:
    return not is_inside(scene, thing, 0) and not is_outside(scene, thing, 0)


def _name_list(named: Sequence[Named]) -> str:
    return ", ".join(words for _, words in named)
