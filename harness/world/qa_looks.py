"""Generators of questions about the look of things: colour, shape, size, number and area.

Each yields every unambiguous question of its kind about a scene; `harness.world.qa` chooses.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import combinations, product

from harness.world.draws import Draws
from harness.world.language import ALSO_CALLED, Noun, nouns
from harness.world.quiz import (
    QA,
    Named,
    called,
    choice,
    groups,
    identified_by,
    in_random_order,
    percent,
    pick,
)
from harness.world.raster import template, visible_areas, whole_areas
from harness.world.scene import COLOURS, SHAPES, SIZES, Scene, Shape

MAX_OPTIONS = 4
"""Number of options of a question if more would be possible."""
MAX_COUNTED = 10  # largest count that is asked for
LOWER_OPTIONS = ((0,), (0, 1), (0, 1, 2, 2), (0, 1, 2, 3, 3, 3))
"""For a count of 0, 1, 2, and 3 or more: how many options are smaller than it, to draw from. Small
counts are frequent and have few smaller options; the repeated entries of larger counts make up for
it, so that the right option is equally often the smallest, the second, and so on."""
SIZE_ADJECTIVES = ((1, "larger", "largest"), (-1, "smaller", "smallest"))
"""(sign for `_extreme_thing`, comparative, superlative)."""


def sizes(scene: Scene) -> Iterator[QA]:
    """`Which is larger, the red circle or the blue square?`."""
    ranks = _ranks(scene)
    for pair in combinations(called(scene), 2):
        for sign, comparative, _ in SIZE_ADJECTIVES:
            answer = _extreme_thing(scene, ranks, pair, sign)
            if answer is not None:
                first, second = in_random_order(scene, comparative, pair)
                text = f"Which is {comparative}, the {first[1]} or the {second[1]}?"
                yield pick(scene, "size", text, answer=answer, group=pair, named=(first, second))


def largest(scene: Scene) -> Iterator[QA]:
    """`Which of these is the largest?`, of three or four things."""
    ranks = _ranks(scene)
    for group in groups(called(scene)):
        for sign, _, superlative in SIZE_ADJECTIVES:
            answer = _extreme_thing(scene, ranks, group, sign)
            if answer is not None:
                text = f"Which of these is the {superlative}?"
                yield pick(scene, "largest", text, answer=answer, group=group)


def colours(scene: Scene) -> Iterator[QA]:
    """`What colour is the star?`; colours of other things are among the options."""
    for index, noun in identified_by(scene, by="shape"):
        right = scene.things[index].colour
        near = {thing.colour for thing in scene.things}
        text = f"What colour is the {noun.words()}?"
        others = _wrong_options(scene, text, right, tuple(COLOURS), near)
        yield choice(
            scene, "colour", text, answer=right, others=others, named=[(index, noun.words())]
        )


def shapes(scene: Scene) -> Iterator[QA]:
    """`What shape is the red object?`; only the right option fits the thing."""
    for index, noun in identified_by(scene, by="colour"):
        right = scene.things[index].shape
        distinct_shapes = tuple(
            shape for shape in SHAPES if shape == right or not _are_confusable(shape, right)
        )
        near = {thing.shape for thing in scene.things}
        text = f"What shape is the {noun.words()}?"
        others = _wrong_options(scene, text, right, distinct_shapes, near)
        yield choice(
            scene, "shape", text, answer=right, others=others, named=[(index, noun.words())]
        )


def count_questions(scene: Scene) -> Iterator[QA]:
    """`How many red objects are there in the image?`, for a number."""
    for text, named in _countable_groups(scene):
        yield QA(kind="count", text=text, answer=float(len(named)), named=named)


def count_choices(scene: Scene) -> Iterator[QA]:
    """`How many red objects are there?` with four shuffled numbers in a row to choose from."""
    for text, named in _countable_groups(scene):
        count = len(named)
        draws = Draws(scene.seed, scene.id, "numbers", text)
        first = count - draws.choice(LOWER_OPTIONS[min(count, 3)])
        others = [str(first + step) for step in range(MAX_OPTIONS) if first + step != count]
        yield choice(scene, "count_choice", text, answer=str(count), others=others, named=named)


def existence(scene: Scene) -> Iterator[QA]:
    """`Is there a red star in the image?`, of shapes and colours that occur in the image."""
    shapes_seen = dict.fromkeys(thing.shape for thing in scene.things)
    colours_seen = dict.fromkeys(thing.colour for thing in scene.things)
    candidates = [Noun(shape, colour) for shape, colour in product(shapes_seen, colours_seen)]
    if len(shapes_seen) == 1 or len(colours_seen) == 1:  # then all these combinations exist
        shape = scene.things[0].shape
        candidates += [Noun(shape, colour) for colour in COLOURS if colour not in colours_seen]
    for noun in candidates:
        present = tuple(
            (index, noun.words()) for index, thing in enumerate(scene.things) if noun.matches(thing)
        )
        is_possible = any(noun.could_fit(thing) for thing in scene.things)
        if present or not is_possible:
            article = "an" if noun.words()[0] in "aeiou" else "a"
            text = f"Is there {article} {noun.words()} in the picture?"
            yield choice(
                scene,
                "exists",
                text,
                answer="yes" if present else "no",
                others=["no" if present else "yes"],
                named=present,
            )


def widths(scene: Scene) -> Iterator[QA]:
    """`How wide is the star, in percent of the image's width?`, of things that are not covered."""
    yield from _extents(scene, "width", "wide", 0)


def heights(scene: Scene) -> Iterator[QA]:
    """`How high is the star, in percent of the image's height?`, of things that are not covered."""
    yield from _extents(scene, "height", "high", 1)


def _extents(scene: Scene, dimension: str, adjective: str, axis: int) -> Iterator[QA]:
    """Yield questions for a thing's extent along an axis (0: width, 1: height), in percent."""
    uncovered = visible_areas(scene)[0] == whole_areas(scene)
    for index, words in called(scene):
        if uncovered[index]:
            thing = scene.things[index]
            reach = _reach(thing.shape, scene.radius(thing))[axis]
            text = f"How {adjective} is the {words}, in percent of the picture's {dimension}?"
            yield from percent(
                dimension, text, reach, (scene.width, scene.height)[axis], (index, words)
            )


def _reach(shape: Shape, radius: int) -> tuple[int, int]:
    """Return (width, height) in pixels of a shape."""
    mask = template(shape, radius)
    return int(mask.any(0).sum()), int(mask.any(1).sum())


def _ranks(scene: Scene) -> list[tuple[int, int]]:
    """Return (rank of the size, visible area in pixels) of each thing."""
    areas = visible_areas(scene)[0]
    return [(SIZES.index(thing.size), int(areas[i])) for i, thing in enumerate(scene.things)]


def _extreme_thing(
    scene: Scene, ranks: list[tuple[int, int]], group: tuple[Named, ...], sign: int
) -> str | None:
    """Return the words of the clearly largest thing (smallest for a `sign` of -1), or None.

    It is the largest by its size, by its whole area (a quarter more than any other's) and by its
    visible area.
    """
    full_areas = whole_areas(scene)

    def beats(first: int, second: int) -> bool:
        big, small = (first, second) if sign > 0 else (second, first)
        return bool(
            ranks[big][0] > ranks[small][0]
            and 4 * full_areas[big] >= 5 * full_areas[small]
            and ranks[big][1] > ranks[small][1]
        )

    for index, words in group:
        if all(beats(index, rival) for rival, _ in group if rival != index):
            return words
    return None


def _wrong_options(
    scene: Scene, text: str, right: str, options: tuple[str, ...], near: AbstractSet[str]
) -> list[str]:
    """Return three wrong options, those that occur in the image (`near`) first."""
    draws = Draws(scene.seed, scene.id, "others", text)
    wrong = draws.shuffle([option for option in options if option != right])
    return sorted(wrong, key=lambda option: option not in near)[: MAX_OPTIONS - 1]


def _are_confusable(first: Shape, second: Shape) -> bool:
    """Return True if one shape may be called by the other's name."""
    return second in ALSO_CALLED.get(first, ()) or first in ALSO_CALLED.get(second, ())


def _countable_groups(scene: Scene) -> Iterator[tuple[str, tuple[Named, ...]]]:
    """Yield each question "how many" with the things that it counts."""
    for noun, members in nouns(scene):
        if noun.size is None and len(members) <= MAX_COUNTED:
            text = f"How many {noun.words(plural=True)} are there in the picture?"
            yield text, tuple((member, noun.words()) for member in members)
