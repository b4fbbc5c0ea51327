"""Generators of questions that do not name their referent, such as "What would roll down a slope?".

The referent follows from the image and common knowledge. Each generator yields every unambiguous
question of its kind about a scene.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from harness.world.language import Question, nouns
from harness.world.raster import visible_areas
from harness.world.referring import DIRECTIONS, foremost, names
from harness.world.scene import COLOURS, SHAPES, SIZES, Colour, Scene, Shape


@dataclass(frozen=True, slots=True)
class Riddle:
    """Questions for a property that, by common knowledge, only some shapes or colours have."""

    one: tuple[str, ...]
    """Wordings for one thing."""
    many: tuple[str, ...]
    """Wordings for several things."""
    shapes: tuple[Shape, ...] = SHAPES
    colours: tuple[Colour, ...] = tuple(COLOURS)


def _of_colour(colour: Colour, *tails: str) -> Riddle:
    return Riddle(
        tuple(f"Which object has the colour of {tail}?" for tail in tails),
        tuple(f"Which objects have the colour of {tail}?" for tail in tails),
        colours=(colour,),
    )


def _of_shape(shapes: tuple[Shape, ...], *tails: tuple[str, str]) -> Riddle:
    return Riddle(
        tuple(f"Which shape {singular}?" for singular, _ in tails),
        tuple(f"Which shapes {many}?" for _, many in tails),
        shapes=shapes,
    )


RIDDLES: tuple[Riddle, ...] = (
    Riddle(
        ("What would roll down a slope?", "Which object could serve as a wheel?"),
        ("What would roll down a slope?", "Which objects could serve as wheels?"),
        shapes=("circle",),
    ),
    _of_shape(
        ("circle",),
        ("has no corners at all", "have no corners at all"),
        ("has no straight side", "have no straight side"),
    ),
    _of_shape(
        ("triangle",),
        ("has exactly three corners", "have exactly three corners"),
        ("has exactly three sides", "have exactly three sides"),
        ("is like the roof of a house", "are like the roof of a house"),
    ),
    _of_shape(
        ("square", "rectangle", "diamond"),
        ("has exactly four corners", "have exactly four corners"),
        ("has exactly four sides", "have exactly four sides"),
    ),
    _of_shape(
        ("square", "diamond"),
        ("has exactly four sides, all equally long", "have exactly four sides, all equally long"),
        ("has four sides of one length", "have four sides of one length"),
    ),
    _of_shape(
        ("hexagon",),
        ("has exactly six corners", "have exactly six corners"),
        ("looks like a cell of a honeycomb", "look like cells of a honeycomb"),
        ("has exactly six sides", "have exactly six sides"),
    ),
    _of_shape(
        ("star",),
        ("has five points", "have five points"),
        ("crowns a Christmas tree", "crown Christmas trees"),
    ),
    _of_shape(
        ("cross",),
        ("looks like a plus sign", "look like plus signs"),
        ("marks a first-aid kit", "mark first-aid kits"),
        ("stands for addition", "stand for addition"),
    ),
    _of_shape(
        ("diamond",),
        ("is a suit of playing cards", "are a suit of playing cards"),
        ("stands on one corner", "stand on one corner"),
    ),
    _of_colour("green", "fresh grass", "an unripe banana's peel", "spinach"),
    _of_colour("red", "a ripe tomato", "blood", "a traffic light that means stop"),
    _of_colour("yellow", "a ripe lemon", "a sunflower's petals"),
    _of_colour("blue", "a clear sky", "the sea on a map"),
    _of_colour("white", "fresh snow", "milk", "chalk"),
    _of_colour("black", "coal", "a moonless night"),
    _of_colour("orange", "a carrot", "a ripe pumpkin"),
    _of_colour("purple", "an aubergine", "lavender", "ripe plums"),
    _of_colour("green", "blue and yellow paint when mixed"),
    _of_colour("orange", "red and yellow paint when mixed"),
    _of_colour("purple", "red and blue paint when mixed"),
)


def riddles(scene: Scene) -> Iterator[Question]:
    """`What would roll down a slope?`, `Which object has the colour of fresh grass?`."""
    for riddle in RIDDLES:
        target = tuple(
            index
            for index, thing in enumerate(scene.things)
            if thing.shape in riddle.shapes and thing.colour in riddle.colours
        )
        if target:
            texts = riddle.many if len(target) > 1 else riddle.one
            yield _sentence("riddle", texts, target)


def likenesses(scene: Scene) -> Iterator[Question]:
    """`Which other object has the same colour as the star?`."""
    for anchor, name in names(scene).items():
        colour = scene.things[anchor].colour
        alike = tuple(
            index
            for index, thing in enumerate(scene.things)
            if index != anchor and thing.colour == colour
        )
        if alike and name.colour is None:
            yield _sentence("likeness", _phrases("colour", name.words(), len(alike)), alike)
    for noun, members in nouns(scene):
        if len(members) == 1 and noun.colour and noun.attribute_count == 1:
            shape = scene.things[members[0]].shape
            alike = tuple(
                index
                for index, thing in enumerate(scene.things)
                if index != members[0] and thing.shape == shape
            )
            if alike:
                yield _sentence("likeness", _phrases("shape", noun.words(), len(alike)), alike)


def odd_ones(scene: Scene) -> Iterator[Question]:
    """`Which object has a colour that no other object has?`, if only one has."""
    for attribute in ("colour", "shape"):
        values = [getattr(thing, attribute) for thing in scene.things]
        counts = Counter(values)
        lonely = tuple(index for index, value in enumerate(values) if counts[value] == 1)
        if len(lonely) == 1 and len(values) > 2:
            texts = (
                f"Which object has a {attribute} that no other object has?",
                f"Which object is the only one of its {attribute}?",
            )
            yield _sentence("odd_one", texts, lonely)


def extremes(scene: Scene) -> Iterator[Question]:
    """`Which object takes up the most room?`, `… is nearest to the left edge of the image?`."""
    areas = [int(area) for area in visible_areas(scene)[0]]
    sizes = [SIZES.index(thing.size) for thing in scene.things]
    for sign, adverb, adjective in ((-1, "most", "biggest"), (1, "least", "smallest")):
        order = sorted(range(len(areas)), key=lambda index: sign * areas[index])
        first, second = order[:2]
        big, small = sorted((areas[first], areas[second]), reverse=True)
        alone = all(sign * sizes[first] < sign * sizes[index] for index in order[1:])
        if alone and 4 * big >= 5 * small:
            texts = (
                f"Which object takes up the {adverb} room?",
                f"Which object is the {adjective} one?",
            )
            yield _sentence("extreme", texts, (first,))
    for direction in DIRECTIONS:
        nearest = foremost(scene, tuple(range(len(scene.things))), direction)
        if nearest is not None:
            edge = direction.edge
            texts = (
                f"Which object is nearest to the {edge} edge of the picture?",
                f"Which object would you meet first if you came in from the {edge}?",
            )
            yield _sentence("extreme", texts, (nearest,))


def _phrases(attribute: str, name: str, number: int) -> tuple[str, ...]:
    if number == 1:
        return (
            f"Which other object has the same {attribute} as the {name}?",
            f"What shares its {attribute} with the {name}?",
        )
    return (
        f"Which other objects have the same {attribute} as the {name}?",
        f"Which objects share their {attribute} with the {name}?",
    )


def _sentence(kind: str, texts: tuple[str, ...], referents: tuple[int, ...]) -> Question:
    return Question(kind=kind, texts=texts, is_sentence=True, referents=referents)
