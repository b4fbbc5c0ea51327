"""Generators of phrases that refer to things by attributes, places and superlatives.

Each yields every unambiguous phrase of its kind about a scene, such as "the leftmost circle".
"""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.world.language import SIZE_WORDS, Noun, Question, nouns
from harness.world.raster import extents
from harness.world.scene import Scene


@dataclass(frozen=True, slots=True)
class Direction:
    """One of the four directions in an image, with its words."""

    axis: int
    """0 is sideways, 1 is up and down."""
    sign: int
    relation: tuple[str, ...]
    """Wordings between two things: `left of`."""
    superlative: str
    """`leftmost`."""
    far: str
    """`furthest to the left`."""
    edge: str
    """Word for the image's edge: `left`."""


DIRECTIONS = (
    Direction(0, -1, ("left of", "to the left of"), "leftmost", "furthest to the left", "left"),
    Direction(0, 1, ("right of", "to the right of"), "rightmost", "furthest to the right", "right"),
    Direction(1, -1, ("above", "higher up than"), "topmost", "nearest to the top", "top"),
    Direction(1, 1, ("below", "lower down than"), "lowest", "nearest to the bottom", "bottom"),
)


def attributes(scene: Scene) -> Iterator[Question]:
    """`the small red circle`, `all red objects`."""
    for noun, members in nouns(scene):
        if noun.attribute_count:
            yield Question(
                kind="attributes",
                texts=_wordings(noun, plural=len(members) > 1),
                is_sentence=False,
                referents=members,
            )


def relations(scene: Scene) -> Iterator[Question]:
    """`the blue square left of the green star`, if not all of several blue squares lie there."""
    phrases = [
        (noun, members)
        for noun, members in nouns(scene)
        if noun.attribute_count and len(members) > 1
    ]
    for anchor, name in names(scene).items():
        for noun, members in phrases:
            candidates = tuple(member for member in members if member != anchor)
            if len(candidates) < 2:
                continue
            for direction in DIRECTIONS:
                beyond = _candidates_beyond(scene, anchor, candidates, direction)
                if beyond and len(beyond) < len(candidates):
                    start = _with_article(noun, plural=len(beyond) > 1)
                    yield Question(
                        kind="relation",
                        texts=tuple(
                            f"{start} {relation} the {name.words()}"
                            for relation in direction.relation
                        ),
                        is_sentence=False,
                        referents=beyond,
                    )


def superlatives(scene: Scene) -> Iterator[Question]:
    """`the leftmost circle` of several."""
    for noun, members in nouns(scene):
        for direction in DIRECTIONS:
            first = foremost(scene, members, direction) if len(members) > 1 else None
            if first is not None:
                yield Question(
                    kind="superlative",
                    texts=(
                        f"the {direction.superlative} {noun.words()}",
                        f"the {noun.words()} {direction.far}",
                    ),
                    is_sentence=False,
                    referents=(first,),
                )


def names(scene: Scene) -> dict[int, Noun]:
    """Return the shortest noun (shape, or shape and colour) that names a thing alone, by thing.

    Things without such a noun are left out.
    """
    by_thing: dict[int, Noun] = {}
    for noun, members in nouns(scene):
        if len(members) == 1 and noun.shape and not noun.size:
            by_thing.setdefault(members[0], noun)  # shape alone comes before shape with colour
    return by_thing


def foremost(scene: Scene, members: tuple[int, ...], direction: Direction) -> int | None:
    """Return the thing furthest in a direction; None if two are nearly level.

    Both its centre and its edge are beyond those of the others, the centre by a clear margin.
    """

    def centre(index: int) -> int:
        return direction.sign * scene.things[index].centre(0)[direction.axis]

    def edge(index: int) -> int:
        thing = scene.things[index]
        return centre(index) + extents(thing.shape, scene.radius(thing))[direction.axis]

    first, *others = sorted(members, key=centre, reverse=True)
    clear = all(
        centre(first) - centre(member) >= scene.unit // 10 and edge(first) - edge(member) >= 4
        for member in others
    )
    return first if clear else None


def _candidates_beyond(
    scene: Scene, anchor: int, candidates: tuple[int, ...], direction: Direction
) -> tuple[int, ...] | None:
    """Return the candidates that are clearly beyond the anchor in a direction.

    None if a candidate is neither clearly beyond nor clearly not beyond.
    """
    origin = scene.things[anchor].centre(0)[direction.axis]
    distances = {
        index: direction.sign * (scene.things[index].centre(0)[direction.axis] - origin)
        for index in candidates
    }
    clear = scene.unit // 8
    if any(-clear // 2 < distance < clear for distance in distances.values()):
        return None
    return tuple(index for index, distance in distances.items() if distance >= clear)


def _with_article(noun: Noun, *, plural: bool) -> str:
    return f"all {noun.words(plural=True)}" if plural else f"the {noun.words()}"


def _wordings(noun: Noun, *, plural: bool) -> tuple[str, ...]:
    """Return wordings for one thing or several: "the red circle", "the circle that is red", …"""
    adjectives = [
        word for word in (SIZE_WORDS[noun.size] if noun.size else "", noun.colour) if word
    ]
    first, head = _with_article(noun, plural=plural), noun.head(plural=plural)
    if not adjectives:
        return (first, f"every {noun.head()}" if plural else f"the only {head}")
    clause = f"the {head} that {'are' if plural else 'is'} {' and '.join(adjectives)}"
    return (first, clause, f"every {noun.words()}" if plural else f"the one {noun.words()}")
